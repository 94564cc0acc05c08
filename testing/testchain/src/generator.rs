//! The generator of a chain, block after block.

use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::Hash;
use bitcoin::transaction::TxOut;
use bitcoin::{Amount, BlockHash, Network};
use rayon::prelude::*;
use std::sync::Arc;

use crate::block::{block_time, coinbase, commit, header, merkle_root, mine};
use crate::coin::{Coin, Pool, Utxo};
use crate::encode::put_compact;
use crate::keys::Keys;
use crate::lock::Lock;
use crate::plan::{BlockPlan, Draft, Fresh, Used, draw_life, plan, reward};
use crate::rng::Rng;
use crate::signature::Nonce;
use crate::signer::Signed;
use crate::spec::Spec;

/// The largest height. Blocks after it would have times in the future.
pub const HEIGHT_MAX: u32 = 270_000;

/// Makes the blocks of a [`Spec`] one by one, from height 1 on, and knows the UTXO set after each.
///
/// Memory: 56 bytes for each unspent coin, and one block. Transactions are signed in the rayon
/// pool that `next` is called in.
#[derive(Clone)]
pub struct Generator {
    spec: Spec,
    keys: Arc<Keys>,
    pool: Pool,
    used: Used,
    rng: Rng,
    tip: BlockHash,
    totals: Totals,
}

/// Sums over a chain without its genesis block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of blocks, which is the height.
    pub blocks: u32,
    /// Transactions, coinbases included.
    pub txs: u64,
    /// Inputs, those of coinbases not included.
    pub inputs: u64,
    /// Outputs, unspendable ones included.
    pub outputs: u64,
    /// Inputs that spend an output of their own block.
    pub inputs_in_block: u64,
    /// Coins in the UTXO set.
    pub unspent: u64,
    /// Satoshis in the UTXO set.
    pub unspent_amount: u64,
    /// Bytes of all blocks.
    pub bytes: u64,
}

/// A block made by the generator.
#[derive(Clone, Debug)]
pub struct MadeBlock {
    /// The block's height.
    pub height: u32,
    /// The block's hash.
    pub hash: BlockHash,
    /// The block's bytes, as on the wire.
    pub bytes: Vec<u8>,
}

impl Generator {
    /// Creates a generator that starts after the genesis block.
    ///
    /// # Panics
    /// If the chain would reach into the future (more than 270,000 blocks), or has fewer than 101
    /// quiet blocks before busy ones.
    pub fn new(spec: Spec) -> Self {
        assert!(spec.height() <= HEIGHT_MAX, "{} blocks end in the future", spec.height());
        assert!(spec.busy_blocks == 0 || spec.quiet_blocks > 100, "no coin would be mature");
        Generator {
            keys: Arc::new(Keys::new(spec.seed, spec.keys)),
            pool: Pool::new(if spec.top_blocks > 0 { spec.height() } else { spec.busy_end() }),
            used: Used::default(),
            rng: Rng::new(spec.seed, 1),
            tip: bitcoin::constants::genesis_block(Network::Regtest).block_hash(),
            totals: Totals::default(),
            spec,
        }
    }

    /// Returns the specification of the chain.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the keys that lock the outputs.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
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

    /// Returns the coins of the UTXO set after the last block made, in no order.
    pub fn coins(&self) -> impl Iterator<Item = &Coin> {
        self.pool.iter()
    }

    /// Returns the UTXO set after the last block made, in no order.
    pub fn utxos(&self) -> impl Iterator<Item = Utxo> {
        let indices = self.pool.iter().flat_map(|coin| coin.lock.keys()).collect();
        let ring = self.keys.ring_of(indices);
        self.pool.iter().map(move |coin| coin.utxo(&ring))
    }

    /// Makes another chain from here on: `blocks` more blocks, busy where the first chain's are,
    /// with other transactions. The times remain those of the first seed.
    pub fn diverge(&mut self, seed: u64, blocks: u32) {
        self.rng = Rng::new(self.spec.seed ^ seed, 2 + u64::from(self.height()));
        let end = self.height().saturating_add(blocks);
        assert!(end <= HEIGHT_MAX, "{end} blocks end in the future");
        self.spec.quiet_blocks = self.spec.quiet_blocks.min(end);
        self.spec.busy_blocks = end - self.spec.quiet_blocks;
        self.spec.empty_blocks_after = 0;
        self.spec.top_blocks = 0;
        self.pool.extend(end);
    }

    /// Signs in waves: first the transactions that spend only earlier blocks, then those that spend
    /// outputs of the first wave, and so on.
    fn sign(&self, mut drafts: Vec<Draft>) -> Vec<Signed> {
        let ring =
            self.keys.ring_of(drafts.iter().flat_map(|draft| draft.payment.keys()).collect());
        let nonces = self.nonces(&drafts);
        let first = drafts.first().map_or(0, |draft| draft.nonce);
        let deepest = drafts.iter().map(|draft| draft.depth).max().unwrap_or(0);
        let mut signed: Vec<Option<Signed>> = vec![None; drafts.len()];
        for depth in 0..=deepest {
            for draft in drafts.iter_mut().filter(|draft| draft.depth == depth) {
                for &(input, parent) in &draft.parents {
                    let parent = signed[parent as usize].as_ref().expect("signed in a wave before");
                    draft.payment.inputs[input as usize].txid = parent.txid;
                }
            }
            let pairs = signed.par_iter_mut().zip(&drafts).with_min_len(16);
            pairs.filter(|(_, draft)| draft.depth == depth).for_each(|(slot, draft)| {
                let own = &nonces[draft.nonce.wrapping_sub(first) as usize..];
                *slot = Some(draft.payment.sign_with(&ring, own));
            });
        }
        signed.into_iter().map(|tx| tx.expect("every depth was signed")).collect()
    }

