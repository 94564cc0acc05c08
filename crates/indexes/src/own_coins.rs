//! The coins that a block both creates and spends: they do not change the set of coins, and need
//! not be hashed.

use std::collections::HashMap;

use super::block::Block;

/// The coins that a block both creates and spends.
#[derive(Default)]
pub struct OwnCoins {
    /// Whether each output of the block is one of them; empty if none is.
    outputs: Vec<bool>,
    /// The same for each coin that the block spends.
    spent: Vec<bool>,
}

impl OwnCoins {
    /// Returns those of a block that was read with its txids and the coins that it spends.
    pub fn of(block: &Block) -> Self {
        let height = block.stored.height;
        if block.spent.iter().all(|coin| coin.height != height) {
            return Self::default();
        }
        let mut outputs_of = HashMap::with_capacity(block.txids.len());
        let mut outputs = 0;
        for (tx, txid) in block.view.txs().zip(&block.txids) {
            outputs_of.insert(txid, outputs..outputs + tx.output_count());
            outputs += tx.output_count();
        }
        let mut own = Self { outputs: vec![false; outputs], spent: vec![false; block.spent.len()] };
        let inputs = block.view.txs().skip(1).flat_map(|tx| tx.inputs());
        for ((coin, input), is_own) in block.spent.iter().zip(inputs).zip(&mut own.spent) {
            if coin.height != height {
                continue;
            }
            let outpoint = input.outpoint();
            let Some(mut outputs) = outputs_of.get(&outpoint.txid).cloned() else { continue };
            let Some(output) = outputs.nth(outpoint.vout as usize) else { continue };
            *is_own = !std::mem::replace(&mut own.outputs[output], true);
        }
        own
    }

    /// Returns whether an output of the block, counted over all transactions, is one of them.
    pub fn has_output(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|is_own| *is_own)
    }

    /// Returns whether a coin that the block spends, counted over all transactions, is one of them.
    pub fn has_spent(&self, index: usize) -> bool {
        self.spent.get(index).is_some_and(|is_own| *is_own)
    }
}
