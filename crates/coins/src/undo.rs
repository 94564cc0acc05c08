use apus_wire::{BlockView, Cursor, ParseError, TxView};

use super::coin::Coin;

/// A reader of a block's undo data (Core's `CBlockUndo`): for each transaction but the coinbase, in
/// order, the coins that its inputs spent.
///
/// The counts in the data must match the block; none of them determines an allocation.
pub struct BlockUndo<'a> {
    cursor: Cursor<'a>,
    txs_left: usize,
}

impl<'a> BlockUndo<'a> {
    /// Starts to read the undo data of a block with `tx_count` transactions, coinbase included.
    ///
    /// # Errors
    /// The data is for a different number of transactions.
    pub fn new(undo: &'a [u8], tx_count: usize) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(undo);
        let txs_left = cursor.compact_size()?;
        match txs_left.checked_add(1) == Some(tx_count) {
            true => Ok(Self { cursor, txs_left }),
            false => Err(cursor.error("the number of transactions does not match the block")),
        }
    }

    /// Passes the coins of the next transaction, one for each of its `inputs`, to `each`.
    ///
    /// # Errors
    /// The data is for a different number of inputs, has no more transactions, or has a coin that
    /// cannot be parsed.
    pub fn next_tx(&mut self, inputs: usize, mut each: impl FnMut(Coin)) -> Result<(), ParseError> {
        let left = self.txs_left.checked_sub(1);
        self.txs_left = left.ok_or_else(|| self.cursor.error("there are no more transactions"))?;
        if self.cursor.compact_size()? != inputs {
            return Err(self.cursor.error("the number of inputs does not match the transaction"));
        }
        for _ in 0..inputs {
            each(Coin::decode_undo(&mut self.cursor)?);
        }
        Ok(())
    }

    /// Ends reading after the last transaction.
    ///
    /// # Errors
    /// Transactions or bytes are left over.
    pub fn finish(self) -> Result<(), ParseError> {
        match (self.txs_left, self.cursor.remaining()) {
            (0, 0) => Ok(()),
            (0, _) => Err(self.cursor.error("bytes follow after the last transaction")),
            (..) => Err(self.cursor.error("there are more transactions than in the block")),
        }
    }
}

/// Passes each transaction of `block` but the coinbase, in order, to `each`, with the coins that it
/// spends in input order.
///
/// # Errors
/// `undo` cannot be parsed, or does not belong to the block. `each` may already have been called.
pub fn for_each_spending_tx<B: AsRef<[u8]>>(
    undo: &[u8],
    block: &BlockView<B>,
    mut each: impl FnMut(&TxView, &mut Vec<Coin>),
) -> Result<(), ParseError> {
    let mut undo = BlockUndo::new(undo, block.tx_count())?;
    let mut coins = Vec::new();
    for tx in block.txs().skip(1) {
        coins.clear();
        undo.next_tx(tx.input_count(), |coin| coins.push(coin))?;
        each(&tx, &mut coins);
    }
    undo.finish()
}
