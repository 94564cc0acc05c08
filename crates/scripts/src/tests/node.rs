//! The simplest node that enforces all rules: it keeps coins in a map and connects blocks in order,
//! one transaction with its scripts after the other.

use std::collections::HashMap;

use apus_wire::{OutPoint, TxView, is_unspendable};

use super::*;

#[derive(Clone)]
pub struct Coin {
    pub amount: i64,
    pub script: Vec<u8>,
    pub height: u32,
    pub is_coinbase: bool,
}

impl Coin {
    pub fn prevout(&self) -> Prevout<'_> {
        Prevout {
            amount: self.amount,
            script: &self.script,
            height: self.height,
            is_coinbase: self.is_coinbase,
        }
    }
}

#[derive(Clone)]
pub struct Node<'a> {
    pub network: &'a Network,
    pub headers: Vec<Header>,
    pub coins: HashMap<OutPoint, Coin>,
}

impl<'a> Node<'a> {
    /// A node that knows the genesis block.
    pub fn new(network: &'a Network) -> Self {
        let genesis = BlockView::parse(apus_wire::genesis_block(network)).unwrap();
        Self { network, headers: vec![*genesis.header()], coins: HashMap::new() }
    }

    /// Connects the next block. After an error the node must not be used any more. `now` is the
    /// same as for [`check_header_in_context`].
    pub fn connect(&mut self, bytes: &[u8], now: i64) -> Result<(), RuleError> {
        let block = check_block(BlockView::parse(bytes).unwrap(), self.network)?;
        let view = block.view();
        let height = self.headers.len() as u32;
        let parent = Headers(&self.headers);
        check_header_in_context(view.header(), self.network, &parent, now)?;
        let parent_median_time_past = parent.median_time_past();
        let context = BlockContext { network: self.network, height, parent_median_time_past };
        check_block_in_context(&block, &context)?;
        self.creates_nothing_twice(&block, height)?;
        let mut spends = BlockSpends::new(&block, context);
        for (index, tx) in view.txs().enumerate() {
            let txid = &block.txids()[index];
            if index > 0 {
                let coins = self.take_coins(&tx, txid)?;
                let prevouts: Vec<Prevout> = coins.iter().map(Coin::prevout).collect();
                let headers = &self.headers;
                let median = |at| Headers(&headers[..=at as usize]).median_time_past();
                spends.tx(index, &prevouts, median)?;
                check_tx_scripts(&tx, &prevouts, spends.script_flags())?;
            }
            self.create(txid, &tx, height, index == 0);
        }
        spends.finish()?;
        self.headers.push(*view.header());
        Ok(())
    }

    fn creates_nothing_twice<B: AsRef<[u8]>>(
        &self,
        block: &CheckedBlock<B>,
        height: u32,
    ) -> Result<(), RuleError> {
        if bip30_check(self.network, height, block.hash(), false) == Bip30Check::Exempt {
            return Ok(());
        }
        for (tx, txid) in block.view().txs().zip(block.txids()) {
            let mut outpoints =
                (0..tx.output_count() as u32).map(|vout| OutPoint { txid: *txid, vout });
            if outpoints.any(|outpoint| self.coins.contains_key(&outpoint)) {
                return Err(RuleError::bip30());
            }
        }
        Ok(())
    }

    fn take_coins(&mut self, tx: &TxView, txid: &Hash) -> Result<Vec<Coin>, RuleError> {
        tx.inputs()
            .map(|input| {
                let coin = self.coins.remove(&input.outpoint());
                coin.ok_or_else(|| RuleError::missing_or_spent(txid, &input.outpoint()))
            })
            .collect()
    }

    fn create(&mut self, txid: &Hash, tx: &TxView, height: u32, is_coinbase: bool) {
        for (vout, output) in tx.outputs().enumerate() {
            let script = output.script().to_vec();
            if !is_unspendable(&script) {
                let outpoint = OutPoint { txid: *txid, vout: vout as u32 };
                let coin = Coin { amount: output.value(), script, height, is_coinbase };
                self.coins.insert(outpoint, coin);
            }
        }
    }
}
