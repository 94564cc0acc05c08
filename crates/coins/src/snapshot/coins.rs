use apus_hash::Hash;
use apus_wire::{OutPoint, put_compact_size};

use crate::coin::Coin;

/// Coins in the form of a snapshot: for each transaction its txid and the number of its coins, and
/// for each coin the index of its output as a CompactSize and its [encoded form](Coin::encode).
#[derive(Default)]
pub struct SnapshotCoins {
    bytes: Vec<u8>,
    /// The coins of the latest transaction, `txid`, which are not in `bytes` yet.
    group: Vec<u8>,
    group_coins: u64,
    txid: Option<Hash>,
    coins: u64,
}

impl SnapshotCoins {
    /// Adds a coin. The coins of a transaction must be added one after another.
    pub fn push(&mut self, outpoint: &OutPoint, coin: &Coin) {
        self.push_with(outpoint, |out| coin.encode(out));
    }

    /// Adds a coin whose encoded form `encode` appends.
    pub fn push_with(&mut self, outpoint: &OutPoint, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.txid != Some(outpoint.txid) {
            self.end_group();
            self.txid = Some(outpoint.txid);
        }
        put_compact_size(&mut self.group, outpoint.vout.into());
        encode(&mut self.group);
        self.group_coins += 1;
    }

    /// Returns the bytes of all coins that were added, and their number.
    pub fn finish(mut self) -> (Vec<u8>, u64) {
        self.end_group();
        (self.bytes, self.coins)
    }

    fn end_group(&mut self) {
        let Some(txid) = self.txid.take() else { return };
        self.bytes.extend_from_slice(&txid.0);
        put_compact_size(&mut self.bytes, self.group_coins);
        self.bytes.append(&mut self.group);
        self.coins += std::mem::take(&mut self.group_coins);
    }
}
