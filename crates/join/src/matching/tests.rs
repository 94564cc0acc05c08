//! Compares the matcher with a plain map on random histories.

use std::collections::BTreeSet;

use apus_coins::key_order;
use apus_testdata::Random;

use super::*;
use crate::record::{put_spend, put_tx};
use crate::replay::ReplayedCoin;

/// 2 × height + coinbase, and amount and script in compressed form.
type Coin = (u32, Vec<u8>);

/// The source of the records to drop.
const DROPPED: u32 = 9;

/// The result that a matcher must reach.
#[derive(Default, Debug, PartialEq)]
struct Found {
    /// By height and place of the spend.
    taken: BTreeMap<(u32, u32), (OutPoint, Coin)>,
    left: BTreeMap<OutPoint, Coin>,
    /// Coins that existed before and are neither spent nor replaced.
    base: BTreeMap<OutPoint, Coin>,
    overwritten: u64,
    fault: Option<u32>,
}

impl Found {
    fn refuse(&mut self, height: u32) {
        self.fault = Some(self.fault.map_or(height, |lowest| lowest.min(height)));
    }
}

/// A random history: the records that the first pass would write for it, and the expected result.
struct History {
    random: Random,
    /// The kind of the block at each height.
    kinds: Vec<BlockKind>,
    base: BTreeMap<OutPoint, Coin>,
    txs: Vec<Vec<u8>>,
    spends: Vec<Vec<u8>>,
    coins: BTreeMap<OutPoint, Coin>,
    /// Txids that blocks have created.
    known: BTreeSet<Hash>,
    /// One in this many spends and creations is wrong; 0 for none.
    wrong_of: u32,
    result: Found,
}

impl History {
    fn new(seed: u64, wrong_of: u32, with_base: bool) -> Self {
        let mut history = Self {
            random: Random(seed),
            kinds: vec![BlockKind::Once],
            base: BTreeMap::new(),
            txs: Vec::new(),
            spends: Vec::new(),
            coins: BTreeMap::new(),
            known: BTreeSet::new(),
            wrong_of,
            result: Found::default(),
        };
        if with_base {
            for _ in 0..30 {
                let txid = history.txid();
                let outputs = outputs(&txid);
                let coins = outputs.into_iter().map(|(vout, bytes)| (out(txid, vout), (3, bytes)));
                history.coins.extend(coins);
            }
            history.base = history.coins.clone();
        }
        for height in 10..50 {
            let kind = match height {
                0..30 => BlockKind::LookUp,
                30 | 31 => BlockKind::Repeat,
                _ => BlockKind::Once,
            };
            history.kinds.resize(height as usize, kind);
            history.kinds.push(kind);
            match kind {
                BlockKind::Once => history.met_block(height),
                _ => history.spilled_block(height, kind),
            }
        }
        history.result.left = history.coins.clone();
        history.result.left.retain(|outpoint, coin| history.base.get(outpoint) != Some(&*coin));
        history.result.base = history.coins.clone();
        history.result.base.retain(|outpoint, coin| history.base.get(outpoint) == Some(&*coin));
        history
    }

    fn is_wrong(&mut self) -> bool {
        self.wrong_of > 0 && self.random.below(self.wrong_of) == 0
    }

    fn txid(&mut self) -> Hash {
        Hash(self.random.bytes(32).try_into().unwrap())
    }

    /// Returns one of the txids that blocks have created.
    fn known_txid(&mut self) -> Hash {
        self.random.one_of(&self.known.iter().copied().collect::<Vec<_>>())
    }

    /// Returns a coin to spend that was created below `height`.
    fn wanted(&mut self, height: u32) -> OutPoint {
        if self.is_wrong() {
            return match self.random.below(3u32) {
                0 => out(self.txid(), 0),
                1 => out(self.known_txid(), 1),
                _ => match self.result.taken.values().next() {
                    Some((outpoint, _)) => *outpoint,
                    None => out(self.txid(), 1),
                },
            };
        }
        let older = self.coins.iter().filter(|(_, coin)| coin.0 >> 1 < height);
        let older: Vec<OutPoint> = older.map(|(outpoint, _)| *outpoint).collect();
        self.random.one_of(&older)
    }

    fn spend(&mut self, outpoint: OutPoint, height: u32, place: u32) {
        let mut record = Vec::new();
        put_spend(&mut record, &Spend { outpoint, height, place });
        self.spends.push(record);
        match self.coins.remove(&outpoint) {
            Some(coin) => {
                self.result.taken.insert((height, place), (outpoint, coin));
            }
            None => self.result.refuse(height),
        }
    }

