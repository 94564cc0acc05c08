//! `apus status`.

use std::process::ExitCode;

use apus_node::{Options, SyncError};
use apus_progress::{Observer, Watch};
use apus_tools as tools;
use apus_tools::{
    Busy, IndexKind, IndexReach, IndexStatus, Reached, SnapshotStatus, Status, TxIndexForm,
    Unfinished,
};
use clap::Args;
use serde::Serialize;

use super::directory::Directory;
use super::failure::Failure;
use super::index_words::{reach_words, txindex_words};
use super::numbers::{date, thousands};
use super::output;
use super::report::{above_tip_words, join_words};
use super::report_json::{AboveTipJson, JoinJson};
use super::reporting::Reporting;

/// Show what a data directory holds: network, height, best block, and unfinished work.
///
/// The directory is read and not changed. It may be on a read-only mount, and other programs may
/// read it at the same time. While apus or bitcoind works on it, this shows which process that is,
/// how far it is by its debug.log, and where its page is; the exit status is then 1. With --json,
/// the object of that error has this, too: datadir, chain, and in_use with process, command,
/// progress, tip and page.
#[derive(Args)]
pub struct StatusCommand {
    #[command(flatten)]
    directory: Directory,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct StatusJson {
    datadir: String,
    chain: &'static str,
    height: u32,
    headers: u32,
    bestblock: String,
    time: u32,
    coins: Option<u64>,
    above_tip: AboveTipJson,
    pruned: bool,
    blocks_from: u32,
    undo_from: u32,
    indexes: Vec<IndexJson>,
    unfinished: Vec<UnfinishedJson>,
    snapshot: Option<SnapshotJson>,
    unused: Vec<String>,
}

#[derive(Serialize)]
struct SnapshotJson {
    base_hash: String,
    base_height: Option<u32>,
    height: Option<u32>,
}

/// An index, or the entries of one in one of two forms.
#[derive(Serialize)]
struct IndexJson {
    name: &'static str,
    height: Option<u32>,
    form: Option<u32>,
    error: Option<String>,
}

#[derive(Serialize)]
struct UnfinishedJson {
    what: &'static str,
    height: Option<u32>,
    blocks: Option<u32>,
    join: Option<JoinJson>,
    remedy: &'static str,
}

/// A directory that another program has locked.
#[derive(Serialize)]
struct BusyJson {
    error: String,
    kind: &'static str,
    datadir: String,
    chain: &'static str,
    in_use: InUseJson,
}

/// That program, and how far it is.
#[derive(Serialize)]
struct InUseJson {
    process: Option<u32>,
    command: Option<String>,
    progress: Option<ReachedJson>,
    tip: Option<ReachedJson>,
    page: Option<String>,
}

#[derive(Serialize)]
struct ReachedJson {
    time: String,
    words: String,
}

impl ReachedJson {
    fn of(reached: Reached) -> Self {
        let Reached { time, words } = reached;
        Self { time, words }
    }
}

/// Runs `apus status`.
pub fn run(command: &StatusCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let chosen = command.directory.to_existing()?;
    chosen.announce(&[], Reporting { quiet, json: command.json });
    let status = match tools::status(&chosen.options) {
        Err(SyncError::Store(error)) if error.is_locked => {
            let busy = tools::busy(&chosen.options, error.holder);
            let failure = Failure::from(error);
            output::line(if command.json {
                busy_json(&chosen.options, busy, &failure)
            } else {
                busy_text(&chosen.options, busy)
            })?;
            return Ok(failure.end(false));
        }
        status => status?,
    };
    output::line(if command.json { json(&status) } else { text(&status) })?;
    Ok(ExitCode::SUCCESS)
}

impl StatusCommand {
    /// Reads the state in the process of another program. Returns the object of `--json`.
    pub fn run_in_process(&self, watch: Watch) -> Result<String, SyncError> {
        Ok(json(&tools::status(&self.options(watch.observer)?)?))
    }

