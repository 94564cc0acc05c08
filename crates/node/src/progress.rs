//! Progress of a sync, as an observer sees it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_hash::Hash;

/// A phase of the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Finding the blocks in the sources and checking their headers.
    Headers,
    /// Checking the blocks in the block files, to make an index of them.
    Indexing,
    /// Checking and connecting blocks.
    Connecting,
    /// Disconnecting blocks of a chain that is no longer the best.
    Disconnecting,
    /// Storing blocks of side branches, and those behind a missing block.
    StoringBranches,
    /// SwiftSync: working through blocks in any order.
    SwiftSync,
    /// First pass of a join: reading blocks in any order, and writing their outputs and spends to
    /// partitions.
    JoinReading,
    /// Second pass of a join: matching spends with outputs, partition by partition.
    JoinMatching,
    /// Third pass of a join: checking each block's spends and writing its undo data.
    JoinChecking,
    /// Writing changed coins to the tables.
    WritingCoins,
    /// Merging the tables into one level.
    Merging,
    /// Reading the whole UTXO set.
    ReadingCoins,
    /// Reading the coins that blocks have spent, from their undo data.
    ReadingUndo,
    /// Checking the stored blocks of the active chain again, from the tip down.
    Verifying,
    /// Reading blocks to note which of their outputs are unspent.
    MakingHints,
    /// Reading all of a hints file.
    ReadingHints,
    /// Reading blocks for the outputs that hints call unspent.
    ReadingBlocks,
    /// Reading all coins of a snapshot.
    ReadingSnapshot,
    /// Reading all blocks again to name the coins that hints or a snapshot are wrong about.
    NamingCoins,
    /// Writing coins to a snapshot.
    WritingSnapshot,
    /// Writing a table of coins, or of blocks and what is in them, to a file.
    Exporting,
    /// Connecting to peers, of which there is none yet.
    FindingPeers,
    /// Asking peers for headers.
    DownloadingHeaders,
    /// Downloading blocks that are stored before a SwiftSync or an estimate begins.
    DownloadingBlocks,
    /// Waiting for headers with the minimum chain work.
    WaitingForWork,
    /// Waiting for headers up to the height of the hints.
    WaitingForHeaders,
    /// Waiting for new blocks at the tip.
    Following,
}

impl Phase {
    /// The phase in words, for a progress line.
    pub fn words(self) -> &'static str {
        match self {
            Self::Headers => "Reading headers",
            Self::Indexing => "Checking stored blocks",
            Self::Connecting => "Connecting blocks",
            Self::Disconnecting => "Disconnecting blocks",
            Self::StoringBranches => "Storing blocks of side branches",
            Self::SwiftSync => "SwiftSync",
            Self::JoinReading => "Join 1/3: reading blocks",
            Self::JoinMatching => "Join 2/3: matching spends",
            Self::JoinChecking => "Join 3/3: checking spends",
            Self::WritingCoins => "Writing coins",
            Self::Merging => "Merging tables",
            Self::ReadingCoins => "Reading the UTXO set",
            Self::ReadingUndo => "Reading undo data",
            Self::Verifying => "Verifying blocks",
            Self::MakingHints => "Making hints",
            Self::ReadingHints => "Reading hints",
            Self::ReadingBlocks => "Reading blocks",
            Self::ReadingSnapshot => "Reading the snapshot",
            Self::NamingCoins => "Looking for wrong coins",
            Self::WritingSnapshot => "Writing the snapshot",
            Self::Exporting => "Exporting",
            Self::FindingPeers => "Looking for peers",
            Self::DownloadingHeaders => "Downloading headers",
            Self::DownloadingBlocks => "Downloading the blocks that come first",
            Self::WaitingForWork => "Waiting for a chain with the minimum work",
            Self::WaitingForHeaders => {
                "Waiting for headers up to the height of the hints or the snapshot"
            }
            Self::Following => "Waiting for new blocks",
        }
    }
}

/// The state of the work at one moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The phase that the work is in.
    pub phase: Phase,
    /// Height of the tip, or of the last header.
    pub height: u32,
    /// Time of that block, in seconds since 1970; 0 if unknown.
    pub time: u32,
    /// Blocks handled in this phase.
    pub blocks: u64,
    /// All blocks of this phase, where they come in any order; 0 where they come by height.
    pub blocks_all: u64,
    /// Bytes handled in this phase.
    pub bytes: u64,
    /// Coins in the cache.
    pub coins: u64,
    /// Share of this phase's work that is done, from 0 to 1; 0 if unknown. Blocks count by their
    /// bytes, which the time that they take goes by.
    pub fraction: f64,
    /// Peers, and what has come from them; `None` where there are to be none.
    pub download: Option<Download>,
}

/// Peers, and what has come from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Download {
    /// Number of peers.
    pub peers: usize,
    /// Bytes of all messages that have come so far.
    pub bytes: u64,
}

/// A new tip, as Core logs it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tip {
    /// Hash of the block.
    pub hash: Hash,
    /// Its height.
    pub height: u32,
    /// The version in its header.
    pub version: i32,
    /// The work of its chain, as a logarithm to the base 2.
    pub log2_work: f64,
    /// Transactions of its chain.
    pub transactions: u64,
    /// The time in its header, in seconds since 1970.
    pub time: u32,
    /// The share of all transactions that its chain has, by Core's guess.
    pub progress: f64,
    /// Bytes of the cache of coins; at most 100 ms old.
    pub cache_bytes: usize,
    /// Entries of the cache of coins; at most 100 ms old.
    pub cache_coins: usize,
}

impl Progress {
    /// The beginning of a phase, with nothing else known.
    pub fn of(phase: Phase) -> Self {
        let (height, time, blocks, blocks_all, bytes, coins, fraction) = (0, 0, 0, 0, 0, 0, 0.0);
        let download = None;
        Self { phase, height, time, blocks, blocks_all, bytes, coins, fraction, download }
    }

    /// A function that shows an observer this progress, with the share of the work that is done.
    pub fn share_to<'a>(self, observer: &'a dyn Observer) -> impl Fn(f64) + Sync + use<'a> {
        move |fraction| observer.observe(&Self { fraction, ..self.clone() })
    }
}

/// A receiver of progress. It is called often, by several threads at once, and must be quick.
pub trait Observer: Sync {
    /// Takes note of the state of the work.
    fn observe(&self, progress: &Progress);

    /// Takes note of a line for the user, such as the way of syncing that was chosen.
    fn note(&self, _: &str) {}

    /// Whether [`Observer::tip`] is to be called.
    fn wants_tips(&self) -> bool {
        false
    }

    /// Takes note of a new tip: of each one while blocks connect or disconnect in order, of the
    /// last one where many become part of the chain at once.
    fn tip(&self, _: &Tip) {}
}

/// An observer that ignores all progress.
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &Progress) {}
}

/// How work is watched: what receives its progress, and the flag that asks it to stop.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Receives the progress.
    pub observer: &'a dyn Observer,
    /// Ends the work soon after it is set to true. What is done so far is saved where it can be.
    pub stop: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    /// Reports to `observer`, and stops once `stop` is true.
    pub fn new(observer: &'a dyn Observer, stop: &'a AtomicBool) -> Self {
        Self { observer, stop }
    }

    /// Whether the work is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Default for Watch<'_> {
    /// Reports nothing, and never stops.
    fn default() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self::new(&Unobserved, &NEVER)
    }
}
