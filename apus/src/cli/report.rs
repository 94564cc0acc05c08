//! The report at the end of a sync or a reindex as text.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use apus_host::MemoryInUse;
use apus_node::{NotChecked, RuleGroup};
use apus_progress::{Pruned, ScriptCounts};
use apus_sync::{AboveTip, ChosenMethod, JoinPass, SavedJoin, SavedSync, Summary};
use secp_lanes::Kernel;

use super::numbers::{precise, thousands};
use super::output;
use super::report_peers::peers;
use super::table::Table;

/// The most refusals that are printed; others are only counted.
const REFUSALS_SHOWN: usize = 10;
/// The report names the bottleneck of a run that took at least this long, and the time that was
/// expected.
const LONG: Duration = Duration::from_secs(1);
/// Mapped memory is reported if it was read while memory use was at least this share of its peak,
/// in percent.
const SEEN_PERCENT_MIN: u64 = 90;

/// Returns the part of the peak memory that was mapped files, in bytes, if memory use was read near
/// its peak.
pub(super) fn mapped_at_peak(peak: u64, memory: MemoryInUse) -> Option<u64> {
    let near = memory.bytes > 0 && memory.bytes >= peak / 100 * SEEN_PERCENT_MIN;
    near.then_some(memory.mapped)
}

/// Returns the report as text: the outcome, a table, remarks, and the next step.
/// `columns` are those of the terminal; `None` if the report goes elsewhere.
pub fn summary_text(summary: &Summary, columns: Option<usize>, next: &str) -> String {
    let table = table(summary);
    let warnings = warnings(summary);
    let labels = table.label_columns().max(warnings.label_columns());
    let is_bad = summary.interrupted || summary.connects_nothing();
    let good = if is_bad { AnsiColor::Yellow } else { AnsiColor::Green };
    let good = good.on_default().bold();
    let bold = Style::new().bold();
    let outcome = outcome(summary);
    let (first, rest) = outcome.split_once(':').unwrap_or((&outcome, ""));
    format!(
        "{good}{first}{good:#}:{rest}\n{}{}{}Next: {bold}{next}{bold:#}",
        table.text(labels, columns),
        peers(&summary.peers),
        warnings.text(labels, columns),
    )
}

/// Returns the table of what the run did, and of what it took.
fn table(summary: &Summary) -> Table {
    let mut table = Table::default();
    table.row_if("coins", summary.coins.map(thousands));
    let repaired = Some(summary.repaired.len()).filter(|count| *count > 0);
    table
        .row_if("repaired", repaired.map(|count| format!("{count} in the block files, see below")));
    work(summary, &mut table);
    table.row("time", time(summary));
    if let Some(ChosenMethod { method, why, .. }) = &summary.chosen {
        table.row("method", format!("{}: {why}", method.name()));
    }
    let spilled = summary.spilled_bytes.filter(|bytes| *bytes > 0);
    table.row_if("temporary files", spilled.map(megabytes));
    table.row("peak memory", format!("{} MiB", summary.peak_memory >> 20));
    table.row_if("bottleneck", bottleneck(summary));
    table
}

/// Returns the rows of what was not checked, is not there, or was not done.
fn warnings(summary: &Summary) -> Table {
    let mut table = Table::default();
    for blocks in summary.checked.not_checked() {
        table.warn("not checked", not_checked(blocks));
    }
    if let Some(difference) = &summary.script_difference {
        table.warn("scripts", difference.to_string());
    }
    if let Some(missing) = undo_missing(summary) {
        table.warn("undo data", missing);
    }
    // A SwiftSync under way has no chain yet whose blocks could be counted.
    let is_swiftsync = matches!(summary.saved, Some(SavedSync::SwiftSync(_)));
    if let Some(pruned) = summary.pruned.as_ref().filter(|_| !is_swiftsync) {
        table.warn("pruned", pruned_text(pruned));
    }
    let above = summary.above_tip.filter(|_| !summary.interrupted);
    for words in above.iter().flat_map(above_tip_words) {
        table.warn("not connected", words);
    }
    table
}

/// Returns the first line of the report: the height or the work that the run has reached.
pub fn outcome(summary: &Summary) -> String {
    match &summary.saved {
        Some(SavedSync::SwiftSync(saved)) => {
            return format!(
                "Interrupted: {} of {} blocks of SwiftSync are done and saved",
                thousands(saved.done.into()),
                thousands(saved.total.into())
            );
        }
        Some(SavedSync::Join(saved)) => {
            return format!("Interrupted: a join, {}", join_words(saved));
        }
        None => {}
    }
    let what = if summary.interrupted {
        "Interrupted, saved"
    } else if summary.connects_nothing() {
        "Nothing was connected, since blocks were refused"
    } else {
        "Done"
    };
    format!("{what}: height {}, best block {}", summary.height, summary.best_block)
}

