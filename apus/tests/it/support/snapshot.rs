//! UTXO snapshots in tests: read, made from a chain's blocks, and written with faults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use apus_coins::Coin;
use apus_hash::Hash;
use apus_node::SnapshotInfo;
use apus_node::SyncError;
use apus_progress::Watch;
use apus_wire::{Cursor, Network, OutPoint, put_compact_size};

use super::hash_of;

/// The length of a snapshot's head: `utxo`, ff, version, magic, base block, number of coins.
const HEAD_BYTES: usize = 51;

/// Returns the description of a snapshot file, read on two threads.
pub fn snapshot_info(path: &Path) -> Result<SnapshotInfo, SyncError> {
    apus_node::snapshot_info(path, 2, Watch::default()).map(Option::unwrap)
}

/// A snapshot in parts, each of which a test may change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub magic: [u8; 4],
    pub base: Hash,
    /// The number of coins that the head states.
    pub count: u64,
    /// The coins in the order of the file.
    pub coins: Vec<(OutPoint, Coin)>,
    /// Bytes after the last coin.
    pub tail: Vec<u8>,
}

impl Snapshot {
    /// Reads a well-formed file.
    pub fn parse(bytes: &[u8]) -> Self {
        assert_eq!(bytes[..7], *b"utxo\xff\x02\x00");
        let mut cursor = Cursor::at(bytes, 7);
        let magic = cursor.array().unwrap();
        let base = Hash(cursor.array().unwrap());
        let count = cursor.u64().unwrap();
        assert_eq!(cursor.position(), HEAD_BYTES);
        let mut coins = Vec::new();
        while cursor.remaining() > 0 {
            let txid = Hash(cursor.array().unwrap());
            for _ in 0..cursor.compact_size().unwrap() {
                let vout = cursor.compact_size().unwrap() as u32;
                coins.push((OutPoint { txid, vout }, Coin::decode(&mut cursor).unwrap()));
            }
        }
        assert_eq!(coins.len() as u64, count);
        Self { magic, base, count, coins, tail: Vec::new() }
    }

    /// Returns the snapshot that fits blocks, genesis first, whether or not they are valid.
    pub fn of_blocks(network: &Network, blocks: &[Vec<u8>]) -> Self {
        let height = blocks.len() as u32 - 1;
        let coins: Vec<_> = play(blocks, height).0.into_iter().collect();
        let base = hash_of(&blocks[height as usize]);
        let count = coins.len() as u64;
        Self { magic: network.magic, base, count, coins, tail: Vec::new() }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = b"utxo\xff\x02\x00".to_vec();
        bytes.extend(self.magic);
        bytes.extend(self.base.0);
        bytes.extend(self.count.to_le_bytes());
        for group in self.coins.chunk_by(|a, b| a.0.txid == b.0.txid) {
            bytes.extend(group[0].0.txid.0);
            put_compact_size(&mut bytes, group.len() as u64);
            for (outpoint, coin) in group {
                put_compact_size(&mut bytes, outpoint.vout.into());
                coin.encode(&mut bytes);
            }
        }
        bytes.extend(&self.tail);
        bytes
    }

    pub fn by_outpoint(&self) -> BTreeMap<OutPoint, Coin> {
        self.coins.iter().cloned().collect()
    }
}

/// Returns the UTXO set at a height, made by applying the blocks, genesis first, to a map.
pub fn unspent_at(blocks: &[Vec<u8>], height: u32) -> BTreeMap<OutPoint, Coin> {
    let (coins, is_valid) = play(blocks, height);
    assert!(is_valid, "every input spends a coin that is there");
    coins
}

/// Returns the outputs that blocks, genesis first, leave unspent at a height, even if some of them
/// spend an output before it is created or one that does not exist; and whether no block does that.
pub fn play(blocks: &[Vec<u8>], height: u32) -> (BTreeMap<OutPoint, Coin>, bool) {
    let mut coins = BTreeMap::new();
    let mut early = BTreeSet::new();
    let mut is_valid = true;
    for (height, bytes) in (0..=height).zip(blocks).skip(1) {
        let block: bitcoin::Block = bitcoin::consensus::deserialize(bytes).unwrap();
        for (index, tx) in block.txdata.iter().enumerate() {
            for input in tx.input.iter().filter(|_| index > 0) {
                let spent = input.previous_output;
                let txid = Hash(bitcoin::hashes::Hash::to_byte_array(spent.txid));
                let outpoint = OutPoint { txid, vout: spent.vout };
                if coins.remove(&outpoint).is_none() {
                    is_valid = false;
                    early.insert(outpoint);
                }
            }
            let txid = Hash(bitcoin::hashes::Hash::to_byte_array(tx.compute_txid()));
            for (vout, output) in (0..).zip(&tx.output) {
                let script = output.script_pubkey.as_bytes();
                let outpoint = OutPoint { txid, vout };
                let is_coin = script.first() != Some(&0x6a) && script.len() <= 10_000;
                if is_coin && !early.remove(&outpoint) {
                    let coin = Coin::new(output.value.to_sat(), script, height, index == 0);
                    coins.insert(outpoint, coin);
                }
            }
        }
    }
    (coins, is_valid)
}
