//! A chain that leaves many coins, as mainnet does, and takes little memory to make.

use std::ops::Range;

use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::transaction::TxOut;
use bitcoin::{Amount, BlockHash, Network, OutPoint, ScriptBuf, Txid};

use crate::block::{block_time, coinbase, commit, header, merkle_root, mine};
use crate::coin::Utxo;
use crate::encode::put_compact;
use crate::generator::{HEIGHT_MAX, MadeBlock, Totals};
use crate::opcodes::OP_1;
use crate::plan::reward;
use crate::rng::Rng;

/// Outputs of a transaction, on average.
const OUTPUTS: u32 = 24;
/// Inputs of a transaction, on average.
const INPUTS: u32 = 5;
/// Half of the inputs spend outputs of this many newest blocks, including the block itself.
const NEWEST_BLOCKS: usize = 100;
/// With bursts, the distance between blocks that spend most, and the average inputs and outputs of
/// their transactions, and of those of the other blocks: as many bytes as without bursts.
const BURST_EVERY: usize = 4;
const IN_BURSTS: (u32, u32) = (20, 4);
const BETWEEN_BURSTS: (u32, u32) = (1, 29);
/// Outputs of a coinbase below the busy blocks, so that the first of these have coins to spend.
const FIRST_OUTPUTS: u32 = 1_000;
/// Blocks after which the outputs of a coinbase may be spent.
const MATURITY: usize = 100;
/// Length of an output script: a version, and a push of 20 bytes.
const SCRIPT_BYTES: usize = 22;
/// A busy block's bytes for each of its transactions, without the coinbase and the header.
const TX_BYTES: u64 = 10 + 41 * INPUTS as u64 + 31 * OUTPUTS as u64;

/// Which coins the inputs of a [`Wide`] chain spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Spends {
    /// Half spend any coin of the UTXO set, half a coin of the newest hundred blocks
    #[default]
    Mixed,
    /// Any coin of the UTXO set: hardly ever a new one
    Old,
    /// Every fourth block spends 20,000 coins of one earlier block, the others 1,000 of any
    Bursts,
}

/// A chain with many coins, in a few numbers. The same numbers give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideSpec {
    /// The seed of everything random.
    pub seed: u64,
    /// Blocks at the start with only a coinbase; at least 101, so that coins mature.
    pub quiet_blocks: u32,
    /// Blocks full of transactions, after the quiet ones.
    pub busy_blocks: u32,
    /// Transactions in a busy block, besides its coinbase: an even number of at most 1,000, so that
    /// a block takes less than 1 MB. They have 24 outputs and 5 inputs on average.
    pub txs: u32,
    /// Which coins the transactions spend.
    pub spends: Spends,
    /// Blocks with only a coinbase after the busy ones (2,100 make assumevalid apply).
    pub empty_blocks_after: u32,
    /// Blocks full of transactions after the empty ones.
    pub top_blocks: u32,
}

impl WideSpec {
    /// Returns a chain for benchmarks: busy blocks of 24,000 outputs and 5,000 inputs, `bytes`
    /// together, then 2,100 empty ones and `top_blocks` further busy ones.
    pub fn of_size(seed: u64, bytes: u64, top_blocks: u32) -> Self {
        let busy = u32::try_from(bytes / (1_000 * TX_BYTES)).unwrap_or(u32::MAX);
        WideSpec {
            seed,
            quiet_blocks: 150,
            busy_blocks: busy.max(1),
            txs: 1_000,
            spends: Spends::default(),
            empty_blocks_after: 2_100,
            top_blocks,
        }
    }

    /// Returns the height of the last block.
    pub fn height(&self) -> u32 {
        self.top_start().saturating_add(self.top_blocks)
    }

    /// Returns the height of the last block below the topmost busy ones.
    pub fn top_start(&self) -> u32 {
        let busy_end = self.quiet_blocks.saturating_add(self.busy_blocks);
        busy_end.saturating_add(self.empty_blocks_after)
    }

    /// Returns whether the block at `height` is filled with transactions.
    pub fn is_busy(&self, height: u32) -> bool {
        let below = height > self.quiet_blocks && height - self.quiet_blocks <= self.busy_blocks;
        below || (height > self.top_start() && height <= self.height())
    }
}

