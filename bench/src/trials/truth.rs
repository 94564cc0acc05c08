//! The right UTXO set after each block, found by applying the blocks to a map.

use std::collections::HashMap;

use apus_hash::MuHash;
use apus_testchain::Chain;
use bitcoin::consensus::encode::serialize;
use bitcoin::{OutPoint, ScriptBuf, TxOut, VarInt};

/// The UTXO set after one block.
pub struct Set {
    /// The block's hash.
    pub block: String,
    /// The number of coins.
    pub coins: u64,
    /// The MuHash, not finalised, since that would take longer than everything before.
    hash: MuHash,
}

impl Set {
    /// Returns the set's hash (Core's `muhash`).
    pub fn muhash(&self) -> String {
        self.hash.finalize().to_string()
    }
}

/// The UTXO sets after each block, by height.
pub struct Truth(Vec<Set>);

impl Truth {
    /// Applies a chain's blocks; the last set must be the generator's.
    ///
    /// # Panics
    /// If the generator has a different last set.
    pub fn of(chain: &Chain) -> Self {
        let mut coins = HashMap::<OutPoint, Vec<u8>>::new();
        let mut hash = MuHash::new();
        let mut sets = Vec::new();
        for height in 0..=chain.height() {
            let block = chain.decoded(height);
            // The genesis block's output is in no set.
            let transactions = if height > 0 { &block.txdata[..] } else { &[] };
            for (index, tx) in transactions.iter().enumerate() {
                for input in tx.input.iter().filter(|_| index > 0) {
                    let spent = coins.remove(&input.previous_output).expect("the coin is there");
                    hash.remove(&spent);
                }
                let txid = tx.compute_txid();
                let outputs = tx.output.iter().enumerate().filter(|(_, out)| is_coin(out));
                for (vout, output) in outputs {
                    let outpoint = OutPoint::new(txid, vout as u32);
                    let element = element(&outpoint, output, 2 * height + u32::from(index == 0));
                    hash.insert(&element);
                    coins.insert(outpoint, element);
                }
            }
            let block = block.block_hash().to_string();
            sets.push(Set { block, coins: coins.len() as u64, hash: hash.clone() });
        }
        assert_eq!(coins.len() as u64, chain.totals().unspent, "as the generator has it");
        Self(sets)
    }

    /// Returns the set after the block at a height, or `None` if the chain is shorter.
    pub fn at(&self, height: u64) -> Option<&Set> {
        self.0.get(usize::try_from(height).ok()?)
    }

    pub fn height(&self) -> u64 {
        self.0.len() as u64 - 1
    }

    /// Returns the set after the last block.
    pub fn tip(&self) -> &Set {
        &self.0[self.0.len() - 1]
    }
}

fn is_coin(output: &TxOut) -> bool {
    let script: &ScriptBuf = &output.script_pubkey;
    !script.is_op_return() && script.len() <= 10_000
}

/// Returns the bytes of one coin that the hash is computed from (Core's `TxOutSer`).
fn element(outpoint: &OutPoint, output: &TxOut, code: u32) -> Vec<u8> {
    let mut bytes = serialize(outpoint);
    bytes.extend_from_slice(&code.to_le_bytes());
    bytes.extend_from_slice(&output.value.to_sat().to_le_bytes());
    bytes.extend_from_slice(&serialize(&VarInt(output.script_pubkey.len() as u64)));
    bytes.extend_from_slice(output.script_pubkey.as_bytes());
    bytes
}
