//! An external sort of a snapshot's coins by the heights of the blocks that created them.

use std::sync::Arc;

use rayon::prelude::*;

use crate::coins::{GroupCoins, SnapshotGroup};
use crate::disk::{SpillFile, StoreError};
use crate::hash::Hash;

/// The bytes before the coins of a record: how many there are, and the txid.
const HEAD_BYTES: usize = 4 + 32;
/// More bytes than the coins that one block creates can have: a million bytes of it are
/// transactions without witnesses, an output has nine, and twenty here, beside its script.
const BLOCK_BYTES_MAX: usize = 1 << 24;
/// Bytes of a run that are written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// The coins that one thread has collected, in records of one transaction each: sorted runs on
/// disk, and the latest ones in memory.
pub struct HeightCollector {
    spill: Arc<SpillFile>,
    /// The height of the last block.
    height: u32,
    /// Records that are in no run yet: the number of the coins' bytes, the txid, and the coins.
    held: Vec<u8>,
    /// For each record held, the height of its block and its offset in `held`.
    order: Vec<(u32, u32)>,
    /// The most bytes that are held.
    bytes_max: usize,
    runs: Vec<Run>,
    scratch: Vec<u8>,
}

/// Records in the order of their heights and then as they were collected.
enum Run {
    /// Records in memory; `starts` are indices of `order`.
    Held { starts: Vec<u32>, held: Vec<u8>, order: Vec<(u32, u32)> },
    /// Records in the temporary file, from `offset` on; `starts` are offsets from there.
    Spilled { starts: Vec<u32>, offset: u64 },
}

