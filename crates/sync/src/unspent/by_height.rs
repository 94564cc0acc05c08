//! An external sort of a snapshot's coins by the heights of the blocks that created them.

use std::ops::Range;
use std::sync::Arc;

use apus_coins::{GroupCoins, SnapshotGroup, prefetch};
use apus_disk::{SpillFile, StoreError};
use apus_hash::Hash;
use rayon::prelude::*;

/// Bytes of a spilled record before its coins: the length of the coins in bytes, and the txid.
const HEAD_BYTES: usize = 4 + 32;
/// An upper bound on the bytes of the coins that one block creates. Without witnesses, a block has
/// at most a million bytes. An output takes nine bytes and its script there; its coin takes at most
/// twenty bytes and the script in a snapshot.
const BLOCK_BYTES_MAX: usize = 1 << 24;
/// Maximum bytes of a run without its last record: offsets in a run have 32 bits, and one more
/// record takes less than half of that.
const RUN_BYTES_MAX: usize = u32::MAX as usize / 2;
/// Bytes of a run that are written at a time.
const WRITE_BYTES: usize = 128 << 10;
/// How many records ahead memory is prefetched.
const AHEAD: usize = 8;
/// Heights for which a thread keeps the places of their records in each spilled run: 4 KiB for each
/// run, where all heights of mainnet would take 4 MB. Blocks come roughly in order of height, so
/// that most find the places that were read for the block before.
const HEIGHTS_AT_ONCE: u32 = 1024;

/// The coins that one thread has collected: sorted runs on disk, and the latest ones in the file of
/// the snapshot, which is mapped into memory.
pub struct HeightCollector<'a> {
    spill: Arc<SpillFile>,
    /// The height of the last block.
    height: u32,
    held: HeldRecords<'a>,
    /// Bytes of the records held.
    bytes: usize,
    /// Maximum bytes of the records held.
    bytes_max: usize,
    spilled: Vec<Spilled>,
}

/// The coins of one transaction, created by one block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    /// The height of the block.
    height: u32,
    /// Where the txid is; see [`HeldRecords::at`].
    at: u64,
    /// The bytes of the coins.
    len: u32,
}

/// Records in memory.
struct HeldRecords<'a> {
    /// The file of the snapshot, where a record is the txid, the number of its coins as a
    /// CompactSize, and the coins.
    file: &'a [u8],
    /// More records in this form, of coins that the file has in another form.
    others: Vec<u8>,
    records: Vec<Record>,
}

/// A run in the temporary file: records in order of height.
struct Spilled {
    spill: Arc<SpillFile>,
    /// Where the offsets of records begin: for each height, and the one after the last, that of its
    /// first record, counted from `records`.
    starts: u64,
    /// Where the records begin.
    records: u64,
}

impl HeldRecords<'_> {
    /// Returns the bytes from `at` on: of the file, or of `others` if `at` is beyond the file's
    /// end.
    fn at(&self, at: u64) -> &[u8] {
        match (at as usize).checked_sub(self.file.len()) {
            None => &self.file[at as usize..],
            Some(at) => &self.others[at..],
        }
    }

    /// Calls `each` with the length, the txid and the coins of every record, as they are spilled.
    fn for_each_record<E>(
        &self,
        records: &[Record],
        mut each: impl FnMut([&[u8]; 3]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (index, record) in records.iter().enumerate() {
            if let Some(ahead) = records.get(index + AHEAD) {
                prefetch(&self.at(ahead.at)[0]);
            }
            let bytes = self.at(record.at);
            let (txid, rest) = bytes.split_at(32);
            let start = match rest[0] {
                ..0xfd => 1,
                0xfd => 3,
                _ => 5,
            };
            let coins = &rest[start..][..record.len as usize];
            each([&record.len.to_le_bytes(), txid, coins])?;
        }
        Ok(())
    }
}

impl<'a> HeightCollector<'a> {
    /// Creates a collector of the coins of `file` that blocks up to `height` created. It holds
    /// about `bytes_max` bytes, or one record.
    pub fn new(file: &'a [u8], spill: SpillFile, height: u32, bytes_max: usize) -> Self {
        Self {
            spill: Arc::new(spill),
            height,
            held: HeldRecords { file, others: Vec::new(), records: Vec::new() },
            bytes: 0,
            bytes_max: bytes_max.min(RUN_BYTES_MAX),
            spilled: Vec::new(),
        }
    }