    fn create(&mut self, txid: Hash, created: Created, outputs: Vec<(u32, Vec<u8>)>) {
        let mut record = Vec::new();
        let refs = outputs.iter().map(|(vout, bytes)| (*vout, &bytes[..]));
        put_tx(&mut record, &txid, created, outputs.len() as u32, refs);
        self.txs.push(record);
        for (vout, bytes) in outputs {
            let before = self.coins.insert(out(txid, vout), (created.code(), bytes));
            self.result.overwritten += u64::from(before.is_some());
        }
        self.known.insert(txid);
    }

    /// Adds a block whose spends of its own outputs are matched elsewhere.
    fn met_block(&mut self, height: u32) {
        for place in 0..self.random.below(6u32) {
            if self.coins.iter().any(|(_, coin)| coin.0 >> 1 < height) {
                let outpoint = self.wanted(height);
                self.spend(outpoint, height, place);
            }
        }
        for index in 0..1 + self.random.below(3u32) {
            let mut txid = self.txid();
            if self.is_wrong() && !self.known.is_empty() {
                txid = self.known_txid();
                self.result.refuse(height);
            }
            let created = Created { height, is_coinbase: index == 0, ready: None };
            let outputs = outputs(&txid);
            self.create(txid, created, outputs);
        }
    }

    /// Adds a block that puts all that it creates and spends into the partitions.
    fn spilled_block(&mut self, height: u32, kind: BlockKind) {
        // BIP30 looks at the set before the block.
        let before: BTreeSet<Hash> = self.coins.keys().map(|outpoint| outpoint.txid).collect();
        let base = self.base.keys().map(|outpoint| outpoint.txid);
        let all: BTreeSet<Hash> = base.chain(self.known.iter().copied()).collect();
        let gone: Vec<Hash> = all.difference(&before).copied().collect();
        let mut place = 0;
        let mut made = Vec::new();
        for index in 0..1 + self.random.below(4u32) {
            for _ in 0..if index > 0 { self.random.below(3u32) } else { 0 } {
                if self.coins.iter().any(|(_, coin)| coin.0 >> 1 < height) {
                    let outpoint = self.wanted(height);
                    self.spend(outpoint, height, place);
                    place += 1;
                }
            }
            let mut txid = self.txid();
            if self.random.below(4u32) == 0 && !gone.is_empty() {
                txid = self.random.one_of(&gone);
            }
            if kind == BlockKind::Repeat && self.random.below(2u32) == 0 && !before.is_empty() {
                txid = self.random.one_of(&before.iter().copied().collect::<Vec<_>>());
            }
            if self.is_wrong() && !self.known.is_empty() {
                txid = self.known_txid();
            }
            if made.contains(&txid) {
                match self.wrong_of {
                    0 => continue,
                    _ => self.result.refuse(height),
                }
            }
            if kind == BlockKind::LookUp && before.contains(&txid) {
                self.result.refuse(height);
            }
            made.push(txid);
            let created = Created { height, is_coinbase: index == 0, ready: Some(place) };
            let outputs = outputs(&txid);
            self.create(txid, created, outputs);
            if self.random.below(3u32) == 0 {
                // A spend in the same block.
                let own = self.coins.keys().find(|outpoint| outpoint.txid == txid).copied();
                if let Some(outpoint) = own {
                    self.spend(outpoint, height, place);
                    place += 1;
                }
            }
        }
    }

    /// Returns the records in batches, some of which are of the source to drop.
    fn batches(&mut self, records: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut records = records.to_vec();
        for i in (1..records.len()).rev() {
            records.swap(i, self.random.below(i + 1));
        }
        let mut batches = Vec::new();
        let mut rest = &records[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(1 + self.random.below(rest.len().min(7)));
            rest = later;
            for source in [1 + self.random.below(3u32), DROPPED] {
                let mut batch = Vec::new();
                let start = begin_batch(&mut batch, source);
                now.iter().for_each(|record| batch.extend_from_slice(record));
                end_batch(&mut batch, start);
                batches.push(batch);
            }
        }
        batches
    }

    /// Returns the result of a matcher that works in this many slices; `None` for all at once.
    fn matched(&mut self, slices: Option<u64>) -> Found {
        let txs = self.txs.clone();
        let spends = self.spends.clone();
        let txs = self.batches(&txs);
        let spends = self.batches(&spends);
        let mut matcher = Matcher::new(TxidHasher::random());
        let mut result = Found { base: self.base.clone(), ..Found::default() };
        let dropped = HashSet::from([DROPPED]);
        for slice in 0..slices.unwrap_or(1) {
            matcher.clear();
            let slice = slices.map(|of| (slice, of));
            let bytes = self.load(&mut matcher, &txs, &dropped, slice);
            self.take(&mut matcher, &bytes, &spends, slice, &mut result);
            self.replay(&mut matcher, &mut result);
            collect(&mut matcher, &bytes, &mut result);
        }
        result
    }

