//! Directories that Bitcoin Core v31, its next version and Apus have made, and that each of the
//! others opens, continues, reorganises, reindexes and prunes, with and without Core's indexes.
//!
//! `BITCOIND` names the first bitcoind, and `BITCOIND_MASTER` the other. Without the other one the
//! first and Apus are left.

use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

use apus_hash::Hash;
use apus_store::IndexKind;
use apus_sync::sync;
use apus_tools::status;
use apus_wire::Chain as Network;

use super::daemon::{Daemon, program_in};
use super::indexes::{ALL, assert_answers, is_indexed};
use crate::pruned::{options, sync_with, world};
use crate::support::chains::{small, small_fork};
use crate::support::indexes::try_index;
use crate::support::program::{apus, assert_ends};
use crate::support::swift::World;
use crate::support::waiting::wait_until;
use crate::support::{Place, hash_of, with_genesis};

/// The variables that name a bitcoind.
const VARIABLES: [&str; 2] = ["BITCOIND", "BITCOIND_MASTER"];
/// The indexes that may be kept while blocks are pruned.
const PRUNABLE: [&str; 2] = ["-blockfilterindex", "-coinstatsindex"];

/// A program that works on directories.
#[derive(Clone)]
enum Program {
    Apus,
    Core(&'static str, PathBuf),
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if let Self::Core(name, _) = self { name } else { "Apus" })
    }
}

/// A chain, genesis first, and what its UTXO set hashes to.
struct Chain {
    blocks: Vec<Vec<u8>>,
    muhash: String,
}

impl Chain {
    fn new(blocks: &[Vec<u8>]) -> Self {
        let place = Place::new(Network::Regtest);
        place.sync_blocks("chain", blocks);
        Self { blocks: blocks.to_vec(), muhash: place.muhash().0 }
    }

    fn height(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    fn tip(&self) -> Hash {
        hash_of(self.blocks.last().expect("a chain has blocks"))
    }
}

/// The chains to which a directory leads: one, a longer one, another branch, and more of that.
static CHAINS: LazyLock<[Chain; 4]> = LazyLock::new(|| {
    let main = with_genesis(small(5));
    let fork = with_genesis(small_fork(5, 150, 30, 3));
    [&main[..131], &main[..166], &fork[..171], &fork[..]].map(Chain::new)
});

impl Program {
    /// Leads the directory to the tip of a chain, whose blocks from height `from` on are new, and
    /// with `indexes` builds these up to it.
    fn extend(&self, place: &Place, chain: &Chain, from: usize, indexes: bool) {
        match self {
            Self::Apus => {
                place.sync_blocks("more", &chain.blocks);
                self.assert_state(place, chain, indexes);
            }
            Self::Core(_, path) => {
                let daemon = Daemon::start(path, place, if indexes { &ALL } else { &[] });
                daemon.submit_blocks(&chain.blocks[from..]);
                assert_is_at(&daemon, chain, indexes);
                daemon.stop();
            }
        }
    }

    /// Builds the block index and the UTXO set again.
    fn reindex(&self, place: &Place, chain: &Chain, indexes: bool) {
        match self {
            Self::Apus => {
                assert_ends(&apus(place, &["reindex", "--index", "--assumevalid=0"]), 0, &[]);
                self.assert_state(place, chain, indexes);
            }
            Self::Core(_, path) => {
                let options = if indexes { &ALL[..] } else { &[] };
                let daemon = Daemon::start(path, place, &[options, &["-reindex"]].concat());
                assert_is_at(&daemon, chain, indexes);
                daemon.stop();
            }
        }
    }

