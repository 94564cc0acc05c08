//! The plan for a machine: the command that leaves a synced data directory for bitcoind.

use std::path::{Path, PathBuf};

use apus_node::next_command::NextCommand;
use apus_node::options::Options;
use apus_progress::Method;
use apus_progress::words::{shell_word, size};
use apus_wire::Chain;

use super::look::{HeldDirectory, Look};
use super::needs::{Needs, Space};

/// Bytes that stay free for the system, and for the chain to grow for some weeks.
const RESERVE: u64 = 20_000_000_000;
/// The lowest target of pruning, in MiB (Core's minimum).
const PRUNE_MIB: u64 = 550;
/// Blocks that a directory may be behind the present tip and still be synced: two days.
const NEARLY: u32 = 288;
/// The speed that the estimated time of a download assumes, in bytes a second.
const DOWNLOAD: f64 = 10e6;

/// The plan for a machine, in sentences without a full stop.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MachinePlan {
    /// The work.
    pub what: String,
    /// The space that it needs; empty if that is not known.
    pub needs: String,
    /// How long it takes; empty if that is not known.
    pub time: String,
    /// The command that does it, or that shows more; empty if there is none.
    pub command: String,
}

/// The part of a plan that says where and how.
struct Chosen {
    datadir: PathBuf,
    method: Method,
    prunes: bool,
    is_enough: bool,
    /// Whether this user may not make the directory, so that root has to.
    is_made_by_root: bool,
}

/// Returns what to do. `has_bitcoind` says whether bitcoind is installed; `default` is Bitcoin
/// Core's own data directory.
pub fn plan(look: &Look, options: &Options, default: &Path, has_bitcoind: bool) -> MachinePlan {
    let first = look.height() + 1;
    let needs = Needs::new(first, look.now, options);
    let is_main = options.network.chain == Chain::Main;
    let mut chosen = choose(look, &needs, is_main);
    if let Some(what) = obstacle(look, &chosen) {
        return MachinePlan { what, ..MachinePlan::default() };
    }
    let datadir = chosen.datadir.display().to_string();
    if look.held() == Some(&HeldDirectory::Blocks) {
        // The chain is not known before, nor whether it was pruned.
        chosen.prunes = false;
        return MachinePlan {
            what: format!(
                "build the block index and the UTXO set from the block files in {datadir}"
            ),
            command: command("apus reindex --index", look, options, &chosen, default, false),
            ..MachinePlan::default()
        };
    }
    if let Some(HeldDirectory::Chain { doubtful: Some(doubtful), .. }) = look.held() {
        let program = "apus sync --reconsider";
        return MachinePlan {
            what: format!(
                "check blocks in {datadir} again and go on from there, since its block index has \
                 {doubtful}"
            ),
            command: command(program, look, options, &chosen, default, has_bitcoind),
            ..MachinePlan::default()
        };
    }
    let command = command("apus sync", look, options, &chosen, default, has_bitcoind);
    let then = if has_bitcoind { ", then start bitcoind" } else { "" };
    if !is_main {
        let what = format!("sync {} into {datadir}{then}", options.network.chain.name());
        return MachinePlan { what, command, ..MachinePlan::default() };
    }
    if look.held().is_some() && needs.last - look.height() <= NEARLY {
        return MachinePlan {
            what: format!("connect the newest blocks in {datadir}{then}"),
            needs: format!("little now, and {} a year", size(needs.a_year.all())),
            time: "minutes".to_string(),
            command,
        };
    }
    if !chosen.is_enough {
        let what = if keeps_blocks(look) {
            format!(
                "attach a larger disk for {datadir}; to prune would delete blocks that it holds"
            )
        } else {
            "attach a disk: none here has room for the UTXO set".to_string()
        };
        return MachinePlan {
            what,
            needs: words_of_needs(&needs, &chosen),
            ..MachinePlan::default()
        };
    }
    let from = if first > 1 { format!(" from height {first} on") } else { String::new() };
    let how = match (chosen.prunes, chosen.method) {
        (true, _) => "in order, keeping only the newest blocks",
        (false, Method::Join) => "by a join",
        (false, Method::InOrder | Method::SwiftSync) => {
            "in order, since a join may need more space"
        }
    };
    MachinePlan {
        what: format!("sync mainnet{from} into {datadir}, {how}{then}"),
        needs: words_of_needs(&needs, &chosen),
        time: words_of_time(&needs, &chosen, options),
        command,
    }
}

