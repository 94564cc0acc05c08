//! Peers as a source of blocks: the sockets and threads around `apus-net`. Each connection has
//! threads of its own; one thread talks to all peers while a pipeline works. This crate does not
//! know how blocks are validated: the pipelines say which blocks they want, and whether those that
//! arrive are good.
//!
//! ```text
//!  connection ──► messages ─┐                              ┌─► blocks ─► threads of a pipeline
//!  connection ──► messages ─┼─► Connections (one thread) ──┤    (Feed)        │
//!  connection ──► messages ─┘     net::PeerManager         └─◄ notes: waits, good, changed
//! ```
//!
//! While a pipeline works, the tree of headers does not change, and peers send the blocks that it
//! names. Between pipelines, headers are taken from all peers, and the blocks of every branch near
//! the tip that has more work are stored ([`wait_for_news`]): so no pipeline waits for a block near
//! the tip, no branch waits for another, and nothing is disconnected before the blocks that replace
//! it are here.
//!
//! | module | what it does |
//! |---|---|
//! | `connections` | the thread that talks to all peers, as `net::PeerManager` decides |
//! | `dialer`, `roles`, `seeds` | chooses the peers to connect to, and keeps the address book |
//! | `keyed_groups` | parts of the network, hashed, by which inbound peers are told apart |
//! | `upkeep` | replaces peers that lag behind, and slow ones by faster ones |
//! | `lan` | finds nodes on the local network, and announces this one |
//! | `link`, `receiving`, `limiter` | the threads of one connection; limits on time and bytes |
//! | `budget` | limits the memory that connections share |
//! | `route` | connects to a host, directly or through a proxy |
//! | `early` | keeps blocks that arrive early, in memory and on disk |
//! | `feed` | hands blocks to the threads that wait for them |
//! | `headers` | requests headers, and blocks near the tip, between pipelines |
//! | `hints` | hints files from and for peers |
//! | `download`, `sample` | downloads blocks before a pipeline needs them |
//! | `peer_infos` | facts about each peer |
//! | `report`, `advice` | what each peer sent, for the user, and what makes a download faster |
//! | `served_peers` | serves the peers of a sync that listens |
//! | `server` | serves blocks to peers that connect to us |
//! | `stock` | sends blocks that are requested |

mod advice;
mod budget;
mod connections;
mod dialer;
mod download;
mod early;
mod feed;
mod headers;
mod hints;
mod keyed_groups;
mod lan;
mod limiter;
mod link;
mod mdns;
mod peer_infos;
mod random;
mod receiving;
mod report;
mod roles;
mod route;
mod sample;
mod seeds;
mod served_peers;
mod server;
mod stock;
#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_disk::Disk;
use apus_host::memory::pressure::Squeeze;
use apus_host::threads;
use apus_net::{HeaderChain, Limits, NetKind, PeerManager, PeerOptions, Settings, fixed_seeds};
use apus_node::block::step::Step;
use apus_node::block_peers::{BlockPeers, Wanted};
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::memory_share::early_bytes;
use apus_node::options::Options;
use apus_node::sources::BlockBytes;
use apus_progress::clock::unix_time;
use apus_progress::{Adding, Observer};
use crossbeam_channel::{Sender, bounded};

pub use self::dialer::FILE as ADDRESSES_FILE;
pub use self::download::{download, store_left_after};
pub use self::headers::{Search, doubts, find_headers, is_complete, lags, wait_for_news};
pub use self::hints::{ServedHints, download_hints};
pub use self::lan::{LanNode, LanSearch};
pub use self::report::PeerReport;
pub use self::sample::learn_sizes;
pub use self::server::{ServeOptions, ServeReport, serve};

use self::connections::{Connections, Ears};
use self::dialer::{Dialer, NEEDED};
use self::feed::Feed;
use self::limiter::Limiter;
use self::link::Dialing;
use self::report::Traffic;

