//! A chain, the directories that come of it by files, and syncs of it from peers.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use apus::hash::Hash;
use apus::store::BlockStatus;
use apus::swiftsync::Format;
use apus::sync::serve::{Honest, ServedChain, Server};
use apus::sync::{
    self, AssumeValid, Method, Observer, Options, PeerOptions, Progress, Summary, SyncError, Target,
};

use crate::support::Place;
use crate::support::outcome::Outcome;
use crate::support::swift::{World, small_chain};

/// The three ways of syncing.
pub const WAYS: [Method; 3] = [Method::InOrder, Method::Join, Method::SwiftSync];

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
    let options = Options { method: way, join_depth: 0, ..place.options() };
    match way {
        Method::SwiftSync => Options {
            hints: Some(hints(place)),
            assumevalid: AssumeValid::Block(world().tip()),
            ..options
        },
        _ => options,
    }
}

fn hints(place: &Place) -> PathBuf {
    let bytes = world().model.hints_file(world().height(), Format::Bip456);
    place.write_bytes("hints", &bytes)
}

/// [`options`] with these peers.
pub fn with_peers(place: &Place, way: Method, servers: &[&Server]) -> Options {
    let target = |server: &&Server| Target::parse(&server.address().to_string(), 0).unwrap();
    let connect = servers.iter().map(target).collect();
    let patience = Duration::from_secs(1);
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
pub struct Told(Mutex<Vec<String>>);

impl Told {
    /// Panics unless a line holds all of these words.
    #[track_caller]
    pub fn assert_has(&self, words: &[&str]) {
        let lines = self.0.lock().unwrap();
        let has = |line: &String| words.iter().all(|word| line.contains(word));
        assert!(lines.iter().any(has), "{words:?} in {lines:#?}");
    }

    /// The number of lines with this word.
    pub fn count(&self, word: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(word)).count()
    }
}

impl Observer for Told {
    fn observe(&self, _: &Progress) {}

    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_string());
    }
}

/// A sync with these options, and what the user was told meanwhile.
pub fn try_sync(options: &Options) -> (Result<Summary, SyncError>, Told) {
    let told = Told::default();
    let summary = sync::sync(options, &[], &told, &AtomicBool::new(false));
    (summary, told)
}

/// Panics unless a sync from these servers comes to the same as from files. Returns what the user
/// was told.
#[track_caller]
pub fn assert_as_from_files(way: Method, servers: &[&Server]) -> Told {
    let place = world().place();
    let (summary, told) = try_sync(&with_peers(&place, way, servers));
    let mut outcome = Outcome::of(&place, summary.unwrap());
    // Headers of branches that peers have.
    let files = from_files(way);
    outcome.index.retain(|hash, (_, status, _)| {
        files.index.contains_key(hash) || status.0 != BlockStatus::BLOCK_VALID_TREE
    });
    assert_eq!(outcome.summary.best_block, tip());
    outcome.assert_same(files, &format!("{way:?}"));
    told
}

/// The last block of [`world`].
pub fn tip() -> Hash {
    world().tip()
}
