use std::path::PathBuf;
use std::time::Duration;

use crate::hash::Hash;
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
