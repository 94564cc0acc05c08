//! A chain, the directories that come of it by files, and syncs of it from peers.

use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use apus_hash::Hash;
use apus_net::{PeerOptions, Target};
use apus_node::{Options, SyncError};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Observer, Progress};
use apus_store::BlockStatus;
use apus_sync as sync;
use apus_sync::Summary;
use apus_testpeer::{Honest, ServedChain, Server};

use crate::support::Place;
use crate::support::outcome::Outcome;
use crate::support::swift::{Mode, World, small_chain};
use crate::support::waiting::Gate;

/// The three ways of syncing.
pub const WAYS: [Method; Method::ALL.len()] = Method::ALL;

/// 110 quiet blocks and 60 of about 30 kB.
pub fn world() -> &'static World {
    static WORLD: LazyLock<World> = LazyLock::new(|| World::of(&small_chain(7, 60, 30_000)));
    &WORLD
}

/// [`world`], to be served.
pub fn chain() -> ServedChain {
    static CHAIN: LazyLock<ServedChain> = LazyLock::new(|| ServedChain::of(world().blocks.clone()));
    CHAIN.clone()
}

/// What [`world`] comes to from files, in order or by the join; by SwiftSync assumed valid.
pub fn from_files(way: Method) -> &'static Outcome {
    static IN_ORDER: LazyLock<Outcome> = LazyLock::new(|| sync_files(Method::InOrder));
    static SWIFTSYNC: LazyLock<Outcome> = LazyLock::new(|| sync_files(Method::SwiftSync));
    match way {
        Method::SwiftSync => &SWIFTSYNC,
        _ => &IN_ORDER,
    }
}

fn sync_files(way: Method) -> Outcome {
    let place = world().place();
    let file = place.write("blocks", &world().blocks);
    Outcome::of_sync(&place, &options(&place, way), &[file])
}

/// Options for a sync of [`world`] in this way.
pub fn options(place: &Place, way: Method) -> Options {
    options_of(world(), place, way)
}

/// Options for a sync of a chain in this way.
pub fn options_of(world: &World, place: &Place, way: Method) -> Options {
    let options = match way {
        Method::SwiftSync => {
            let hints = world.write_hints(place, world.height());
            world.options(place, Mode::AssumeValid, &hints)
        }
        _ => place.options(),
    };
    Options { method: Some(way), ..options }.with_join_depth(0)
}

/// [`options`] with these peers.
pub fn with_peers(place: &Place, way: Method, servers: &[&Server]) -> Options {
    let addresses: Vec<String> = servers.iter().map(|s| s.address().to_string()).collect();
    with_peers_at(place, way, &addresses)
}

/// [`options`] with peers at these addresses.
pub fn with_peers_at(place: &Place, way: Method, addresses: &[String]) -> Options {
    let connect = addresses.iter().map(|address| Target::parse(address, 0).unwrap()).collect();
    // Blocks are asked for after a quarter of a second.
    let patience = Duration::from_secs(6);
    let peers = PeerOptions { connect, patience, ..PeerOptions::new(0) };
    Options { peers: Some(peers), ..options(place, way) }
}

/// An honest server of [`world`].
pub fn honest(accept_v2: bool) -> Server {
    let magic = world().place().network.magic;
    Server::start(magic, accept_v2, || Box::new(Honest::new(chain()))).unwrap()
}

/// What a user was told.
#[derive(Default)]
pub struct Told {
    lines: Mutex<Vec<String>>,
    awaited: Mutex<Vec<(Awaited, Gate)>>,
}

/// What a gate is opened for.
enum Awaited {
    /// A line with these words.
    Words(String),
    /// A report of which this holds.
    Report(Box<dyn Fn(&Progress) -> bool + Send>),
}

impl Told {
    /// A gate that opens when the user is told a line with these words.
    pub fn when_told(&self, words: &str) -> Gate {
        self.when(Awaited::Words(words.to_string()))
    }

