//! Reads the coins of the UTXO set, in the order of the tables' keys.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use apus_coins::{Chainstate, CoinScan};
use apus_disk::StoreError;
use apus_export::Batch;

use super::blocks::amount;
use super::source::Source;
use apus_node::error::SyncError;
use apus_node::workers::check_stop;

/// Bytes of tables for each scan: about 60,000 coins.
const SCAN_BYTES: u64 = 4 << 20;
/// Coins that are read between two checks of the stop flag.
const COINS_PER_LOOK: usize = 1 << 14;

/// The coins that the blocks in a range of heights have created.
pub(super) struct CoinSource<'a> {
    heights: RangeInclusive<u32>,
    scans: Vec<Mutex<CoinScan>>,
    stop: &'a AtomicBool,
}

impl<'a> CoinSource<'a> {
    pub fn new(
        chainstate: &Chainstate,
        heights: RangeInclusive<u32>,
        stop: &'a AtomicBool,
    ) -> Result<Self, StoreError> {
        let parts = (chainstate.disk_bytes() / SCAN_BYTES).clamp(1, 1 << 16) as usize;
        let scans = chainstate.scans(parts)?.into_iter().map(Mutex::new).collect();
        Ok(Self { heights, scans, stop })
    }
}

impl Source for CoinSource<'_> {
    fn items(&self) -> usize {
        self.scans.len()
    }

    fn read(&self, index: usize, batch: &mut Batch) -> Result<(), SyncError> {
        let mut scan = self.scans[index].lock().unwrap_or_else(PoisonError::into_inner);
        let mut script = Vec::new();
        let mut seen = 0_usize;
        while let Some((outpoint, coin)) = scan.next_coin()? {
            if seen.is_multiple_of(COINS_PER_LOOK) {
                check_stop(self.stop)?;
            }
            seen += 1;
            if self.heights.contains(&coin.height) {
                script.clear();
                coin.script.decompress_into(&mut script);
                batch.push(&[
                    (&outpoint.txid.0).into(),
                    outpoint.vout.into(),
                    amount(&coin),
                    coin.is_coinbase.into(),
                    coin.height.into(),
                    (&script[..]).into(),
                ]);
            }
        }
        Ok(())
    }
}
