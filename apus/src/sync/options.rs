//! The options of a sync.

use std::path::PathBuf;
use std::time::Duration;

use crate::hash::Hash;
use crate::wire::Network;

/// Bytes of coins that Core caches by default (`-dbcache`).
const DBCACHE_DEFAULT_BYTES: usize = 450 << 20;

/// The default for [`Options::save_every`]. A save takes a second or two, to write what is held in
/// memory, which is little in two minutes. A sync in order has `COMMIT_EVERY` in `commit.rs`.
const SAVE_EVERY: Duration = Duration::from_secs(2 * 60);

/// The default for [`Options::join_depth`]: a day of blocks. No reorganisation of mainnet was as
/// deep, and these connect in order within seconds.
const JOIN_DEPTH: u32 = 144;

/// The data directory to sync, and how to do it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory's root, as `bitcoind -datadir` takes it.
    pub datadir: PathBuf,
    /// The directory whose `blocks` holds blk and rev files, if not the data directory (Core's
    /// `-blocksdir`). It must exist. The block index stays in the data directory.
    pub blocks_dir: Option<PathBuf>,
    /// The network.
    pub network: Network,
    /// The block up to which scripts are taken as valid.
    pub assumevalid: AssumeValid,
    /// Bytes of memory for cached coins: entries, table and scripts.
    pub dbcache_bytes: usize,
    /// Number of worker threads.
    pub threads: usize,
    /// Height above which no block is connected.
    pub stop_at_height: Option<u32>,
    /// A hints file, with which SwiftSync goes up to its height.
    pub hints: Option<PathBuf>,
    /// The sums that prove the hints.
    pub aggregate: AggregateKind,
    /// Time from one save of SwiftSync's progress to the next, and so about the most work that is
    /// done again after a crash. A sync in order commits at least every five minutes.
    pub save_every: Duration,
    /// Whether a rebuilt UTXO set may replace one of a greater height.
    pub allow_shrink: bool,
    /// The way in which blocks are synced.
    pub method: Method,
    /// The directory for the temporary files of the join, if not the network's own.
    pub spill_dir: Option<PathBuf>,
    /// How many blocks below the best header the join ends, so that reorganisations above it are
    /// connected in order.
    pub join_depth: u32,
}

/// The way in which blocks are synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// SwiftSync if there are hints; else the join or in order, whichever is faster.
    #[default]
    Auto,
    /// In order of height: each spend is looked up in the UTXO set.
    InOrder,
    /// Every output and every spend goes to a partition by its txid, and they meet there.
    Join,
    /// Hints say which outputs are unspent, and two sums prove all others spent.
    SwiftSync,
}

impl Options {
    /// Core's defaults, with a thread for each core.
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
            method: Method::default(),
            spill_dir: None,
            join_depth: JOIN_DEPTH,
        }
    }

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
    /// The block that is built into Core v31, and its ancestors.
    BuiltIn,
    /// No block: every script is checked.
    Nothing,
    /// This block and its ancestors.
    Block(Hash),
}

/// The sums that SwiftSync compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    /// Sums of salted SHA-256, modulo 2^256.
    Sha256,
    /// MuHash3072, which IBD Booster used first.
    MuHash,
}
