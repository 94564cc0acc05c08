use apus_disk::{Share, ShareWatch, StoreError};
use apus_hash::{Elements, Hash, MuHash, Sha256d};
use apus_wire::{OutPoint, put_compact_size};
use rayon::prelude::*;

use super::coin::Coin;
use super::coins_view::{CoinScan, CoinsView};

/// The number of scans per thread if their order does not matter: enough that all threads end at
/// about the same time.
const SCANS_PER_THREAD: usize = 16;
/// Number of bytes of tables per scan if the serialised coins of several scans wait in memory to be
/// hashed.
const SCAN_BYTES: u64 = 2 << 20;
/// Number of bytes of tables per scan if nothing waits. At 4 µs for each coin, without vector
/// instructions, a scan takes less than a second, and progress is reported after each.
const COUNT_BYTES: u64 = 16 << 20;
/// Number of bytes of serialised coins that a scan collects before they are added to its MuHash:
/// about 1,800 usual coins, so that the end of a batch costs little, and small enough for the
/// cache.
const MUHASH_BATCH_BYTES: usize = 128 << 10;

type Result<T> = std::result::Result<T, StoreError>;

/// The hash of the UTXO set to compute (`hash_type` of Core's `gettxoutsetinfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashType {
    /// No hash, only counts.
    None,
    /// MuHash3072, which is computed in parallel.
    MuHash,
    /// Double SHA-256 of all coins in order, which assumeutxo commits to.
    HashSerialized3,
}

/// Statistics of a UTXO set: those of Core's `gettxoutsetinfo` without `-coinstatsindex`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UtxoStats {
    /// The height of the best block.
    pub height: u32,
    /// Hash of the best block, for which this is the UTXO set.
    pub best_block: Hash,
    /// The number of coins.
    pub txouts: u64,
    /// A size that does not depend on the database: the script bytes plus 50 for each coin.
    pub bogosize: u64,
    /// The sum of all amounts in satoshis.
    pub total_amount: u64,
    /// The number of transactions with at least one coin.
    pub transactions: u64,
    /// The requested hash and its type; `None` for [`HashType::None`].
    pub hash: Option<(HashType, Hash)>,
    /// The size of the chainstate's tables in bytes.
    pub disk_size: u64,
}

impl UtxoStats {
    /// Computes the statistics of the whole UTXO set, on all threads of the caller's pool. `height`
    /// is the height of the best block, which the set does not store.
    ///
    /// # Errors
    /// The set is empty, cannot be read, or has amounts that no chain can have.
    pub fn compute(coins: &CoinsView, height: u32, hash_type: HashType) -> Result<Self> {
        let stats = Self::compute_watched(coins, height, hash_type, ShareWatch::default())?;
        Ok(stats.expect("nothing stops the work"))
    }

    /// Like [`UtxoStats::compute`], with progress and early stop; `None` if it was stopped.
    pub fn compute_watched(
        coins: &CoinsView,
        height: u32,
        hash_type: HashType,
        watch: ShareWatch,
    ) -> Result<Option<Self>> {
        let empty = || StoreError::new(coins.dir(), "the chainstate is empty");
        let best_block = coins.best_block()?.ok_or_else(empty)?;
        let (counts, hash) = match hash_type {
            HashType::None => (count::<()>(coins, watch)?.0, None),
            HashType::MuHash => {
                let (counts, muhash) = count::<MuHashSum>(coins, watch)?;
                (counts, Some((hash_type, muhash.finalize())))
            }
            HashType::HashSerialized3 => {
                let (counts, hash) = hash_serialized(coins, watch)?;
                (counts, Some((hash_type, hash)))
            }
        };
        if watch.is_stopped() {
            return Ok(None);
        }
        let overflow = || {
            StoreError::new(
                coins.dir(),
                "the amounts of all coins add up to more than 2^64 satoshi",
            )
        };
        Ok(Some(Self {
            height,
            best_block,
            txouts: counts.txouts,
            bogosize: counts.bogosize,
            total_amount: u64::try_from(counts.amount).map_err(|_| overflow())?,
            transactions: counts.transactions,
            hash,
            disk_size: coins.disk_bytes(),
        }))
    }

    /// Returns the total amount in bitcoins with eight decimals, as Core prints it.
    pub fn total_amount_btc(&self) -> String {
        bitcoins(self.total_amount.into())
    }
}

/// Returns an amount in bitcoins with eight decimals, as Core prints it.
pub(super) fn bitcoins(satoshi: u128) -> String {
    format!("{}.{:08}", satoshi / 100_000_000, satoshi % 100_000_000)
}

