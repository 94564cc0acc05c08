//! Simulated peers in virtual time, without sockets, threads or sleeps. They drive the code that
//! the program runs ([`apus_net::PeerManager`] with its schedule), and blocks are taken at the
//! speed of validation. The same seed gives the same run.
//!
//! Data flows as in a fluid: a requested block begins to arrive after one round trip, and flows at
//! the rate that slow start, the peer's line and its share of our line allow. Packets, queues and
//! losses of single packets are not modelled; a loss is a short outage.

/// A chain of headers that all peers have.
mod chain;
/// How peers share our line.
mod line;
/// The figures that judge a run.
mod outcome;
/// A simulated peer: its messages, and its end of the line.
mod peer;
/// Takes blocks as a pipeline does.
mod reader;
/// Runs a world.
mod run;
/// Which peer has which slot.
mod slots;
/// The parts of a world.
mod spec;
/// The worlds that are measured.
mod worlds;

#[cfg(test)]
mod tests;

use self::outcome::Outcome;
use self::run::{follow, run as run_world};
use self::spec::{Method, WorldSpec};
use crate::Result;
use crate::report::{Cell, Report, Table};

/// The methods of syncing, with their names.
const METHODS: [(&str, Method); 3] =
    [("order", Method::InOrder), ("join", Method::Join), ("swiftsync", Method::SwiftSync)];
/// Blocks for which the tip is followed.
const FOLLOWED: usize = 100;
/// Random worlds for published figures.
pub const RANDOM: u64 = 1_000;

/// Runs the named worlds with each method, and `random` random ones.
pub fn run(random: u64) -> Result<Report> {
    let mut report = Report::new("world");
    report.notes.push(
        "virtual time; the sum is what the outbound peers could have sent while they were \
         connected, as far as our line of 1 Gbit/s allows; a gap is a time in which no block was \
         taken"
            .to_string(),
    );
    let columns = [
        ("world", "peers"),
        ("method", "method"),
        ("megabytes_per_second", "MB/s"),
        ("sum", "of"),
        ("percent", "%"),
        ("gap_seconds", "gap s"),
        ("headers_seconds", "headers s"),
        ("honest_dropped", "honest dropped"),
        ("replaced", "replaced"),
        ("others_dropped", "others dropped"),
        ("twice_megabytes", "MB twice"),
        ("waiting_megabytes", "MB waiting"),
    ];
    let mut table = Table::new("peers", &columns);
    for (name, method) in METHODS {
        let slots = [false, true].map(|has_candidates| worlds::slots(method, has_candidates));
        for spec in worlds::named(method).into_iter().chain(slots) {
            let outcome = run_world(&spec);
            table.push(row(&spec, name, &outcome));
        }
    }
    report.tables.push(table);
    let mut table = Table::new("as in bench/namespaces.sh", &columns);
    for spec in worlds::in_namespaces() {
        table.push(row(&spec, "order", &run_world(&spec)));
    }
    report.tables.push(table);
    report.tables.push(at_the_tip());
    report.tables.push(shares(random));
    Ok(report)
}

/// Follows the tip for [`FOLLOWED`] blocks in each world.
fn at_the_tip() -> Table {
    let columns = [
        ("world", "peers, 100 ms"),
        ("median_seconds", "median s"),
        ("longest_seconds", "longest s"),
    ];
    let mut table = Table::new("from announcement to block", &columns);
    for spec in worlds::at_the_tip() {
        let mut times = follow(&spec, FOLLOWED);
        times.sort();
        let at = |index: usize| Cell::Number((times[index].as_secs_f64() * 100.0).round() / 100.0);
        table.push(vec![Cell::Text(spec.name.to_string()), at(FOLLOWED / 2), at(FOLLOWED - 1)]);
    }
    table
}

fn row(spec: &WorldSpec, method: &str, outcome: &Outcome) -> Vec<Cell> {
    let seconds = outcome.time.as_secs_f64();
    let rounded = |number: f64| Cell::Number((number * 10.0).round() / 10.0);
    let megabytes = |bytes: u64| rounded(bytes as f64 / 1e6);
    vec![
        Cell::Text(spec.name.to_string()),
        Cell::Text(method.to_string()),
        rounded(outcome.bytes as f64 / 1e6 / seconds),
        rounded(outcome.possible / 1e6 / seconds),
        rounded(100.0 * outcome.share()),
        rounded(outcome.longest_gap.as_secs_f64()),
        rounded(outcome.headers.as_secs_f64()),
        Cell::Count(outcome.honest_dropped),
        Cell::Count(outcome.replaced),
        Cell::Count(outcome.others_dropped),
        megabytes(outcome.wasted),
        megabytes(outcome.waiting_max),
    ]
}

/// Runs random worlds, and returns the shares that the worst ones, the worst tenth and the median
/// reach.
fn shares(count: u64) -> Table {
    let mut shares: Vec<(f64, u64)> =
        (0..count).map(|seed| (run_world(&worlds::random(seed)).share(), seed)).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut table =
        Table::new("random worlds", &[("which", "which"), ("percent", "%"), ("seed", "seed")]);
    let last = shares.len().saturating_sub(1);
    for (which, at) in [("worst", 0), ("tenth", last / 10), ("median", last / 2), ("best", last)] {
        if let Some((share, seed)) = shares.get(at) {
            let percent = Cell::Number((share * 1000.0).round() / 10.0);
            table.push(vec![Cell::Text(which.to_string()), percent, Cell::Count(*seed)]);
        }
    }
    table
}