/// Makes the blocks of a [`WideSpec`] one by one, from height 1 on, and knows the UTXO set after
/// each.
///
/// All outputs pay to unknown witness programs of 20 random bytes, which anyone can spend without
/// a signature.
///
/// Memory: a bit for each output ever made, and 48 bytes for each transaction. Amounts and scripts
/// are functions of an output's number.
pub struct Wide {
    spec: WideSpec,
    rng: Rng,
    blocks: Vec<BlockRow>,
    txs: Vec<TxRow>,
    /// The number of all outputs made that could be spent.
    outputs: u32,
    /// A bit for each output, set if it is spent.
    spent: Vec<u64>,
    /// The outputs of the block whose coins the block being made spends, if it is a burst.
    burst_of: Option<Range<u32>>,
    tip: BlockHash,
    totals: Totals,
}

/// Where a block's transactions and outputs begin.
#[derive(Clone, Copy)]
struct BlockRow {
    first_tx: u32,
    first_output: u32,
}

/// A transaction and its outputs, without unspendable ones.
struct TxRow {
    txid: [u8; 32],
    /// The sum of its outputs in satoshis.
    amount: u64,
    first_output: u32,
    coinbase: bool,
}

/// The place of an output: the index of its block's row and of its transaction's.
#[derive(Clone, Copy)]
struct WidePlace {
    block: usize,
    tx: usize,
}

/// The transactions of a block, without its coinbase.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    txids: Vec<[u8; 32]>,
    fees: u64,
}

impl Wide {
    /// Creates a generator that starts after the genesis block.
    ///
    /// # Panics
    /// If the chain would reach into the future (more than 270,000 blocks), has fewer than 101
    /// quiet blocks, or an odd number of transactions or more than 1,000 in a block, or more than
    /// four billion outputs.
    pub fn new(spec: WideSpec) -> Self {
        assert!(spec.height() <= HEIGHT_MAX, "{} blocks end in the future", spec.height());
        assert!(spec.quiet_blocks > 100, "no coin would be mature");
        assert!(spec.txs.is_multiple_of(2) && spec.txs <= 1_000, "{} transactions", spec.txs);
        let busy = u64::from(spec.busy_blocks) + u64::from(spec.top_blocks);
        let outputs = busy * u64::from(spec.txs * OUTPUTS) + u64::from(HEIGHT_MAX * FIRST_OUTPUTS);
        assert!(outputs < u64::from(u32::MAX), "{outputs} outputs are too many to number");
        Wide {
            rng: Rng::new(spec.seed, 3),
            blocks: Vec::new(),
            txs: Vec::new(),
            outputs: 0,
            spent: Vec::new(),
            burst_of: None,
            tip: bitcoin::constants::genesis_block(Network::Regtest).block_hash(),
            totals: Totals::default(),
            spec,
        }
    }

    /// Returns the specification of the chain.
    pub fn spec(&self) -> &WideSpec {
        &self.spec
    }

    /// Returns the height of the last block made.
    pub fn height(&self) -> u32 {
        self.totals.blocks
    }

    /// Returns the hash of the last block made.
    pub fn tip(&self) -> BlockHash {
        self.tip
    }

    /// Returns sums over the blocks made.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the UTXO set after the last block made, in no order.
    pub fn utxos(&self) -> impl Iterator<Item = Utxo> {
        (0..self.outputs).filter(|output| !self.is_spent(*output)).map(|output| {
            let place = self.place(output);
            let tx = &self.txs[place.tx];
            let mut script = Vec::with_capacity(SCRIPT_BYTES);
            put_script(self.spec.seed, output, &mut script);
            Utxo {
                outpoint: OutPoint::new(Txid::from_byte_array(tx.txid), output - tx.first_output),
                amount: self.amount(place.tx, output),
                script: ScriptBuf::from(script),
                height: place.block as u32 + 1,
                coinbase: tx.coinbase,
            }
        })
    }

    fn is_spent(&self, output: u32) -> bool {
        self.spent[output as usize / 64] >> (output % 64) & 1 == 1
    }

    fn place(&self, output: u32) -> WidePlace {
        let block = self.blocks.partition_point(|block| block.first_output <= output) - 1;
        let first = self.blocks[block].first_tx as usize;
        let end = self.blocks.get(block + 1).map_or(self.txs.len(), |next| next.first_tx as usize);
        let txs = &self.txs[first..end];
        WidePlace { block, tx: first + txs.partition_point(|tx| tx.first_output <= output) - 1 }
    }