/// Says why there can be no sync in the data directory now. No command comes with it: what the
/// directory holds, and whether it was pruned, is not known.
fn obstacle(look: &Look, chosen: &Chosen) -> Option<String> {
    let path = look.datadir.display();
    let word = shell_word(&path.to_string());
    match (look.held(), &look.volume.refused) {
        (Some(HeldDirectory::InUse(by)), _) => {
            let (who, stop) = match by {
                Some(by) => (by.to_string(), format!(" ({})", by.how_to_stop())),
                None => ("another program".to_string(), String::new()),
            };
            Some(format!(
                "leave {path} as it is while {who} has it open; if its sync is not done, stop \
                 it{stop} and run `apus init` again; without stopping it, `apus sync --from {word} \
                 --datadir NEW` builds another directory from its blocks"
            ))
        }
        (Some(HeldDirectory::Closed(why)), _) => {
            let again = owner(look, chosen).map_or_else(String::new, |owner| {
                format!("; to look as its owner: sudo -u '#{owner}' apus init -datadir={word}")
            });
            Some(format!("nothing yet, since {path} cannot be read: {why}{again}"))
        }
        // Another user's directory is written as that user.
        (Some(_), Some(_)) if owner(look, chosen).is_some() => None,
        (_, Some(why)) if chosen.datadir == look.datadir => Some(format!(
            "name a directory with --datadir, since {path} cannot be written to: {why}"
        )),
        _ => None,
    }
}

/// Returns the user who owns the directory that was chosen, if that is another one.
fn owner(look: &Look, chosen: &Chosen) -> Option<u32> {
    let known = look.known.iter().find(|known| known.place.path == chosen.datadir);
    known.map(|known| known.place.owner).filter(|owner| *owner != user())
}

/// Returns whether the data directory holds blocks that no plan deletes: all of its chain, or some
/// that are not known.
fn keeps_blocks(look: &Look) -> bool {
    match look.held() {
        None => false,
        Some(HeldDirectory::Chain { pruned, has_blocks, .. }) => !pruned && *has_blocks,
        Some(HeldDirectory::Blocks | HeldDirectory::InUse(_) | HeldDirectory::Closed(_)) => true,
    }
}

/// Chooses the directory, the method and whether to prune, by the space that there is.
fn choose(look: &Look, needs: &Needs, is_main: bool) -> Chosen {
    let here = look.datadir.clone();
    let all = needs.space.all() + RESERVE;
    let (_, temporary) = needs.temporary();
    let largest = look.candidates.first().filter(|_| look.held().is_none());
    let other = largest.filter(|volume| {
        look.volume.free < all && volume.free > look.volume.free && volume.path != Path::new("/")
    });
    let (datadir, free, is_made_by_root) = match other.filter(|_| is_main) {
        Some(volume) => (volume.path.join("bitcoin"), volume.free, volume.refused.is_some()),
        None => (here, look.volume.free, false),
    };
    let is_pruned = matches!(look.held(), Some(HeldDirectory::Chain { pruned: true, .. }));
    let prunes = is_main && (is_pruned || free < all && !keeps_blocks(look));
    let joins = free >= all + temporary && !prunes;
    let method = if joins { Method::Join } else { Method::InOrder };
    let space = if keeps_blocks(look) { needs.space.all() } else { needs.space.coins };
    let is_enough = !is_main || free >= space + RESERVE / 4;
    Chosen { datadir, method, prunes, is_enough, is_made_by_root }
}

