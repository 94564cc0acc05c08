//! A model of a chain's UTXO set, made by applying the blocks to a map with the `bitcoin` crate:
//! slow, simple, and without Apus's code except for the encoding of undo data and hints. Tests
//! compare its hints and undo data with those of Apus, and damage them.

use std::collections::HashMap;

use apus_coins::Coin;
use apus_swiftsync::hints::encoder;
use apus_swiftsync::{Format, Numbering};
use apus_wire::put_compact_size;
use bitcoin::OutPoint;

/// An output of a block.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether the output can be spent at all.
    pub spendable: bool,
    /// The height of the block that spends the output.
    pub spent_at: Option<u32>,
}

/// A block's outputs, and the coins that each of its transactions but the coinbase spends.
#[derive(Clone, Default)]
pub struct Deeds {
    pub outputs: Vec<Output>,
    pub undo: Vec<Vec<Coin>>,
}

/// The outputs and spent coins of a chain's blocks, genesis first.
#[derive(Clone)]
pub struct Model {
    pub blocks: Vec<Deeds>,
}

/// The indices of a block's unspent outputs, and how many outputs are counted.
pub type Hinted = (Vec<u32>, u32);

impl Model {
    /// Applies blocks, genesis first. An output that does not exist is spent as a coin without
    /// value.
    pub fn of(blocks: &[Vec<u8>]) -> Self {
        let mut played = vec![Deeds::default()];
        let mut coins: HashMap<OutPoint, (Coin, u32, usize)> = HashMap::new();
        for (height, bytes) in (0u32..).zip(blocks).skip(1) {
            let block: bitcoin::Block = bitcoin::consensus::deserialize(bytes).unwrap();
            let mut deeds = Deeds::default();
            for (index, tx) in block.txdata.iter().enumerate() {
                let mut spent = Vec::new();
                for input in tx.input.iter().filter(|_| index > 0) {
                    let Some((coin, at, output)) = coins.remove(&input.previous_output) else {
                        spent.push(Coin::new(0, &[0x51], height - 1, false));
                        continue;
                    };
                    let of_block = if at == height { &mut deeds } else { &mut played[at as usize] };
                    of_block.outputs[output].spent_at = Some(height);
                    spent.push(coin);
                }
                if index > 0 {
                    deeds.undo.push(spent);
                }
                let txid = tx.compute_txid();
                for (vout, output) in tx.output.iter().enumerate() {
                    let script = output.script_pubkey.as_bytes();
                    let spendable = script.first() != Some(&0x6a) && script.len() <= 10_000;
                    if spendable {
                        let amount = output.value.to_sat();
                        let coin = Coin::new(amount, script, height, index == 0);
                        let place = (coin, height, deeds.outputs.len());
                        coins.insert(OutPoint::new(txid, vout as u32), place);
                    }
                    deeds.outputs.push(Output { spendable, spent_at: None });
                }
            }
            played.push(deeds);
        }
        Self { blocks: played }
    }

    pub fn height(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// Returns the outputs of each block from 1 to `height` that are unspent at `height`.
    pub fn hints(&self, height: u32, numbering: Numbering) -> Vec<Hinted> {
        let of_block = |deeds: &Deeds| {
            let counted = |output: &&Output| numbering == Numbering::All || output.spendable;
            let counted: Vec<&Output> = deeds.outputs.iter().filter(counted).collect();
            let stays = |output: &Output| {
                output.spendable && output.spent_at.is_none_or(|spent_at| spent_at > height)
            };
            let unspent = (0..).zip(&counted).filter(|(_, output)| stays(output));
            (unspent.map(|(index, _)| index).collect(), counted.len() as u32)
        };
        self.blocks[1..=height as usize].iter().map(of_block).collect()
    }

    pub fn hints_file(&self, height: u32, format: Format) -> Vec<u8> {
        encode(&self.hints(height, format.numbering()), format)
    }

    /// Returns a block's undo data.
    pub fn undo(&self, height: u32) -> Vec<u8> {
        encode_undo(&self.blocks[height as usize].undo)
    }
}

/// Returns the bytes of a hints file with these hints of the blocks from height 1 on.
pub fn encode(blocks: &[Hinted], format: Format) -> Vec<u8> {
    let encoder = encoder(format);
    let mut bytes = Vec::new();
    encoder.put_head(blocks.len() as u32, &mut bytes);
    let mut lengths = Vec::new();
    for (unspent, outputs) in blocks {
        let start = bytes.len();
        encoder.put_block(unspent, *outputs, &mut bytes).unwrap();
        lengths.push((bytes.len() - start) as u32);
    }
    encoder.put_tail(&mut bytes);
    if let Some(head) = encoder.final_head(&lengths) {
        bytes[..head.len()].copy_from_slice(&head);
    }
    bytes
}

/// Returns the undo data with these coins of each transaction.
pub fn encode_undo(txs: &[Vec<Coin>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_compact_size(&mut bytes, txs.len() as u64);
    for coins in txs {
        put_compact_size(&mut bytes, coins.len() as u64);
        coins.iter().for_each(|coin| coin.encode_undo(&mut bytes));
    }
    bytes
}