/// Describes each kind of block between the tip and the best header, with the command that connects
/// it.
pub fn above_tip_words(above: &AboveTip) -> Vec<String> {
    let AboveTip { headers, waiting, missing, first_missing } = *above;
    let first = thousands(first_missing.unwrap_or(0).into());
    let (blocks, them) = match waiting {
        1 => ("1 block above the tip is".to_string(), "it"),
        _ => (format!("{} blocks above the tip are", thousands(waiting.into())), "them"),
    };
    let waits = format!("{blocks} stored and not yet connected: run `apus sync` to connect {them}");
    let lacks = format!(
        "{} blocks up to height {} are missing, the first at height {first}: `apus sync` fetches \
         them from peers, or from files with --from",
        thousands(missing.into()),
        thousands(headers.into())
    );
    let kinds = [(waiting, waits), (missing, lacks)];
    kinds.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect()
}

/// Adds the rows about the blocks of the run.
fn work(summary: &Summary, table: &mut Table) {
    let Summary { counts, disconnected, .. } = summary;
    if *disconnected > 0 {
        table.row("disconnected", format!("{} blocks", thousands(*disconnected)));
    }
    // Matching and checking spends of a join reads no new blocks.
    let nothing = if counts.blocks > 0 {
        None
    } else if matches!(summary.saved, Some(SavedSync::Join(_))) {
        Some("no other block read")
    } else if summary.chosen.is_none() && *disconnected == 0 {
        Some("no block connected or disconnected")
    } else if summary.chosen.is_none() {
        return;
    } else {
        None
    };
    if let Some(nothing) = nothing {
        table.row("blocks", nothing);
        return;
    }
    table.row(
        "blocks",
        format!(
            "{}, {} transactions, {} inputs, {}",
            thousands(counts.blocks),
            thousands(counts.transactions),
            thousands(counts.inputs),
            megabytes(counts.bytes)
        ),
    );
    table.row(
        "scripts",
        format!("{} checked", thousands(counts.scripts))
            + &scripts(&summary.scripts, Kernel::best()),
    );
}

/// Returns the time that the run took, up to the tip, its speed, and the time that was expected.
fn time(summary: &Summary) -> String {
    let Summary { counts, ran, .. } = summary;
    let elapsed = ran.to_tip.unwrap_or(summary.elapsed);
    let mut text = precise(elapsed);
    if counts.blocks > 0 {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        text += &format!(
            ", {} blocks/s, {:.1} MB/s",
            thousands((counts.blocks as f64 / seconds).round() as u64),
            counts.bytes as f64 / seconds / 1e6,
        );
    }
    let is_done = !summary.interrupted || ran.to_tip.is_some();
    if let Some(expected) = ran.expected.filter(|_| elapsed >= LONG && is_done) {
        text += &format!("; {} were expected", expected.words());
    }
    if ran.to_tip.is_some() {
        text += &format!("; then {} at the tip", precise(summary.elapsed.saturating_sub(elapsed)));
    }
    text
}

/// Returns a number of bytes in decimal units.
fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Says which engines have checked scripts on a processor whose best kernel is `best`.
fn scripts(counts: &ScriptCounts, best: Kernel) -> String {
    let ScriptCounts { fast, core, rechecked, signatures, kernel } = *counts;
    let Some(kernel) = kernel else {
        let why = ": by Bitcoin Core's engine, since this processor has neither AVX2 nor AVX-512 \
                   IFMA for Apus's";
        return if core > 0 && best == Kernel::Library { why.to_string() } else { String::new() };
    };
    format!(
        ": {} by Apus, with {} signatures verified {}; {} of these also by Bitcoin Core's engine; \
         {} by that engine alone",
        thousands(fast),
        thousands(signatures),
        kernel.words(),
        thousands(rechecked),
        thousands(core),
    )
}

/// Names what the run waited for most, unless it was short.
fn bottleneck(summary: &Summary) -> Option<String> {
    let (what, time) = summary.ran.bottleneck.filter(|(_, time)| *time >= LONG)?;
    Some(format!("{}, for {}", what.word(), precise(time)))
}

