//! The progress of a sync, as an observer sees it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_hash::Hash;

use super::estimate::left::Estimate;
use super::estimate::plan::RunPlan;
use super::meters::Meters;
use super::outcome::ThreadStates;
use super::peer_info::PeerInfo;
pub use super::phase::Phase;

/// The state of the work at one moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The phase that the work is in.
    pub phase: Phase,
    /// Height of the tip, or of the last header.
    pub height: u32,
    /// Time of that block, in seconds since 1970; 0 if unknown.
    pub time: u32,
    /// Number of blocks processed in this phase.
    pub blocks: u64,
    /// Number of all blocks of this phase, if they are processed in any order; 0 if in order of
    /// height.
    pub blocks_all: u64,
    /// Number of bytes processed in this phase.
    pub bytes: u64,
    /// Number of coins in the cache.
    pub coins: u64,
    /// Share of this phase's work that is done, from 0 to 1; 0 if unknown. Blocks count by what
    /// they cost ([`Costs`](super::estimate::plan::Costs)).
    pub fraction: f64,
    /// The download from peers; `None` without peers.
    pub download: Option<Download>,
    /// How often threads were seen working and waiting for the disk; `None` if they are not watched
    /// in this phase.
    pub states: Option<ThreadStates>,
    /// Peers that are served, and the bytes sent to them; `None` if none are.
    pub upload: Option<Upload>,
    /// How far the whole run is, and how long it will take; `None` if nothing estimates it.
    pub estimate: Option<Estimate>,
}

/// The number of peers that are served, and what was sent to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Upload {
    /// Number of peers that are connected.
    pub peers: usize,
    /// Blocks sent so far.
    pub blocks: u64,
    /// Bytes of all messages sent so far.
    pub bytes: u64,
    /// Bytes sent in the last second.
    pub bytes_per_second: u64,
}

/// How far the download from peers is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Download {
    /// Number of peers.
    pub peers: usize,
    /// Number of outbound peers.
    pub outbound: usize,
    /// Bytes of all messages received so far.
    pub bytes: u64,
    /// Bytes of blocks received so far, those of incomplete ones included.
    pub block_bytes: u64,
    /// Estimated bytes of the blocks that this phase wants and that have not arrived; 0 if there
    /// are none, or their sizes are unknown.
    pub left: u64,
    /// The time in which at least one thread waited for a block, in all phases so far.
    pub waited: Duration,
    /// The most bytes a second that the user allows now; `None` for no limit.
    pub limit: Option<u64>,
}

impl Download {
    /// Returns whether the user's limit is what holds a download of `speed` bytes a second up.
    pub fn is_at_limit(&self, speed: f64) -> bool {
        self.limit.is_some_and(|limit| speed >= 0.8 * limit as f64)
    }
}

/// A new tip, as Core logs it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tip {
    /// Hash of the block.
    pub hash: Hash,
    /// Height of the block.
    pub height: u32,
    /// The version in the block's header.
    pub version: i32,
    /// The work of the chain, as a logarithm to the base 2.
    pub log2_work: f64,
    /// Number of transactions of the chain.
    pub transactions: u64,
    /// The time in the block's header, in seconds since 1970.
    pub time: u32,
    /// The share of all transactions that the chain has, by Core's guess.
    pub progress: f64,
    /// Size in bytes of the coins cache; at most 100 ms old.
    pub cache_bytes: usize,
    /// Number of entries in the coins cache; at most 100 ms old.
    pub cache_coins: usize,
}

impl Progress {
    /// Returns the progress at the start of a phase, with nothing else known.
    pub fn of(phase: Phase) -> Self {
        Self {
            phase,
            height: 0,
            time: 0,
            blocks: 0,
            blocks_all: 0,
            bytes: 0,
            coins: 0,
            fraction: 0.0,
            download: None,
            states: None,
            upload: None,
            estimate: None,
        }
    }

