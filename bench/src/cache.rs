//! The cost of a sync of the coins cache, which depends on what changed and not on what is cached
//! (Bitcoin Core PR 28280), and the memory of a cached coin, of which Core needs 154 bytes.

use std::cell::RefCell;
use std::collections::HashMap;

use apus_coins::{Coin, CoinsCache, Overwrite};
use apus_hash::Hash;
use apus_testchain::Rng;
use apus_wire::OutPoint;

use crate::measure::{Effort, quick_digest};
use crate::report::{Cell, Report, Table, duration};
use crate::svg::{Lines, Series};
use crate::{Result, machine};

/// The memory that Core needs for a cached coin, all included, in bytes (docs/design.md, 5).
const CORE_BYTES_PER_COIN: f64 = 154.0;
/// Coins given to the cache in one call, about as many as a block creates.
const BATCH: usize = 3_000;

/// The size of this benchmark.
#[derive(Clone, Debug)]
pub struct Size {
    /// The number of runs.
    pub effort: Effort,
    /// The numbers of cached coins, one measurement for each.
    pub cached: Vec<usize>,
    /// The number of coins that change before each sync.
    pub changed: usize,
}

impl Size {
    /// Returns the size for published figures.
    pub fn full() -> Self {
        let cached = vec![10_000, 100_000, 1_000_000, 10_000_000];
        Self { effort: Effort::FULL, cached, changed: 1_000 }
    }

    /// Returns a tenth of the full size, for a first look.
    pub fn quick() -> Self {
        Self { cached: vec![1_000, 10_000, 100_000, 1_000_000], ..Self::full() }
    }

    /// Returns the size for tests.
    pub fn small() -> Self {
        Self { effort: Effort::SMALL, cached: vec![200, 2_000], changed: 100 }
    }
}

/// The results for one number of cached coins.
struct Figure {
    cached: usize,
    sync_s: f64,
    scan_s: f64,
    bytes_per_coin: f64,
    resident_per_coin: f64,
    digest: u64,
}

/// Measures a sync for each number of cached coins.
///
/// # Errors
/// The sync did not hand out what had changed.
pub fn run(size: &Size) -> Result<Report> {
    let figures: Vec<Figure> =
        size.cached.iter().map(|cached| figure(size, *cached)).collect::<Result<_>>()?;
    let mut report = Report::new("cache");
    report.notes.push(format!(
        "{} coins changed among those cached; a sync collects, sorts and hands them over, without \
         writing tables; next to it a scan of a hash map for entries marked as changed, as Bitcoin \
         Core did before PR 28280, which neither sorts nor hands over",
        size.changed
    ));
    report.notes.push(format!("Bitcoin Core takes {CORE_BYTES_PER_COIN} bytes a cached coin"));
    let columns = [
        ("cached", "cached coins"),
        ("changed", "changed"),
        ("sync_s", "sync"),
        ("scan_s", "scan of everything"),
        ("scan_times_sync", "×"),
        ("bytes_per_coin", "bytes per coin"),
        ("resident_per_coin", "RAM per coin"),
        ("core_times", "Core's 154 ×"),
        ("digest", "digest of the changes"),
    ];
    let mut table = Table::new("sync of the coins cache", &columns);
    for figure in &figures {
        table.push(vec![
            Cell::Count(figure.cached as u64),
            Cell::Count(size.changed as u64),
            Cell::Seconds(figure.sync_s),
            Cell::Seconds(figure.scan_s),
            Cell::Ratio(figure.scan_s / figure.sync_s),
            Cell::Number(figure.bytes_per_coin),
            Cell::Number(figure.resident_per_coin),
            Cell::Ratio(CORE_BYTES_PER_COIN / figure.bytes_per_coin),
            Cell::digest(figure.digest),
        ]);
    }
    report.tables.push(table);
    report.plots.push(("cache".to_string(), plot(size, &figures)));
    Ok(report)
}