/// Appends a coin in the form that the hashes of UTXO sets use (Core's `TxOutSer`): outpoint, 2 ×
/// height + coinbase (`code`), amount in satoshis, script.
pub fn put_hashed_coin(
    out: &mut Vec<u8>,
    outpoint: &[u8; 36],
    code: u32,
    amount: u64,
    script: &[u8],
) {
    out.extend_from_slice(outpoint);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&amount.to_le_bytes());
    put_compact_size(out, script.len() as u64);
    out.extend_from_slice(script);
}

/// Returns the size of a coin that does not depend on the database (Core's `GetBogoSize`): the
/// sizes of txid, index, height and coinbase, amount, script length, and script.
pub fn bogosize(script_bytes: usize) -> u64 {
    32 + 4 + 4 + 8 + 2 + script_bytes as u64
}

/// The totals of a set of coins.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub txouts: u64,
    pub bogosize: u64,
    pub amount: u128,
    pub transactions: u64,
}

impl Counts {
    fn add(&mut self, coin: &Coin, script: &[u8], is_new_transaction: bool) {
        self.txouts += 1;
        self.bogosize += bogosize(script.len());
        self.amount += u128::from(coin.amount);
        self.transactions += u64::from(is_new_transaction);
    }

    fn combine(mut self, other: Self) -> Self {
        self.txouts += other.txouts;
        self.bogosize += other.bogosize;
        self.amount += other.amount;
        self.transactions += other.transactions;
        self
    }
}

/// A hash that does not depend on the order or grouping of coins, to which a scan adds coins; `()`
/// means no hash.
trait CoinSum: Default {
    /// The hash of the coins of one or several scans.
    type Hash: Send + Default;
    fn add(&mut self, outpoint: &OutPoint, coin: &Coin, script: &[u8]);
    fn finish(self) -> Self::Hash;
    fn combine(hash: Self::Hash, other: Self::Hash) -> Self::Hash;
}

impl CoinSum for () {
    type Hash = ();
    fn add(&mut self, _: &OutPoint, _: &Coin, _: &[u8]) {}
    fn finish(self) {}
    fn combine((): (), (): ()) {}
}

/// A MuHash, and the coins that wait to be added to it together.
#[derive(Default)]
struct MuHashSum {
    hash: MuHash,
    waiting: Elements,
}

impl MuHashSum {
    fn add_waiting(&mut self) {
        self.hash.insert_many(self.waiting.len(), |i| self.waiting.get(i));
        self.waiting.clear();
    }
}

impl CoinSum for MuHashSum {
    type Hash = MuHash;

    fn add(&mut self, outpoint: &OutPoint, coin: &Coin, script: &[u8]) {
        let outpoint = outpoint.to_bytes();
        let code = coin.code();
        self.waiting.push_with(|out| put_hashed_coin(out, &outpoint, code, coin.amount, script));
        if self.waiting.byte_len() >= MUHASH_BATCH_BYTES {
            self.add_waiting();
        }
    }

    fn finish(mut self) -> MuHash {
        self.add_waiting();
        self.hash
    }

    fn combine(mut hash: MuHash, other: MuHash) -> MuHash {
        hash.combine(&other);
        hash
    }
}

/// Calls `each(outpoint, coin, script, is_new_transaction)` for each coin of a scan;
/// `is_new_transaction` is set for the first coin of each transaction.
fn for_each_coin(
    scan: &mut CoinScan,
    mut each: impl FnMut(&OutPoint, &Coin, &[u8], bool),
) -> Result<()> {
    let mut last = None;
    let mut script = Vec::new();
    while let Some((outpoint, coin)) = scan.next_coin()? {
        script.clear();
        coin.script.decompress_into(&mut script);
        each(&outpoint, &coin, &script, last != Some(outpoint.txid));
        last = Some(outpoint.txid);
    }
    Ok(())
}

/// Returns scans of all coins whose order does not matter, for all threads of the caller's pool.
pub(super) fn scans_of_any_order(coins: &CoinsView) -> Result<Vec<CoinScan>> {
    let even = SCANS_PER_THREAD * rayon::current_num_threads();
    coins.scans(even.max((coins.disk_bytes() / COUNT_BYTES) as usize))
}