/// Describes how far an interrupted join has come.
pub fn join_words(saved: &SavedJoin) -> String {
    let total = thousands(saved.total.into());
    let read = thousands(saved.blocks_read.into());
    let checked = thousands(saved.blocks_checked.into());
    let what = match saved.pass {
        JoinPass::Reading => format!("{read} of {total} blocks read"),
        JoinPass::Matching => format!("all {total} blocks read, spends partly matched"),
        JoinPass::Checking => format!("{checked} of {total} blocks checked"),
    };
    format!("in pass {} of 3, {what} and saved", saved.pass.number())
}

/// Names the rules that were not checked in a range of blocks.
fn not_checked(blocks: &NotChecked) -> String {
    let rules: Vec<&str> = blocks.rules.iter().map(|rule| words(*rule)).collect();
    let first = thousands(blocks.first.into());
    let last = thousands(blocks.last.into());
    format!("taken as valid in blocks {first} to {last}: {}", rules.join(", "))
}

fn words(rule: RuleGroup) -> &'static str {
    match rule {
        RuleGroup::Scripts => "scripts",
        RuleGroup::Amounts => "amounts (the total supply is checked)",
        RuleGroup::CoinbaseClaims => "coinbase claims",
        RuleGroup::Order => "the order of spends",
        RuleGroup::Maturity => "maturity of coinbases",
        RuleGroup::RelativeLockTimes => "relative lock times (BIP68)",
        RuleGroup::P2shSigops => "P2SH signature operations",
        RuleGroup::WitnessSigops => "witness signature operations",
        RuleGroup::WitnessCommitments => "witness commitments",
        RuleGroup::BlockWeight => "block weight (the size without witnesses is checked)",
    }
}

/// Says what bitcoind cannot do where blocks lack undo data, and how to write it.
fn undo_missing(summary: &Summary) -> Option<String> {
    let pruned_from = summary.pruned.map_or(1, |pruned| pruned.blocks_from);
    if summary.undo_from <= 1 || summary.saved.is_some() || pruned_from >= summary.undo_from {
        return None;
    }
    let remedy = match pruned_from {
        0 | 1 => "`apus reindex` writes it",
        _ => "a sync in order or by a join, into a new directory, writes it",
    };
    Some(format!(
        "complete from height {} on; bitcoind runs, but -coinstatsindex, -blockfilterindex, \
         -checkblocks=0 -checklevel=4, verifychain and reorganisations that reach further down \
         need the rest: {remedy}",
        thousands(summary.undo_from.into())
    ))
}

/// Says which blocks are pruned, and how to start bitcoind then.
pub fn pruned_text(pruned: &Pruned) -> String {
    let held = pruned.held_at.map_or_else(String::new, |height| {
        format!(
            "; an index of bitcoind, which is at height {}, holds pruning back",
            thousands(height.into())
        )
    });
    if pruned.blocks_from <= 1 {
        return format!(
            "no block is pruned: a file is deleted as a whole, by its highest block, and the last \
             file stays{held}"
        );
    }
    format!(
        "blocks below height {} are pruned, {:.1} MB of them by this run; {:.1} MB are \
         stored{held}: start bitcoind with -prune, since without it bitcoind demands -reindex, \
         which downloads all blocks again",
        thousands(pruned.blocks_from.into()),
        pruned.freed_bytes as f64 / 1e6,
        pruned.usage as f64 / 1e6
    )
}