    /// Returns the options that name the directory. Warnings go to the observer.
    pub fn options(&self, observer: &dyn Observer) -> Result<Options, SyncError> {
        let chosen = self.directory.to_options()?;
        chosen.warn(observer);
        Ok(chosen.options)
    }
}

fn json(status: &Status) -> String {
    let unfinished = status.unfinished.iter().map(|work| {
        let (what, height, blocks, join) = match work {
            Unfinished::Rebuild { height } => ("reindex", Some(*height), None, None),
            Unfinished::SwiftSync { blocks } => ("swiftsync", None, Some(*blocks), None),
            Unfinished::Join(saved) => ("join", None, None, Some(JoinJson::of(saved))),
        };
        UnfinishedJson { what, height, blocks, join, remedy: work.remedy() }
    });
    let json = StatusJson {
        datadir: status.directory.display().to_string(),
        chain: status.chain.name(),
        height: status.height,
        headers: status.headers,
        bestblock: status.best_block.to_string(),
        time: status.time,
        coins: status.coins,
        above_tip: AboveTipJson::of(&status.above_tip),
        pruned: status.pruned,
        blocks_from: status.blocks_from,
        undo_from: status.undo_from,
        indexes: status.indexes.iter().flat_map(index_json).collect(),
        unfinished: unfinished.collect(),
        snapshot: status.snapshot.as_ref().map(|snapshot| SnapshotJson {
            base_hash: snapshot.base.to_string(),
            base_height: snapshot.base_height,
            height: snapshot.height,
        }),
        unused: status.unused.iter().map(|path| path.display().to_string()).collect(),
    };
    serde_json::to_string(&json).expect("plain data")
}

fn index_json(index: &IndexStatus) -> Vec<IndexJson> {
    let name = index.kind.name();
    let of = |height, form, error| IndexJson { name, height, form, error };
    match &index.reached {
        Err(error) => vec![of(None, None, Some(error.clone()))],
        Ok(reached) if reached.is_empty() => vec![of(None, None, None)],
        Ok(reached) => {
            let form =
                |form: TxIndexForm| (index.kind == IndexKind::TxIndex).then(|| form.core_version());
            let of = |reach: &IndexReach| of(reach.height, form(reach.form), None);
            reached.iter().map(of).collect()
        }
    }
}

fn busy_json(options: &Options, busy: Busy, failure: &Failure) -> String {
    let Busy { process, command, progress, tip, page } = busy;
    let [progress, tip] = [progress, tip].map(|reached| reached.map(ReachedJson::of));
    let json = BusyJson {
        error: failure.text(),
        kind: failure.kind().unwrap_or_default(),
        datadir: options.network_dir().display().to_string(),
        chain: options.network.chain.name(),
        in_use: InUseJson { process, command, progress, tip, page },
    };
    serde_json::to_string(&json).expect("plain data")
}

/// Returns what is known of a directory that another program has locked.
fn busy_text(options: &Options, busy: Busy) -> String {
    let reached = |reached: Reached| format!("{}, at {}", reached.words, reached.time);
    let process = busy.process.map(|process| format!("process {process}"));
    let who = match (busy.command, process) {
        (Some(command), Some(process)) => format!("{process}: {command}"),
        (_, Some(process)) => process,
        _ => "another program".to_string(),
    };
    let progress = match busy.progress {
        None if busy.tip.is_none() => {
            Some("its debug.log does not say yet how far it is".to_string())
        }
        progress => progress.map(reached),
    };
    let rows = [
        ("directory", Some(options.network_dir().display().to_string())),
        ("network", Some(options.network.chain.name().to_string())),
        ("in use by", Some(who)),
        ("progress", progress),
        ("tip", busy.tip.map(reached)),
        ("page", busy.page),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some(format!("{name:<12}{}", value?)));
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns the line about the second UTXO set. `height` is that of the first one.
fn snapshot_text(snapshot: &SnapshotStatus, height: u32) -> String {
    let at = |height: Option<u32>| match height {
        Some(height) => format!("at height {}", thousands(height.into())),
        None => "at a height that cannot be read now".to_string(),
    };
    let what_next = match snapshot.base_height {
        Some(base) if height >= base => {
            "validated up to that block; bitcoind replaces the other UTXO set with it at its next \
             start"
                .to_string()
        }
        Some(base) => format!(
            "the lines above are about the validated UTXO set, which has {} blocks to go; `apus \
             sync` continues it",
            thousands((base - height).into())
        ),
        None => "the header of that block is not known, and bitcoind does not start without it; \
                 `apus sync` continues the other UTXO set"
            .to_string(),
    };
    format!(
        "\nsnapshot    bitcoind works with a second UTXO set {}, from a snapshot of block {} {}: \
         {what_next}",
        at(snapshot.height),
        snapshot.base,
        at(snapshot.base_height),
    )
}

/// Says how far an index reaches.
fn index_text(index: &IndexStatus) -> String {
    let name = index.kind.name();
    match &index.reached {
        Err(error) => format!("{name} cannot be read: {error}"),
        Ok(reached) if reached.is_empty() => format!("{name}, not begun"),
        Ok(reached) if index.kind == IndexKind::TxIndex => {
            format!("{name} {}", txindex_words(reached))
        }
        Ok(reached) => format!("{name} {}", reach_words(reached[0].height)),
    }
}

/// Says which blocks are stored, which are missing, and how to get them.
fn blocks_text(status: &Status) -> String {
    let above = above_tip_words(&status.above_tip);
    let from = thousands(status.blocks_from.into());
    let connected = match (status.height, status.pruned, status.blocks_from) {
        (0, ..) if above.is_empty() => {
            return "only the genesis block: run `apus sync` to get the others".to_string();
        }
        (0, ..) => "none is connected".to_string(),
        (_, true, _) => format!("pruned, stored from height {from} on"),
        (_, false, 0 | 1) if above.is_empty() => "all stored".to_string(),
        (height, false, 0 | 1) => format!("stored up to height {}", thousands(height.into())),
        (_, false, _) => format!("stored from height {from} on"),
    };
    [vec![connected], above].concat().join("; ")
}

/// Says which of the connected blocks have undo data.
fn undo_text(status: &Status) -> String {
    let from =
        if status.pruned { status.undo_from.max(status.blocks_from) } else { status.undo_from };
    let on = format!("from height {} on", thousands(from.into()));
    match from {
        _ if status.height == 0 => "none: no block is connected".to_string(),
        0 | 1 => "for every connected block".to_string(),
        _ if from > status.height => "for no block".to_string(),
        _ if status.pruned => on,
        _ => format!("{on} (`apus reindex` writes the rest)"),
    }
}

fn text(status: &Status) -> String {
    let coins = status
        .coins
        .map_or_else(|| "not counted (`apus txoutset info` counts them)".to_string(), thousands);
    let mut text = format!(
        "directory   {}\n\
         network     {}\n\
         height      {} (headers up to {})\n\
         best block  {} of {}\n\
         coins       {coins}\n\
         blocks      {}\n\
         undo data   {}",
        status.directory.display(),
        status.chain.name(),
        thousands(status.height.into()),
        thousands(status.headers.into()),
        status.best_block,
        date(status.time.into()),
        blocks_text(status),
        undo_text(status),
    );
    if let Some(snapshot) = &status.snapshot {
        text += &snapshot_text(snapshot, status.height);
    }
    if let Some(marked) = &status.marked {
        text += &format!("\nmarked      {marked}");
    }
    for index in &status.indexes {
        text += &format!("\nindex       {}", index_text(index));
    }
    for path in &status.unused {
        text += &format!("\nunused      {}: bitcoind left it behind; remove it", path.display());
    }
    for work in &status.unfinished {
        let what = match work {
            Unfinished::Rebuild { height } => {
                format!("a rebuild of the UTXO set, at height {}", thousands((*height).into()))
            }
            Unfinished::Join(saved) => format!("a join, {}", join_words(saved)),
            Unfinished::SwiftSync { blocks } => {
                format!("a SwiftSync, {} blocks done", thousands((*blocks).into()))
            }
        };
        text += &format!("\nunfinished  {what}: {}", work.remedy());
    }
    text
}