    /// Returns a function that shows an observer this progress, with the share of the work that is
    /// done.
    pub fn share_to<'a>(self, observer: &'a dyn Observer) -> impl Fn(f64) + Sync + use<'a> {
        move |fraction| observer.observe(&Self { fraction, ..self.clone() })
    }
}

/// A receiver of progress. It is called often, by several threads at once, and must be quick.
pub trait Observer: Sync {
    /// Receives the state of the work.
    fn observe(&self, progress: &Progress);

    /// Returns the observer behind this one, if there is one: it gets everything but progress that
    /// this one does not receive itself.
    fn inner(&self) -> Option<&dyn Observer> {
        None
    }

    /// Receives the stages of the run, once they are known, and again whenever they change.
    fn plan(&self, plan: &RunPlan) {
        if let Some(inner) = self.inner() {
            inner.plan(plan);
        }
    }

    /// Receives how far the download is, about once a second while peers are talked to, even if
    /// the work reports nothing meanwhile.
    fn heard(&self, download: Download) {
        if let Some(inner) = self.inner() {
            inner.heard(download);
        }
    }

    /// Receives a line for the user, such as the method that was chosen.
    fn note(&self, text: &str) {
        if let Some(inner) = self.inner() {
            inner.note(text);
        }
    }

    /// Returns whether [`Observer::tip`] is to be called.
    fn wants_tips(&self) -> bool {
        self.inner().is_some_and(|inner| inner.wants_tips())
    }

    /// Receives a new tip: each one while blocks connect or disconnect in order, only the last one
    /// when many become part of the chain at once.
    fn tip(&self, tip: &Tip) {
        if let Some(inner) = self.inner() {
            inner.tip(tip);
        }
    }

    /// Receives what the work on a directory measures, when it begins.
    fn meters(&self, meters: &Meters) {
        if let Some(inner) = self.inner() {
            inner.meters(meters);
        }
    }

    /// Returns whether [`Observer::peers`] is to be called.
    fn wants_peers(&self) -> bool {
        self.inner().is_some_and(|inner| inner.wants_peers())
    }

    /// Receives all connected peers, about once a second.
    fn peers(&self, peers: Vec<PeerInfo>) {
        if let Some(inner) = self.inner() {
            inner.peers(peers);
        }
    }

    /// Receives how many addresses of peers are known, with [`Observer::peers`]: those that were
    /// not connected to yet and those that were, of IPv4, IPv6 and onion services.
    fn addresses(&self, counts: [[u64; 2]; 3]) {
        if let Some(inner) = self.inner() {
            inner.addresses(counts);
        }
    }
}

/// An observer that ignores all progress.
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &Progress) {}
}

/// An observer that passes everything to another one, and adds to each progress report.
pub struct Adding<'a, F> {
    inner: &'a dyn Observer,
    add: F,
}

impl<'a, F: Fn(&mut Progress) + Sync> Adding<'a, F> {
    /// Creates an observer that calls `add` with each report before `inner` gets it.
    pub fn new(inner: &'a dyn Observer, add: F) -> Self {
        Self { inner, add }
    }
}

impl<F: Fn(&mut Progress) + Sync> Observer for Adding<'_, F> {
    fn observe(&self, progress: &Progress) {
        let mut progress = progress.clone();
        (self.add)(&mut progress);
        self.inner.observe(&progress);
    }

    fn inner(&self) -> Option<&dyn Observer> {
        Some(self.inner)
    }
}

/// How work is watched: the observer of its progress, and the flag that asks it to stop.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Receives the progress.
    pub observer: &'a dyn Observer,
    /// Ends the work soon after it is set to true. Finished work is saved where possible.
    pub stop: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    /// Returns a watch that reports to `observer`, and stops once `stop` is true.
    pub fn new(observer: &'a dyn Observer, stop: &'a AtomicBool) -> Self {
        Self { observer, stop }
    }

    /// Returns whether the work is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Default for Watch<'_> {
    /// Returns a watch that reports nothing, and never stops.
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self::new(&Unobserved, &NEVER)
    }
}