/// Counts and hashes all coins, or only some of them if it is stopped.
fn count<S: CoinSum>(coins: &CoinsView, watch: ShareWatch) -> Result<(Counts, S::Hash)> {
    let scans = scans_of_any_order(coins)?;
    let share = Share::new(scans.len() as u64, watch.report);
    let of_scan = |mut scan: CoinScan| {
        if watch.is_stopped() {
            return Ok(Default::default());
        }
        let mut counts = Counts::default();
        let mut sum = S::default();
        for_each_coin(&mut scan, |outpoint, coin, script, is_new| {
            counts.add(coin, script, is_new);
            sum.add(outpoint, coin, script);
        })?;
        share.add(1);
        Ok((counts, sum.finish()))
    };
    let combine =
        |a: (Counts, S::Hash), b: (Counts, S::Hash)| Ok((a.0.combine(b.0), S::combine(a.1, b.1)));
    scans.into_par_iter().map(of_scan).try_reduce(Default::default, combine)
}

/// Counts all coins and hashes them in order, or only the first of them if it is stopped.
fn hash_serialized(coins: &CoinsView, watch: ShareWatch) -> Result<(Counts, Hash)> {
    let parts = (coins.disk_bytes() / SCAN_BYTES).clamp(1, 1 << 16) as usize;
    let scans = coins.scans(parts)?;
    let share = Share::new(scans.len() as u64, watch.report);
    let mut scans = scans.into_iter().take_while(|_| !watch.is_stopped());
    hash_in_order(|| -> Result<Vec<Serialised>> {
        let batch: Vec<_> = scans.by_ref().take(2 * rayon::current_num_threads()).collect();
        share.add(batch.len() as u64);
        batch.into_par_iter().map(serialise).collect()
    })
}

/// Coins that are counted and serialised, to be hashed.
pub(super) type Serialised = (Counts, Vec<u8>);

/// Counts and hashes the coins of one batch after another, until a batch is empty. While a batch is
/// hashed, the threads prepare the next one.
pub(super) fn hash_in_order<E: Send>(
    mut next_batch: impl FnMut() -> std::result::Result<Vec<Serialised>, E> + Send,
) -> std::result::Result<(Counts, Hash), E> {
    let mut counts = Counts::default();
    let mut hasher = Sha256d::default();
    let mut batch = next_batch()?;
    while !batch.is_empty() {
        let mut hash = || batch.iter().for_each(|(_, bytes)| hasher.update(bytes));
        let ((), next) = rayon::join(&mut hash, &mut next_batch);
        counts = batch.iter().fold(counts, |sum, (counts, _)| sum.combine(*counts));
        batch = next?;
    }
    Ok((counts, hasher.finish()))
}

fn serialise(mut scan: CoinScan) -> Result<Serialised> {
    let mut serialiser = Serialiser::default();
    while let Some((outpoint, coin)) = scan.next_coin()? {
        serialiser.push(&outpoint, &coin);
    }
    Ok(serialiser.finish())
}

/// Counts and serialises coins that are passed in key order.
#[derive(Default)]
pub(super) struct Serialiser {
    counts: Counts,
    bytes: Vec<u8>,
    last: Option<Hash>,
    /// The index and the start in `bytes` of each output of the latest transaction.
    outputs: Vec<(u32, usize)>,
    script: Vec<u8>,
}

impl Serialiser {
    /// Adds a coin.
    pub fn push(&mut self, outpoint: &OutPoint, coin: &Coin) {
        let is_new = self.last != Some(outpoint.txid);
        if is_new {
            sort_outputs(&mut self.bytes, &self.outputs);
            self.outputs.clear();
            self.last = Some(outpoint.txid);
        }
        self.outputs.push((outpoint.vout, self.bytes.len()));
        self.script.clear();
        coin.script.decompress_into(&mut self.script);
        self.counts.add(coin, &self.script, is_new);
        let out = &mut self.bytes;
        let outpoint = outpoint.to_bytes();
        put_hashed_coin(out, &outpoint, coin.code(), coin.amount, &self.script);
    }

    /// Returns the counts and the bytes to hash.
    pub fn finish(mut self) -> Serialised {
        sort_outputs(&mut self.bytes, &self.outputs);
        (self.counts, self.bytes)
    }
}

/// Sorts the outputs of a transaction, which are the last in `bytes`, by their indices: the key
/// order differs from index 16512 on. `outputs` are the index and the start of each.
fn sort_outputs(bytes: &mut Vec<u8>, outputs: &[(u32, usize)]) {
    let Some((_, start)) = outputs.first().filter(|_| !outputs.is_sorted()) else { return };
    let ends = outputs[1..].iter().map(|(_, start)| *start).chain([bytes.len()]);
    let mut ranges: Vec<_> =
        outputs.iter().zip(ends).map(|((vout, start), end)| (*vout, *start..end)).collect();
    ranges.sort_unstable_by_key(|(vout, _)| *vout);
    let unsorted = bytes.split_off(*start);
    for (_, range) in ranges {
        bytes.extend_from_slice(&unsorted[range.start - start..range.end - start]);
    }
}
