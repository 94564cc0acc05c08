//! The first half of a worker's job: from a block's bytes to a checked block that says which
//! coins it needs from outside and which it leaves behind.
//!
//! Outputs that are spent inside their own block (about a tenth) never reach the cache: they are
//! found here, off the thread that connects.

use hashbrown::HashMap;

use crate::coins::Coin;
use crate::hash::Hash;
use crate::rules::CheckedBlock;
use crate::sync::sources::BlockBytes;
use crate::wire::{OutPoint, is_unspendable};

/// A block whose rules without coins all passed, with its dealings in coins laid out.
pub(crate) struct Prepared {
    pub block: CheckedBlock<BlockBytes>,
    pub height: u32,
    /// For every input but the coinbase's, in order, where its coin comes from.
    pub sources: Vec<CoinSource>,
    /// The outpoints that the block spends and did not create, in order of inputs.
    pub external: Vec<OutPoint>,
    /// The coins that it leaves behind, the coinbase's first.
    pub created: Vec<(OutPoint, Coin)>,
    /// How many of `created` are the coinbase's.
    pub created_by_coinbase: usize,
    /// The first input that spends what its own block does not offer (any more): the index of its
    /// transaction, and the outpoint.
    pub fault: Option<(usize, OutPoint)>,
}

/// Where the coin that an input spends comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoinSource {
    /// The UTXO set: index in [`Prepared::external`].
    External(u32),
    /// The output `vout` of an earlier transaction of the same block.
    Inside { tx: u32, vout: u32 },
}

impl Prepared {
    /// Lays out the coins of a checked block.
    pub fn new(block: CheckedBlock<BlockBytes>, height: u32) -> Self {
        let view = block.view();
        let inputs = view.input_count().saturating_sub(1);
        let mut outputs = Outputs::of(&block);
        let mut sources = Vec::with_capacity(inputs);
        let mut external = Vec::with_capacity(inputs);
        let mut fault = None;
        for (index, tx) in view.txs().enumerate().skip(1) {
            for input in tx.inputs() {
                let outpoint = input.outpoint();
                match outputs.spend(&outpoint, index) {
                    Spend::Elsewhere => {
                        sources.push(CoinSource::External(external.len() as u32));
                        external.push(outpoint);
                    }
                    Spend::Inside(tx) => {
                        sources.push(CoinSource::Inside { tx, vout: outpoint.vout });
                    }
                    Spend::Never => {
                        fault.get_or_insert((index, outpoint));
                        sources.push(CoinSource::External(u32::MAX));
                    }
                }
            }
        }
        let (created, created_by_coinbase) = outputs.left(&block, height);
        Self { height, sources, external, created, created_by_coinbase, fault, block }
    }

    /// The coin that the output `vout` of the block's own transaction `tx` is.
    pub fn coin_inside(&self, tx: u32, vout: u32) -> Coin {
        let output = self.block.view().tx(tx as usize).output(vout as usize);
        Coin::new(output.value().unsigned_abs(), output.script(), self.height, tx == 0)
    }

    /// The transaction that spends the outpoint at `index` of [`Prepared::external`].
    pub fn tx_of_external(&self, index: usize) -> usize {
        let wanted = CoinSource::External(index as u32);
        let mut sources = self.sources.iter();
        for (tx, view) in self.block.view().txs().enumerate().skip(1) {
            if sources.by_ref().take(view.input_count()).any(|source| *source == wanted) {
                return tx;
            }
        }
        0
    }
}

/// A block's outputs while its inputs are walked.
struct Outputs {
    tx_by_txid: HashMap<Hash, u32>,
    /// Index of each transaction's first output among all outputs of the block.
    first: Vec<u32>,
    /// For each output, whether it cannot be spent (any more).
    gone: Vec<bool>,
}

enum Spend {
    Elsewhere,
    Inside(u32),
    Never,
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

    /// Takes the output for the transaction at `spender`, if it is one of this block's.
    fn spend(&mut self, outpoint: &OutPoint, spender: usize) -> Spend {
        let Some(&tx) = self.tx_by_txid.get(&outpoint.txid) else { return Spend::Elsewhere };
        let (first, end) = (self.first[tx as usize], self.first[tx as usize + 1]);
        let index = u64::from(first) + u64::from(outpoint.vout);
        if tx as usize >= spender || index >= u64::from(end) || self.gone[index as usize] {
            return Spend::Never;
        }
        self.gone[index as usize] = true;
        Spend::Inside(tx)
    }

    /// What is left when all inputs are walked: coins, and how many are the coinbase's.
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
