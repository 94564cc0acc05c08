//! Every script of a chain: whole runs by Bitcoin Core and by each way of Apus, and the cost of one
//! input, by the type of output that it spends.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use apus_scripts::script::{Checks, signature_checks};
use apus_scripts::sighash::{Preimages, SharedHashes, TxSighash};
use apus_scripts::{FastScripts, FastVerdict, TxScripts};
use apus_wire::{InputView, Prevout, ScriptFlags, TxView};

use crate::chain::blocks::Blocks;
use crate::process::Programs;
use crate::report::{Cell, Report, Table};
use crate::{Result, join};

/// The number of blocks, from the last one down, whose inputs are measured by kind.
const BLOCKS: usize = 40;
/// The number of inputs of a kind whose signatures are verified together.
const TOGETHER: u64 = 2048;

/// The cost of the inputs of one kind, on one core.
#[derive(Default)]
struct Cost {
    inputs: u64,
    left: u64,
    /// The time to run scripts and hash messages.
    scripts: Duration,
    /// The time of the fast engine, without the inputs that it leaves to the engine.
    fast: Duration,
    engine: Duration,
}

/// The inputs of one kind, and those whose signatures still have to be verified.
struct Kind {
    cost: Cost,
    preimages: Preimages,
    lanes: FastScripts,
    waiting: u64,
}

/// Does all runs on the chain, and measures the inputs of some of its blocks.
///
/// # Errors
/// A run fails, or an input is invalid.
pub fn run(size: &join::Size, programs: &Programs, dir: &Path) -> Result<Report> {
    let mut report = join::run(size, programs, dir)?;
    for wanted in &size.chains {
        let blocks = Blocks::open(&join::dir_with_undo(&wanted.shape, dir))?;
        report.tables.push(table(&measure(&blocks)?));
    }
    report.notes.push(format!(
        "inputs: of {BLOCKS} blocks, on one core, {TOGETHER} of a kind at a time; scripts is their \
         running and the hashing of messages, signatures the rest, with the hashes of keys; left \
         are those that only Core's engine decides"
    ));
    Ok(report)
}

fn measure(blocks: &Blocks) -> Result<BTreeMap<&'static str, Cost>> {
    let mut kinds = BTreeMap::new();
    for entry in blocks.busiest(BLOCKS) {
        let block = blocks.read(entry)?;
        let prevouts = block.prevouts();
        let txs: Vec<TxView> = block.view.txs().skip(1).collect();
        let start = Instant::now();
        let shared = SharedHashes::of_many(&txs);
        let each = start.elapsed() / txs.len().max(1) as u32;
        let mut first = 0;
        for (tx, shared) in txs.into_iter().zip(shared) {
            let of_tx = &prevouts[first..first + tx.input_count()];
            measure_tx(&mut kinds, (tx, shared, each), of_tx, block.flags)?;
            first += tx.input_count();
        }
    }
    let finish = |(name, mut kind): (_, Kind)| {
        kind.verify();
        (name, kind.cost)
    };
    Ok(kinds.into_iter().map(finish).collect())
}

/// Measures the inputs of a transaction, those of each kind together. The hashes that they share
/// are already computed, in the time `each`.
fn measure_tx(
    kinds: &mut BTreeMap<&'static str, Kind>,
    (tx, shared, each): (TxView, Option<SharedHashes>, Duration),
    prevouts: &[Prevout],
    flags: ScriptFlags,
) -> Result<()> {
    let mut by_kind: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
    for (index, input) in tx.inputs().enumerate() {
        by_kind.entry(kind_of(&input, prevouts[index].script)).or_default().push(index);
    }
    for (name, inputs) in by_kind {
        let kind = kinds.entry(name).or_insert_with(Kind::new);
        let start = Instant::now();
        let mut messages = TxSighash::new(tx, prevouts, shared);
        for &input in &inputs {
            let mut checks = Checks::new();
            let preimages = &mut kind.preimages;
            let checked = signature_checks(&mut messages, input, flags, preimages, &mut checks);
            let _ = black_box((checked, checks));
        }
        kind.cost.scripts += start.elapsed() + each;
        let start = Instant::now();
        let mut messages = TxSighash::new(tx, prevouts, shared);
        inputs.iter().for_each(|&input| kind.lanes.add(&mut messages, input, flags));
        kind.cost.fast += start.elapsed() + each;
        let start = Instant::now();
        let scripts = TxScripts::new(&tx, prevouts, flags)?;
        inputs.iter().try_for_each(|&input| scripts.check_input(input))?;
        kind.cost.engine += start.elapsed();
        kind.cost.inputs += inputs.len() as u64;
        kind.waiting += inputs.len() as u64;
        if kind.waiting >= TOGETHER {
            kind.verify();
        }
    }
    Ok(())
}

impl Kind {
    fn new() -> Self {
        let cost = Cost::default();
        let preimages = Preimages::default();
        Self { cost, preimages, lanes: FastScripts::new(None), waiting: 0 }
    }

    fn verify(&mut self) {
        let start = Instant::now();
        black_box(self.preimages.hash_all());
        self.preimages.clear();
        self.cost.scripts += start.elapsed();
        let start = Instant::now();
        let verdicts = self.lanes.decide();
        self.cost.fast += start.elapsed();
        self.waiting = 0;
        let is_left = |verdict: &&FastVerdict| **verdict != FastVerdict::Valid;
        self.cost.left += verdicts.iter().filter(is_left).count() as u64;
    }
}

/// Returns the kind of an input, by the output and the way it is spent.
fn kind_of(input: &InputView, script: &[u8]) -> &'static str {
    let has_witness = input.witness().len() > 0;
    match (script, script.len()) {
        ([0, 20, ..], 22) => "P2WPKH",
        ([0, 32, ..], 34) => match input.witness().last() {
            Some([.., 0xae]) => "P2WSH multisig",
            _ => "other P2WSH",
        },
        ([0x51, 32, ..], 34) if input.witness().len() == 1 => "P2TR key",
        ([0x51, 32, ..], 34) => "P2TR script",
        ([0xa9, 20, ..], 23) if has_witness => "P2SH-wrapped",
        ([0xa9, 20, ..], 23) => "P2SH",
        ([0x76, 0xa9, 20, ..], 25) => "P2PKH",
        ([33, .., 0xac], 35) | ([65, .., 0xac], 67) => "P2PK",
        ([.., 0xae], _) => "bare multisig",
        _ => "other",
    }
}

fn table(costs: &BTreeMap<&'static str, Cost>) -> Table {
    let columns = [
        ("kind", "input"),
        ("inputs", "inputs"),
        ("left", "left"),
        ("scripts_ns", "scripts, ns"),
        ("signatures_ns", "signatures, ns"),
        ("fast_ns", "together, ns"),
        ("engine_ns", "Core's engine, ns"),
        ("times_as_fast", "×"),
    ];
    let mut table = Table::new("inputs", &columns);
    for (kind, cost) in costs {
        let each = |time: Duration| time.as_nanos() as u64 / cost.inputs.max(1);
        table.push(vec![
            Cell::text_of(*kind),
            Cell::Count(cost.inputs),
            Cell::Count(cost.left),
            Cell::Count(each(cost.scripts)),
            Cell::Count(each(cost.fast.saturating_sub(cost.scripts))),
            Cell::Count(each(cost.fast)),
            Cell::Count(each(cost.engine)),
            Cell::Ratio(cost.engine.as_secs_f64() / cost.fast.as_secs_f64().max(1e-9)),
        ]);
    }
    table
}
