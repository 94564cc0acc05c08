use std::collections::HashMap;
use std::collections::hash_map::Entry;

use apus_disk::StoreError;
use apus_hash::Hash;
use apus_wire::{BlockView, Cursor, OutPoint, ParseError, TxView};

use super::cache::CoinsCache;
use super::chainstate::Chainstate;
use super::coin::{Coin, OUTPUTS_MAX};
use super::lookup::Lookup;

/// Whether a reader of undo data needs height and coinbase flag of each coin.
///
/// Bitcoin Core before 0.15 wrote them for the last output of a transaction to be spent, and for
/// the others 0, which is the height of no coin: genesis creates none. It never wrote such undo
/// data again, so directories that have been kept since 2017 still hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heights {
    /// A coin without its height is an error, [`UndoError::LacksHeight`].
    Needed,
    /// Coins may have height 0, which then stands for an unknown height and coinbase flag.
    Optional,
}

/// Why undo data cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UndoError {
    /// It cannot be parsed, or does not belong to the block.
    #[error("undo data: {0}")]
    Unfit(#[from] ParseError),
    /// Its coin with this outpoint cannot be what the block has spent.
    #[error(
        "undo data: the coin {0} differs from the one that the block created, or is not from an \
         earlier block"
    )]
    WrongCoin(OutPoint),
    /// It lacks the height of this coin ([`Heights`]).
    #[error(
        "undo data: the height of the coin {0} is missing, as Bitcoin Core before 0.15 wrote only \
         some; `apus reindex --index` writes it again"
    )]
    LacksHeight(OutPoint),
}

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
        if txs_left.checked_add(1) == Some(tx_count) {
            Ok(Self { cursor, txs_left })
        } else {
            Err(cursor.error("the number of transactions does not match the block"))
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
/// `undo` cannot be parsed, does not belong to the block, or lacks heights that are needed. `each`
/// may already have been called.
pub fn for_each_spending_tx<B: AsRef<[u8]>>(
    undo: &[u8],
    block: &BlockView<B>,
    heights: Heights,
    mut each: impl FnMut(&TxView, &mut Vec<Coin>),
) -> Result<(), UndoError> {
    let mut undo = BlockUndo::new(undo, block.tx_count())?;
    let mut coins = Vec::new();
    for tx in block.txs().skip(1) {
        coins.clear();
        undo.next_tx(tx.input_count(), |coin| coins.push(coin))?;
        let mut without = tx.inputs().zip(&coins).filter(|(_, coin)| coin.height == 0);
        if heights == Heights::Needed
            && let Some((input, _)) = without.next()
        {
            return Err(UndoError::LacksHeight(input.outpoint()));
        }
        each(&tx, &mut coins);
    }
    Ok(undo.finish()?)
}

/// Gives coins that a block spends and that lack their height ([`Heights`]) height and coinbase
/// flag of another output of the same transaction, which the block spends too or which is unspent
/// (Core's `AccessByTxid`). Returns a coin for which there is none.
///
/// # Errors
/// A table cannot be read or is damaged.
pub fn complete_heights(
    spent: &mut [(OutPoint, Coin)],
    cache: &CoinsCache,
    chainstate: &Chainstate,
) -> Result<Option<OutPoint>, StoreError> {
    if spent.iter().all(|(_, coin)| coin.height > 0) {
        return Ok(None);
    }
    let with_height = spent.iter().filter(|(_, coin)| coin.height > 0);
    let mut known: HashMap<Hash, (u32, bool)> = with_height
        .map(|(outpoint, coin)| (outpoint.txid, (coin.height, coin.is_coinbase)))
        .collect();
    for (outpoint, coin) in spent.iter_mut().filter(|(_, coin)| coin.height == 0) {
        (coin.height, coin.is_coinbase) = match known.entry(outpoint.txid) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => match unspent_output(&outpoint.txid, cache, chainstate)? {
                Some(other) => *unknown.insert((other.height, other.is_coinbase)),
                None => return Ok(Some(*outpoint)),
            },
        };
    }
    Ok(None)
}

/// Returns an unspent output of a transaction. The cache holds what differs from the tables.
fn unspent_output(
    txid: &Hash,
    cache: &CoinsCache,
    chainstate: &Chainstate,
) -> Result<Option<Coin>, StoreError> {
    let mut stored = chainstate.scan_txids(txid, txid);
    while let Some((outpoint, coin)) = stored.next_coin()? {
        match cache.peek(&outpoint) {
            Lookup::Unknown => return Ok(Some(coin)),
            Lookup::Hit(cached) => return Ok(Some(cached)),
            Lookup::Spent => {}
        }
    }
    let cached = |vout| match cache.peek(&OutPoint { txid: *txid, vout }) {
        Lookup::Hit(coin) => Some(coin),
        Lookup::Spent | Lookup::Unknown => None,
    };
    Ok((0..OUTPUTS_MAX).find_map(cached))
}
