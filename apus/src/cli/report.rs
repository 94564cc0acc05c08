use serde::Serialize;

use super::output;
use super::progress::{precise, thousands};
use crate::sync::{MemoryInUse, Refusal, Summary};

/// Refusals that are printed one by one; the rest is counted.
const REFUSALS_SHOWN: usize = 10;
/// What was seen of memory in use is shown if it is at least so much of the peak, in percent.
const SEEN_PERCENT_MIN: u64 = 90;

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
    peak_memory_mapped: Option<u64>,
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

/// The final object of `--json`: seconds of wall clock and CPU, sizes in bytes. `memory` is the
/// most that was seen in use.
pub fn summary_json(summary: &Summary, memory: MemoryInUse) -> String {
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
        peak_memory_mapped: mapped_at_peak(summary.peak_memory, memory),
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

/// Of the peak memory, the pages of mapped files, if memory was looked at near the peak.
fn mapped_at_peak(peak: u64, memory: MemoryInUse) -> Option<u64> {
    let near = memory.bytes > 0 && memory.bytes >= peak / 100 * SEEN_PERCENT_MIN;
    near.then_some(memory.mapped)
}

fn memory_text(peak: u64, memory: MemoryInUse) -> String {
    let text = format!("peak memory {} MiB", peak >> 20);
    match mapped_at_peak(peak, memory) {
        None => text,
        Some(mapped) => format!(
            "{text}, of which about {} MiB were mapped files, tables above all, which the kernel \
             drops when memory is short",
            mapped >> 20
        ),
    }
}

/// The result in words. `memory` is the most that was seen in use.
pub fn summary_text(summary: &Summary, memory: MemoryInUse) -> String {
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
         {}",
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
        memory_text(summary.peak_memory, memory),
    )
}

/// What was refused, on standard error.
pub fn print_refusals(summary: &Summary) {
    for refusal in summary.refusals.iter().take(REFUSALS_SHOWN) {
        output::note(format_args!("Refused: {refusal}"));
    }
    if let Some(more) = summary.refusals.len().checked_sub(REFUSALS_SHOWN + 1) {
        output::note(format_args!("… and {} more", more + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_named_only_if_it_was_seen_near_the_peak() {
        let seen = |mib: u64, mapped: u64| {
            memory_text(1000 << 20, MemoryInUse { bytes: mib << 20, mapped: mapped << 20 })
        };
        assert_eq!(
            seen(950, 600),
            "peak memory 1000 MiB, of which about 600 MiB were mapped files, tables above all, \
             which the kernel drops when memory is short"
        );
        assert_eq!(seen(800, 600), "peak memory 1000 MiB");
        assert_eq!(seen(0, 0), "peak memory 1000 MiB");
    }
}