/// The most bytes of blocks that have arrived and wait to be taken, together with those requested:
/// what ten unequal peers need at 1 Gbit/s. Those beyond [`early_bytes`] are on disk. Where old
/// blocks are deleted, that is the bound: the disk may be small.
///
/// Besides these, [`EVENTS_MAX`] messages may wait to be handled, and one for each connection that
/// we opened, of at most 4 MB each; and those of other connections that a [`Budget`] allows.
const WAITING_BYTES_MAX: u64 = 1 << 30;
/// The file for blocks that do not fit in memory. It never has a name.
const EARLY_FILE: &str = "apus-early-blocks";
/// The most events of connections, such as messages, that wait to be handled.
const EVENTS_MAX: usize = 16;

/// The connections to peers, and the blocks that are wanted from them.
pub struct Peers {
    feed: Arc<Feed>,
    connections: Mutex<Connections>,
    traffic: Arc<Traffic>,
    /// The height of the tip, which new peers are told.
    height: Arc<AtomicU32>,
    /// Ends the thread that listens when it is dropped.
    _listening: Sender<()>,
    /// How long to wait for a peer that does not answer.
    patience: Duration,
}

impl Peers {
    /// Reads the address book and, if the options say so, listens; connections are opened from
    /// [`find_headers`] on, also to the nodes that `lan` finds. `height` is the height of the tip;
    /// `squeeze` says how far blocks that wait take less memory.
    ///
    /// # Errors
    /// The address book cannot be read, or the port cannot be listened on.
    pub fn begin(
        options: &Options,
        peers: &PeerOptions,
        lan: Option<LanSearch>,
        disk: &Disk,
        height: u32,
        squeeze: &Arc<Squeeze>,
    ) -> Result<Self, SyncError> {
        let network = &options.network;
        let (events, heard) = bounded(EVENTS_MAX);
        let (wake, wakes) = bounded(1);
        let limiter = Arc::new(Limiter::new(peers.maxdownload.clone()));
        let dialing = Dialing::new(network.magic, peers, Arc::clone(&limiter), events.clone());
        let dialing = Arc::new(dialing);
        let file = options.network_dir().join(ADDRESSES_FILE);
        let mut dialer = Dialer::new(dialing, network, peers, (disk, file), unix_time())?;
        dialer.lan = lan;
        let (listening, over) = bounded(0);
        for address in if peers.listen { peers.listening() } else { Vec::new() } {
            link::listen(address, over.clone(), events.clone()).map_err(|error| {
                SyncError::Input(format!("cannot listen on {address}: {error}"))
            })?;
        }
        let memory_max = early_bytes();
        let manager = PeerManager::new(Settings {
            needs: NEEDED,
            limits: Limits {
                bytes_max: match options.prune {
                    None => WAITING_BYTES_MAX,
                    Some(_) => memory_max,
                },
                block_interval: Duration::from_secs(network.pow_target_spacing.into()),
            },
        });
        let early = options.network_dir().join(EARLY_FILE);
        let feed = Arc::new(Feed::new(wake, early, memory_max, Arc::clone(squeeze)));
        let traffic = Arc::new(Traffic::new(limiter));
        let ears = Ears { events: heard, wakes };
        let height = Arc::new(AtomicU32::new(height));
        let connections = Connections::new(
            manager,
            dialer,
            Arc::clone(&feed),
            ears,
            (Arc::clone(&traffic), Arc::clone(&height)),
            (options, peers),
        );
        let connections = Mutex::new(connections);
        let patience = peers.patience;
        Ok(Self { feed, connections, traffic, height, _listening: listening, patience })
    }

