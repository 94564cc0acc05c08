//! The coins of one block: coins of earlier blocks that it spends, and coins that it leaves to
//! later blocks.
//!
//! Outputs that are spent in their own block (about a tenth) are matched here, and never reach the
//! UTXO set.

use apus_coins::Coin;
use apus_consensus::CheckedBlock;
use apus_hash::Hash;
use apus_wire::{OutPoint, is_unspendable};
use hashbrown::HashMap;

use crate::sources::BlockBytes;

/// A block that has passed all rules that need no coins, with the coins that it spends and creates.
pub struct Prepared {
    /// The checked block.
    pub block: CheckedBlock<BlockBytes>,
    /// The height of the block.
    pub height: u32,
    /// Where the coin of each input comes from, in order, without the coinbase's input.
    pub sources: Vec<CoinSource>,
    /// The outpoints that the block spends but does not create, in the order of its inputs.
    pub external: Vec<OutPoint>,
    /// The coins that the block creates and does not spend itself, those of the coinbase first.
    pub created: Vec<(OutPoint, Coin)>,
    /// The number of coins in `created` that the coinbase creates.
    pub created_by_coinbase: usize,
    /// The first input that spends an output of its own block that is not there: it never existed,
    /// is spent already, or comes later in the block.
    pub missing_inside: Option<MissingCoin>,
}

/// An input without a coin to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingCoin {
    /// The position in the block of the transaction with this input.
    pub tx: usize,
    /// The outpoint that the input spends.
    pub outpoint: OutPoint,
}

/// Where the coin that an input spends comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinSource {
    /// The UTXO set: index in [`Prepared::external`].
    External(u32),
    /// An output of an earlier transaction of the same block.
    Inside {
        /// The index of the transaction in the block.
        tx: u32,
        /// The index of the output in the transaction.
        vout: u32,
    },
}

impl Prepared {
    /// Lays out the coins of a checked block.
    pub fn new(block: CheckedBlock<BlockBytes>, height: u32) -> Self {
        let view = block.view();
        let inputs = view.input_count().saturating_sub(1);
        let mut outputs = Outputs::of(&block);
        let mut sources = Vec::with_capacity(inputs);
        let mut external = Vec::with_capacity(inputs);
        let mut missing_inside = None;
        for (index, tx) in view.txs().enumerate().skip(1) {
            for input in tx.inputs() {
                let outpoint = input.outpoint();
                match outputs.spend(&outpoint, index) {
                    SpentInside::Elsewhere => {
                        sources.push(CoinSource::External(external.len() as u32));
                        external.push(outpoint);
                    }
                    SpentInside::Here(tx) => {
                        sources.push(CoinSource::Inside { tx, vout: outpoint.vout });
                    }
                    SpentInside::Missing => {
                        missing_inside.get_or_insert(MissingCoin { tx: index, outpoint });
                        sources.push(CoinSource::External(u32::MAX));
                    }
                }
            }
        }
        let (created, created_by_coinbase) = outputs.left(&block, height);
        Self { height, sources, external, created, created_by_coinbase, missing_inside, block }
    }

    /// Returns a block whose inputs are known to have coins, from these `sources`. `external` and
    /// `created` are left empty, since they are not needed.
    pub fn of_sources(
        block: CheckedBlock<BlockBytes>,
        height: u32,
        sources: Vec<CoinSource>,
    ) -> Self {
        let external = Vec::new();
        let created = Vec::new();
        let created_by_coinbase = 0;
        let missing_inside = None;
        Self { block, height, sources, external, created, created_by_coinbase, missing_inside }
    }

    /// Returns the number of coins that the block takes from the UTXO set and adds to it.
    pub fn coins(&self) -> usize {
        self.external.len() + self.created.len()
    }

    /// Returns the coin of output `vout` of the block's own transaction `tx`.
    pub fn coin_inside(&self, tx: u32, vout: u32) -> Coin {
        let output = self.block.view().tx(tx as usize).output(vout as usize);
        Coin::new(output.value().unsigned_abs(), output.script(), self.height, tx == 0)
    }

