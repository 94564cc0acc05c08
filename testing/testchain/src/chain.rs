//! A chain held in memory.

use std::collections::HashMap;
use std::sync::Arc;

use bitcoin::block::{Block, Header};
use bitcoin::consensus::encode::deserialize;
use bitcoin::{BlockHash, Network, OutPoint};

use crate::block::median_time;
use crate::builder::{Builder, Parent};
use crate::coin::{Coin, Utxo};
use crate::generator::{Generator, MadeBlock, Totals};
use crate::keys::Keys;
use crate::lock::Kind;
use crate::spec::Spec;

/// All blocks of a small chain from height 1 on, and its UTXO set.
#[derive(Clone)]
pub struct Chain {
    original: Spec,
    blocks: Vec<Arc<MadeBlock>>,
    generator: Generator,
}

impl Chain {
    /// Generates the whole chain. See [`Generator::new`] for when it panics.
    pub fn new(spec: Spec) -> Self {
        let mut generator = Generator::new(spec.clone());
        let blocks = generator.by_ref().map(Arc::new).collect();
        Chain { original: spec, blocks, generator }
    }

    pub fn height(&self) -> u32 {
        self.generator.height()
    }

    pub fn tip(&self) -> BlockHash {
        self.generator.tip()
    }

    /// Returns the bytes of all blocks, from height 1 on.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.blocks.iter().map(|block| &block.bytes[..])
    }

    /// Returns the block at `height`, if there is one. The genesis block is not kept.
    pub fn block(&self, height: u32) -> Option<&MadeBlock> {
        let index = height.checked_sub(1)?;
        self.blocks.get(index as usize).map(|block| &**block)
    }

    /// Returns the block at `height`, decoded.
    ///
    /// # Panics
    /// If the chain is not that high.
    pub fn decoded(&self, height: u32) -> Block {
        if height == 0 {
            return bitcoin::constants::genesis_block(Network::Regtest);
        }
        let block = self.block(height).expect("a height of this chain");
        deserialize(&block.bytes).expect("the generator writes valid blocks")
    }

    /// Returns the header at `height`. See [`Chain::decoded`] for when it panics.
    pub fn header(&self, height: u32) -> Header {
        match self.block(height) {
            Some(block) => deserialize(&block.bytes[..80]).expect("80 bytes are a header"),
            None => self.decoded(height).header,
        }
    }

    /// Returns the keys that lock the outputs.
    pub fn keys(&self) -> &Arc<Keys> {
        self.generator.keys()
    }

    /// Returns sums over the chain without its genesis block.
    pub fn totals(&self) -> Totals {
        self.generator.totals()
    }

    /// Returns the UTXO set at the tip, in no order.
    pub fn utxos(&self) -> impl Iterator<Item = Utxo> {
        self.generator.utxos()
    }

    /// Returns the coins at the tip, in no order.
    pub fn coins(&self) -> impl Iterator<Item = &Coin> {
        self.generator.coins()
    }

    /// Returns the coins of a kind that the next block may spend, the most valuable first.
    pub fn spendable(&self, kind: Kind) -> Vec<Coin> {
        let next = self.height() + 1;
        let fits = |coin: &&Coin| coin.lock.kind == kind && coin.spendable_from() <= next;
        let mut coins: Vec<_> = self.coins().filter(fits).copied().collect();
        coins.sort_unstable_by_key(|coin| (u64::MAX - coin.amount, coin.txid, coin.vout));
        coins
    }

    /// Returns the UTXO set at the tip, computed by applying every block to a map: slow and simple,
    /// and independent of the generator's own records.
    pub fn replay(&self) -> HashMap<OutPoint, Utxo> {
        let mut set = HashMap::new();
        for height in 1..=self.height() {
            for (index, tx) in self.decoded(height).txdata.into_iter().enumerate() {
                let txid = tx.compute_txid();
                for input in tx.input.iter().filter(|_| index > 0) {
                    let spent = set.remove(&input.previous_output);
                    assert!(spent.is_some(), "{} is not in the UTXO set", input.previous_output);
                }
                for (vout, output) in tx.output.into_iter().enumerate() {
                    let script = output.script_pubkey;
                    if script.is_op_return() || script.len() > 10_000 {
                        continue;
                    }
                    let outpoint = OutPoint::new(txid, vout as u32);
                    let amount = output.value.to_sat();
                    let coinbase = index == 0;
                    let utxo = Utxo { outpoint, amount, script, height, coinbase };
                    assert!(set.insert(outpoint, utxo).is_none(), "{outpoint} exists already");
                }
            }
        }
        set
    }

    /// Returns another chain with the same blocks up to `height`, and then `blocks` others, which
    /// spend and create other coins. Forks at the same height differ by their `seed`.
    ///
    /// # Panics
    /// If the chain is not that high.
    pub fn fork(&self, height: u32, blocks: u32, seed: u64) -> Chain {
        assert!(height <= self.height(), "no block at height {height}");
        let mut generator = Generator::new(self.original.clone());
        let mut shared = 0;
        while generator.height() < height {
            let block = generator.next().expect("the fork is below the tip");
            shared += usize::from(self.blocks[shared].hash == block.hash);
        }
        assert_eq!(shared, height as usize, "a fork of a fork must branch off below the first");
        generator.diverge(seed, blocks);
        let mut chain_blocks = self.blocks[..shared].to_vec();
        chain_blocks.extend(generator.by_ref().map(Arc::new));
        Chain { original: self.original.clone(), blocks: chain_blocks, generator }
    }

    /// Returns the block at `height` as the parent of a hand-made block. See [`Chain::decoded`] for
    /// when it panics.
    pub fn parent(&self, height: u32) -> Parent {
        let times = (height.saturating_sub(10)..=height).map(|h| self.header(h).time);
        Parent::new(self.header(height).block_hash(), height, times.collect())
    }

    /// Returns the builder of a hand-made block on the tip.
    pub fn next_block(&self) -> Builder {
        Builder::block_on(&self.parent(self.height()))
    }

    /// Returns the median time past at `height`. See [`Chain::decoded`] for when it panics.
    pub fn median_time_past(&self, height: u32) -> u32 {
        let times: Vec<_> =
            (height.saturating_sub(10)..=height).map(|h| self.header(h).time).collect();
        median_time(&times)
    }
}