    /// Returns the satoshis of an output of the transaction with index `tx`.
    fn amount(&self, tx: usize, output: u32) -> u64 {
        let row = &self.txs[tx];
        let end = self.txs.get(tx + 1).map_or(self.outputs, |next| next.first_output);
        share(row.amount, end - row.first_output, output - row.first_output, row.first_output)
    }

    /// Returns the outputs of which the next input spends one, if any is unspent.
    fn range(&mut self) -> Range<u32> {
        match self.spec.spends {
            Spends::Mixed if self.rng.percent(50) => {
                let newest = self.blocks.len().saturating_sub(NEWEST_BLOCKS);
                self.blocks[newest].first_output..self.outputs
            }
            Spends::Bursts => self.burst_of.clone().unwrap_or(0..self.outputs),
            Spends::Mixed | Spends::Old => 0..self.outputs,
        }
    }

    /// Returns all outputs, or for a burst those of another block.
    fn another_range(&mut self) -> Range<u32> {
        if self.burst_of.is_none() {
            return 0..self.outputs;
        }
        let block = self.rng.below(self.blocks.len() as u64) as usize;
        let end = self.blocks.get(block + 1).map_or(self.outputs, |next| next.first_output);
        let outputs = self.blocks[block].first_output..end;
        self.burst_of = Some(outputs.clone());
        outputs
    }

    /// Takes a coin that the block being made may spend.
    fn take(&mut self) -> (u32, WidePlace) {
        let height = self.blocks.len();
        let mut range = self.range();
        for attempt in 1..=100_000 {
            let output = range.start + self.rng.below(range.len() as u64) as u32;
            let is_there = !range.is_empty() && !self.is_spent(output);
            if attempt % 100 == 0 {
                range = self.another_range();
            }
            if !is_there {
                continue;
            }
            let place = self.place(output);
            if !self.txs[place.tx].coinbase || height - (place.block + 1) >= MATURITY {
                self.spent[output as usize / 64] |= 1 << (output % 64);
                return (output, place);
            }
        }
        panic!("hardly any coin at height {height} may be spent");
    }

    /// Records a transaction whose outputs are the next to be numbered.
    fn add_tx(&mut self, txid: [u8; 32], amount: u64, outputs: u32, coinbase: bool) {
        self.txs.push(TxRow { txid, amount, first_output: self.outputs, coinbase });
        self.outputs += outputs;
        self.spent.resize((self.outputs as usize).div_ceil(64), 0);
        self.totals.outputs += u64::from(outputs);
        self.totals.unspent += u64::from(outputs);
        self.totals.unspent_amount += amount;
    }

