use apus_disk::{Share, ShareWatch, StoreError};
use apus_wire::OutPoint;
use rayon::prelude::*;

use super::coin::Coin;
use super::coins_view::{CoinScan, CoinsView};
use super::stats::scans_of_any_order;

/// Coins that were looked for.
#[derive(Default)]
pub struct FoundCoins {
    /// The coins, in any order.
    pub coins: Vec<(OutPoint, Coin)>,
    /// The number of coins that were looked at.
    pub looked_at: u64,
}

impl CoinsView {
    /// Returns the coins that `is_wanted` chooses, on all threads of the caller's pool; only some
    /// of them if the work is stopped.
    ///
    /// # Errors
    /// A table cannot be read, or a record is damaged.
    pub fn find_coins(
        &self,
        is_wanted: impl Fn(&Coin) -> bool + Sync,
        watch: ShareWatch,
    ) -> Result<FoundCoins, StoreError> {
        let scans = scans_of_any_order(self)?;
        let share = Share::new(scans.len() as u64, watch.report);
        let of_scan = |mut scan: CoinScan| {
            let mut found = FoundCoins::default();
            if watch.is_stopped() {
                return Ok(found);
            }
            while let Some((outpoint, coin)) = scan.next_coin()? {
                found.looked_at += 1;
                if is_wanted(&coin) {
                    found.coins.push((outpoint, coin));
                }
            }
            share.add(1);
            Ok(found)
        };
        let combine = |mut a: FoundCoins, mut b: FoundCoins| {
            a.coins.append(&mut b.coins);
            Ok(FoundCoins { looked_at: a.looked_at + b.looked_at, ..a })
        };
        scans.into_par_iter().map(of_scan).try_reduce(FoundCoins::default, combine)
    }
}
