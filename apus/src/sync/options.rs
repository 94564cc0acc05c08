use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::checked::Checked;
use crate::disk::StoreError;
use crate::hash::Hash;
use crate::swiftsync::HintsError;
use crate::wire::Network;

/// MiB of coins that Core caches without being told otherwise (`-dbcache`).
const DBCACHE_DEFAULT_BYTES: usize = 450 << 20;

/// Saving costs a second or two of writing out what is held in memory.
const SAVE_EVERY: Duration = Duration::from_secs(2 * 60);

/// Where and how to sync.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory's root, as `bitcoind -datadir` takes it.
    pub datadir: PathBuf,
    /// The directory whose `blocks` holds blk and rev files, if not the data directory (Core's
    /// `-blocksdir`). It must exist. The block index stays in the data directory.
    pub blocks_dir: Option<PathBuf>,
    /// The network.
    pub network: Network,
    /// Below which block scripts are taken as valid.
    pub assumevalid: AssumeValid,
    /// Memory for cached coins: entries, table and scripts.
    pub dbcache_bytes: usize,
    /// Worker threads.
    pub threads: usize,
    /// Connect no block above this height.
    pub stop_at_height: Option<u32>,
    /// A hints file: SwiftSync up to its height.
    pub hints: Option<PathBuf>,
    /// What proves the hints.
    pub aggregate: AggregateKind,
    /// How often SwiftSync saves what is done; a crash loses no more than this.
    pub save_every: Duration,
    /// Whether a rebuilt UTXO set may replace one of a greater height.
    pub allow_shrink: bool,
}

impl Options {
    /// Core's defaults, on all cores.
    pub fn new(datadir: PathBuf, network: Network) -> Self {
        Self {
            datadir,
            blocks_dir: None,
            network,
            assumevalid: AssumeValid::BuiltIn,
            dbcache_bytes: DBCACHE_DEFAULT_BYTES,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            stop_at_height: None,
            hints: None,
            aggregate: AggregateKind::Sha256,
            save_every: SAVE_EVERY,
            allow_shrink: false,
        }
    }
}

impl Options {
    /// The network's own directory in the data directory.
    pub fn network_dir(&self) -> PathBuf {
        self.datadir.join(self.network.subdirectory)
    }

    /// The directory of blk and rev files.
    pub fn blocks_path(&self) -> PathBuf {
        let base = self.blocks_dir.as_ref().unwrap_or(&self.datadir);
        base.join(self.network.subdirectory).join("blocks")
    }
}

/// Core's `-assumevalid`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssumeValid {
    /// The block that Core v31 has built in.
    BuiltIn,
    /// None: every script is checked.
    Nothing,
    /// This block and its ancestors.
    Block(Hash),
}

/// The sums that SwiftSync compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    /// Of salted SHA-256, modulo 2^256.
    Sha256,
    /// MuHash3072, as IBD Booster had it first.
    MuHash,
}

/// What is going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Finding the blocks in the sources and checking their headers.
    Headers,
    /// Checking the blocks that are in the block files, for an index of them.
    Indexing,
    /// Checking and connecting blocks.
    Connecting,
    /// Taking back blocks of a chain that is no longer the best.
    Disconnecting,
    /// SwiftSync: working through blocks in any order.
    SwiftSync,
    /// Writing changed coins to the tables.
    WritingCoins,
    /// Merging the tables into one level.
    Merging,
    /// Reading the whole UTXO set.
    ReadingCoins,
    /// Reading what blocks have spent, from their undo data.
    ReadingUndo,
    /// Reading blocks to say which of their outputs are unspent.
    MakingHints,
    /// Reading all of a hints file.
    ReadingHints,
}

impl Phase {
    /// In words, for a progress line.
    pub fn words(self) -> &'static str {
        match self {
            Self::Headers => "Reading headers",
            Self::Indexing => "Checking stored blocks",
            Self::Connecting => "Connecting blocks",
            Self::Disconnecting => "Disconnecting blocks",
            Self::SwiftSync => "SwiftSync",
            Self::WritingCoins => "Writing coins",
            Self::Merging => "Merging tables",
            Self::ReadingCoins => "Reading the UTXO set",
            Self::ReadingUndo => "Reading undo data",
            Self::MakingHints => "Making hints",
            Self::ReadingHints => "Reading hints",
        }
    }
}

/// Where the work stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What is going on.
    pub phase: Phase,
    /// Height of the tip, or of the last header.
    pub height: u32,
    /// Time of that block, in seconds since 1970; 0 if unknown.
    pub time: u32,
    /// Blocks handled in this phase.
    pub blocks: u64,
    /// Bytes handled in this phase.
    pub bytes: u64,
    /// Coins in the cache.
    pub coins: u64,
    /// Share of this phase's work that is done, 0 to 1; 0 if unknown. For blocks it follows their
    /// bytes, which is what the time goes to.
    pub fraction: f64,
}

impl Progress {
    /// The beginning of a phase of which no more is known.
    pub fn of(phase: Phase) -> Self {
        let (height, time, blocks, bytes, coins, fraction) = (0, 0, 0, 0, 0, 0.0);
        Self { phase, height, time, blocks, bytes, coins, fraction }
    }

    /// Shows an observer which share of this phase's work is done, and all else as it is here.
    pub(super) fn share_to<'a>(self, observer: &'a dyn Observer) -> impl Fn(f64) + Sync + use<'a> {
        move |fraction| observer.observe(&Self { fraction, ..self.clone() })
    }
}

/// Whoever wants to see progress. Called often, from any thread, several at once: be quick.
pub trait Observer: Sync {
    /// Where the work stands.
    fn observe(&self, progress: &Progress);
}

