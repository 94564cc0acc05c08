//! The base of a join: the UTXO set that it begins with. Spends of coins that no block of the join
//! created are looked up here.

use apus_coins::{Chainstate, Coin, key_order};
use apus_disk::StoreError;
use apus_join::Spend;
use apus_wire::{OutPoint, varint_len};

/// Number of coins that are looked up at a time.
const LOOK_UPS: usize = 8192;

/// Number of coins that can be read in order in the time of one look-up.
const SCANNED_PER_LOOK_UP: u128 = 20;
/// Approximate bytes of a coin in the tables: a key of 34, shared in part, and a value of 30.
const COIN_BYTES: u64 = 60;

/// The coins of the UTXO set that a join begins with.
#[derive(Clone, Copy)]
pub(super) struct Base<'a>(&'a Chainstate);

/// An outpoint, its coin in the base, and the spends of it.
pub(super) struct Wanted<'a> {
    pub outpoint: OutPoint,
    /// `None` if there is no such coin.
    pub coin: Option<Coin>,
    /// In order of height and place: only the first can spend the coin.
    pub spends: &'a [Spend],
}

impl<'a> Base<'a> {
    /// Returns the coins of `chainstate`; `None` if there are none.
    pub fn of(chainstate: &'a Chainstate) -> Option<Self> {
        (!chainstate.is_empty()).then_some(Self(chainstate))
    }

    pub fn existing(&self, outpoints: &[OutPoint]) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
        let mut found = Vec::new();
        for outpoints in outpoints.chunks(LOOK_UPS) {
            let coins = self.0.get_many(outpoints)?;
            found.extend(outpoints.iter().zip(coins).filter_map(|(o, coin)| Some((*o, coin?))));
        }
        Ok(found)
    }

    /// Looks up the coins of `spends`, and calls `each` with every outpoint once, in the order of
    /// the tables. If these are many of the coins that the tables have from the first to the last
    /// outpoint, all coins in between are read; otherwise each coin is looked up.
    pub fn look_up(
        &self,
        spends: &mut [Spend],
        mut each: impl FnMut(Wanted) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        spends.sort_unstable_by(|a, b| {
            let order = key_order(&a.outpoint, &b.outpoint);
            order.then((a.height, a.place).cmp(&(b.height, b.place)))
        });
        let groups: Vec<&[Spend]> = spends.chunk_by(|a, b| a.outpoint == b.outpoint).collect();
        if self.wants_many(&groups) {
            return self.scan(&groups, each);
        }
        for groups in groups.chunks(LOOK_UPS) {
            let outpoints: Vec<OutPoint> = groups.iter().map(|group| group[0].outpoint).collect();
            let coins = self.0.get_many(&outpoints)?;
            for ((outpoint, coin), spends) in outpoints.into_iter().zip(coins).zip(groups) {
                each(Wanted { outpoint, coin, spends })?;
            }
        }
        Ok(())
    }

    /// Returns whether reading all coins from the first to the last of these outpoints is faster
    /// than look-ups. Estimates their number from the range of txids, which are evenly distributed.
    fn wants_many(&self, groups: &[&[Spend]]) -> bool {
        let [first, .., last] = groups else { return false };
        let head = |group: &[Spend]| {
            let [a, b, c, d, ..] = group[0].outpoint.txid.0;
            u64::from(u32::from_be_bytes([a, b, c, d]))
        };
        let share = head(last) - head(first);
        let coins = (u128::from(self.0.disk_bytes() / COIN_BYTES) * u128::from(share)) >> 32;
        groups.len() as u128 * SCANNED_PER_LOOK_UP > coins
    }

    /// Reads all coins from the first to the last of the outpoints of `groups`, and calls `each`
    /// with every outpoint of `groups`.
    fn scan(
        &self,
        groups: &[&[Spend]],
        mut each: impl FnMut(Wanted) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let [first, .., last] = groups else { return Ok(()) };
        let mut scan = self.0.scan_txids(&first[0].outpoint.txid, &last[0].outpoint.txid);
        let mut next = scan.next_coin()?;
        for spends in groups {
            let outpoint = spends[0].outpoint;
            while next.as_ref().is_some_and(|(found, _)| key_order(found, &outpoint).is_lt()) {
                next = scan.next_coin()?;
            }
            let coin = match &next {
                Some((found, coin)) if *found == outpoint => Some(coin.clone()),
                _ => None,
            };
            each(Wanted { outpoint, coin, spends })?;
        }
        Ok(())
    }
}

/// Returns the amount and script of a coin in compressed form.
pub(super) fn output_of(coin: &Coin) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(coin.encoded_len());
    coin.encode(&mut bytes);
    bytes.drain(..varint_len(coin.parts().code.into()));
    bytes
}

#[cfg(test)]
mod tests {
    use apus_coins::{CoinsCache, Overwrite};
    use apus_disk::Disk;
    use apus_hash::Hash;
    use apus_leveldb::Options;
    use apus_testdata::Random;

    use super::*;

    #[test]
    fn reading_all_coins_finds_what_looking_them_up_finds() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { create_if_missing: true, ..Options::default() };
        let chainstate = Chainstate::open(Disk::new(), dir.path(), options).unwrap();
        let cache = CoinsCache::new();
        let mut random = Random(3);
        let mut outpoints = Vec::new();
        for height in 1..3000 {
            let txid = Hash(random.bytes(32).try_into().unwrap());
            for vout in [0, 7, 16_511, 16_512] {
                let outpoint = OutPoint { txid, vout };
                let coin = Coin::new(height, &[81; 30], height as u32, false);
                cache.add(&outpoint, &coin, Overwrite::Never).unwrap();
                outpoints.push(outpoint);
            }
        }
        cache.sync(|changes| chainstate.write(changes, &Hash([1; 32]))).unwrap();
        let base = Base::of(&chainstate).unwrap();
        for every in [2, 500] {
            let mut spends: Vec<Spend> = (0..outpoints.len())
                .step_by(every)
                .flat_map(|at| {
                    let OutPoint { txid, vout } = outpoints[at];
                    // One of three does not exist.
                    let outpoint = OutPoint { txid, vout: vout + u32::from(at % 3 == 0) };
                    [9, 4].map(|height| Spend { outpoint, height, place: at as u32 })
                })
                .collect();
            let mut wanted = Vec::new();
            base.look_up(&mut spends, |found| {
                assert_eq!((found.spends.len(), found.spends[0].height), (2, 4));
                wanted.push((found.outpoint, found.coin));
                Ok(())
            })
            .unwrap();
            let groups: Vec<&[Spend]> = spends.chunk_by(|a, b| a.outpoint == b.outpoint).collect();
            assert_eq!(base.wants_many(&groups), every == 2);
            let mut scanned = Vec::new();
            let note = |found: Wanted| {
                scanned.push((found.outpoint, found.coin));
                Ok(())
            };
            base.scan(&groups, note).unwrap();
            assert!(scanned == wanted && wanted.iter().any(|(_, coin)| coin.is_none()));
            let one = |(outpoint, coin): &(OutPoint, Option<Coin>)| {
                assert_eq!(chainstate.get(outpoint).unwrap(), *coin);
            };
            wanted.iter().for_each(one);
        }
    }
}
