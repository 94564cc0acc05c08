//! The coins that SwiftSync finds unspent: gathered by all cores, sorted, and written as tables.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use apus_coins::{Chainstate, CoinParts, SurvivorWriter, Survivors, WriteError};
use apus_disk::Disk;
use apus_hash::Hash;
use apus_leveldb::Options;
use apus_testchain::Rng;
use rayon::prelude::*;
use serde_json::json;

use crate::Result;
use crate::measure::quick_digest;

/// The size of this benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of coins.
    pub count: u64,
    /// The memory that the coins may take before they go to files, in bytes.
    pub memory_bytes: usize,
    /// The number of threads that write tables.
    pub writers: usize,
    /// Whether the result is read back.
    pub check: bool,
}

/// The average number of coins of one transaction on mainnet.
const OUTPUTS: u64 = 3;

/// Gathers and writes coins in a new directory below `dir`, and returns the time of each step.
///
/// # Errors
/// The disk fails, or the result differs from what was gathered.
pub fn run(size: &Size, dir: &Path) -> Result<serde_json::Value> {
    std::fs::create_dir_all(dir)?;
    let place = tempfile::tempdir_in(dir)?;
    let options = Options { create_if_missing: true, ..Options::default() };
    let chainstate = Chainstate::open(Disk::new(), &place.path().join("chainstate"), options)?;
    let threads = rayon::current_num_threads() as u64;
    let parts: Vec<_> = (0..threads).map(|i| i * size.count / threads).collect();
    let part = |i: &u64| (*i, (*i + size.count.div_ceil(threads)).min(size.count));

    // The time of generating the coins alone, to be subtracted.
    let start = Instant::now();
    let begun = cpu_time();
    let made: u64 = parts
        .par_iter()
        .map(|i| make(part(i), |_, _, _| Ok(())))
        .try_reduce(|| 0, |a, b| Ok(a.wrapping_add(b)))?;
    let making = start.elapsed();
    let making_cpu = cpu_time() - begun;

    let survivors = Survivors::new(&Disk::new(), place.path(), size.memory_bytes);
    let start = Instant::now();
    let begun = cpu_time();
    parts.par_iter().try_for_each(|i| -> Result<()> {
        let mut writer = SurvivorWriter::new(&survivors);
        make(part(i), |txid, vout, coin| Ok(writer.push(txid, vout, coin)?))?;
        Ok(writer.flush()?)
    })?;
    let push = start.elapsed().saturating_sub(making);
    let push_cpu = (cpu_time() - begun).saturating_sub(making_cpu);

    let start = Instant::now();
    let begun = cpu_time();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(size.writers).build()?;
    let bulk = chainstate.bulk()?;
    let busy = Mutex::new((Duration::ZERO, Duration::ZERO));
    let ranges = survivors.ranges(size.writers);
    pool.install(|| {
        ranges.into_par_iter().try_for_each(|range| -> std::result::Result<(), WriteError> {
            let start = Instant::now();
            let mut writer = bulk.writer();
            survivors.write_range(range, &mut writer)?;
            let write = start.elapsed();
            writer.finish()?;
            let mut busy = busy.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *busy = (busy.0 + write, busy.1 + (start.elapsed() - write));
            Ok(())
        })
    })?;
    let commit = Instant::now();
    bulk.commit(&Hash([1; 32]))?;
    let commit = commit.elapsed();
    let write = start.elapsed();
    let write_cpu = cpu_time() - begun;
    let (in_range, in_finish) =
        busy.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let count = survivors.count();
    survivors.destroy()?;
    let peak = memory_peak()?;
    let digest = if size.check { read_back(&chainstate)? } else { made };
    if digest != made {
        return Err("the chainstate does not hold what was gathered".into());
    }
    let each_ns = |time: Duration| (time.as_secs_f64() * 1e9 / count as f64).round();
    let writers = size.writers.max(1) as f64;
    Ok(json!({
        "coins": count,
        "table_bytes": chainstate.disk_bytes(),
        "push_s": push.as_secs_f64(),
        "push_cpu_ns_each": each_ns(push_cpu),
        "write_s": write.as_secs_f64(),
        "write_cpu_ns_each": each_ns(write_cpu),
        "sort_and_tables_s": in_range.as_secs_f64() / writers,
        "sync_s": in_finish.as_secs_f64() / writers,
        "commit_s": commit.as_secs_f64(),
        "peak_mib": peak >> 20,
        "digest": format!("{digest:016x}"),
    }))
}

/// Returns the CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Generates the coins numbered `from` to `to`, like today's, and passes them to `take`. Returns a
/// digest that does not depend on their order.
fn make(
    (from, to): (u64, u64),
    mut take: impl FnMut(&Hash, u32, &CoinParts) -> Result<()>,
) -> Result<u64> {
    let mut digest = 0;
    let mut i = from;
    let mut txid = Hash::ZERO;
    let mut script = [0; 35];
    while i < to {
        let mut random = Rng::from_state(!i);
        if i.is_multiple_of(OUTPUTS) || i == from {
            Rng::from_state(i / OUTPUTS).fill(&mut txid.0);
        }
        random.fill(&mut script);
        // P2WPKH in three of four cases, otherwise P2PKH or P2TR.
        let (kind, len) = match random.below(8) {
            0 => (0, 21),
            1 => (40, 35),
            _ => (28, 23),
        };
        script[0] = kind;
        let amount = random.below(1_000_000_000);
        let coin = CoinParts { amount, code: 1_600_000, script: &script[..len] };
        let vout = (i % OUTPUTS) as u32;
        take(&txid, vout, &coin)?;
        digest = digest_of(digest, &txid, vout, amount);
        i += 1;
    }
    Ok(digest)
}

fn digest_of(sum: u64, txid: &Hash, vout: u32, amount: u64) -> u64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&txid.0[..8]);
    bytes[8..16].copy_from_slice(&amount.to_le_bytes());
    bytes[16..20].copy_from_slice(&vout.to_le_bytes());
    quick_digest(sum, &bytes)
}

fn read_back(chainstate: &Chainstate) -> Result<u64> {
    let mut digest = 0;
    for mut scan in chainstate.scans(1)? {
        while let Some((at, coin)) = scan.next_coin()? {
            digest = digest_of(digest, &at.txid, at.vout, coin.amount);
        }
    }
    Ok(digest)
}

/// Returns the peak memory of this process so far, in bytes.
fn memory_peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).unwrap_or("0");
    Ok(kib.trim().parse::<u64>()? << 10)
}