    /// Returns the options for peers; `None` if there are none, or nothing leads to a peer: neither
    /// a named peer, nor listening, nor a seed, nor an address book, nor a node that `lan` finds.
    /// Only if nothing else leads to a peer, this waits for `lan`.
    pub fn wanted<'a>(options: &'a Options, lan: Option<&LanSearch>) -> Option<&'a PeerOptions> {
        let peers = options.peers.as_ref()?;
        let has_book = || options.network_dir().join(ADDRESSES_FILE).is_file();
        let has_names = peers.asks_dns_seeds() && !options.network.dns_seeds.is_empty();
        let is_named = !peers.connect.is_empty() || !peers.addnode.is_empty();
        let has_seednode = peers.seednode.iter().any(|target| peers.reaches_host(target));
        let has_fixed = || {
            let mut fixed = fixed_seeds(&options.network);
            peers.fixedseeds && fixed.any(|(host, _)| peers.reaches(NetKind::of(&host)))
        };
        let can_find = || has_names || has_seednode || has_book() || has_fixed();
        let is_found = || lan.is_some_and(LanSearch::finds_any);
        (is_named || peers.listen || can_find() || is_found()).then_some(peers)
    }

    /// Returns an observer that passes everything to `inner`, and adds the download from peers.
    pub fn observer<'a>(&'a self, inner: &'a dyn Observer) -> impl Observer + 'a {
        Adding::new(inner, |progress| progress.download = Some(self.traffic.download()))
    }

    pub fn reports(&self) -> Vec<PeerReport> {
        self.connections().reports()
    }

    /// Returns the time in which at least one thread has waited for a block.
    pub fn waited(&self) -> Duration {
        self.feed.waited()
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockPeers for Peers {
    fn fetch(
        &self,
        tree: &Tree,
        step: Step,
        halt: &AtomicBool,
        check: &mut dyn FnMut(BlockBytes) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            let bytes = self.feed.fetch(tree, step, halt)?;
            match check(bytes) {
                Err(Fault::Damaged(_, what)) => self.feed.changed(step.id, what),
                Err(fault) => {
                    if let Fault::Rule(_, error) = &fault {
                        self.feed.invalid(step.id, error.to_string());
                    }
                    return Err(fault);
                }
                Ok(()) => {
                    self.feed.good(tree, step.id);
                    return Ok(());
                }
            }
        }
    }

    fn offers_coins(&self) -> bool {
        self.connections().manager().offers_coins()
    }

    fn fetch_coins(
        &self,
        tree: &Tree,
        step: Step,
        halt: &AtomicBool,
        check: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<bool, Fault> {
        while let Some((from, coins)) = self.feed.fetch_coins(tree, step, halt)? {
            match check(&coins) {
                Ok(()) => {
                    self.feed.took_coins(step.id);
                    return Ok(true);
                }
                Err(what) => self.feed.wrong_coins(from, step.id, what),
            }
        }
        Ok(false)
    }

    fn next(&self, halt: &AtomicBool) -> Option<BlockId> {
        self.feed.next(halt)
    }

    fn serve(&self, tree: &Tree, wanted: Wanted, observer: &dyn Observer, work: &mut dyn FnMut()) {
        // Blocks near the tip may be on their way, and are wanted again after this.
        let has_own = !wanted.blocks.is_empty() || !wanted.coins.is_empty();
        if has_own {
            self.connections().want(wanted);
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let talking = threads::spawn(scope, "apus-net", || {
                // A thread that waits for a block must not wait for one that has panicked.
                let _end = EndOnDrop(&self.feed);
                let mut connections = self.connections();
                let mut chain = HeaderChain::fixed(tree, tree.best_header());
                while !over.load(Relaxed) {
                    connections.turn(&mut chain, observer);
                }
                if has_own {
                    connections.want_nothing();
                }
            });
            // Without it no block arrives, and all waits must end.
            let talking = talking.inspect_err(|error| {
                tracing::warn!("{error}");
                drop(EndOnDrop(&self.feed));
            });
            {
                let _over = threads::RaiseOnDrop(&over);
                work();
            }
            self.feed.wake();
            if let Ok(talking) = talking {
                talking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
    }

    fn take_left(&self) -> Option<(BlockId, BlockBytes)> {
        self.feed.take_left().map(|(id, _, bytes)| (id, bytes))
    }

    fn drop_left(&self) {
        self.feed.drop_left();
    }

    fn keep_free(&self, bytes: u64) {
        self.feed.keep_free(bytes);
    }

    fn set_height(&self, height: u32) {
        self.height.store(height, Relaxed);
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.connections().save(true);
    }
}

/// Ends all waits for blocks when it is dropped.
struct EndOnDrop<'a>(&'a Feed);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
