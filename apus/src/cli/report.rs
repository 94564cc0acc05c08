use std::time::Duration;

use serde::Serialize;

use super::progress::{duration, thousands};
use crate::sync::{Refusal, Summary};

/// Refusals that are printed one by one; the rest is counted.
const REFUSALS_SHOWN: usize = 10;

#[derive(Serialize)]
struct SummaryJson {
    height: u32,
    bestblock: String,
    coins: Option<u64>,
    seconds: f64,
    cpu_seconds: f64,
    blocks: u64,
    bytes: u64,
    transactions: u64,
    inputs: u64,
    scripts_checked: u64,
    peak_memory: u64,
    interrupted: bool,
    refused: Vec<RefusalJson>,
    stages: std::collections::BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct RefusalJson {
    file: Option<String>,
    offset: Option<u64>,
    block: Option<String>,
    reason: String,
}

/// The final object of `--json`: seconds of wall clock and CPU, sizes in bytes.
pub fn summary_json(summary: &Summary) -> String {
    let json = SummaryJson {
        height: summary.height,
        bestblock: summary.best_block.to_string(),
        coins: summary.coins,
        seconds: summary.elapsed.as_secs_f64(),
        cpu_seconds: summary.cpu.as_secs_f64(),
        blocks: summary.counts.blocks,
        bytes: summary.counts.bytes,
        transactions: summary.counts.transactions,
        inputs: summary.counts.inputs,
        scripts_checked: summary.counts.scripts,
        peak_memory: summary.peak_memory,
        interrupted: summary.interrupted,
        refused: summary.refusals.iter().map(refusal_json).collect(),
        stages: summary.stages.iter().map(|(name, t)| (*name, t.as_secs_f64())).collect(),
    };
    serde_json::to_string(&json).expect("plain data")
}

fn refusal_json(refusal: &Refusal) -> RefusalJson {
    RefusalJson {
        file: refusal.path.as_ref().map(|path| path.display().to_string()),
        offset: refusal.offset,
        block: refusal.block.map(|hash| hash.to_string()),
        reason: refusal.reason.clone(),
    }
}

/// The result in words.
pub fn summary_text(summary: &Summary) -> String {
    let seconds = summary.elapsed.as_secs_f64().max(1e-9);
    let counts = &summary.counts;
    let coins = summary
        .coins
        .map_or_else(String::new, |coins| format!("{} coins in the UTXO set\n", thousands(coins)));
    let what = if summary.interrupted { "Interrupted, saved" } else { "Done" };
    format!(
        "{what}: height {}, best block {}\n\
         {}\
         {} blocks, {} transactions, {} inputs ({} scripts checked), {:.1} MB in {} \
         ({:.0} blocks/s, {:.1} MB/s)\n\
         peak memory {} MiB\n",
        summary.height,
        summary.best_block,
        coins,
        thousands(counts.blocks),
        thousands(counts.transactions),
        thousands(counts.inputs),
        thousands(counts.scripts),
        counts.bytes as f64 / 1e6,
        precise(summary.elapsed),
        counts.blocks as f64 / seconds,
        counts.bytes as f64 / seconds / 1e6,
        summary.peak_memory >> 20,
    )
}

/// Seconds with two digits while they are few.
pub fn precise(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.2} s", elapsed.as_secs_f64()),
        _ => duration(elapsed),
    }
}

/// What was refused, on standard error.
pub fn print_refusals(summary: &Summary) {
    for refusal in summary.refusals.iter().take(REFUSALS_SHOWN) {
        eprintln!("Refused: {refusal}");
    }
    if let Some(more) = summary.refusals.len().checked_sub(REFUSALS_SHOWN + 1) {
        eprintln!("… and {} more", more + 1);
    }
}
