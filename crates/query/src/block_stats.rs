//! Statistics of a block: `getblockstats`.

use apus_coins::Coin;
use apus_consensus::{MONEY_MAX, is_bip30_repeat, subsidy};
use apus_wire::{BlockView, TxView, compact_size_len, is_unspendable};
use serde::Serialize;
use serde_json::value::RawValue;

use super::chain::hash_or_height;
use super::error::{RPC_INVALID_PARAMETER, RpcError, internal};
use super::json::{Json, json};
use super::params;
use super::source::Call;
use super::stored::{StoredBlock, parse};
use super::transaction::{fee, script_bytes};

/// Bytes that Core counts for each unspent output besides the output itself: the outpoint, and the
/// height with the coinbase flag.
const PER_UTXO_OVERHEAD: i64 = 36 + 4;
/// The shares of the weight, in hundredths, at which fee rates are shown.
const PERCENTILES: [f64; 5] = [10.0, 25.0, 50.0, 75.0, 90.0];

/// The statistics, in Core's order. All amounts are in satoshis.
#[derive(Serialize)]
struct Stats {
    avgfee: i64,
    avgfeerate: i64,
    avgtxsize: i64,
    blockhash: String,
    feerate_percentiles: [i64; 5],
    height: u32,
    ins: i64,
    maxfee: i64,
    maxfeerate: i64,
    maxtxsize: i64,
    medianfee: i64,
    mediantime: u32,
    mediantxsize: i64,
    minfee: i64,
    minfeerate: i64,
    mintxsize: i64,
    outs: i64,
    subsidy: i64,
    swtotal_size: i64,
    swtotal_weight: i64,
    swtxs: i64,
    time: u32,
    total_out: i64,
    total_size: i64,
    total_weight: i64,
    totalfee: i64,
    txs: i64,
    utxo_increase: i64,
    utxo_size_inc: i64,
    utxo_increase_actual: i64,
    utxo_size_inc_actual: i64,
}

/// `getblockstats`.
pub fn getblockstats(call: &Call) -> Result<Json, RpcError> {
    let (stored, block, mediantime) = call.source.try_look(|committed| {
        let id = hash_or_height(committed, call.param(0))?;
        let mediantime = committed.tree.median_time_past(id);
        Ok((StoredBlock::new(committed, id), committed.tree.node(id), mediantime))
    })?;
    let mut chosen = Vec::new();
    if !call.param(1).is_null() {
        for name in params::array(call.param(1))? {
            chosen.push(params::text(name)?);
        }
    }
    let bytes = stored.read()?;
    let view = parse(&bytes)?;
    let spent = stored.checked_spent(&view)?;
    // The outputs of these blocks' coinbases are not coins, or are there already.
    let adds_no_coinbase = block.height == 0 || is_bip30_repeat(block.height, &block.hash);
    let mut sums = Sums::new(block.height == 0, adds_no_coinbase);
    for (index, tx) in view.txs().enumerate() {
        let coins = index.checked_sub(1).and_then(|index| spent.get(index));
        sums.add(tx, coins.map_or(&[], Vec::as_slice));
    }
    let stats = json(&Stats {
        blockhash: block.hash.to_string(),
        height: block.height,
        mediantime,
        subsidy: subsidy(block.height, &call.source.network),
        time: block.time,
        ..sums.stats(&view)
    });
    choose(stats, &mut chosen)
}

/// Returns those of the statistics that are asked for, by name; all if none is.
fn choose(all: Json, chosen: &mut Vec<&str>) -> Result<Json, RpcError> {
    if chosen.is_empty() {
        return Ok(all);
    }
    chosen.sort_unstable();
    chosen.dedup();
    let all: std::collections::BTreeMap<&str, &RawValue> =
        serde_json::from_str(all.get()).map_err(internal)?;
    let mut some = std::collections::BTreeMap::new();
    for name in chosen {
        let value = all.get(name).ok_or_else(|| {
            RpcError::new(RPC_INVALID_PARAMETER, format!("Invalid selected statistic '{name}'"))
        })?;
        some.insert(*name, *value);
    }
    Ok(json(&some))
}

/// The sums over the transactions of a block.
struct Sums {
    is_genesis: bool,
    adds_no_coinbase: bool,
    fees: Vec<i64>,
    /// Fee rates in satoshis for each virtual byte, with the weights of the transactions.
    rates: Vec<(i64, i64)>,
    sizes: Vec<i64>,
    ins: i64,
    outs: i64,
    swtotal_size: i64,
    swtotal_weight: i64,
    swtxs: i64,
    total_out: i64,
    total_weight: i64,
    utxos: i64,
    utxo_size_inc: i64,
    utxo_size_inc_actual: i64,
}

