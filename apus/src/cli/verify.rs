//! `apus verify`.

use std::process::ExitCode;

use apus_disk::StoreError;
use apus_node as node;
use apus_progress::Watch;
use apus_store::IndexKind;
use apus_sync::{Damage, Incomplete, LevelReport, Verified, Verify};
use apus_tools as tools;
use clap::Args;
use serde::Serialize;

use super::connect_args::take_assumevalid;
use super::directory::Directory;
use super::failure::Failure;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{precise, thousands};
use super::report_json::ScriptDifferenceJson;
use super::reporting::Reporting;
use super::{exit, output};

/// The most pieces of damage that are printed; others are only counted.
const DAMAGE_SHOWN: usize = 10;

/// Check the last blocks, their undo data and the UTXO set against each other (Core's verifychain).
///
/// Level 0 reads the blocks; level 1 checks the rules that need no coins; level 2 checks undo data;
/// level 3 disconnects the blocks in memory, and checks that the UTXO set holds exactly their
/// coins; level 4 connects them again, with scripts. Each level includes those below it. Damage is
/// printed with its file and the command that repairs it, and the exit status is then 1.
///
/// Of the optional indexes, the entries for these blocks are read; with --blocks 0, all of them.
///
/// The directory is read. Only the numbers of block files with damaged blocks are written, for the
/// next sync, which replaces these. It may be pruned and on a read-only mount, and other programs
/// may read it at the same time; bitcoind must not be running on it.
#[derive(Args)]
pub struct VerifyCommand {
    #[command(flatten)]
    directory: Directory,
    /// How thoroughly to check, from 0 to 4.
    #[arg(long, alias = "checklevel", value_name = "N", default_value_t = node::CHECK_LEVEL,
        value_parser = clap::value_parser!(u8).range(0..=4))]
    level: u8,
    /// Check this many blocks, from the tip down; 0: all.
    #[arg(long, alias = "checkblocks", value_name = "N", default_value_t = node::CHECK_BLOCKS)]
    blocks: u32,
    /// MiB for the coins that level 3 keeps in memory, at least 16; with more, it reaches lower
    /// heights [default: a quarter of the free memory, from 16 to 450].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    /// Level 4 takes the scripts of this block and its ancestors as valid; 0: check every script
    /// [default: as for `apus sync`].
    #[arg(long, value_name = "HASH")]
    assumevalid: Option<String>,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct VerifiedJson {
    height: u32,
    bestblock: String,
    level: u8,
    blocks: u32,
    ok: bool,
    complete: bool,
    interrupted: bool,
    levels: Vec<LevelJson>,
    damaged: Vec<DamageJson>,
    damage_count: u64,
    damaged_indexes: Vec<DamagedIndexJson>,
    blocks_read: u64,
    bytes: u64,
    transactions: u64,
    scripts_checked: u64,
    script_difference: Option<ScriptDifferenceJson>,
    seconds: f64,
    cpu_seconds: f64,
}

/// The heights that a level has checked; both are null if there are none.
#[derive(Serialize)]
struct LevelJson {
    level: u8,
    from_height: Option<u32>,
    to_height: Option<u32>,
    ended: Option<&'static str>,
}

#[derive(Serialize)]
struct DamageJson {
    level: u8,
    height: u32,
    block: String,
    file: String,
    offset: Option<u64>,
    reason: String,
}

#[derive(Serialize)]
struct DamagedIndexJson {
    index: &'static str,
    file: String,
    offset: Option<u64>,
    reason: String,
}