    /// Adds a transaction to the block being made.
    fn spend(&mut self, inputs: u32, outputs: u32, body: &mut Body) {
        let start = body.bytes.len();
        let mut total = 0;
        body.bytes.extend_from_slice(&2u32.to_le_bytes());
        put_compact(inputs as usize, &mut body.bytes);
        for _ in 0..inputs {
            let (output, place) = self.take();
            total += self.amount(place.tx, output);
            let tx = &self.txs[place.tx];
            body.bytes.extend_from_slice(&tx.txid);
            body.bytes.extend_from_slice(&(output - tx.first_output).to_le_bytes());
            body.bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff]);
            self.totals.inputs_in_block += u64::from(place.block + 1 == self.blocks.len());
        }
        let paid = total - total / 1_000;
        put_compact(outputs as usize, &mut body.bytes);
        for vout in 0..outputs {
            let amount = share(paid, outputs, vout, self.outputs);
            body.bytes.extend_from_slice(&amount.to_le_bytes());
            put_compact(SCRIPT_BYTES, &mut body.bytes);
            put_script(self.spec.seed, self.outputs + vout, &mut body.bytes);
        }
        body.bytes.extend_from_slice(&0u32.to_le_bytes());
        let txid = sha256d::Hash::hash(&body.bytes[start..]).to_byte_array();
        body.txids.push(txid);
        body.fees += total - paid;
        self.totals.inputs += u64::from(inputs);
        self.totals.unspent -= u64::from(inputs);
        self.totals.unspent_amount -= total;
        self.add_tx(txid, paid, outputs, false);
    }

    /// Returns the transactions of a busy block: pairs whose sizes differ and average out.
    fn body(&mut self) -> Body {
        let mut body = Body::default();
        let (inputs, outputs) = match self.spec.spends {
            Spends::Mixed | Spends::Old => (INPUTS, OUTPUTS),
            Spends::Bursts if self.blocks.len().is_multiple_of(BURST_EVERY) => {
                self.burst_of = Some(0..0);
                IN_BURSTS
            }
            Spends::Bursts => BETWEEN_BURSTS,
        };
        for _ in 0..self.spec.txs / 2 {
            let fewer_inputs = self.rng.below(u64::from(inputs)) as u32;
            let fewer_outputs = self.rng.below(u64::from(outputs)) as u32;
            self.spend(inputs - fewer_inputs, outputs - fewer_outputs, &mut body);
            self.spend(inputs + fewer_inputs, outputs + fewer_outputs, &mut body);
        }
        self.burst_of = None;
        body
    }

    fn make(&mut self) -> MadeBlock {
        let height = self.height() + 1;
        let first_tx = self.txs.len() as u32;
        let first_output = self.outputs;
        self.blocks.push(BlockRow { first_tx, first_output });
        let body = if self.spec.is_busy(height) { self.body() } else { Body::default() };
        let outputs = if height <= self.spec.quiet_blocks { FIRST_OUTPUTS } else { 1 };
        let claimed = reward(height, body.fees);
        let txouts = (0..outputs).map(|vout| {
            let mut script = Vec::with_capacity(SCRIPT_BYTES);
            put_script(self.spec.seed, self.outputs + vout, &mut script);
            let value = Amount::from_sat(share(claimed, outputs, vout, self.outputs));
            TxOut { value, script_pubkey: ScriptBuf::from(script) }
        });
        let mut coinbase = coinbase(height, &height.to_le_bytes(), txouts.collect());
        let leaves =
            |first| merkle_root(std::iter::once(first).chain(body.txids.iter().copied()).collect());
        // Without witnesses, txids and wtxids are the same.
        commit(&mut coinbase, leaves([0; 32]));
        let txid = coinbase.compute_txid().to_byte_array();
        let time = block_time(self.spec.seed, height);
        let mut header = header(self.tip, leaves(txid), time);
        self.tip = mine(&mut header, true);
        self.add_tx(txid, claimed, outputs, true);
        let mut bytes = serialize(&header);
        put_compact(1 + body.txids.len(), &mut bytes);
        bytes.extend_from_slice(&serialize(&coinbase));
        bytes.extend_from_slice(&body.bytes);
        self.totals.blocks = height;
        self.totals.txs += 1 + body.txids.len() as u64;
        // The witness commitment.
        self.totals.outputs += 1;
        self.totals.bytes += bytes.len() as u64;
        MadeBlock { height, hash: self.tip, bytes }
    }
}

impl Iterator for Wide {
    type Item = MadeBlock;

    fn next(&mut self) -> Option<MadeBlock> {
        (self.height() < self.spec.height()).then(|| self.make())
    }
}

/// Returns the part of `amount` that the output `vout` of `count` gets: of two neighbours, the
/// first gets as much less than the average as the second gets more, and the last gets the
/// remainder.
fn share(amount: u64, count: u32, vout: u32, first_output: u32) -> u64 {
    let average = amount / u64::from(count);
    let rest = if vout + 1 == count { amount - average * u64::from(count) } else { 0 };
    let pair = u64::from(first_output) + u64::from(vout / 2);
    let more = Rng::new(pair, 4).below(average / 2 + 1);
    match vout % 2 {
        0 if vout + 1 == count => average + rest,
        0 => average - more,
        _ => average + more + rest,
    }
}

/// Appends the script of an output: an unknown witness program of version 2 to 16.
fn put_script(seed: u64, output: u32, script: &mut Vec<u8>) {
    let mut rng = Rng::new(seed ^ 0x7769_6465, u64::from(output));
    let mut program = [0; 20];
    rng.fill(&mut program);
    script.push(OP_1 + 1 + rng.below(15) as u8);
    script.push(20);
    script.extend_from_slice(&program);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_to_the_whole() {
        for (amount, count) in [(0, 1), (7, 1), (1_000, 2), (12_345, 24), (999_999_937, 47)] {
            let shares: Vec<_> = (0..count).map(|vout| share(amount, count, vout, 5)).collect();
            assert_eq!(shares.iter().sum::<u64>(), amount);
        }
    }
}
