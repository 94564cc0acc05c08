//! The page at one moment: plain data, made by `gather` and shown by `sections`.

use std::sync::Arc;
use std::time::Duration;

use apus_progress::{Bottleneck, Left, PeerInfo, Phase};

use crate::live::Line;

/// Everything that the page shows. Sizes are in bytes, speeds in bytes a second unless a field
/// says otherwise, times in seconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct PageState {
    /// Apus's version.
    pub version: String,
    /// The network, by Core's name: `main`, `test`, `signet`, `regtest`, `testnet4`.
    pub network: &'static str,
    /// The data directory, as bitcoind takes it: without the network's own directory.
    pub datadir: String,
    /// When this state was gathered.
    pub now: i64,
    /// When the program started.
    pub started: i64,
    /// The stage of the program.
    pub stage: Stage,
    /// The present phase of the work; `None` before the first one.
    pub phase: Option<Phase>,
    /// How far the whole run is.
    pub run: Run,
    /// How fast it is.
    pub speed: Speed,
    /// The present bottleneck, if enough was seen to tell.
    pub bottleneck: Option<Bottleneck>,
    /// The last connected block.
    pub tip: Tip,
    /// Height of the best known header.
    pub headers: u32,
    /// The picture of the chain.
    pub chain: Arc<Chain>,
    /// The connected peers; `None` if this run connects to none.
    pub peers: Option<Arc<[PeerInfo]>>,
    /// Space on the disk.
    pub disk: Disk,
    /// Memory of the process.
    pub memory: Memory,
    /// The coins cache; `None` if the method has none.
    pub cache: Option<Cache>,
    /// The last lines of the log, oldest first.
    pub log: Vec<Line>,
    /// The UTXO set at the tip, once it is complete.
    pub coins: Option<Coins>,
    /// The directory of the blocks, if it is not in `datadir` (`-blocksdir`).
    pub blocks_dir: Option<String>,
    /// [`apus_node::Options::network_options`].
    pub network_options: String,
    /// If blocks were pruned, the -prune that bitcoind must be started with, in MiB or 1.
    pub prune: Option<u64>,
}

/// The stage of the program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// Opening the directory; nothing is known yet.
    #[default]
    Starting,
    /// Connecting to peers, while there is none yet.
    Searching,
    /// Downloading or reading headers.
    Headers,
    /// Downloading, checking and connecting blocks.
    Syncing,
    /// Blocks are missing, and no peer has sent one for this time.
    Stalled(Duration),
    /// The run has ended with this error.
    Failed(String),
    /// The run has been asked to stop, and saves its work.
    Stopping,
    /// The run has saved its work and ended before its goal, since it was asked to.
    Stopped,
    /// The run has ended at its goal.
    Finished,
    /// At the tip, waiting for new blocks.
    Following,
    /// `apus serve`: a directory that does not change.
    Serving,
}

impl Stage {
    /// Returns its name, for styles and the script.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting | Self::Searching => "starting",
            Self::Headers => "headers",
            Self::Syncing => "syncing",
            Self::Stalled(_) => "stalled",
            Self::Failed(_) => "failed",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Finished => "finished",
            Self::Following => "following",
            Self::Serving => "serving",
        }
    }

    /// Returns whether a run is under way that has a beginning and an end.
    pub fn is_run(&self) -> bool {
        matches!(self, Self::Syncing | Self::Stalled(_) | Self::Stopping)
    }
}

/// How far the whole run is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// The work that is done, of all that is known, from 0 to 1; `None` while none is known.
    pub share: Option<f64>,
    /// The time left; `None` while unknown.
    pub left: Option<Left>,
    /// Blocks of this phase that are processed, and all of them, if they come in any order.
    pub blocks: Option<(u64, u64)>,
}

/// Speeds of the last minute; `None` where nothing was measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speed {
    /// Bytes of blocks processed.
    pub bytes: Option<f64>,
    /// Blocks processed a second.
    pub blocks: Option<f64>,
    /// Bytes received from peers.
    pub download: Option<f64>,
    /// Bytes sent to peers.
    pub upload: Option<f64>,
}

/// A block of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tip {
    pub height: u32,
    /// Its hash, in hex.
    pub hash: String,
    /// The time in its header; 0 if unknown.
    pub time: i64,
}

/// The kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// This run has checked every rule, scripts included.
    Scripts,
    /// This run has connected it, with its scripts taken as valid.
    Assumed,
    /// Its coins were proved by SwiftSync, without scripts.
    Proved,
    /// Part of the UTXO set since an earlier run.
    Earlier,
    /// This run has noted its outputs and spends, which are not matched yet.
    Read,
    /// Stored, and not part of the UTXO set yet.
    Stored,
    /// Not stored.
    Missing,
}

/// The number of kinds.
pub const KINDS: usize = 7;

impl BlockKind {
    /// All kinds, in the order of [`Column::blocks`].
    pub const ALL: [Self; KINDS] = [
        Self::Scripts,
        Self::Assumed,
        Self::Proved,
        Self::Earlier,
        Self::Read,
        Self::Stored,
        Self::Missing,
    ];
}

/// The picture of the chain: what is known of its blocks, in columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chain {
    /// Columns of equally many blocks.
    pub by_height: Vec<Column>,
    /// Columns of equally long times.
    pub by_time: Vec<Column>,
    /// The times in the first and in the last header.
    pub times: (i64, i64),
    /// Height of the last column's end.
    pub height: u32,
}

impl Chain {
    /// Returns the number of blocks of each kind, in the order of [`BlockKind::ALL`].
    pub fn totals(&self) -> [u64; KINDS] {
        let mut totals = [0; KINDS];
        for column in &self.by_height {
            for (total, blocks) in totals.iter_mut().zip(column.blocks) {
                *total += u64::from(blocks);
            }
        }
        totals
    }
}

/// One column of the picture: neighbouring blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Column {
    /// The number of blocks of each kind, in the order of [`BlockKind::ALL`].
    pub blocks: [u32; KINDS],
    /// Bytes of all its blocks, as stored or as estimated; 0 if unknown.
    pub bytes: u64,
}

/// Space on the disk that holds the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    /// Bytes of blocks, undo data and chainstate.
    pub used: u64,
    /// Bytes of temporary files.
    pub temporary: u64,
    /// Bytes that are free; `None` if unknown.
    pub free: Option<u64>,
}

/// Memory of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// Of these, bytes of mapped files, which the kernel drops when memory is short.
    pub mapped: u64,
}

/// The coins cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cache {
    /// Number of coins.
    pub coins: u64,
    /// Bytes in use; 0 if unknown.
    pub bytes: u64,
    /// The most bytes that it may use; 0 if unknown.
    pub limit: u64,
}

/// The UTXO set in figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coins {
    /// Number of unspent outputs.
    pub count: u64,
    /// Number of transactions of the chain; `None` if unknown.
    pub transactions: Option<u64>,
}