    /// Returns the first input without a coin, if only the first `found` of [`Prepared::external`]
    /// have one.
    pub fn first_missing(&self, found: usize) -> Option<MissingCoin> {
        let outside = self
            .external
            .get(found)
            .map(|outpoint| MissingCoin { tx: self.tx_of_external(found), outpoint: *outpoint });
        outside.into_iter().chain(self.missing_inside).min_by_key(|missing| missing.tx)
    }

    /// Returns the position of the transaction that spends the outpoint at `index` of
    /// [`Prepared::external`].
    fn tx_of_external(&self, index: usize) -> usize {
        let wanted = CoinSource::External(index as u32);
        let mut sources = self.sources.iter();
        let txs = self.block.view().txs().enumerate().skip(1);
        txs.map(|(tx, view)| (tx, view.input_count()))
            .find(|(_, inputs)| sources.by_ref().take(*inputs).any(|source| *source == wanted))
            .map(|(tx, _)| tx)
            .expect("every external outpoint is an input's")
    }
}

/// The outputs of a block while its inputs are visited in order.
struct Outputs {
    tx_by_txid: HashMap<Hash, u32>,
    /// Index of each transaction's first output among all outputs of the block.
    first: Vec<u32>,
    /// For each output, whether it is spent or unspendable.
    gone: Vec<bool>,
}

/// The result of looking an input up among the outputs of its own block.
enum SpentInside {
    /// The outpoint is of a transaction outside this block.
    Elsewhere,
    /// An output of the transaction at this position, which is now spent.
    Here(u32),
    /// The outpoint is of a transaction of this block, but there is no such output to spend.
    Missing,
}

impl Outputs {
    fn of(block: &CheckedBlock<BlockBytes>) -> Self {
        let view = block.view();
        let mut tx_by_txid = HashMap::with_capacity(view.tx_count());
        let mut first = Vec::with_capacity(view.tx_count() + 1);
        let mut gone = Vec::with_capacity(view.output_count());
        for (index, (tx, txid)) in view.txs().zip(block.txids()).enumerate() {
            tx_by_txid.entry(*txid).or_insert(index as u32);
            first.push(gone.len() as u32);
            gone.extend(tx.outputs().map(|output| is_unspendable(output.script())));
        }
        first.push(gone.len() as u32);
        Self { tx_by_txid, first, gone }
    }

    /// Spends an output for the transaction at position `spender`.
    fn spend(&mut self, outpoint: &OutPoint, spender: usize) -> SpentInside {
        let Some(&tx) = self.tx_by_txid.get(&outpoint.txid) else { return SpentInside::Elsewhere };
        let first = self.first[tx as usize];
        let end = self.first[tx as usize + 1];
        let index = u64::from(first) + u64::from(outpoint.vout);
        if tx as usize >= spender || index >= u64::from(end) || self.gone[index as usize] {
            return SpentInside::Missing;
        }
        self.gone[index as usize] = true;
        SpentInside::Here(tx)
    }

    /// Returns the coins left after all inputs, and how many of them the coinbase creates.
    fn left(
        &self,
        block: &CheckedBlock<BlockBytes>,
        height: u32,
    ) -> (Vec<(OutPoint, Coin)>, usize) {
        let mut created = Vec::with_capacity(self.gone.len());
        let mut by_coinbase = 0;
        for (index, (tx, txid)) in block.view().txs().zip(block.txids()).enumerate() {
            for (vout, output) in tx.outputs().enumerate() {
                if self.gone[self.first[index] as usize + vout] {
                    continue;
                }
                let outpoint = OutPoint { txid: *txid, vout: vout as u32 };
                let amount = output.value().unsigned_abs();
                created.push((outpoint, Coin::new(amount, output.script(), height, index == 0)));
            }
            if index == 0 {
                by_coinbase = created.len();
            }
        }
        (created, by_coinbase)
    }
}