impl Sums {
    fn new(is_genesis: bool, adds_no_coinbase: bool) -> Self {
        Self {
            is_genesis,
            adds_no_coinbase,
            fees: Vec::new(),
            rates: Vec::new(),
            sizes: Vec::new(),
            ins: 0,
            outs: 0,
            swtotal_size: 0,
            swtotal_weight: 0,
            swtxs: 0,
            total_out: 0,
            total_weight: 0,
            utxos: 0,
            utxo_size_inc: 0,
            utxo_size_inc_actual: 0,
        }
    }

    /// Adds a transaction that spends `coins`.
    fn add(&mut self, tx: TxView, coins: &[Coin]) {
        let is_coinbase = tx.is_coinbase();
        self.outs += tx.output_count() as i64;
        for output in tx.outputs() {
            let size = output.bytes().len() as i64 + PER_UTXO_OVERHEAD;
            self.utxo_size_inc += size;
            let adds_none = self.is_genesis || self.adds_no_coinbase && is_coinbase;
            if !adds_none && !is_unspendable(output.script()) {
                self.utxos += 1;
                self.utxo_size_inc_actual += size;
            }
        }
        if is_coinbase {
            return;
        }
        self.ins += tx.input_count() as i64;
        self.total_out += tx.outputs().map(|output| output.value()).sum::<i64>();
        let size = tx.bytes().len() as i64;
        let weight = 3 * tx.base_size() as i64 + size;
        self.sizes.push(size);
        self.total_weight += weight;
        if tx.has_witness() {
            self.swtxs += 1;
            self.swtotal_size += size;
            self.swtotal_weight += weight;
        }
        for coin in coins {
            let script = script_bytes(coin).len();
            let size = 8 + compact_size_len(script as u64) + script;
            self.utxo_size_inc -= size as i64 + PER_UTXO_OVERHEAD;
            self.utxo_size_inc_actual -= size as i64 + PER_UTXO_OVERHEAD;
        }
        let fee = fee(tx, coins);
        self.fees.push(fee);
        self.rates.push((fee * 4 / weight, weight));
    }

    /// Returns the statistics that depend on the transactions.
    fn stats(mut self, view: &BlockView<&[u8]>) -> Stats {
        let count = self.fees.len() as i64;
        let totalfee = self.fees.iter().sum::<i64>();
        let total_size = self.sizes.iter().sum::<i64>();
        let average = |sum: i64| if count > 0 { sum / count } else { 0 };
        let (lowest, highest) = extremes(self.rates.iter().map(|(rate, _)| *rate));
        let (minfee, maxfee) = extremes(self.fees.iter().copied());
        let (mintxsize, maxtxsize) = extremes(self.sizes.iter().copied());
        Stats {
            avgfee: average(totalfee),
            avgfeerate: if self.total_weight > 0 { totalfee * 4 / self.total_weight } else { 0 },
            avgtxsize: average(total_size),
            blockhash: String::new(),
            feerate_percentiles: percentiles(&mut self.rates, self.total_weight),
            height: 0,
            ins: self.ins,
            maxfee,
            maxfeerate: highest,
            maxtxsize,
            medianfee: median(&mut self.fees),
            mediantime: 0,
            mediantxsize: median(&mut self.sizes),
            minfee,
            minfeerate: lowest,
            mintxsize,
            outs: self.outs,
            subsidy: 0,
            swtotal_size: self.swtotal_size,
            swtotal_weight: self.swtotal_weight,
            swtxs: self.swtxs,
            time: 0,
            total_out: self.total_out,
            total_size,
            total_weight: self.total_weight,
            totalfee,
            txs: view.tx_count() as i64,
            utxo_increase: self.outs - self.ins,
            utxo_size_inc: self.utxo_size_inc,
            utxo_increase_actual: self.utxos - self.ins,
            utxo_size_inc_actual: self.utxo_size_inc_actual,
        }
    }
}

/// Returns the least and the greatest number, 0 if there is none.
fn extremes(numbers: impl Iterator<Item = i64> + Clone) -> (i64, i64) {
    let least = numbers.clone().min().filter(|least| *least != MONEY_MAX);
    (least.unwrap_or(0), numbers.max().unwrap_or(0).max(0))
}

/// Returns the median, rounded down (Core's `CalculateTruncatedMedian`).
fn median(numbers: &mut [i64]) -> i64 {
    numbers.sort_unstable();
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0,
        len if len % 2 == 1 => numbers[middle],
        _ => (numbers[middle - 1] + numbers[middle]) / 2,
    }
}

/// Returns the rates below which shares of the weight are (Core's `CalculatePercentilesByWeight`).
fn percentiles(rates: &mut [(i64, i64)], weight: i64) -> [i64; 5] {
    rates.sort_unstable();
    PERCENTILES.map(|percentile| {
        let wanted = weight as f64 * percentile / 100.0;
        let mut sum = 0;
        let reached = rates.iter().find(|(_, weight)| {
            sum += weight;
            sum as f64 >= wanted
        });
        reached.or(rates.last()).map_or(0, |(rate, _)| *rate)
    })
}