    /// Adds the coins of a transaction, whose heights are at most that of the last block.
    pub fn push(&mut self, group: &SnapshotGroup) -> Result<(), StoreError> {
        if let Some(height) = group.plain_height() {
            return self.push_record(height, group.offset, group.bytes().len());
        }
        let mut coins = group.decoded();
        coins.sort_by_key(|(vout, coin)| (coin.height, *vout));
        for coins in coins.chunk_by(|(_, a), (_, b)| a.height == b.height) {
            let others = &mut self.held.others;
            let at = self.held.file.len() + others.len();
            others.extend_from_slice(&group.txid.0);
            // A placeholder for the number of coins.
            others.push(0);
            let start = others.len();
            coins.iter().for_each(|(vout, coin)| GroupCoins::put(others, *vout, &coin.parts()));
            let len = others.len() - start;
            self.push_record(coins[0].1.height, at as u64, len)?;
        }
        Ok(())
    }

    fn push_record(&mut self, height: u32, at: u64, len: usize) -> Result<(), StoreError> {
        // The coins of a longer one are more than a block creates, and are never loaded.
        let len = len.min(BLOCK_BYTES_MAX);
        self.bytes += HEAD_BYTES + len + size_of::<Record>();
        self.held.records.push(Record { height, at, len: len as u32 });
        if self.bytes > self.bytes_max { self.write_run() } else { Ok(()) }
    }

    /// Writes the records held as a run.
    fn write_run(&mut self) -> Result<(), StoreError> {
        let Self { spill, held, .. } = self;
        held.records.sort_unstable();
        let records_len: u64 =
            held.records.iter().map(|record| (HEAD_BYTES + record.len as usize) as u64).sum();
        let starts_len = Spilled::START_BYTES * (u64::from(self.height) + 2);
        let starts = spill.reserve(starts_len + records_len);
        let mut bytes = Vec::with_capacity(WRITE_BYTES);
        let mut at = starts;
        let mut put = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            if bytes.len() >= WRITE_BYTES {
                spill.write_at(&bytes, at)?;
                at += bytes.len() as u64;
                bytes.clear();
            }
            Ok::<(), StoreError>(())
        };
        let mut records = held.records.iter().peekable();
        let mut start = 0;
        for height in 0..=self.height + 1 {
            put(&[&u32::to_le_bytes(start)[..]])?;
            while let Some(record) = records.next_if(|record| record.height == height) {
                start += HEAD_BYTES as u32 + record.len;
            }
        }
        held.for_each_record(&held.records, |parts| put(&parts))?;
        spill.write_at(&bytes, at)?;
        let spill = Arc::clone(spill);
        let records = starts + starts_len;
        self.spilled.push(Spilled { spill, starts, records });
        held.others.clear();
        held.records.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Returns the records held, sorted, and the spilled runs.
    fn finish(mut self) -> (HeldRecords<'a>, Vec<Spilled>) {
        self.held.records.sort_unstable();
        (self.held, self.spilled)
    }
}

impl HeldRecords<'_> {
    /// Returns the records of a height. All records must be sorted.
    fn of_height(&self, height: u32) -> &[Record] {
        let start = self.records.partition_point(|record| record.height < height);
        let len = self.records[start..].partition_point(|record| record.height == height);
        &self.records[start..start + len]
    }
}

impl Spilled {
    /// Bytes of the offset of a height's first record.
    const START_BYTES: u64 = size_of::<u32>() as u64;

    /// Appends the offsets of the first records of `heights`, and of the height after them, to
    /// `out`.
    fn read_starts(&self, heights: &Range<u32>, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let at = self.starts + Self::START_BYTES * u64::from(heights.start);
        self.spill.read(at, Self::START_BYTES as usize * (heights.len() + 1), out)
    }
}

/// Where the records of some heights begin in each spilled run.
#[derive(Default)]
struct Starts {
    heights: Range<u32>,
    /// For each run, four bytes for each height and the one after the last.
    bytes: Vec<u8>,
}

