//! The blocks of a range of heights. Later blocks of the range take the coins from them that they
//! create: peers are not asked for these (draft BIP 455).

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use apus_coins::Coin;
use apus_consensus::CheckedBlock;
use apus_disk::lock;
use apus_hash::Hash;
use apus_node::block_peers::coins_cutoff;
use apus_node::fault::Fault;
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_wire::{OutPoint, is_unspendable};
use hashbrown::HashMap;

use super::context::Context;

/// Consecutive blocks from the first height of a range on, which workers share. Their number bounds
/// the memory.
#[derive(Default)]
pub(super) struct RangeBlocks(Mutex<Blocks>);

#[derive(Default)]
struct Blocks {
    first_height: u32,
    blocks: Vec<CheckedBlock<BlockBytes>>,
    /// By txid, the position of the block in `blocks`, and that of the transaction in the block.
    txs: HashMap<Hash, (u32, u32)>,
}

impl RangeBlocks {
    /// Gets all blocks of the range below `height`. Those that are not here were done in an earlier
    /// run, and are read again.
    pub fn reach(&self, context: &Context, height: u32, halt: &AtomicBool) -> Result<(), Fault> {
        let mut this = lock(&self.0);
        if this.blocks.is_empty() {
            this.first_height = coins_cutoff(height);
        }
        while this.next_height() < height {
            // The steps of such a plan are in order of height, from 1 on.
            let step = context.plan.steps[this.next_height() as usize - 1];
            if step.place == BlockOrigin::Peers {
                return Err(Fault::Gone(step));
            }
            this.add(context.shared.checked(step, halt)?);
        }
        Ok(())
    }

    /// Adds the block at `height`, unless it is here. Those below it are.
    pub fn add(&self, height: u32, block: &CheckedBlock<BlockBytes>) {
        let mut this = lock(&self.0);
        if this.next_height() == height {
            this.add(block.clone());
        }
    }

    /// Returns the coin that a block of the range below `height` creates; `None` if none does.
    pub fn coin(&self, outpoint: &OutPoint, height: u32) -> Option<Coin> {
        let coin = lock(&self.0).coin(outpoint)?;
        (coin.height < height).then_some(coin)
    }
}

impl Blocks {
    fn next_height(&self) -> u32 {
        self.first_height + self.blocks.len() as u32
    }

    /// Adds the next block of the range.
    fn add(&mut self, block: CheckedBlock<BlockBytes>) {
        let number = self.blocks.len() as u32;
        for (tx, txid) in (0..).zip(block.txids()) {
            self.txs.entry(*txid).or_insert((number, tx));
        }
        self.blocks.push(block);
    }

    fn coin(&self, outpoint: &OutPoint) -> Option<Coin> {
        let (number, tx) = *self.txs.get(&outpoint.txid)?;
        let tx_view = self.blocks[number as usize].view().tx(tx as usize);
        if outpoint.vout as usize >= tx_view.output_count() {
            return None;
        }
        let output = tx_view.output(outpoint.vout as usize);
        let coin = || {
            let amount = output.value().unsigned_abs();
            Coin::new(amount, output.script(), self.first_height + number, tx == 0)
        };
        (!is_unspendable(output.script())).then(coin)
    }
}