fn command(
    program: &str,
    look: &Look,
    options: &Options,
    chosen: &Chosen,
    default: &Path,
    has_bitcoind: bool,
) -> String {
    let datadir = chosen.datadir.display().to_string();
    let of = |program| {
        // A pruned directory opens with -prune alone; 1 deletes nothing by itself.
        let is_pruned = matches!(look.held(), Some(HeldDirectory::Chain { pruned: true, .. }));
        let prune = if chosen.prunes { Some(PRUNE_MIB) } else { is_pruned.then_some(1) };
        let network_options = &options.network_options;
        let datadir = Some(&*datadir).filter(|_| chosen.datadir != default);
        NextCommand { program, network_options, datadir, blocks_dir: None, prune }.line()
    };
    let mut line = of(program);
    // An empty directory is filled with the blocks of another one.
    if let (None, Some(source)) = (look.held(), look.source()) {
        line += &format!(" --from {}", shell_word(&source.display().to_string()));
    }
    if has_bitcoind {
        line += &format!(" --then {}", shell_word(&of("bitcoind")));
    }
    // New files in another user's directory must be that user's, or bitcoind cannot write them.
    if let Some(owner) = owner(look, chosen) {
        line = format!("sudo -u '#{owner}' {line}");
    } else if chosen.is_made_by_root {
        line = format!("sudo install -d -o {} {} && {line}", user(), shell_word(&datadir));
    }
    line
}

/// Returns the number of the user who runs this process.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn words_of_needs(needs: &Needs, chosen: &Chosen) -> String {
    let Space { blocks, undo, coins } = needs.space;
    let all = size(needs.space.all());
    if chosen.prunes {
        return format!(
            "{} ({} of UTXO set, {PRUNE_MIB} MiB of blocks); all blocks would take {all}",
            size(coins + (PRUNE_MIB << 20)),
            size(coins),
        );
    }
    let temporary = if chosen.method == Method::Join {
        let (usual, most) = needs.temporary();
        format!(", and usually {}, at most {} of temporary files", size(usual), size(most))
    } else {
        String::new()
    };
    format!(
        "{all} ({} of blocks, {} of undo data, {} of UTXO set){temporary}; {} more a year",
        size(blocks),
        size(undo),
        size(coins),
        size(needs.a_year.all())
    )
}

fn words_of_time(needs: &Needs, chosen: &Chosen, options: &Options) -> String {
    let work =
        needs.time(chosen.method, options).map_or("a while".to_string(), |left| left.words());
    let hours = needs.space.blocks as f64 / DOWNLOAD / 3600.0;
    format!("{work} for processor and disk; the download takes {hours:.0} h at 10 MB/s")
}

#[cfg(test)]
mod tests {
    use apus_host::root::Root;
    use apus_wire::Network;

    use super::*;
    use crate::machine::look::Known;
    use crate::machine::nodes::{NodeDirectory, Running};
    use crate::machine::volume::Volume;

    const DATADIR: &str = "/home/x/.bitcoin";
    /// Block 950,000, about.
    const NOW: i64 = 1_749_190_000 + 50_000 * 600;

    /// A machine with this many free gigabytes.
    fn look(free: u64) -> Look {
        let mut look = Look { now: NOW, ..Look::good(DATADIR) };
        look.volume.free = free * 1_000_000_000;
        look
    }

    /// A data directory of a node.
    fn known(path: &str, owner: u32, held: HeldDirectory) -> Known {
        Known { place: NodeDirectory { of: "Umbrel", path: path.into(), owner }, held }
    }

    fn chain(height: u32, pruned: bool) -> HeldDirectory {
        HeldDirectory::Chain { height, time: 1, pruned, has_blocks: height > 0, doubtful: None }
    }

    fn options() -> Options {
        Options::new(DATADIR.into(), Network::new(Chain::Main))
    }