/// Prints the refusals and the repaired blocks to standard error.
pub fn print_refusals(summary: &Summary) {
    for (what, blocks) in [("Repaired", &summary.repaired), ("Refused", &summary.refusals)] {
        for block in blocks.iter().take(REFUSALS_SHOWN) {
            output::note(format_args!("{what}: {block}"));
        }
        if let Some(more) = blocks.len().checked_sub(REFUSALS_SHOWN + 1) {
            output::note(format_args!("… and {} more", more + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use apus_hash::Hash;
    use apus_node::Checked;
    use apus_progress::Method;
    use apus_progress::{Bottleneck, Counts, Left, Ran, Refusal, ThreadStates, Waits};
    use apus_sync::SavedBlocks;

    use super::*;
    use crate::cli::report_json::summary_json;

    fn swiftsync(done: u32, total: u32) -> Option<SavedSync> {
        Some(SavedSync::SwiftSync(SavedBlocks { done, total }))
    }

    fn interrupted(saved: Option<SavedSync>) -> Summary {
        Summary {
            height: 0,
            best_block: Hash::ZERO,
            coins: Some(0),
            chosen: None,
            above_tip: None,
            disconnected: 0,
            spilled_bytes: None,
            scripts: ScriptCounts::default(),
            script_difference: None,
            counts: Counts::default(),
            elapsed: Duration::from_secs(1),
            cpu: Duration::ZERO,
            peak_memory: 0,
            interrupted: true,
            saved,
            checked: Checked::default(),
            undo_from: 1,
            pruned: None,
            refusals: Vec::new(),
            repaired: Vec::new(),
            stages: BTreeMap::new(),
            waits: Waits::default(),
            waited_for_peers: Duration::ZERO,
            ran: Ran::default(),
            states: ThreadStates::default(),
            peers: Vec::new(),
        }
    }

    fn text(summary: &Summary) -> String {
        anstream::adapter::strip_str(&summary_text(summary, None, "the next step")).to_string()
    }

    #[test]
    fn one_block_above_the_tip_is_no_blocks() {
        let words = |waiting| above_tip_words(&AboveTip { waiting, ..AboveTip::default() });
        assert!(words(1)[0].starts_with("1 block above the tip is stored"), "{:?}", words(1));
        assert!(words(1200)[0].starts_with("1,200 blocks above the tip are stored"));
    }

    #[test]
    fn it_says_who_has_checked_scripts() {
        let mut summary = interrupted(None);
        summary.counts.blocks = 1;
        assert!(text(&summary).contains("scripts      0 checked\n"), "{}", text(&summary));
        summary.scripts = ScriptCounts {
            fast: 1_234_567,
            core: 12,
            rechecked: 301,
            signatures: 1_300_000,
            kernel: Some(Kernel::Library),
        };
        let expected = "scripts      0 checked: 1,234,567 by Apus, with 1,300,000 signatures \
                        verified by libsecp256k1; 301 of these also by Bitcoin Core's engine; 12 \
                        by that engine alone\n";
        assert!(text(&summary).contains(expected), "{}", text(&summary));
        let json = summary_json(&summary, MemoryInUse::default());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "fast": 1_234_567, "core": 12, "rechecked": 301, "signatures": 1_300_000,
            "kernel": "library",
        });
        assert_eq!(json["script_checks"], expected);
    }

    #[test]
    fn it_says_that_the_processor_is_too_old_for_lanes() {
        let counts = ScriptCounts { core: 12, ..ScriptCounts::default() };
        let expected = ": by Bitcoin Core's engine, since this processor has neither AVX2 nor \
                        AVX-512 IFMA for Apus's";
        assert_eq!(scripts(&counts, Kernel::Library), expected);
        assert_eq!(scripts(&counts, Kernel::Avx2), "");
        assert_eq!(scripts(&ScriptCounts::default(), Kernel::Library), "");
    }

    #[test]
    fn the_report_names_what_was_waited_for() {
        let ran = |seconds| Ran {
            bottleneck: Some((Bottleneck::Peers, Duration::from_secs(seconds))),
            ..Ran::default()
        };
        let summary = Summary { ran: ran(41), ..interrupted(None) };
        assert!(text(&summary).contains("bottleneck   peers, for 41.00 s\n"), "{}", text(&summary));
        let json = summary_json(&summary, MemoryInUse::default());
        assert!(json.contains(r#""bottleneck":"peers""#), "{json}");
        assert!(!text(&Summary { ran: ran(0), ..summary }).contains("bottleneck"));
    }

    #[test]
    fn time_at_the_tip_is_no_time_of_the_sync() {
        let mut summary = interrupted(None);
        (summary.counts.blocks, summary.elapsed) = (200, Duration::from_secs(40));
        summary.ran.to_tip = Some(Duration::from_secs(2));
        let found = text(&summary);
        assert!(
            found.contains("2.00 s, 100 blocks/s, 0.0 MB/s; then 38.00 s at the tip"),
            "{found}"
        );
    }

    #[test]
    fn a_run_that_connects_nothing_since_blocks_are_refused_is_not_done() {
        let refusal =
            Refusal { path: None, offset: None, block: None, reason: "time-too-new".to_string() };
        let refusals = vec![refusal];
        let mut summary = Summary { interrupted: false, refusals, ..interrupted(None) };
        assert!(text(&summary).starts_with("Nothing was connected"), "{}", text(&summary));
        summary.counts.blocks = 1;
        assert!(text(&summary).starts_with("Done: height 0"), "{}", text(&summary));
    }

    #[test]
    fn an_interrupted_swiftsync_says_what_is_kept() {
        let unseen = MemoryInUse::default();
        let found = text(&interrupted(swiftsync(1_200, 14_131)));
        let first = "Interrupted: 1,200 of 14,131 blocks of SwiftSync are done and saved\n";
        assert!(found.starts_with(first), "{found}");
        assert!(!found.contains("height 0") && found.ends_with("\nNext: the next step"), "{found}");
        let json = summary_json(&interrupted(swiftsync(7, 9)), unseen);
        assert!(json.contains(r#""swiftsync_saved":{"blocks":7,"of":9}"#), "{json}");
        let found = text(&interrupted(None));
        assert!(found.starts_with("Interrupted, saved: height 0"), "{found}");
    }

    #[test]
    fn an_interrupted_join_says_what_is_kept() {
        let unseen = MemoryInUse::default();
        for (pass, blocks_read, blocks_checked, words) in [
            (JoinPass::Reading, 1_200, 0, "1, 1,200 of 14,131 blocks read"),
            (JoinPass::Matching, 14_131, 0, "2, all 14,131 blocks read, spends partly matched"),
            (JoinPass::Checking, 14_131, 7, "3, 7 of 14,131 blocks checked"),
        ] {
            let words = words.replacen(',', " of 3,", 1);
            let saved = SavedJoin { pass, blocks_read, blocks_checked, total: 14_131 };
            let summary = interrupted(Some(SavedSync::Join(saved)));
            let found = text(&summary);
            let first = format!("Interrupted: a join, in pass {words} and saved\n");
            assert!(found.starts_with(&first), "{found}");
            assert!(!found.contains("0 blocks") && !found.contains("height 0"), "{found}");
            let number = pass.number();
            let json = format!(
                "\"join_saved\":{{\"pass\":{number},\"blocks_read\":{blocks_read},\
                 \"blocks_checked\":{blocks_checked},\"total\":14131}}"
            );
            let found = summary_json(&summary, unseen);
            assert!(found.contains(&json), "{found}");
        }
    }

    #[test]
    fn the_way_of_syncing_is_reported() {
        let unseen = MemoryInUse::default();
        let why = "no hints, and 9 GB wait";
        for (method, spilled_bytes, words, json) in [
            (
                Method::Join,
                Some(12_800_000_000),
                ["join: no hints, and 9 GB wait\n", "temporary files  12.8 GB\n"],
                concat!(
                    r#""method":"join","why":"no hints, and 9 GB wait","#,
                    r#""above_tip":null,"blocks_disconnected":0,"spilled_bytes":12800000000"#
                ),
            ),
            (
                Method::InOrder,
                None,
                ["order: no hints, and 9 GB wait\n", "method       order: "],
                concat!(
                    r#""method":"order","why":"no hints, and 9 GB wait","#,
                    r#""above_tip":null,"blocks_disconnected":0,"spilled_bytes":null"#
                ),
            ),
        ] {
            let chosen = Some(ChosenMethod::new(method, why));
            let summary = Summary { chosen, spilled_bytes, ..interrupted(None) };
            let found = text(&summary);
            assert!(words.iter().all(|words| found.contains(words)), "{found}");
            let found = summary_json(&summary, unseen);
            assert!(found.contains(json), "{found}");
        }
        let none = summary_json(&interrupted(None), unseen);
        assert!(none.contains(r#""method":null,"why":null"#), "{none}");
    }

    #[test]
    fn mapped_memory_is_known_only_if_it_was_seen_near_the_peak() {
        let seen = |bytes, mapped| mapped_at_peak(1000, MemoryInUse { bytes, mapped });
        assert_eq!([seen(950, 600), seen(800, 600), seen(0, 0)], [Some(600), None, None]);
    }

    #[test]
    fn the_report_is_a_table_with_warnings_and_the_next_step_last() {
        let mut summary = Summary { interrupted: false, ..interrupted(None) };
        summary.counts = Counts { blocks: 2_000, bytes: 3_200_000, ..Counts::default() };
        summary.elapsed = Duration::from_secs(4);
        summary.undo_from = 1_713;
        let seconds = Duration::from_secs;
        summary.ran.expected = Some(Left { low: seconds(3), median: seconds(4), high: seconds(7) });
        let found = summary_text(&summary, None, "bitcoind");
        let found = anstream::adapter::strip_str(&found).to_string();
        let lines: Vec<&str> = found.lines().collect();
        assert!(lines[0].starts_with("Done: height 0, best block 0000"), "{found}");
        assert_eq!(lines[1], "coins        0");
        assert_eq!(lines[2], "blocks       2,000, 0 transactions, 0 inputs, 3.2 MB");
        assert_eq!(lines[4], "time         4.00 s, 500 blocks/s, 0.8 MB/s; 3–7 s were expected");
        assert!(lines[6].starts_with("undo data    complete from height 1,713 on; "), "{found}");
        assert_eq!(lines[7..], ["Next: bitcoind"]);
    }
}