impl HeightCollector {
    /// A collector of the coins of blocks up to `height` that holds no more than about `bytes_max`
    /// bytes, or one record.
    pub fn new(spill: Arc<SpillFile>, height: u32, bytes_max: usize) -> Self {
        Self {
            spill,
            height,
            held: Vec::new(),
            order: Vec::new(),
            bytes_max: bytes_max.min(u32::MAX as usize),
            runs: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Adds the coins of a transaction, whose heights are at most that of the last block.
    pub fn push(&mut self, group: &SnapshotGroup) -> Result<(), StoreError> {
        if let Some(height) = group.plain_height() {
            return self.push_record(height, &group.txid, group.bytes());
        }
        let mut coins = group.decoded();
        coins.sort_by_key(|(vout, coin)| (coin.height, *vout));
        for coins in coins.chunk_by(|(_, a), (_, b)| a.height == b.height) {
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            coins.iter().for_each(|(vout, coin)| GroupCoins::put(&mut bytes, *vout, &coin.parts()));
            self.push_record(coins[0].1.height, &group.txid, &bytes)?;
            self.scratch = bytes;
        }
        Ok(())
    }

    fn push_record(&mut self, height: u32, txid: &Hash, coins: &[u8]) -> Result<(), StoreError> {
        let more = HEAD_BYTES + coins.len();
        let held = self.held.len() + size_of_val(&self.order[..]);
        if held + more > self.bytes_max && !self.order.is_empty() {
            self.write_run()?;
        }
        reserve(&mut self.held, more, self.bytes_max);
        self.order.push((height, self.held.len() as u32));
        self.held.extend_from_slice(&(coins.len() as u32).to_le_bytes());
        self.held.extend_from_slice(&txid.0);
        self.held.extend_from_slice(coins);
        Ok(())
    }

    /// Writes the records held as a run.
    fn write_run(&mut self) -> Result<(), StoreError> {
        self.order.sort_unstable();
        let (mut starts, mut len) = (Vec::with_capacity(self.height as usize + 2), 0);
        let mut records = self.order.iter().peekable();
        for height in 0..=self.height {
            starts.push(len);
            while let Some((_, at)) = records.next_if(|(of, _)| *of == height) {
                len += record_at(&self.held, *at as usize).len() as u32;
            }
        }
        starts.push(len);
        let offset = self.spill.reserve(len.into());
        let (mut bytes, mut at) = (Vec::with_capacity(WRITE_BYTES), offset);
        for (_, record) in &self.order {
            bytes.extend_from_slice(record_at(&self.held, *record as usize));
            if bytes.len() >= WRITE_BYTES {
                self.spill.write_at(&bytes, at)?;
                at += bytes.len() as u64;
                bytes.clear();
            }
        }
        self.spill.write_at(&bytes, at)?;
        self.runs.push(Run::Spilled { starts, offset });
        self.held.clear();
        self.order.clear();
        Ok(())
    }

    /// All runs; the last one is of the records held.
    fn into_runs(mut self) -> Vec<Run> {
        self.order.sort_unstable();
        let first_of = |height| self.order.partition_point(|(of, _)| *of < height) as u32;
        let starts = (0..=self.height + 1).map(first_of).collect();
        self.runs.push(Run::Held { starts, held: self.held, order: self.order });
        self.runs
    }
}

impl Run {
    /// The bytes of the records of a height.
    fn bytes_of(&self, height: usize) -> usize {
        match self {
            Self::Held { starts, held, order } => {
                let of_height = &order[starts[height] as usize..starts[height + 1] as usize];
                of_height.iter().map(|(_, at)| record_at(held, *at as usize).len()).sum()
            }
            Self::Spilled { starts, .. } => (starts[height + 1] - starts[height]) as usize,
        }
    }
}

/// Makes room for `more` bytes: twice as much as there is, but not beyond `max` without need.
fn reserve(bytes: &mut Vec<u8>, more: usize, max: usize) {
    if bytes.capacity() - bytes.len() < more {
        let double = bytes.len().max(1 << 16).min(max.saturating_sub(bytes.len()));
        bytes.reserve_exact(double.max(more));
    }
}

/// The record at an offset.
fn record_at(bytes: &[u8], at: usize) -> &[u8] {
    let len = u32::from_le_bytes(*bytes[at..].first_chunk().expect("a record has a head"));
    &bytes[at..][..HEAD_BYTES + len as usize]
}

/// All coins of a snapshot, to be had by the block that created them.
pub struct CoinsByHeight {
    spill: Arc<SpillFile>,
    runs: Vec<Run>,
}

impl CoinsByHeight {
    /// The coins that all threads have collected. Those in memory are sorted on the caller's pool.
    pub fn new(spill: Arc<SpillFile>, collectors: Vec<HeightCollector>) -> Self {
        let runs = collectors.into_par_iter().flat_map_iter(HeightCollector::into_runs).collect();
        Self { spill, runs }
    }

    /// Puts the coins of the block at a height, which is not above the last one, into `coins`, in
    /// the place of what that held. Returns whether a block can have so many; nothing is loaded
    /// otherwise.
    pub fn load(&self, height: u32, coins: &mut BlockCoins) -> Result<bool, StoreError> {
        let at = height as usize;
        coins.clear();
        let mut bytes = 0;
        for run in &self.runs {
            bytes += run.bytes_of(at);
            if bytes > BLOCK_BYTES_MAX {
                coins.clear();
                return Ok(false);
            }
            match run {
                Run::Held { starts, held, order } => {
                    for (_, record) in &order[starts[at] as usize..starts[at + 1] as usize] {
                        coins.bytes.extend_from_slice(record_at(held, *record as usize));
                    }
                }
                Run::Spilled { starts, offset } => {
                    let (start, end) = (starts[at], starts[at + 1]);
                    if start < end {
                        let len = (end - start) as usize;
                        self.spill.read(offset + u64::from(start), len, &mut coins.bytes)?;
                    }
                }
            }
        }
        coins.index();
        Ok(true)
    }
}

/// The coins of one block that a snapshot has.
#[derive(Default)]
pub struct BlockCoins {
    bytes: Vec<u8>,
    /// For each transaction the first bytes of its txid and the offset of its record, in the order
    /// of the txids.
    txs: Vec<(u64, u32)>,
}

impl BlockCoins {
    fn clear(&mut self) {
        self.bytes.clear();
        self.txs.clear();
    }

    /// The number of transactions with coins.
    pub fn tx_count(&self) -> usize {
        self.txs.len()
    }

    /// The coins of a transaction, in ascending order of outputs. A coin that the snapshot has more
    /// than once comes as often.
    pub fn of_tx(&self, txid: &Hash) -> Option<GroupCoins<'_>> {
        let prefix = prefix(txid);
        let start = self.txs.partition_point(|(other, _)| *other < prefix);
        // Few share so many bytes of their ids.
        let mut same = self.txs[start..].iter().take_while(|(other, _)| *other == prefix);
        let (_, at) = same.find(|(_, at)| self.txid_at(*at) == *txid)?;
        Some(self.coins_at(*at))
    }

    /// The transactions, in the order of their txids.
    pub fn txids(&self) -> impl Iterator<Item = Hash> + '_ {
        self.txs.iter().map(|(_, at)| self.txid_at(*at))
    }