    fn planned(look: &Look, has_bitcoind: bool) -> MachinePlan {
        plan(look, &options(), Path::new(DATADIR), has_bitcoind)
    }

    #[test]
    fn the_space_decides_what_is_done() {
        for (free, how, command) in [
            (3000, "by a join", "apus sync"),
            (1000, "in order, since a join may need more space", "apus sync"),
            (100, "keeping only the newest blocks", "apus sync -prune=550"),
        ] {
            let plan = planned(&look(free), false);
            assert!(plan.what.contains(how), "{free}: {plan:?}");
            assert_eq!(plan.command, command, "{plan:?}");
            assert!(plan.time.contains("the download takes 21 h at 10 MB/s"), "{plan:?}");
        }
        let none = planned(&look(10), true);
        assert!(none.what.starts_with("attach a disk") && none.command.is_empty(), "{none:?}");
        let mut two = look(10);
        two.candidates = vec![Volume { path: "/mnt/big disk".into(), ..look(2500).volume }];
        let plan = planned(&two, true);
        assert_eq!(
            plan.command,
            "apus sync -datadir='/mnt/big disk/bitcoin' \
             --then 'bitcoind -datadir='\\''/mnt/big disk/bitcoin'\\'''"
        );
        assert!(plan.what.ends_with("then start bitcoind"), "{plan:?}");
        two.candidates[0].refused = Some("/mnt/big disk: Permission denied".into());
        let made = planned(&two, true).command;
        let made_by = format!("sudo install -d -o {} '/mnt/big disk/bitcoin' && ", user());
        assert_eq!(made, format!("{made_by}{}", plan.command));
    }