    /// Panics unless the directory is at the tip of a chain. With `indexes`, Apus first builds
    /// these up to it.
    fn assert_state(&self, place: &Place, chain: &Chain, indexes: bool) {
        match self {
            Self::Apus => {
                assert_eq!(status(&place.options()).unwrap().best_block, chain.tip());
                assert_eq!(place.muhash().0, chain.muhash);
                if indexes {
                    let indexed = try_index(place, &IndexKind::ALL).unwrap();
                    assert!(!indexed.interrupted);
                }
            }
            Self::Core(_, path) => {
                // Core v31 builds a txindex of its own next to one that it does not read.
                let daemon = Daemon::start(path, place, if indexes { &ALL } else { &[] });
                assert_is_at(&daemon, chain, indexes);
                daemon.stop();
                if indexes {
                    assert_answers(path, place, &chain.blocks);
                }
            }
        }
    }
}

/// Panics unless bitcoind comes to the tip of a chain, and its indexes too if it has them.
fn assert_is_at(daemon: &Daemon, chain: &Chain, indexes: bool) {
    daemon.wait_for_tip(&chain.tip());
    if indexes {
        wait_until("bitcoind has indexed", || is_indexed(daemon, chain.height()));
    }
    let count = ["-named", "gettxoutsetinfo", "hash_type=muhash", "use_index=false"];
    assert_eq!(daemon.ask_json(&count)["muhash"], chain.muhash.as_str());
}

/// All programs that there are; none without a bitcoind.
fn programs() -> Vec<Program> {
    let core = VARIABLES.map(|variable| Some(Program::Core(variable, program_in(variable)?)));
    let core: Vec<Program> = core.into_iter().flatten().collect();
    if core.is_empty() { core } else { [&core[..], &[Program::Apus]].concat() }
}

/// What one program has made, the others lead on, and it opens again.
fn lead_on(maker: &Program, others: &[Program]) {
    let [first, longer, branch, more] = &*CHAINS;
    for indexes in [false, true] {
        let made = Place::new(Network::Regtest);
        maker.extend(&made, first, 1, indexes);
        for next in others.iter().filter(|next| next.to_string() != maker.to_string()) {
            println!("{next} leads on what {maker} has made, indexes: {indexes}");
            let place = made.copy();
            next.assert_state(&place, first, indexes);
            next.extend(&place, longer, 131, indexes);
            next.extend(&place, branch, 151, indexes);
            next.reindex(&place, branch, indexes);
            maker.extend(&place, more, 171, indexes);
            maker.assert_state(&place, more, indexes);
        }
    }
}

#[test]
fn what_the_first_bitcoind_makes_is_led_on() {
    let programs = programs();
    let first = programs.iter().find(|program| program.to_string() == VARIABLES[0]);
    first.into_iter().for_each(|maker| lead_on(maker, &programs));
}

#[test]
fn what_the_second_bitcoind_makes_is_led_on() {
    let programs = programs();
    let second = programs.iter().find(|program| program.to_string() == VARIABLES[1]);
    second.into_iter().for_each(|maker| lead_on(maker, &programs));
}

#[test]
fn what_apus_makes_is_led_on() {
    let programs = programs();
    if !programs.is_empty() {
        lead_on(&Program::Apus, &programs);
    }
}

/// Makes a directory with small block files.
fn make_small(maker: &Program, world: &World, indexes: bool) -> Place {
    let place = world.place();
    match maker {
        Program::Apus => drop(sync_with(&place, &options(&place, None), &world.blocks)),
        Program::Core(_, path) => {
            let file = place.write("blocks", &world.blocks);
            let load = format!("-loadblock={}", file.display());
            let chosen = [&["-fastprune", &load[..]][..], with(indexes)].concat();
            let daemon = Daemon::start(path, &place, &chosen);
            daemon.wait_for_tip(&world.tip());
            daemon.stop();
        }
    }
    if indexes {
        let args = ["index", "blockfilterindex", "coinstatsindex"];
        assert_ends(&apus(&place, &args), 0, &[]);
    }
    place
}

fn with(indexes: bool) -> &'static [&'static str] {
    if indexes { &PRUNABLE } else { &[] }
}

/// Opens a pruned directory, and adds a block to it.
fn open_pruned(program: &Program, place: &Place, from: u64, indexes: bool) {
    match program {
        Program::Apus => {
            let manual = options(place, Some(apus_node::Prune::Manual));
            assert!(u64::from(status(&manual).unwrap().blocks_from) <= from);
            let verified = apus(place, &["verify", "--level=3", "--blocks=250"]);
            assert_ends(&verified, 0, &[]);
            sync(&manual, &[], apus_progress::Watch::default()).unwrap();
        }
        Program::Core(_, path) => {
            let chosen = [&["-fastprune", "-prune=1"][..], with(indexes)].concat();
            let daemon = Daemon::start(path, place, &chosen);
            assert_eq!(daemon.ask_json(&["getblockchaininfo"])["pruneheight"], from);
            assert_eq!(daemon.ask(&["verifychain", "4", "250"]), "true");
            daemon.mine(1, '3');
            daemon.stop();
        }
    }
}

#[test]
fn each_prunes_what_another_has_made() {
    let programs = programs();
    if programs.is_empty() {
        return;
    }
    let world = world();
    for maker in &programs {
        for indexes in [false, true] {
            let made = make_small(maker, &world, indexes);
            for next in programs.iter().filter(|next| next.to_string() != maker.to_string()) {
                println!("{next} prunes what {maker} has made, indexes: {indexes}");
                let place = made.copy();
                match next {
                    Program::Apus => {
                        let args = ["prune", "-fastprune", "--height=300"];
                        assert_ends(&apus(&place, &args), 0, &[]);
                    }
                    Program::Core(_, path) => {
                        let chosen = [&["-fastprune", "-prune=1"][..], with(indexes)].concat();
                        let daemon = Daemon::start(path, &place, &chosen);
                        daemon.ask(&["pruneblockchain", "300"]);
                        daemon.stop();
                    }
                }
                let pruned = options(&place, Some(apus_node::Prune::Manual));
                let found = status(&pruned).unwrap();
                // To Core a block without its undo data is pruned, too.
                let from = u64::from(found.blocks_from.max(found.undo_from));
                assert!((200..=301).contains(&from), "{from}");
                open_pruned(maker, &place, from, indexes);
                open_pruned(next, &place, from, indexes);
            }
        }
    }
}