    /// Returns the nonces of all signatures of `drafts`, in order.
    fn nonces(&self, drafts: &[Draft]) -> Vec<Nonce> {
        let count = drafts.iter().map(|draft| draft.payment.signatures()).sum();
        self.keys.nonces(drafts.first().map_or(0, |draft| draft.nonce), count)
    }

    /// Returns the outputs of the coinbase at `height`: several in the quiet blocks, so that the
    /// first busy ones have enough to spend.
    fn coinbase_outputs(&mut self, height: u32, fees: u64) -> Vec<(u64, Lock, Option<u32>)> {
        let count = if height <= self.spec.quiet_blocks {
            12
        } else if height.is_multiple_of(3) {
            2
        } else {
            1
        };
        let mut left = reward(height, fees);
        let mut outputs = Vec::with_capacity(count);
        for i in 0..count {
            let amount = if i + 1 == count { left } else { left / (count - i) as u64 };
            left -= amount;
            let kind = self.spec.mix.draw_spendable(&mut self.rng);
            let lock = self.used.draw_lock(kind, &mut self.rng);
            let life = draw_life(&mut self.rng, &self.spec).map_or(0, |life| life.min(40));
            let kept = height % 10 == 3 && i == 0;
            outputs.push((amount, lock, (!kept).then_some(life)));
        }
        outputs
    }

    /// Adds the outputs of the block to the pool.
    fn add_coins(&mut self, height: u32, fresh: &[Fresh], signed: &[Signed]) {
        for new in fresh {
            let coin = Coin {
                txid: signed[new.tx as usize].txid,
                amount: new.amount,
                height,
                vout: new.vout,
                lock: new.lock,
                coinbase: false,
            };
            self.add_coin(coin, new.life);
        }
    }

    fn add_coin(&mut self, coin: Coin, life: Option<u32>) {
        self.totals.unspent += 1;
        self.totals.unspent_amount += coin.amount;
        self.pool.add(coin, life);
    }

    fn make(&mut self) -> MadeBlock {
        let height = self.height() + 1;
        let mut planned = BlockPlan::default();
        if self.spec.is_busy(height) {
            planned = plan(&self.spec, height, &mut self.pool, &mut self.used, &mut self.rng);
        }
        self.count_spends(&planned);
        let signed = self.sign(std::mem::take(&mut planned.txs));
        let outputs = self.coinbase_outputs(height, planned.fees);
        let extra = self.rng.next_u64().to_le_bytes();
        let ring = self.keys.ring_of(outputs.iter().flat_map(|(_, lock, _)| lock.keys()).collect());
        let txouts = outputs.iter().map(|(amount, lock, _)| TxOut {
            value: Amount::from_sat(*amount),
            script_pubkey: lock.script_of(&ring),
        });
        let mut coinbase = coinbase(height, &extra, txouts.collect());
        let leaves = |first: [u8; 32], leaf: fn(&Signed) -> [u8; 32]| {
            merkle_root(std::iter::once(first).chain(signed.iter().map(leaf)).collect())
        };
        // A block without witnesses needs no commitment to them, and some have none.
        if !signed.is_empty() || height % 4 != 3 {
            commit(&mut coinbase, leaves([0; 32], |tx| tx.wtxid));
        }
        let txid = coinbase.compute_txid().to_byte_array();
        let root = leaves(txid, |tx| tx.txid);
        let mut header = header(self.tip, root, block_time(self.spec.seed, height));
        self.tip = mine(&mut header, true);
        for (vout, (amount, lock, life)) in outputs.into_iter().enumerate() {
            let vout = vout as u16;
            self.add_coin(Coin { txid, amount, height, vout, lock, coinbase: true }, life);
        }
        self.add_coins(height, &planned.fresh, &signed);
        let body: usize = signed.iter().map(|tx| tx.bytes.len()).sum();
        let mut bytes = Vec::with_capacity(2_000 + body);
        bytes.extend_from_slice(&serialize(&header));
        put_compact(1 + signed.len(), &mut bytes);
        bytes.extend_from_slice(&serialize(&coinbase));
        signed.iter().for_each(|tx| bytes.extend_from_slice(&tx.bytes));
        self.totals.blocks = height;
        self.totals.txs += 1 + signed.len() as u64;
        self.totals.outputs += coinbase.output.len() as u64;
        self.totals.bytes += bytes.len() as u64;
        MadeBlock { height, hash: self.tip, bytes }
    }

    /// Adds a plan's inputs and outputs to the totals. Outputs that are spent within the block were
    /// never counted as unspent.
    fn count_spends(&mut self, plan: &BlockPlan) {
        self.totals.inputs += plan.inputs;
        self.totals.outputs += plan.outputs;
        for draft in &plan.txs {
            self.totals.inputs_in_block += draft.parents.len() as u64;
            let mut amount: u64 = draft.payment.inputs.iter().map(|input| input.amount).sum();
            for &(input, _) in &draft.parents {
                amount -= draft.payment.inputs[input as usize].amount;
            }
            self.totals.unspent -= (draft.payment.inputs.len() - draft.parents.len()) as u64;
            self.totals.unspent_amount -= amount;
        }
    }
}

impl Iterator for Generator {
    type Item = MadeBlock;

    fn next(&mut self) -> Option<MadeBlock> {
        (self.height() < self.spec.height()).then(|| self.make())
    }
}
