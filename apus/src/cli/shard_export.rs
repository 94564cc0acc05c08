//! `apus shard export` and `verify-export`: a table as one Parquet file for each range of heights.

use std::path::PathBuf;
use std::process::ExitCode;

use apus_export::Forms;
use apus_progress::Watch;
use apus_tables::{Ranges, RangesDone};
use clap::Args;

use super::directory::Directory;
use super::export::{BytesName, HashName, TableName};
use super::failure::Failure;
use super::home::expand_home;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::thousands;
use super::output;
use super::reporting::Reporting;

/// Write a table as one Parquet file for each range of heights, or those that are missing.
///
/// Run it again when the chain has grown: the last file and new ones are written. After a
/// reorganisation the files of the blocks that changed are replaced. Beside each file, _range.json
/// has its first and last block, its rows, and its SHA-256. Every machine writes the same bytes,
/// and several may write the ranges of one table at the same time, each with --range.
#[derive(Args)]
pub struct ShardExport {
    #[command(flatten)]
    ranges: RangeArgs,
    /// Write this range alone; ranges are numbered from 0.
    #[arg(long, value_name = "N")]
    range: Option<u32>,
    /// Print the numbers of the ranges that are to be written, and write nothing.
    #[arg(long, conflicts_with = "range")]
    todo: bool,
}

/// Prove that files of `apus shard export` hold what the blocks yield: every row, and no other.
///
/// Each file is made once more from the blocks, whose hashes and merkle roots are those of the
/// chain's headers, and compared.
#[derive(Args)]
pub struct ShardVerifyExport {
    #[command(flatten)]
    ranges: RangeArgs,
    /// Prove this range alone; ranges are numbered from 0.
    #[arg(long, value_name = "N")]
    range: Option<u32>,
}

#[derive(Args)]
struct RangeArgs {
    /// The table: any but that of coins, which every block changes.
    #[arg(value_enum)]
    table: TableName,
    #[command(flatten)]
    directory: Directory,
    /// The directory of all tables; each has a directory of its own in it.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// The number of blocks in each range.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// How txids and other hashes are written.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = HashName::Hex)]
    txid: HashName,
    /// How scripts and witnesses are written.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = BytesName::Hex)]
    spk: BytesName,
}

/// Runs `apus shard export`.
pub fn export(command: &ShardExport, quiet: bool) -> Result<ExitCode, Failure> {
    if command.todo {
        let missing = command.ranges.with(None, quiet, apus_tables::ranges_to_write)?;
        let missing: Vec<String> = missing.iter().map(u32::to_string).collect();
        output::line(missing.join(" "))?;
        return Ok(ExitCode::SUCCESS);
    }
    let done = command.ranges.with(command.range, quiet, apus_tables::export_ranges)?;
    let RangesDone { files, kept, .. } = done;
    report(quiet, &format!("{files} files written, {kept} kept"), &done)
}

/// Runs `apus shard verify-export`.
pub fn verify(command: &ShardVerifyExport, quiet: bool) -> Result<ExitCode, Failure> {
    let done = command.ranges.with(command.range, quiet, apus_tables::verify_ranges)?;
    report(quiet, &format!("{} files proved", done.files), &done)
}

fn report(quiet: bool, what: &str, done: &RangesDone) -> Result<ExitCode, Failure> {
    let rows = thousands(done.rows);
    let bytes = thousands(done.bytes);
    let reporting = Reporting { quiet, json: false };
    reporting.say(format_args!("{what}: {rows} rows, {bytes} bytes"))?;
    Ok(ExitCode::SUCCESS)
}

impl RangeArgs {
    /// Calls `work` with the ranges that are asked for.
    fn with<T>(
        &self,
        only: Option<u32>,
        quiet: bool,
        work: impl Fn(&apus_node::Options, &Ranges, Watch) -> Result<T, apus_node::SyncError>,
    ) -> Result<T, Failure> {
        let chosen = self.directory.to_options()?;
        let directory = expand_home(&self.output);
        let forms = Forms { hash: self.txid.into(), bytes: self.spk.into() };
        let table = self.table.into();
        let blocks = self.blocks;
        let asked = Ranges { directory: &directory, table, forms, blocks, only };
        let reporter = Reporting { quiet, json: false }.reporter();
        let stop = stop_on_signal(Interrupted::Saves);
        let done = work(&chosen.options, &asked, Watch::new(&reporter, &stop));
        reporter.finish();
        Ok(done?)
    }
}