impl Starts {
    /// Returns the range of a height's records in the spilled run number `run`, counted from where
    /// its records begin. The height must be one of `heights`.
    fn of(&self, run: usize, height: u32) -> Range<u32> {
        let (starts, _) = self.bytes.as_chunks();
        let at = run * (self.heights.len() + 1) + (height - self.heights.start) as usize;
        u32::from_le_bytes(starts[at])..u32::from_le_bytes(starts[at + 1])
    }
}

/// All coins of a snapshot, to be loaded by the block that created them.
pub struct CoinsByHeight<'a> {
    held: Vec<HeldRecords<'a>>,
    spilled: Vec<Spilled>,
    /// The height of the last block.
    height: u32,
}

impl<'a> CoinsByHeight<'a> {
    /// Takes the coins that all threads have collected, of blocks up to the same height, and sorts
    /// those in memory on the caller's thread pool.
    pub fn new(collectors: Vec<HeightCollector<'a>>) -> Self {
        let height = collectors.first().map_or(0, |collector| collector.height);
        let finished = collectors.into_par_iter().map(HeightCollector::finish);
        let (held, spilled): (_, Vec<_>) = finished.unzip();
        Self { held, spilled: spilled.into_iter().flatten().collect(), height }
    }

    /// Replaces the content of `coins` with the coins of the block at a height, which must not be
    /// above the last one. Returns false, and loads nothing, if they are more than a block can
    /// create.
    pub fn load(&self, height: u32, coins: &mut BlockCoins) -> Result<bool, StoreError> {
        coins.clear();
        self.read_starts(height, &mut coins.starts)?;
        let held = || self.held.iter().map(|held| (held, held.of_height(height)));
        let spilled =
            || self.spilled.iter().enumerate().map(|(i, run)| (run, coins.starts.of(i, height)));
        let record_bytes = |record: &Record| HEAD_BYTES + record.len as usize;
        let bytes = held().flat_map(|(_, records)| records).map(record_bytes).sum::<usize>()
            + spilled().map(|(_, range)| range.len()).sum::<usize>();
        if bytes > BLOCK_BYTES_MAX {
            return Ok(false);
        }
        coins.bytes.reserve(bytes);
        for (held, records) in held() {
            held.for_each_record(records, |parts| {
                parts.iter().for_each(|part| coins.bytes.extend_from_slice(part));
                Ok::<(), StoreError>(())
            })?;
        }
        for (run, range) in spilled().filter(|(_, range)| !range.is_empty()) {
            run.spill.read(run.records + u64::from(range.start), range.len(), &mut coins.bytes)?;
        }
        coins.index();
        Ok(true)
    }

    /// Reads the places of a height's records in each spilled run into `starts`, unless they are
    /// there.
    fn read_starts(&self, height: u32, starts: &mut Starts) -> Result<(), StoreError> {
        if starts.heights.contains(&height) {
            return Ok(());
        }
        let first = height - height % HEIGHTS_AT_ONCE;
        let heights = first..(first + HEIGHTS_AT_ONCE).min(self.height + 1);
        // After an error, `starts` has no heights.
        starts.heights = 0..0;
        starts.bytes.clear();
        self.spilled.iter().try_for_each(|run| run.read_starts(&heights, &mut starts.bytes))?;
        starts.heights = heights;
        Ok(())
    }
}

/// The coins that a snapshot has of one block. They must be loaded from one [`CoinsByHeight`] only.
#[derive(Default)]
pub struct BlockCoins {
    starts: Starts,
    bytes: Vec<u8>,
    /// For each transaction, the first bytes of its txid and the offset of its record, in order of
    /// txid.
    txs: Vec<(u64, u32)>,
}

impl BlockCoins {
    fn clear(&mut self) {
        self.bytes.clear();
        self.txs.clear();
    }

    pub fn tx_count(&self) -> usize {
        self.txs.len()
    }