    fn txid_at(&self, at: u32) -> Hash {
        Hash(*self.bytes[at as usize + 4..].first_chunk().expect("a record has a head"))
    }

    fn coins_at(&self, at: u32) -> GroupCoins<'_> {
        GroupCoins::new(&record_at(&self.bytes, at as usize)[HEAD_BYTES..])
    }

    /// Makes the index of the records in `bytes`.
    fn index(&mut self) {
        self.txs.clear();
        let mut at = 0;
        while at < self.bytes.len() {
            self.txs.push((prefix(&self.txid_at(at as u32)), at as u32));
            at += record_at(&self.bytes, at).len();
        }
        let mut txs = std::mem::take(&mut self.txs);
        // Those of one run are in the order of the file, which mostly is that of the txids.
        txs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| self.txid_at(a.1).cmp(&self.txid_at(b.1))));
        let is_same =
            |a: &(u64, u32), b: &(u64, u32)| a.0 == b.0 && self.txid_at(a.1) == self.txid_at(b.1);
        let is_split = txs.windows(2).any(|pair| is_same(&pair[0], &pair[1]));
        self.txs = txs;
        if is_split {
            self.merge();
        }
    }

    /// Makes one record of the coins of each transaction, which stand apart in an unsorted
    /// snapshot.
    fn merge(&mut self) {
        let (mut bytes, mut txs) = (Vec::new(), Vec::new());
        for of_tx in self.txs.chunk_by(|a, b| self.txid_at(a.1) == self.txid_at(b.1)) {
            let mut coins: Vec<_> = of_tx.iter().flat_map(|(_, at)| self.coins_at(*at)).collect();
            coins.sort_by_key(|(vout, _)| *vout);
            let at = bytes.len();
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&self.txid_at(of_tx[0].1).0);
            coins.iter().for_each(|(vout, coin)| GroupCoins::put(&mut bytes, *vout, coin));
            let len = (bytes.len() - at - HEAD_BYTES) as u32;
            bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
            txs.push((of_tx[0].0, at as u32));
        }
        (self.bytes, self.txs) = (bytes, txs);
    }
}