    #[test]
    fn no_plan_deletes_blocks_that_a_directory_holds() {
        let mut full = look(10);
        for (height, what, command) in [
            (949_900, "connect the newest blocks in /home/x/.bitcoin", "apus sync"),
            (500_000, "attach a larger disk for /home/x/.bitcoin", ""),
        ] {
            full.known = vec![known(DATADIR, user(), chain(height, false))];
            let plan = planned(&full, false);
            assert!(plan.what.starts_with(what), "{plan:?}");
            assert_eq!(plan.command, command, "{plan:?}");
        }
        // A pruned one opens with -prune alone.
        for chain_of in [Chain::Main, Chain::Regtest] {
            let mut options = options();
            options.network = Network::new(chain_of);
            full.known = vec![known(DATADIR, user(), chain(949_900, true))];
            let plan = plan(&full, &options, Path::new(DATADIR), false);
            assert!(plan.command.contains(" -prune="), "{plan:?}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_to_is_no_plan() {
        let mut refused = look(3000);
        refused.volume.refused = Some("/home/x/.bitcoin is a link to /mnt/hdd".into());
        let plan = planned(&refused, false);
        assert!(plan.what.starts_with("name a directory with --datadir"), "{plan:?}");
        assert!(plan.what.ends_with("is a link to /mnt/hdd"), "{plan:?}");
        assert!(plan.command.is_empty(), "{plan:?}");
        refused.known = vec![known(DATADIR, user() + 1, chain(500_000, false))];
        assert!(planned(&refused, false).command.starts_with("sudo -u"));
        let held = HeldDirectory::Closed("its blocks are damaged".into());
        refused.known = vec![known(DATADIR, user() + 1, held)];
        let plan = planned(&refused, false);
        assert!(
            plan.what
                .contains("cannot be read: its blocks are damaged; to look as its owner: sudo"),
            "{plan:?}"
        );
        assert!(plan.command.is_empty(), "{plan:?}");
    }

    #[test]
    fn the_directory_of_a_node_is_preferred_to_an_empty_one() {
        let known = |path: &str, held| known(path, user(), held);
        let chain = |height| chain(height, false);
        let closed = || HeldDirectory::Closed("locked".to_string());
        for (there, expected) in [
            (vec![], DATADIR),
            (vec![known("/a", chain(5)), known("/b", chain(9))], "/b"),
            (vec![known("/a", closed())], DATADIR),
            (
                vec![known("/a", HeldDirectory::Blocks), known("/b", HeldDirectory::InUse(None))],
                "/b",
            ),
            (vec![known("/a", HeldDirectory::Blocks), known("/b", closed())], "/a"),
            (vec![known(DATADIR, chain(1)), known("/b", chain(9))], DATADIR),
        ] {
            let mut look = Look { known: there, ..look(3000) };
            look.prefer_known(&Root::new("/nowhere"));
            assert_eq!(look.datadir, Path::new(expected), "{look:?}");
        }
    }

    #[test]
    fn a_directory_in_use_is_left_alone() {
        let mut used = look(3000);
        for (name, words) in [
            (Some("bitcoind"), "bitcoind (process 7) has it open"),
            (Some("bitcoind"), "stop it (bitcoin-cli stop) and run `apus init` again"),
            (Some("apus"), "stop it (kill -INT 7) and"),
            (None, "another program has it open"),
        ] {
            let by = name.map(|name| Running { name: name.into(), pid: 7, datadir: None });
            used.known = vec![known(DATADIR, user(), HeldDirectory::InUse(by))];
            let plan = planned(&used, false);
            assert!(plan.what.starts_with("leave /home/x/.bitcoin as it is"), "{plan:?}");
            assert!(plan.what.contains(words), "{plan:?}");
        }
        // At the tip, little is left to do; another user's directory needs that user.
        used.known = vec![known(DATADIR, user() + 1, chain(949_900, false))];
        let plan = planned(&used, false);
        assert!(plan.what.starts_with("connect the newest blocks"), "{plan:?}");
        assert_eq!(plan.command, format!("sudo -u '#{}' apus sync", user() + 1));
        used.known = vec![known(DATADIR, user() + 1, chain(500_000, true))];
        let plan = planned(&used, false);
        assert!(plan.what.contains("from height 500001 on") && plan.command.contains("-prune=550"));
    }

    /// A directory that was not read is never deleted: on any network, with any owner and any free
    /// space.
    #[test]
    fn no_plan_prunes_a_directory_whose_blocks_are_not_known() {
        let by = Running { name: "bitcoind".into(), pid: 7, datadir: None };
        let all = [
            HeldDirectory::Closed("Permission denied".into()),
            HeldDirectory::InUse(Some(by)),
            HeldDirectory::InUse(None),
            HeldDirectory::Blocks,
            HeldDirectory::Chain {
                height: 0,
                time: 1,
                pruned: false,
                has_blocks: true,
                doubtful: None,
            },
        ];
        for held in all {
            for free in [0, 10, 100, 1000, 3000] {
                for owner in [user(), user() + 1] {
                    let mut look = look(free);
                    look.known = vec![known(DATADIR, owner, held.clone())];
                    let plan = planned(&look, true);
                    let text = format!("{plan:?}");
                    assert!(!text.contains("prune=") && !text.contains("newest"), "{text}");
                    let is_sync = plan.command.contains("apus sync");
                    assert!(!is_sync || matches!(held, HeldDirectory::Chain { .. }), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_new_directory_takes_the_blocks_of_another() {
        let known = |path: &str, held| known(path, user(), held);
        let by = || Running { name: "bitcoind".into(), pid: 7, datadir: Some("/n o/de".into()) };
        for (there, from) in [
            (vec![known("/n o/de", HeldDirectory::InUse(Some(by())))], " --from '/n o/de'"),
            (vec![known("/a", chain(5, false)), known("/b", chain(9, false))], " --from /b"),
            (vec![known("/a", chain(5, true)), known("/b", HeldDirectory::Closed("x".into()))], ""),
        ] {
            let look = Look { known: there, ..look(3000) };
            let plan = planned(&look, true);
            assert_eq!(plan.command, format!("apus sync{from} --then bitcoind"), "{plan:?}");
        }
    }
}
