//! `apus index`.

use std::process::ExitCode;
use std::time::Instant;

use apus_progress::Watch;
use apus_tools as tools;
use apus_tools::{IndexKind, Indexed, TxIndexForm};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::directory::Directory;
use super::failure::Failure;
use super::index_words::txindex_words;
use super::interrupt::{Interrupted, stop_on_signal};
use super::log_args::LogArgs;
use super::numbers::thousands;
use super::reporting::Reporting;
use super::{exit, log};

/// Build Bitcoin Core's optional indexes of a synced directory, or bring them up to date.
///
/// bitcoind finds each index complete, and continues it with -txindex, -txospenderindex,
/// -blockfilterindex or -coinstatsindex. It may have begun them, too. One pass over the blocks
/// serves all the indexes that are named. An index becomes visible only when it is complete: after
/// an interruption the same command starts it again, but filters and statistics continue. The UTXO
/// set is not changed.
///
/// Filters and statistics need undo data, which a SwiftSync of blocks that are assumed valid leaves
/// out. A pruned directory can have these two alone, if they were begun before blocks were deleted.
#[derive(Args)]
pub struct IndexCommand {
    /// The indexes to build.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<Name>,
    #[command(flatten)]
    directory: Directory,
    /// The form of txindex: 31 is read by every bitcoind; 32 by bitcoind from v32 on, and takes
    /// less than half the space [default: the form that the index has, and 31 for a new one].
    #[arg(long, value_name = "31|32")]
    core: Option<Core>,
    /// MiB for entries while they are sorted; the rest waits in temporary files [default: a
    /// quarter of the free memory, from 16 to 450].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    #[command(flatten)]
    log: LogArgs,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

/// The version of Bitcoin Core that writes a form of `txindex`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Core {
    #[value(name = "31")]
    V31,
    #[value(name = "32")]
    V32,
}

impl Core {
    fn form(self) -> TxIndexForm {
        match self {
            Self::V31 => TxIndexForm::Core31,
            Self::V32 => TxIndexForm::Core32,
        }
    }
}

/// The name of an index: Core's option for it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The place of each transaction, by its txid.
    #[value(name = "txindex")]
    Txs,
    /// The transaction that spends each output.
    #[value(name = "txospenderindex")]
    Spenders,
    /// The compact filter of each block (BIP158).
    #[value(name = "blockfilterindex")]
    Filters,
    /// Hash and statistics of the UTXO set after each block.
    #[value(name = "coinstatsindex")]
    Statistics,
}

impl Name {
    fn kind(self) -> IndexKind {
        match self {
            Self::Txs => IndexKind::TxIndex,
            Self::Spenders => IndexKind::TxoSpenderIndex,
            Self::Filters => IndexKind::BlockFilterIndex,
            Self::Statistics => IndexKind::CoinStatsIndex,
        }
    }
}

#[derive(Serialize)]
struct IndexedJson {
    height: u32,
    bestblock: String,
    /// The indexes that were not complete.
    indexes: Vec<LackedJson>,
    interrupted: bool,
    seconds: f64,
}

#[derive(Serialize)]
struct LackedJson {
    name: &'static str,
    blocks: u32,
}

/// Runs `apus index`.
pub fn run(command: &IndexCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.directory.to_existing()?;
    chosen.take_cache(command.dbcache).map_err(Failure::usage)?;
    chosen.take_start_check(None, None).map_err(Failure::usage)?;
    if command.core.is_some() && !command.names.contains(&Name::Txs) {
        let what = "--core is the form of txindex, which is not among the indexes named";
        return Err(Failure::usage(what.to_string()));
    }
    command.log.begin(&mut chosen)?;
    let reporting = Reporting { quiet, json: command.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::Saves);
    let kinds: Vec<IndexKind> = command.names.iter().map(|name| name.kind()).collect();
    let started = Instant::now();
    let indexed = tools::index(
        &chosen.options,
        &kinds,
        command.core.map(Core::form),
        Watch::new(&reporter, &stop),
    );
    reporter.finish();
    let indexed = indexed?;
    let seconds = started.elapsed().as_secs_f64();
    let text = text(&indexed, seconds);
    log::line(&text);
    log::last_line("Done");
    reporting.report(|| json(&indexed, seconds), || text)?;
    Ok(exit::status(indexed.interrupted))
}

fn text(indexed: &Indexed, seconds: f64) -> String {
    let height = thousands(indexed.height.into());
    if indexed.interrupted {
        return "Interrupted: filters and statistics are kept up to the block reached; run the \
                same command again"
            .to_string();
    }
    let lacked: Vec<String> = indexed
        .lacked
        .iter()
        .map(|(kind, blocks)| format!("{} (+{} blocks)", kind.name(), thousands((*blocks).into())))
        .collect();
    let mut text = if lacked.is_empty() {
        format!("Complete already, up to height {height}")
    } else {
        format!("Indexed to height {height} in {seconds:.1} s: {}", lacked.join(", "))
    };
    if !indexed.txindex.is_empty() {
        text += &format!("\ntxindex {}", txindex_words(&indexed.txindex));
    }
    text
}

fn json(indexed: &Indexed, seconds: f64) -> String {
    let of_index =
        |(kind, blocks): &(IndexKind, u32)| LackedJson { name: kind.name(), blocks: *blocks };
    let json = IndexedJson {
        height: indexed.height,
        bestblock: indexed.best_block.to_string(),
        indexes: indexed.lacked.iter().map(of_index).collect(),
        interrupted: indexed.interrupted,
        seconds,
    };
    serde_json::to_string(&json).expect("plain data")
}