/// Runs `apus verify`.
pub fn run(command: &VerifyCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.directory.to_existing()?;
    chosen.take_cache(command.dbcache).map_err(Failure::usage)?;
    take_assumevalid(&mut chosen, command.assumevalid.as_deref()).map_err(Failure::usage)?;
    let reporting = Reporting { quiet, json: command.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let asked = Verify { level: command.level, blocks: command.blocks };
    let found = tools::verify(&chosen.options, asked, Watch::new(&reporter, &stop));
    reporter.finish();
    let found = found?;
    print_damage(&found);
    reporting.report(|| json(&found), || text(&found))?;
    Ok(if found.is_sound() { exit::status(found.interrupted) } else { ExitCode::FAILURE })
}

/// Prints the damage to standard error.
fn print_damage(found: &Verified) {
    for Damage { level, height, block, error } in found.damage.listed.iter().take(DAMAGE_SHOWN) {
        let height = thousands((*height).into());
        output::note(format_args!(
            "Damaged, at level {level}: block {block} at height {height}: {error}"
        ));
    }
    for (kind, error) in &found.damaged_indexes {
        output::note(format_args!("Damaged: the index {}: {error}", kind.name()));
    }
    let shown = found.damage.listed.len().min(DAMAGE_SHOWN) as u64;
    if found.damage.count > shown {
        output::note(format_args!("… and {} more", thousands(found.damage.count - shown)));
    }
}

fn json(found: &Verified) -> String {
    let to_height = found.height;
    let level = |report: &LevelReport| {
        let has_begun = report.from <= to_height;
        LevelJson {
            level: report.level,
            from_height: has_begun.then_some(report.from),
            to_height: has_begun.then_some(to_height),
            ended: report.ended.map(name),
        }
    };
    let damage = |damage: &Damage| DamageJson {
        level: damage.level,
        height: damage.height,
        block: damage.block.to_string(),
        file: damage.error.path.display().to_string(),
        offset: damage.error.offset,
        reason: damage.error.what.clone(),
    };
    let damaged_index = |(kind, error): &(IndexKind, StoreError)| DamagedIndexJson {
        index: kind.name(),
        file: error.path.display().to_string(),
        offset: error.offset,
        reason: error.what.clone(),
    };
    let json = VerifiedJson {
        height: found.height,
        bestblock: found.best_block.to_string(),
        level: found.asked.level,
        blocks: found.asked.blocks,
        ok: found.is_sound(),
        complete: found.is_complete(),
        interrupted: found.interrupted,
        levels: found.levels.iter().map(level).collect(),
        damaged: found.damage.listed.iter().map(damage).collect(),
        damage_count: found.damage.count,
        damaged_indexes: found.damaged_indexes.iter().map(damaged_index).collect(),
        blocks_read: found.counts.blocks,
        bytes: found.counts.bytes,
        transactions: found.counts.transactions,
        scripts_checked: found.counts.scripts,
        script_difference: found.script_difference.as_ref().map(ScriptDifferenceJson::of),
        seconds: found.elapsed.as_secs_f64(),
        cpu_seconds: found.cpu.as_secs_f64(),
    };
    serde_json::to_string(&json).expect("plain data")
}

/// Returns the name in `--json` of the reason why a level ended early.
fn name(ended: Incomplete) -> &'static str {
    match ended {
        Incomplete::Pruned => "pruned",
        Incomplete::NoUndo => "no undo data",
        Incomplete::CacheFull => "dbcache",
        Incomplete::Damaged => "damage",
        Incomplete::Stopped => "interrupted",
    }
}

fn text(found: &Verified) -> String {
    let mut lines = vec![format!("height {}, best block {}", found.height, found.best_block)];
    lines.extend(found.levels.iter().map(|level| level_text(level, found)));
    let counts = &found.counts;
    let scripts = match found.asked.level {
        4 => format!(", {} scripts", thousands(counts.scripts)),
        _ => String::new(),
    };
    lines.push(format!(
        "{} blocks, {} transactions{scripts}, {:.1} MB in {}",
        thousands(counts.blocks),
        thousands(counts.transactions),
        counts.bytes as f64 / 1e6,
        precise(found.elapsed),
    ));
    lines.extend(found.script_difference.iter().map(|found| format!("scripts: {found}")));
    lines.push(match (found.is_sound(), found.interrupted) {
        (false, _) => format!(
            "Damage found: {}",
            thousands(found.damage.count + found.damaged_indexes.len() as u64)
        ),
        (true, true) => "Interrupted: no damage found so far".to_string(),
        (true, false) => "No damage found".to_string(),
    });
    lines.join("\n")
}

/// Describes a level and the heights that it has checked.
fn level_text(report: &LevelReport, found: &Verified) -> String {
    let about = match report.level {
        0 => "reading blocks",
        1 => "rules without coins",
        2 => "undo data",
        3 => "blocks disconnected",
        _ => "blocks connected again",
    };
    let reached = if report.from > found.height {
        "no block".to_string()
    } else {
        format!("heights {} to {}", thousands(report.from.into()), thousands(found.height.into()))
    };
    let ended = match report.ended {
        None => "",
        Some(Incomplete::Pruned) => "; blocks below are pruned",
        Some(Incomplete::NoUndo) => "; undo data below is not stored (`apus reindex` writes it)",
        Some(Incomplete::CacheFull) => "; a larger --dbcache reaches lower heights",
        Some(Incomplete::Damaged) => "; stopped by damage",
        Some(Incomplete::Stopped) => "; interrupted",
    };
    format!("level {}, {about}: {reached}{ended}", report.level)
}
