use std::collections::HashMap;
use std::path::Path;

use apus_coins::Coin;
use apus_hash::Hash;
use apus_testchain::{Generator, Spec};
use apus_wire::{BlockView, OutPoint, put_compact_size};
use serde_json::Value;

use crate::Result;

/// A block and the coins that it spends.
pub struct Sample {
    /// A description of the block.
    pub name: String,
    /// The block's bytes.
    pub block: Vec<u8>,
    /// The block's height.
    pub height: u32,
    /// The hash of the block's parent.
    pub prev: Hash,
    /// The coins that each transaction spends, except the coinbase.
    pub spent: Vec<Vec<Coin>>,
}

impl Sample {
    /// Loads mainnet's block 413567 or, if its file is missing, generates a block of 1 MB.
    pub fn large() -> Result<Self> {
        match option_env!("APUS_SHARED_DATA").map(Path::new) {
            Some(data) if data.join("block413567.raw").is_file() => Self::block_413567(data),
            _ => Self::generated(Spec::mainnet_like(1, 12, 12_000_000)),
        }
    }

    /// Returns the last block of a generated chain of 60 kB blocks.
    pub fn small() -> Result<Self> {
        Self::generated(Spec { busy_blocks: 5, ..Spec::small(1) })
    }

    /// Encodes the block's undo data (Core's `CBlockUndo`).
    pub fn encode_undo(&self) -> Vec<u8> {
        let mut undo = Vec::new();
        put_compact_size(&mut undo, self.spent.len() as u64);
        for coins in &self.spent {
            put_compact_size(&mut undo, coins.len() as u64);
            coins.iter().for_each(|coin| coin.encode_undo(&mut undo));
        }
        undo
    }

    fn block_413567(data: &Path) -> Result<Self> {
        let block = std::fs::read(data.join("block413567.raw"))?;
        let json = std::fs::read_to_string(data.join("block413567-spent_utxos.json"))?;
        let json: Vec<Value> = serde_json::from_str(&json)?;
        let coins = json.iter().map(coin_of_json).collect::<Option<Vec<_>>>();
        let coins = coins.ok_or("block413567-spent_utxos.json holds something other than coins")?;
        let name = format!("mainnet's block 413567, {} bytes", block.len());
        Self::new(name, block, 413_567, coins.into_iter())
    }

    /// Returns the last busy block of a generated chain.
    fn generated(spec: Spec) -> Result<Self> {
        let busy = spec.busy_end();
        let blocks: Vec<_> = Generator::new(spec).take(busy as usize).collect();
        let mut coins = HashMap::new();
        for made in &blocks {
            let view = BlockView::parse(&made.bytes[..])?;
            for (index, tx) in view.txs().enumerate() {
                let txid = tx.txid();
                for (vout, output) in tx.outputs().enumerate() {
                    let amount = output.value().unsigned_abs();
                    let script = output.script();
                    let coin = Coin::new(amount, script, made.height, index == 0);
                    coins.insert(OutPoint { txid, vout: vout as u32 }, coin);
                }
            }
        }
        let last = blocks.into_iter().next_back().ok_or("the generated chain has no blocks")?;
        let name = format!(
            "a generated one of {} bytes, since block 413567 is not available",
            last.bytes.len()
        );
        let view = BlockView::parse(&last.bytes[..])?;
        let inputs = view.txs().skip(1).flat_map(|tx| tx.inputs().collect::<Vec<_>>());
        let spent: Option<Vec<Coin>> =
            inputs.map(|input| coins.get(&input.outpoint()).cloned()).collect();
        let spent = spent.ok_or("a generated block spends a missing coin")?;
        Self::new(name, last.bytes, last.height, spent.into_iter())
    }

    fn new(
        name: String,
        block: Vec<u8>,
        height: u32,
        mut coins: impl Iterator<Item = Coin>,
    ) -> Result<Self> {
        let view = BlockView::parse(&block[..])?;
        let prev = view.header().prev;
        let spent: Vec<Vec<Coin>> =
            view.txs().skip(1).map(|tx| coins.by_ref().take(tx.input_count()).collect()).collect();
        if spent.iter().map(Vec::len).sum::<usize>() + 1 != view.input_count()
            || coins.next().is_some()
        {
            return Err("the coins are not the ones that the block spends".into());
        }
        Ok(Self { name, block, height, prev, spent })
    }
}

fn coin_of_json(value: &Value) -> Option<Coin> {
    let hex = value["txout"]["script_pubkey"].as_str()?;
    let byte = |i: usize| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok();
    let script = (0..hex.len() / 2).map(byte).collect::<Option<Vec<u8>>>()?;
    let amount = value["txout"]["value"].as_u64()?;
    let height = u32::try_from(value["creation_height"].as_u64()?).ok()?;
    Some(Coin::new(amount, &script, height, value["is_coinbase"].as_bool()?))
}
