//! The source of answers: the view of a directory, and the state of the run beside it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use apus_chain::BlockId;
use apus_hash::Hash;
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::view::{Committed, View};
use apus_wire::{Chain, Network};
use rayon::ThreadPool;
use serde_json::Value;

use super::error::{RPC_IN_WARMUP, RPC_INVALID_ADDRESS_OR_KEY, RpcError, internal};
use super::indexes::Indexes;
use super::scan_state::Scan;
use super::waiting::Waiting;

/// Work on a directory at rest that opens it again. The caller brings it, since it needs the
/// methods of syncing, which this crate does not know.
pub struct AtRest {
    /// Checks the last blocks at a level (`apus verify`), until it is to stop.
    pub verify: Box<VerifyBlocks>,
    /// Makes a snapshot file of the UTXO set at a height (`apus snapshot create`).
    pub create_snapshot: Box<CreateSnapshot>,
}

/// Checks this number of blocks at this level, and returns whether it has checked all and found
/// nothing damaged.
pub type VerifyBlocks = dyn Fn(u32, u8, &AtomicBool) -> Result<bool, SyncError> + Send + Sync;

/// Makes the file of the UTXO set at this height.
pub type CreateSnapshot = dyn Fn(u32, &Path, &AtomicBool) -> Result<(), SyncError> + Send + Sync;

/// The source of answers.
pub struct Source {
    /// The view of the directory.
    pub(super) view: Arc<View>,
    pub(super) network: Network,
    /// Work that is possible on a directory at rest; `None` while a sync writes it.
    pub(super) at_rest: Option<AtRest>,
    /// The network's own directory.
    pub(super) directory: PathBuf,
    /// Core's optional indexes of the directory.
    pub(super) indexes: Indexes,
    /// The scan of blocks that runs, if one does.
    pub(super) block_scan: Scan,
    /// The scan of the UTXO set that runs, if one does.
    pub(super) coin_scan: Scan,
    /// The most bytes of the coins cache (`-dbcache`).
    pub(super) cache_bytes: usize,
    progress: Box<dyn Fn() -> Option<f64> + Send + Sync>,
    threads: usize,
    pool: OnceLock<ThreadPool>,
}

impl Source {
    /// Returns the source of answers about the directory of `options`, which `view` shows while a
    /// sync runs. `progress` returns the share of the sync that is done, if that is known.
    pub fn of_sync(
        view: Arc<View>,
        options: &Options,
        progress: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            view,
            network: options.network.clone(),
            at_rest: None,
            // On mainnet, whose directory has no name of its own, without a slash at the end.
            directory: options.network_dir().components().collect(),
            indexes: Indexes::of_sync(options),
            block_scan: Scan::default(),
            coin_scan: Scan::default(),
            cache_bytes: options.dbcache_bytes,
            progress: Box::new(progress),
            // The cores are the sync's.
            threads: 1,
            pool: OnceLock::new(),
        }
    }

    /// Returns the source of answers about the directory of `options`, which no program writes to
    /// and which `view` shows.
    pub fn at_rest(view: Arc<View>, options: &Options, at_rest: AtRest) -> Self {
        Self {
            at_rest: Some(at_rest),
            indexes: Indexes::at_rest(options),
            threads: options.threads,
            ..Self::of_sync(view, options, || None)
        }
    }

    /// Returns the result of `look` for what was last committed.
    ///
    /// # Errors
    /// The directory is not open yet.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Committed) -> T) -> Result<T, RpcError> {
        let looked = self.view.look(look);
        looked.ok_or_else(|| RpcError::new(RPC_IN_WARMUP, "Loading block index…"))
    }

    /// Like [`Source::look`], for a `look` that may fail.
    ///
    /// # Errors
    /// That of `look`, or the directory is not open yet.
    pub(super) fn try_look<T>(
        &self,
        look: impl FnOnce(&Committed) -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        self.look(look)?
    }

    /// Returns the share of the running sync that is done, if there is one and that is known.
    pub(super) fn progress(&self) -> Option<f64> {
        (self.progress)()
    }

    /// Returns the threads for loops over all coins: one while a sync runs.
    ///
    /// # Errors
    /// They cannot be started.
    pub(super) fn pool(&self) -> Result<&ThreadPool, RpcError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let pool = threads::pool(self.threads).map_err(internal)?;
        Ok(self.pool.get_or_init(|| pool))
    }

    pub(super) fn chain(&self) -> Chain {
        self.network.chain
    }
}

/// A call of a method.
pub struct Call<'a> {
    /// The source of the answer.
    pub source: &'a Source,
    /// The parameters by position, which are of the method's types.
    pub params: &'a [Value],
    /// Raised when the client has left, or the program is about to stop.
    pub stop: &'a AtomicBool,
    /// Since when the call is made, and whether it is to be made again.
    pub waiting: &'a Waiting,
}

impl Call<'_> {
    /// Returns the parameter at a position; null if it was left out.
    pub fn param(&self, index: usize) -> &Value {
        self.params.get(index).unwrap_or(&Value::Null)
    }

    /// Ends the call once the client has left, or the program is about to stop.
    ///
    /// # Errors
    /// The call is to end.
    pub(super) fn check_stop(&self) -> Result<(), RpcError> {
        if self.stop.load(Relaxed) { Err(RpcError::stopped()) } else { Ok(()) }
    }
}

/// Returns the block with a hash.
///
/// # Errors
/// Its header is not known.
pub(super) fn find(committed: &Committed, hash: &Hash) -> Result<BlockId, RpcError> {
    let found = committed.tree.find(hash);
    found.ok_or_else(|| RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, "Block not found"))
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