    /// A gate that opens at a report of progress of which `condition` holds.
    pub fn when_seen(&self, condition: impl Fn(&Progress) -> bool + Send + 'static) -> Gate {
        self.when(Awaited::Report(Box::new(condition)))
    }

    fn when(&self, awaited: Awaited) -> Gate {
        let gate = Gate::default();
        self.awaited.lock().unwrap().push((awaited, gate.clone()));
        gate
    }

    fn open(&self, is_there: impl Fn(&Awaited) -> bool) {
        let awaited = self.awaited.lock().unwrap();
        awaited.iter().filter(|(awaited, _)| is_there(awaited)).for_each(|(_, gate)| gate.open());
    }

    /// Whether a line holds all of these words.
    pub fn has(&self, words: &[&str]) -> bool {
        let has = |line: &String| words.iter().all(|word| line.contains(word));
        self.lines.lock().unwrap().iter().any(has)
    }

    /// Panics unless a line holds all of these words.
    #[track_caller]
    pub fn assert_has(&self, words: &[&str]) {
        assert!(self.has(words), "{words:?} in {:#?}", self.lines.lock().unwrap());
    }

    /// The number of lines with this word.
    pub fn count(&self, word: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(word)).count()
    }
}

impl Observer for Told {
    fn observe(&self, progress: &Progress) {
        self.open(|awaited| matches!(awaited, Awaited::Report(holds) if holds(progress)));
    }

    fn note(&self, text: &str) {
        self.lines.lock().unwrap().push(text.to_string());
        self.open(|awaited| matches!(awaited, Awaited::Words(words) if text.contains(words)));
    }
}

/// A sync with these options, and what the user was told meanwhile.
pub fn try_sync(options: &Options) -> (Result<Summary, SyncError>, Told) {
    let told = Told::default();
    let summary = sync::sync(options, &[], Watch::new(&told, &AtomicBool::new(false)));
    (summary, told)
}

/// Panics unless a sync from these servers comes to the same as from files, with the same work.
/// Returns what the user was told.
#[track_caller]
pub fn assert_as_from_files(way: Method, servers: &[&Server]) -> Told {
    let told = Told::default();
    assert_as_from_files_telling(&told, way, servers);
    told
}

/// [`assert_as_from_files`] that notes in `told` what the user is told.
#[track_caller]
pub fn assert_as_from_files_telling(told: &Told, way: Method, servers: &[&Server]) {
    let mut outcome = outcome(told, way, servers);
    // Headers of branches that peers have.
    outcome.index.retain(|hash, (_, status, _)| {
        from_files(way).index.contains_key(hash) || status.0 != BlockStatus::BLOCK_VALID_TREE
    });
    outcome.assert_same(from_files(way), &format!("{way:?}"));
}

/// [`assert_as_from_files_telling`], where another branch may have been the best for a while: its
/// blocks may have been connected, and their work done for nothing.
#[track_caller]
pub fn assert_as_from_files_in_the_end(told: &Told, way: Method, servers: &[&Server]) {
    let mut outcome = outcome(told, way, servers);
    let files = from_files(way);
    outcome.index.retain(|hash, _| files.index.contains_key(hash));
    outcome.undo.retain(|hash, _| files.index.contains_key(hash));
    assert!(outcome.summary.counts.blocks >= files.summary.counts.blocks, "{way:?}: work");
    outcome.summary.counts = files.summary.counts;
    outcome.assert_same(files, &format!("{way:?}"));
}

#[track_caller]
fn outcome(told: &Told, way: Method, servers: &[&Server]) -> Outcome {
    let place = world().place();
    let stop = AtomicBool::new(false);
    let summary = sync::sync(&with_peers(&place, way, servers), &[], Watch::new(told, &stop));
    let outcome = Outcome::of(&place, summary.unwrap());
    assert_eq!(outcome.summary.best_block, tip());
    outcome
}

/// The last block of [`world`].
pub fn tip() -> Hash {
    world().tip()
}