fn plot(size: &Size, figures: &[Figure]) -> String {
    let series = |name: &str, y: fn(&Figure) -> f64| Series {
        name: name.to_string(),
        points: figures.iter().map(|figure| (figure.cached as f64, y(figure))).collect(),
    };
    let title = format!("Sync of the coins cache, {} coins changed", size.changed);
    Lines {
        title: &title,
        x: "coins in the cache",
        y: "time of a sync",
        log_y: true,
        x_label: |n| Cell::Count(n as u64).text(),
        y_label: duration,
        series: vec![
            series("Apus: the list of changed entries", |figure| figure.sync_s),
            series("a scan of everything cached", |figure| figure.scan_s),
        ],
    }
    .svg()
}

fn figure(size: &Size, cached: usize) -> Result<Figure> {
    let changed: Vec<(OutPoint, Coin)> = {
        let step = (cached / size.changed).max(1);
        (0..cached).step_by(step).take(size.changed).map(coin).collect()
    };
    let before = machine::resident_bytes();
    let cache = CoinsCache::new();
    for first in (0..cached).step_by(BATCH) {
        let batch: Vec<_> = (first..cached.min(first + BATCH)).map(coin).collect();
        let outpoints: Vec<OutPoint> = batch.iter().map(|(outpoint, _)| *outpoint).collect();
        cache.want(&outpoints);
        cache.fill_batch(cache.generation(), &batch);
    }
    let resident = machine::resident_bytes().saturating_sub(before);
    let bytes_per_coin = cache.bytes() as f64 / cached as f64;
    let change =
        || changed.iter().try_for_each(|(at, coin)| cache.add(at, coin, Overwrite::Possible));
    let (sync, digest) = size.effort.time_with(change, |change| -> Result<u64> {
        change?;
        let mut sum = 0;
        cache.sync(|changes| -> Result<()> {
            changes.all().try_for_each(|outpoint, coin| {
                sum = quick_digest(sum, &outpoint.to_bytes())
                    .wrapping_add(coin.map_or(0, |coin| coin.amount));
                Ok(())
            })
        })?;
        Ok(sum)
    });
    let digest = digest?;
    if cache.len() != cached || cache.changed() != 0 {
        return Err(format!("{} coins are cached instead of {cached}", cache.len()).into());
    }
    drop(cache);
    let (scan_s, scanned) = scan(size.effort, cached, &changed);
    if scanned != digest {
        return Err("the sync did not hand out what had changed".into());
    }
    Ok(Figure {
        cached,
        sync_s: sync.as_secs_f64(),
        scan_s,
        bytes_per_coin,
        resident_per_coin: resident as f64 / cached as f64,
        digest,
    })
}

/// Measures the plain way for comparison: a hash map with marks, all of which is scanned.
fn scan(effort: Effort, cached: usize, changed: &[(OutPoint, Coin)]) -> (f64, u64) {
    let entries = (0..cached).map(coin).map(|(outpoint, coin)| (outpoint, (coin, false)));
    let map: RefCell<HashMap<OutPoint, (Coin, bool)>> = RefCell::new(entries.collect());
    let effort = Effort { runs_max: effort.runs_max.min(20), ..effort };
    let change = || {
        let marked = changed.iter().map(|(outpoint, coin)| (*outpoint, (coin.clone(), true)));
        map.borrow_mut().extend(marked);
    };
    let (time, sum) = effort.time_with(change, |()| {
        let mut sum = 0u64;
        for (outpoint, (coin, changed)) in map.borrow_mut().iter_mut() {
            if std::mem::take(changed) {
                sum = quick_digest(sum, &outpoint.to_bytes()).wrapping_add(coin.amount);
            }
        }
        sum
    });
    (time.as_secs_f64(), sum)
}

/// Returns the `i`-th coin, which pays to a witness key hash. Three coins share a transaction.
fn coin(i: usize) -> (OutPoint, Coin) {
    let mut random = Rng::from_state(i as u64 / 3);
    let mut txid = Hash::ZERO;
    random.fill(&mut txid.0);
    let mut script = [0; 22];
    random.fill(&mut script[2..]);
    script[1] = 20;
    let amount = 1_000 + i as u64 * 37;
    (OutPoint { txid, vout: (i % 3) as u32 }, Coin::new(amount, &script, 800_000, false))
}