/// The first eight bytes of a txid, as a number that sorts as they do.
fn prefix(txid: &Hash) -> u64 {
    u64::from_be_bytes(*txid.0.first_chunk().expect("a txid has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::coins::{
        Coin, SnapshotCoins, SnapshotError, SnapshotHead, SnapshotPiece, SnapshotPieces,
    };
    use crate::testdata::Random;
    use crate::wire::OutPoint;

    const HEIGHT: u32 = 90;

    /// A snapshot of these coins, in this order.
    fn file(coins: &[(OutPoint, Coin)]) -> Vec<u8> {
        let mut written = SnapshotCoins::default();
        coins.iter().for_each(|(outpoint, coin)| written.push(outpoint, coin));
        let (bytes, coins) = written.finish();
        let head = SnapshotHead { network: [0; 4], base: Hash([0; 32]), coins };
        [head.to_bytes(), bytes].concat()
    }

    fn collect(piece: &SnapshotPiece, mut push: impl FnMut(&SnapshotGroup)) {
        let each = |group: &SnapshotGroup| -> Result<(), SnapshotError> {
            push(group);
            Ok(())
        };
        piece.for_each_group(each).unwrap();
    }

    /// Reads a snapshot with so many collectors, and returns the coins of each block.
    fn by_height(bytes: &[u8], bytes_max: usize, threads: usize) -> Vec<Vec<(OutPoint, Coin)>> {
        let dir = tempfile::tempdir().unwrap();
        let spill = Arc::new(SpillFile::unlinked(&dir.path().join("out"), ".test"));
        let new = || HeightCollector::new(Arc::clone(&spill), HEIGHT, bytes_max);
        let mut collectors: Vec<_> = (0..threads).map(|_| new()).collect();
        let head = SnapshotHead::parse(bytes).unwrap();
        let mut pieces = SnapshotPieces::new(bytes, &head);
        let mut at = 0;
        while let Some(piece) = pieces.next_piece().unwrap() {
            collect(&piece, |group| {
                collectors[at % threads].push(group).unwrap();
                at += 1;
            });
        }
        assert_eq!(spill.bytes_written() > 0, bytes_max < bytes.len() / 2);
        let by_height = CoinsByHeight::new(spill, collectors);
        let mut loaded = BlockCoins::default();
        let of_height = |height| {
            assert!(by_height.load(height, &mut loaded).unwrap());
            let txids: BTreeSet<Hash> = loaded.txids().collect();
            assert_eq!(txids.len(), loaded.tx_count());
            let of_tx = |txid: &Hash| {
                let (txid, coins) = (*txid, loaded.of_tx(txid).unwrap());
                let coin = move |(vout, parts): (u32, crate::coins::CoinParts)| {
                    let mut bytes = Vec::new();
                    parts.encode(&mut bytes);
                    let coin = Coin::decode(&mut crate::wire::Cursor::new(&bytes)).unwrap();
                    (OutPoint { txid, vout }, coin)
                };
                coins.map(coin).collect::<Vec<_>>()
            };
            assert!(loaded.of_tx(&Hash([3; 32])).is_none());
            txids.iter().flat_map(of_tx).collect()
        };
        (0..=HEIGHT).map(of_height).collect()
    }

    #[test]
    fn coins_come_back_by_height_whatever_the_order_and_the_memory() {
        let mut random = Random(5);
        let mut coins = Vec::new();
        for n in 0..700u32 {
            // Two of three share the first bytes of their txid with another one.
            let mut txid = Hash(random.bytes(32).try_into().unwrap());
            txid.0[..8].copy_from_slice(&u64::from(n / 3).to_be_bytes());
            let height = random.below(u64::from(HEIGHT) + 1) as u32;
            for vout in 0..1 + random.below(4) as u32 {
                // In some, a coin is of another block: no snapshot of a chain has that.
                let height = if n % 50 == 1 { (height + vout) % HEIGHT } else { height };
                let script = random.bytes(20 + n as usize % 6);
                coins.push((
                    OutPoint { txid, vout },
                    Coin::new(u64::from(n), &script, height, false),
                ));
            }
        }
        let mut expected: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        coins.iter().for_each(|(o, coin)| {
            expected.entry(coin.height).or_default().push((*o, coin.clone()))
        });
        expected.values_mut().for_each(|coins| coins.sort_by_key(|(outpoint, _)| *outpoint));
        let expected: Vec<_> =
            (0..=HEIGHT).map(|height| expected.remove(&height).unwrap_or_default()).collect();
        // In order; then the coins of one transaction stand apart, and finally backwards.
        let mut orders = vec![coins.clone()];
        coins.sort_by_key(|(outpoint, _)| (outpoint.vout % 2, outpoint.txid));
        orders.push(coins.clone());
        coins.reverse();
        orders.push(coins);
        for coins in orders {
            let bytes = file(&coins);
            for (bytes_max, threads) in [(0, 1), (5_000, 3), (10_000, 2), (1 << 20, 4)] {
                assert!(by_height(&bytes, bytes_max, threads) == expected, "{bytes_max} {threads}");
            }
        }
    }

    #[test]
    fn a_coin_that_is_there_twice_comes_twice_and_too_many_do_not_come() {
        let txid = Hash([8; 32]);
        let coin = |vout, len| (OutPoint { txid, vout }, Coin::new(1, &vec![1; len], 5, false));
        let apart = (OutPoint { txid: Hash([9; 32]), vout: 0 }, Coin::new(1, &[], 5, true));
        let coins = by_height(&file(&[coin(2, 3), apart.clone(), coin(2, 3)]), 1 << 20, 1);
        assert_eq!(coins[5], [coin(2, 3), coin(2, 3), apart]);
        let many: Vec<_> = (0..2_000).map(|vout| coin(vout, 9_000)).collect();
        let bytes = file(&many);
        let head = SnapshotHead::parse(&bytes).unwrap();
        for bytes_max in [1 << 20, 1 << 30] {
            let dir = tempfile::tempdir().unwrap();
            let spill = Arc::new(SpillFile::unlinked(&dir.path().join("out"), ".test"));
            let mut collector = HeightCollector::new(Arc::clone(&spill), HEIGHT, bytes_max);
            let mut pieces = SnapshotPieces::new(&bytes, &head);
            while let Some(piece) = pieces.next_piece().unwrap() {
                collect(&piece, |group| collector.push(group).unwrap());
            }
            let by_height = CoinsByHeight::new(spill, vec![collector]);
            let mut loaded = BlockCoins::default();
            assert!(!by_height.load(5, &mut loaded).unwrap());
            assert_eq!(loaded.tx_count(), 0);
            assert!(by_height.load(4, &mut loaded).unwrap());
        }
    }
}
