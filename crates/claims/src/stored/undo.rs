//! Finds the coins of blocks up to a height that the blocks above it have spent.

use apus_coins::{Coin, Heights, for_each_spending_tx};
use apus_disk::Share;
use apus_node::error::SyncError;
use apus_node::workers::for_each_on_pool;
use apus_progress::{Phase, Progress, Watch};
use apus_wire::OutPoint;
use rayon::ThreadPool;

use super::chain::{ReadBlock, StoredChain};

/// A search for the coins that were unspent at a height and are spent at the tip.
pub struct UndoSearch<'a> {
    /// The chain whose undo data is read.
    pub chain: &'a StoredChain,
    /// The height at which the coins were unspent.
    pub height: u32,
    /// The threads that read blocks and undo data.
    pub pool: &'a ThreadPool,
    /// Receives the progress, and stops the search.
    pub watch: Watch<'a>,
}

/// The findings of one thread, and its buffers.
struct Reader<S> {
    found: S,
    block: Vec<u8>,
    undo: Vec<u8>,
}

impl UndoSearch<'_> {
    /// Calls `each` with every coin of a block up to the height that a block above it has spent, in
    /// any order. Each thread has its own state, which `new` makes. Returns all these states.
    ///
    /// # Errors
    /// A block or its undo data is not stored, or is damaged; `each` fails; or somebody asks to
    /// stop.
    pub fn for_each_spent<S: Send>(
        &self,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &OutPoint, &Coin) -> Result<(), SyncError> + Sync,
    ) -> Result<Vec<S>, SyncError> {
        let chain = self.chain;
        let height = self.chain.height();
        let above = chain.in_file_order(self.height + 1..height + 1)?;
        let spending =
            above.into_iter().filter(|height| chain.blocks[*height as usize].tx_count > 1);
        let report =
            Progress { height, ..Progress::of(Phase::ReadingUndo) }.share_to(self.watch.observer);
        let share = Share::new(spending.clone().count() as u64, &report);
        let new = || Reader { found: new(), block: Vec::new(), undo: Vec::new() };
        let read = |reader: &mut Reader<S>, height| {
            self.read(reader, height, &each)?;
            share.add(1);
            Ok(())
        };
        let readers = for_each_on_pool(self.pool, spending, self.watch.stop, new, read)?;
        Ok(readers.into_iter().map(|reader| reader.found).collect())
    }

    /// Calls `each` with the coins of blocks up to the height that the block at `height` has spent.
    fn read<S>(
        &self,
        reader: &mut Reader<S>,
        height: u32,
        each: &impl Fn(&mut S, &OutPoint, &Coin) -> Result<(), SyncError>,
    ) -> Result<(), SyncError> {
        let chain = self.chain;
        let Reader { found, block, undo } = reader;
        let ReadBlock { view, .. } = chain.read(height, block)?;
        let pos = chain.read_undo(height, &view.header().prev, undo)?;
        let mut result = Ok(());
        let read = for_each_spending_tx(undo, &view, Heights::Needed, |tx, coins| {
            for (input, coin) in tx.inputs().zip(coins.iter()) {
                if coin.height <= self.height && result.is_ok() {
                    result = each(found, &input.outpoint(), coin);
                }
            }
        });
        read.map_err(|error| chain.files.undo_error(pos, error))?;
        result
    }
}
