//! A synced directory that stays open for reading: single blocks, spent coins and coins. It is
//! locked as by an export, and never changed.

use apus_coins::{Coin, Heights};
use apus_disk::Disk;
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::{remedy, snapshot_chainstate};
use apus_progress::Observer;
use apus_wire::OutPoint;
use rayon::ThreadPool;

use apus_claims::stored::StoredChain;

/// A synced directory that is open for reading. Other programs may read it at the same time, and
/// none may write to it.
pub struct ChainReader {
    /// The options that the directory was opened with.
    pub options: Options,
    pub chain: StoredChain,
}

impl ChainReader {
    /// Opens and locks the directory that `options` name.
    ///
    /// # Errors
    /// The directory is missing, another program has it open for writing, its chainstate is empty,
    /// or a file in it is damaged.
    pub fn open(options: &Options, observer: &dyn Observer) -> Result<Self, SyncError> {
        remedy::naming(options, || {
            let pool = threads::pool(options.threads)?;
            let chain = open_chain(options, &pool, observer)?;
            Ok(Self { options: options.clone(), chain })
        })
    }

    /// Reads the block at `height` into `bytes`, and checks its hash and merkle root.
    ///
    /// # Errors
    /// There is no such block, it is not stored, or the file cannot be read or is damaged.
    pub fn block(&self, height: u32, bytes: &mut Vec<u8>) -> Result<(), SyncError> {
        self.naming(|| {
            self.check_stored(height)?;
            self.chain.read(height, bytes)?;
            Ok(())
        })
    }

    /// Returns the coins that the block at `height` spends, those of each transaction but the
    /// coinbase in a list of their own.
    ///
    /// # Errors
    /// As [`ChainReader::block`], or the undo data is not stored, is damaged, or lacks heights of
    /// coins.
    pub fn spent(&self, height: u32) -> Result<Vec<Vec<Coin>>, SyncError> {
        self.naming(|| {
            self.check_stored(height)?;
            let mut block = Vec::new();
            let mut undo = Vec::new();
            let view = self.chain.read(height, &mut block)?.view;
            let mut coins =
                self.chain.spent(height, &view, Heights::Needed, &mut undo)?.into_iter();
            let spending = view.txs().skip(1);
            Ok(spending.map(|tx| coins.by_ref().take(tx.input_count()).collect()).collect())
        })
    }

    /// Returns a coin of the UTXO set; `None` if it is spent, or was never created.
    ///
    /// # Errors
    /// A table cannot be read or is damaged.
    pub fn coin(&self, outpoint: &OutPoint) -> Result<Option<Coin>, SyncError> {
        self.naming(|| Ok(self.chain.chainstate.get(outpoint)?))
    }

    fn naming<T>(&self, work: impl FnOnce() -> Result<T, SyncError>) -> Result<T, SyncError> {
        remedy::naming(&self.options, work)
    }

    fn check_stored(&self, height: u32) -> Result<(), SyncError> {
        let tip = self.chain.height();
        match self.chain.blocks.get(height as usize) {
            None => Err(SyncError::Input(format!(
                "there is no block {height}: the chainstate is at height {tip}"
            ))),
            Some(block) if block.pos.is_none() => Err(SyncError::Input(format!(
                "block {height} is not stored here, since its file was pruned: use a directory \
                 that holds it"
            ))),
            Some(_) => Ok(()),
        }
    }
}

/// Opens the chain of a directory. Tells the observer if the directory has a second UTXO set.
pub(crate) fn open_chain(
    options: &Options,
    pool: &ThreadPool,
    observer: &dyn Observer,
) -> Result<StoredChain, SyncError> {
    let chain = StoredChain::open(options, pool)?;
    snapshot_chainstate::announce(&Disk::new(), &options.network_dir(), observer)?;
    Ok(chain)
}