    /// Returns the coins of a transaction, in ascending order of outputs. A coin that the snapshot
    /// has more than once is returned as often.
    pub fn of_tx(&self, txid: &Hash) -> Option<GroupCoins<'_>> {
        let prefix = prefix(txid);
        let start = self.txs.partition_point(|(other, _)| *other < prefix);
        // Few transactions share the first eight bytes of a txid.
        let mut same = self.txs[start..].iter().take_while(|(other, _)| *other == prefix);
        let (_, at) = same.find(|(_, at)| self.txid_at(*at) == *txid)?;
        Some(self.coins_at(*at))
    }

    /// Returns the txids of transactions with coins, in ascending order.
    pub fn txids(&self) -> impl Iterator<Item = Hash> + '_ {
        self.txs.iter().map(|(_, at)| self.txid_at(*at))
    }

    fn txid_at(&self, at: u32) -> Hash {
        Hash(*self.bytes[at as usize + 4..].first_chunk().expect("a record has a head"))
    }

    fn coins_at(&self, at: u32) -> GroupCoins<'_> {
        GroupCoins::new(&self.record_at(at)[HEAD_BYTES..])
    }

    fn record_at(&self, at: u32) -> &[u8] {
        let bytes = &self.bytes[at as usize..];
        let len = u32::from_le_bytes(*bytes.first_chunk().expect("a record has a head"));
        &bytes[..HEAD_BYTES + len as usize]
    }

    /// Builds the index of the records in `bytes`.
    fn index(&mut self) {
        self.txs.clear();
        let mut at = 0;
        while at < self.bytes.len() {
            self.txs.push((prefix(&self.txid_at(at as u32)), at as u32));
            at += self.record_at(at as u32).len();
        }
        let mut txs = std::mem::take(&mut self.txs);
        // The records of one run are in the order of the file, which is mostly that of the txids.
        txs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| self.txid_at(a.1).cmp(&self.txid_at(b.1))));
        let is_same =
            |a: &(u64, u32), b: &(u64, u32)| a.0 == b.0 && self.txid_at(a.1) == self.txid_at(b.1);
        let is_split = txs.windows(2).any(|pair| is_same(&pair[0], &pair[1]));
        self.txs = txs;
        if is_split {
            self.merge();
        }
    }

    /// Merges the coins of each transaction into one record: an unsorted snapshot may have them
    /// apart.
    fn merge(&mut self) {
        let mut bytes = Vec::new();
        let mut txs = Vec::new();
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

/// Returns the first eight bytes of a txid as a number that sorts like them.
fn prefix(txid: &Hash) -> u64 {
    u64::from_be_bytes(*txid.0.first_chunk().expect("a txid has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use apus_coins::{
        Coin, SnapshotCoins, SnapshotError, SnapshotHead, SnapshotPiece, SnapshotPieces,
    };
    use apus_testdata::{Random, memory_of};
    use apus_wire::OutPoint;

    use super::*;

    const HEIGHT: u32 = 90;

    /// Returns a snapshot of these coins, in this order.
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

    /// Reads a snapshot with `threads` collectors, and returns the coins of each block.
    fn by_height(bytes: &[u8], bytes_max: usize, threads: usize) -> Vec<Vec<(OutPoint, Coin)>> {
        let dir = tempfile::tempdir().unwrap();
        let spill = |n| SpillFile::unlinked(&dir.path().join("out"), &format!(".test-{n}"));
        let new = |n| HeightCollector::new(bytes, spill(n), HEIGHT, bytes_max);
        let mut collectors: Vec<_> = (0..threads).map(new).collect();
        let head = SnapshotHead::parse(bytes).unwrap();
        let mut pieces = SnapshotPieces::new(bytes, &head);
        let mut at = 0;
        while let Some(piece) = pieces.next_piece().unwrap() {
            collect(&piece, |group| {
                collectors[at % threads].push(group).unwrap();
                at += 1;
            });
        }
        let has_spilled = collectors.iter().any(|collector| !collector.spilled.is_empty());
        assert_eq!(has_spilled, bytes_max < bytes.len() / 2);
        let by_height = CoinsByHeight::new(collectors);
        let mut loaded = BlockCoins::default();
        let of_height = |height| {
            assert!(by_height.load(height, &mut loaded).unwrap());
            let txids: BTreeSet<Hash> = loaded.txids().collect();
            assert_eq!(txids.len(), loaded.tx_count());
            let of_tx = |txid: &Hash| {
                let (txid, coins) = (*txid, loaded.of_tx(txid).unwrap());
                let coin = move |(vout, parts): (u32, apus_coins::CoinParts)| {
                    let mut bytes = Vec::new();
                    parts.encode(&mut bytes);
                    let coin = Coin::decode(&mut apus_wire::Cursor::new(&bytes)).unwrap();
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
    fn coins_that_no_block_creates_are_not_loaded() {
        for len in [BLOCK_BYTES_MAX, (1 << 32) + 4, usize::MAX / 2] {
            let dir = tempfile::tempdir().unwrap();
            let spill = SpillFile::unlinked(&dir.path().join("out"), ".test");
            let mut collector = HeightCollector::new(&[0; 100], spill, HEIGHT, 1 << 30);
            collector.push_record(7, 0, len).unwrap();
            let by_height = CoinsByHeight::new(vec![collector]);
            let mut loaded = BlockCoins::default();
            assert!(!by_height.load(7, &mut loaded).unwrap(), "{len}");
            assert!(by_height.load(8, &mut loaded).unwrap());
        }
    }

    #[test]
    fn coins_come_back_by_height_whatever_the_order_and_the_memory() {
        let mut random = Random(5);
        let mut coins = Vec::new();
        for n in 0..700u32 {
            // Three transactions each share the first bytes of their txids.
            let mut txid = Hash(random.bytes(32).try_into().unwrap());
            txid.0[..8].copy_from_slice(&u64::from(n / 3).to_be_bytes());
            let height = random.below(u64::from(HEIGHT) + 1) as u32;
            for vout in 0..1 + random.below(4) as u32 {
                // In some transactions, coins are of different blocks, which no snapshot of a chain
                // has.
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
        // In order; then with the coins of one transaction apart; then backwards.
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

    /// The places of all heights in 30 runs would take 120 MB.
    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "needs /proc/self/status")]
    fn many_runs_of_a_long_chain_take_little_memory() {
        let prepare = || tempfile::tempdir().unwrap();
        let bytes = memory_of(many_runs_of_a_long_chain_take_little_memory, prepare, |dir| {
            const TOP: u32 = 1_000_000;
            let coin = |n: u32| {
                let txid = Hash(apus_hash::sha256(&n.to_le_bytes()));
                (OutPoint { txid, vout: 0 }, Coin::new(n.into(), &[7], n * (TOP / 300), false))
            };
            let coins: Vec<_> = (1..300).map(coin).collect();
            let bytes = file(&coins);
            let spill = SpillFile::unlinked(&dir.path().join("out"), ".test");
            let mut collector = HeightCollector::new(&bytes, spill, TOP, 650);
            let mut pieces = SnapshotPieces::new(&bytes, &SnapshotHead::parse(&bytes).unwrap());
            while let Some(piece) = pieces.next_piece().unwrap() {
                collect(&piece, |group| collector.push(group).unwrap());
            }
            let by_height = CoinsByHeight::new(vec![collector]);
            let mut loaded = BlockCoins::default();
            for (outpoint, coin) in &coins {
                assert!(by_height.load(coin.height, &mut loaded).unwrap());
                assert_eq!(loaded.txids().collect::<Vec<_>>(), [outpoint.txid]);
            }
            assert!(by_height.load(TOP, &mut loaded).unwrap() && loaded.tx_count() == 0);
        });
        assert!(bytes.is_none_or(|bytes| bytes < 24 << 20), "{bytes:?}");
    }

    #[test]
    fn duplicate_coins_are_loaded_twice_and_too_many_are_refused() {
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
            let spill = SpillFile::unlinked(&dir.path().join("out"), ".test");
            let mut collector = HeightCollector::new(&bytes, spill, HEIGHT, bytes_max);
            let mut pieces = SnapshotPieces::new(&bytes, &head);
            while let Some(piece) = pieces.next_piece().unwrap() {
                collect(&piece, |group| collector.push(group).unwrap());
            }
            let by_height = CoinsByHeight::new(vec![collector]);
            let mut loaded = BlockCoins::default();
            assert!(!by_height.load(5, &mut loaded).unwrap());
            assert_eq!(loaded.tx_count(), 0);
            assert!(by_height.load(4, &mut loaded).unwrap());
        }
    }
}