/// An observer that does not look.
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &Progress) {}
}

/// What was worked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks connected.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, coinbases left out.
    pub inputs: u64,
    /// Inputs whose scripts were checked.
    pub scripts: u64,
}

impl Counts {
    /// What came on top of `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            blocks: self.blocks - before.blocks,
            bytes: self.bytes - before.bytes,
            transactions: self.transactions - before.transactions,
            inputs: self.inputs - before.inputs,
            scripts: self.scripts - before.scripts,
        }
    }
}

/// How a sync ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// Coins in the UTXO set; unknown after an interrupted run that did not start from nothing.
    pub coins: Option<u64>,
    /// What this run worked through.
    pub counts: Counts,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Time of all cores together.
    pub cpu: Duration,
    /// Most memory that the process ever had, in bytes; 0 where the system does not tell.
    pub peak_memory: u64,
    /// Whether it was asked to stop before its end.
    pub interrupted: bool,
    /// What an interrupted SwiftSync has on disk; nothing of it is in the UTXO set yet.
    pub saved: Option<SavedBlocks>,
    /// What was not checked of the blocks that this run worked through.
    pub checked: Checked,
    /// The active chain has stored blocks without undo data below this height, and none from it
    /// on; 1 if all have it.
    pub undo_from: u32,
    /// What was not taken, and why.
    pub refusals: Vec<Refusal>,
    /// Time that each stage took, summed over the threads in it.
    pub stages: BTreeMap<&'static str, Duration>,
}

/// Blocks of a SwiftSync that was interrupted, saved for the next run to carry on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedBlocks {
    /// Blocks that are done.
    pub done: u32,
    /// Blocks up to the hints' height.
    pub total: u32,
}

/// A block, or a piece of a source, that was not taken.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The file that it came from.
    pub path: Option<PathBuf>,
    /// Where in that file.
    pub offset: Option<u64>,
    /// The block's hash, where it has one.
    pub block: Option<Hash>,
    /// Core's reject reason and more, or what is wrong with the file.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(block) = &self.block {
            write!(f, "block {block}: ")?;
        }
        f.write_str(&self.reason)?;
        if let Some(path) = &self.path {
            write!(f, " (in {}", path.display())?;
            if let Some(offset) = self.offset {
                write!(f, " at byte {offset}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// Why a sync could not be done. What was committed before is good.
#[derive(Debug)]
pub enum SyncError {
    /// The disk is to blame.
    Store(StoreError),
    /// A hints file is to blame, or its format.
    Hints(HintsError),
    /// What was asked for cannot be done with what there is.
    Usage(String),
    /// Options are wrong, or contradict each other.
    WrongOptions(String),
    /// SwiftSync's hints are to blame. Nothing was committed; in order it works without them.
    WrongHints { path: PathBuf, error: HintsError },
    /// SwiftSync came upon a block that is not valid, or undo data that is wrong. Nothing was
    /// committed.
    Refused(Refusal),
    /// SwiftSync cannot prove this chain. Nothing was committed.
    Unproved(String),
    /// A rebuilt UTXO set would be lower than the present one, which was kept.
    WouldShrink(String),
}

/// What an error is about, hence what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Options: give others.
    Usage,
    /// What was asked for cannot be done with the directory or the files given.
    Input,
    /// A file or directory that could not be read or written, or holds what cannot be right.
    Disk,
    /// A hints file.
    Hints,
    /// A block that breaks a rule, or undo data that is wrong.
    Refused,
    /// A chain that SwiftSync cannot prove.
    Unproved,
}

impl SyncError {
    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::WrongOptions(_) => ErrorKind::Usage,
            Self::Usage(_) | Self::WouldShrink(_) => ErrorKind::Input,
            Self::Store(_) => ErrorKind::Disk,
            Self::Hints(_) | Self::WrongHints { .. } => ErrorKind::Hints,
            Self::Refused(_) => ErrorKind::Refused,
            Self::Unproved(_) => ErrorKind::Unproved,
        }
    }
}

impl SyncError {
    /// The same error with more to say.
    pub(super) fn with_note(self, note: &str) -> Self {
        let add = |what: String| format!("{what}{note}");
        match self {
            Self::Store(error) => Self::Store(StoreError { what: add(error.what), ..error }),
            Self::Hints(error) => Self::Hints(HintsError { what: add(error.what), ..error }),
            Self::WrongHints { path, error } => {
                let error = HintsError { what: add(error.what), ..error };
                Self::WrongHints { path, error }
            }
            Self::Usage(what) => Self::Usage(add(what)),
            Self::WrongOptions(what) => Self::WrongOptions(add(what)),
            Self::WouldShrink(what) => Self::WouldShrink(add(what)),
            Self::Unproved(what) => Self::Unproved(add(what)),
            Self::Refused(refusal) => {
                Self::Refused(Refusal { reason: add(refusal.reason), ..refusal })
            }
        }
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Hints(error) => error.fmt(f),
            Self::Usage(what) | Self::WrongOptions(what) | Self::WouldShrink(what) => {
                f.write_str(what)
            }
            Self::WrongHints { path, error } => write!(
                f,
                "{}: {error}. Nothing was committed: get the right hints, or sync without --hints",
                path.display()
            ),
            Self::Refused(refusal) => {
                write!(
                    f,
                    "{refusal}. Nothing was committed: a sync without --hints finds the best \
                    valid chain"
                )
            }
            Self::Unproved(what) => {
                write!(f, "{what}. Nothing was committed: sync without --hints")
            }
        }
    }
}

impl std::error::Error for SyncError {}

impl From<StoreError> for SyncError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<HintsError> for SyncError {
    fn from(error: HintsError) -> Self {
        Self::Hints(error)
    }
}
