use apus_disk::StoreError;
use apus_hash::Hash;
use apus_wire::MAX_SCRIPT_BYTES;

use super::record::{self, HEAD_BYTES_MAX};
use super::set::Survivors;
use crate::coin::CoinParts;

/// The maximum length of a 32-bit VARINT, which may come before a compressed script.
const VARINT_BYTES_MAX: usize = 5;
/// The size in bytes of a writer's buffer for each slot.
const BUFFER_BYTES: usize = 4096;

/// Adds the coins of one thread to [`Survivors`]. A writer must be flushed before it is dropped.
pub struct SurvivorWriter<'a> {
    survivors: &'a Survivors,
    /// [`BUFFER_BYTES`] for each slot.
    buffers: Vec<u8>,
    /// The number of bytes used in each slot's buffer.
    used: Vec<u16>,
    count: u64,
    amount: u64,
}

impl<'a> SurvivorWriter<'a> {
    /// Returns a writer for one thread.
    pub fn new(survivors: &'a Survivors) -> Self {
        let slots = survivors.slots();
        let buffers = vec![0; slots * BUFFER_BYTES];
        let used = vec![0; slots];
        Self { survivors, buffers, used, count: 0, amount: 0 }
    }

    /// Adds a coin.
    ///
    /// # Errors
    /// The disk fails.
    ///
    /// # Panics
    /// The script is longer than Core's limit, so the output can never be spent.
    #[inline]
    pub fn push(&mut self, txid: &Hash, vout: u32, coin: &CoinParts) -> Result<(), StoreError> {
        let slot = self.survivors.slot(txid);
        let mut used = usize::from(self.used[slot]);
        if used + HEAD_BYTES_MAX + coin.script.len() > BUFFER_BYTES {
            self.flush_slot(slot)?;
            if HEAD_BYTES_MAX + coin.script.len() > BUFFER_BYTES {
                return self.push_large(txid, vout, coin);
            }
            used = 0;
        }
        let buffer = &mut self.buffers[slot * BUFFER_BYTES..][..BUFFER_BYTES];
        let len = record::encode(&mut buffer[used..], txid, vout, coin);
        self.used[slot] = (used + len) as u16;
        self.count += 1;
        self.amount = self.amount.saturating_add(coin.amount);
        Ok(())
    }

    /// Flushes all coins that were pushed to the set.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        for slot in 0..self.used.len() {
            self.flush_slot(slot)?;
        }
        let count = std::mem::take(&mut self.count);
        let amount = std::mem::take(&mut self.amount);
        self.survivors.count_flushed(count, amount);
        Ok(())
    }

    #[cold]
    fn flush_slot(&mut self, slot: usize) -> Result<(), StoreError> {
        let used = usize::from(std::mem::take(&mut self.used[slot]));
        let records = &self.buffers[slot * BUFFER_BYTES..][..used];
        if used > 0 { self.survivors.append(slot, records) } else { Ok(()) }
    }

    /// Adds a coin whose record is longer than a buffer.
    #[cold]
    fn push_large(&mut self, txid: &Hash, vout: u32, coin: &CoinParts) -> Result<(), StoreError> {
        assert!(
            coin.script.len() <= MAX_SCRIPT_BYTES + VARINT_BYTES_MAX,
            "the script of {txid}:{vout} is too long to be spent, so it is not a coin"
        );
        let mut bytes = vec![0; HEAD_BYTES_MAX + coin.script.len()];
        let len = record::encode(&mut bytes, txid, vout, coin);
        self.survivors.append(self.survivors.slot(txid), &bytes[..len])?;
        self.count += 1;
        self.amount = self.amount.saturating_add(coin.amount);
        Ok(())
    }
}

impl Drop for SurvivorWriter<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.survivors.note_lost();
        }
    }
}