    fn load(
        &mut self,
        matcher: &mut Matcher,
        txs: &[Vec<u8>],
        dropped: &HashSet<u32>,
        slice: Option<(u64, u64)>,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut ranges = Vec::new();
        for batch in txs {
            let start = bytes.len();
            match slice {
                Some(slice) => {
                    matcher.keep_slice(batch, dropped, slice, &mut bytes).unwrap();
                }
                None => bytes.extend_from_slice(batch),
            }
            ranges.push(start..bytes.len());
            // Bytes between the ranges are ignored.
            let len = self.random.below(20usize);
            bytes.extend_from_slice(&self.random.bytes(len));
        }
        matcher.load(&bytes, &ranges, dropped).unwrap();
        for outpoint in matcher.may_exist(&bytes) {
            if let Some((code, output)) = self.base.get(&outpoint) {
                matcher.add_base(&bytes, &outpoint, *code, output.clone());
            }
        }
        bytes
    }

    fn take(
        &self,
        matcher: &mut Matcher,
        bytes: &[u8],
        spends: &[Vec<u8>],
        slice: Option<(u64, u64)>,
        result: &mut Found,
    ) {
        let mut unmet = Vec::new();
        let dropped = HashSet::from([DROPPED]);
        for batch in spends {
            let note = |spend: &Spend, taken| match taken {
                Taken::Met => {}
                Taken::Twice(height) => result.refuse(height),
                Taken::Unmet => unmet.push(*spend),
                Taken::TooEarly(created) => {
                    result.refuse(created);
                    unmet.push(*spend);
                }
            };
            matcher.take_all(bytes, batch, &dropped, slice, note).unwrap();
        }
        unmet.sort_by_key(|spend| (spend.height, spend.place));
        for Spend { outpoint, height, place } in unmet {
            match result.base.remove(&outpoint) {
                Some(coin) => {
                    let before = result.taken.insert((height, place), (outpoint, coin));
                    assert!(before.is_none(), "an input has one coin");
                }
                None => result.refuse(height),
            }
        }
    }

    fn replay(&self, matcher: &mut Matcher, result: &mut Found) {
        let kind = |height: u32| self.kinds.get(height as usize).copied();
        for (txid, replayed) in matcher.replayed(|height| kind(height).unwrap()) {
            if let Some(height) = replayed.fault {
                result.refuse(height);
            }
            result.overwritten += replayed.overwritten;
            let mut base_gone = replayed.overwritten_base;
            for (vout, height, place, coin) in replayed.taken {
                let ReplayedCoin { code, output, is_base } = coin;
                if is_base {
                    base_gone.push(vout);
                }
                let coin = (out(txid, vout), (code, output));
                assert!(result.taken.insert((height, place), coin).is_none());
            }
            for vout in base_gone {
                assert!(result.base.remove(&out(txid, vout)).is_some(), "once");
            }
            let left = replayed.left.into_iter().filter(|(_, coin)| !coin.is_base);
            result
                .left
                .extend(left.map(|(vout, coin)| (out(txid, vout), (coin.code, coin.output))));
        }
    }
}

/// Adds the outputs that were taken and the outputs that are left, in the order of keys.
fn collect(matcher: &mut Matcher, bytes: &[u8], result: &mut Found) {
    let mut add = |height, place, output: MatchedOutput| {
        // The outpoint follows from the bytes, which are random.
        let coin = (OutPoint::default(), (output.code, output.output.to_vec()));
        if result.taken.insert((height, place), coin).is_none() {
            Ok(())
        } else {
            Err("an input has one coin")
        }
    };
    matcher.for_each_taken(bytes, &mut add).unwrap();
    let mut last: Option<OutPoint> = None;
    let add = |outpoint: &OutPoint, output: MatchedOutput| {
        assert!(last.is_none_or(|last| key_order(&last, outpoint).is_lt()), "in order of keys");
        last = Some(*outpoint);
        result.left.insert(*outpoint, (output.code, output.output.to_vec()));
        Ok::<(), Damaged>(())
    };
    matcher.for_each_left(bytes, add).unwrap();
}

/// Returns the outputs of a transaction, the same each time that it is created: one to four with
/// gaps, rarely with indices that sort in another order as keys.
fn outputs(txid: &Hash) -> Vec<(u32, Vec<u8>)> {
    let mut random = Random(u64::from_le_bytes(txid.0[..8].try_into().unwrap()));
    let mut vout = if random.below(20u32) == 0 { 16_510 } else { 0 };
    let mut outputs = Vec::new();
    for _ in 0..1 + random.below(4u32) {
        vout += random.below(2u32);
        let len = 1 + random.below(40usize);
        outputs.push((vout, random.bytes(len)));
        vout += 1;
    }
    outputs
}

fn out(txid: Hash, vout: u32) -> OutPoint {
    OutPoint { txid, vout }
}

impl Found {
    /// Returns the coins that were taken, without their outpoints.
    fn taken_coins(&self) -> BTreeMap<(u32, u32), &Coin> {
        self.taken.iter().map(|(at, (_, coin))| (*at, coin)).collect()
    }
}

#[test]
fn it_comes_to_what_a_map_comes_to() {
    let mut taken = 0;
    let mut overwritten = 0;
    let mut from_base = 0;
    for seed in 0..120 {
        let mut history = History::new(seed, 0, seed % 2 == 1);
        assert_eq!(history.result.fault, None);
        for slices in [None, Some(1), Some(2), Some(7)] {
            let found = history.matched(slices);
            let due = &history.result;
            let what = format!("seed {seed}, slices {slices:?}");
            assert_eq!(found.fault, None, "{what}");
            assert_eq!(found.taken_coins(), due.taken_coins(), "{what}");
            assert_eq!((&found.left, &found.base), (&due.left, &due.base), "{what}");
            assert_eq!(found.overwritten, due.overwritten, "{what}");
        }
        let Found { taken: all, overwritten: replaced, .. } = &history.result;
        taken += all.len();
        overwritten += replaced;
        from_base += all.values().filter(|(_, coin)| coin.0 >> 1 < 10).count();
    }
    assert!(taken > 2000 && overwritten > 30 && from_base > 500, "enough cases were tried");
}

/// These blocks are of the kind in which no valid chain creates a transaction again.
#[test]
fn what_the_set_below_has_and_a_later_block_creates_is_a_fault() {
    let coinbase = Hash([1; 32]);
    let payment = Hash([2; 32]);
    let mut bytes = Vec::new();
    let start = begin_batch(&mut bytes, 1);
    for (txid, is_coinbase) in [(coinbase, true), (payment, false)] {
        let created = Created { height: 60, is_coinbase, ready: None };
        put_tx(&mut bytes, &txid, created, 1, [(0, &[7; 3][..])].into_iter());
    }
    end_batch(&mut bytes, start);
    let mut matcher = Matcher::new(TxidHasher::random());
    let all = 0..bytes.len();
    matcher.load(&bytes, std::slice::from_ref(&all), &HashSet::new()).unwrap();
    assert_eq!(matcher.may_exist(&bytes), [out(coinbase, 0)]);
    matcher.add_base(&bytes, &out(coinbase, 0), 40, vec![7; 3]);
    let spends = [(coinbase, 70), (payment, 50), (payment, 70), (Hash([3; 32]), 50)];
    let mut batch = Vec::new();
    let start = begin_batch(&mut batch, 1);
    for (txid, height) in spends {
        put_spend(&mut batch, &Spend { outpoint: out(txid, 0), height, place: 0 });
    }
    end_batch(&mut batch, start);
    let mut taken = Vec::new();
    let note = |_: &Spend, how| taken.push(how);
    matcher.take_all(&bytes, &batch, &HashSet::new(), None, note).unwrap();
    assert_eq!(taken, [Taken::Met, Taken::TooEarly(60), Taken::Met, Taken::Unmet]);
    let faults: Vec<_> = matcher.replayed(|_| BlockKind::Once).map(|(_, r)| r.fault).collect();
    assert_eq!(faults, [Some(60)]);
}

#[test]
fn the_lowest_fault_is_found() {
    let mut heights = BTreeSet::new();
    for seed in 1000..1300 {
        let mut history = History::new(seed, 60, seed % 2 == 1);
        for slices in [None, Some(3)] {
            let found = history.matched(slices).fault;
            assert_eq!(found, history.result.fault, "seed {seed}, slices {slices:?}");
        }
        heights.extend(history.result.fault);
    }
    assert!(heights.len() > 15 && heights.iter().any(|height| *height > 35), "{heights:?}");
}

#[test]
fn records_that_are_cut_short_are_damaged() {
    let mut history = History::new(5, 0, false);
    let txs = history.txs.clone();
    let spends = history.spends.clone();
    let txs = history.batches(&txs);
    let spends = history.batches(&spends);
    let none = HashSet::new();
    for cut in 1..txs[0].len() {
        let bytes = &txs[0][..txs[0].len() - cut];
        let all = 0..bytes.len();
        let mut matcher = Matcher::new(TxidHasher::random());
        let loaded = matcher.load(bytes, std::slice::from_ref(&all), &none);
        assert_eq!(loaded.is_err(), !bytes.is_empty(), "{cut}");
        let kept = matcher.keep_slice(bytes, &none, (0, 1), &mut Vec::new());
        assert_eq!(kept.is_err(), !bytes.is_empty(), "{cut}");
    }
    for cut in 1..spends[0].len() {
        let bytes = &spends[0][..spends[0].len() - cut];
        let taken = Matcher::new(TxidHasher::random()).take_all(&[], bytes, &none, None, |_, _| {});
        assert!(taken.is_err(), "{cut}");
    }
}
