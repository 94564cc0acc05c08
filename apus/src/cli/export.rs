//! `apus export`: tables for analysis.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apus_export::{BytesForm, Format, Forms, HashForm};
use apus_node::SyncError;
use apus_progress::Watch;
use apus_tables::{Destination, Export, ExportTable, Exported, HistoryAsked, HistoryExported};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::directory::Directory;
use super::export_match::{self, HistoryJson, MatchArgs};
use super::failure::Failure;
use super::home::new_file;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{precise, thousands};
use super::progress::Reporter;
use super::reporting::Reporting;
use super::{exit, output};

/// The file name that stands for standard output.
const STDOUT: &str = "-";

/// Write the UTXO set, the chain's blocks, transactions, inputs or outputs, or with --match a
/// wallet's history, to a file for analysis: Parquet, SQLite or CSV.
///
/// Coins are in the order of Bitcoin Core's chainstate, everything else is in the order of heights.
/// Each input has the coin that it spends, from undo data. Amounts are in satoshi, times in seconds
/// since 1970; docs/guide/data-columns.md lists all columns, and a Parquet file describes them in
/// its footer.
///
/// The directory, made by Bitcoin Core or by Apus, is read and not changed; other programs may read
/// it at the same time, but bitcoind must not be running on it. Coins need no blocks, so the
/// directory may be pruned. Everything else needs the blocks of the range, and inputs their undo
/// data; without undo data, blocks and transactions lack fees.
///
/// The file has .incomplete at the end of its name until all of it is on disk. An existing file is
/// never replaced.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportCommand {
    /// The table to write.
    #[arg(value_enum, conflicts_with = "descriptors")]
    table: Option<TableName>,
    #[command(flatten)]
    matching: MatchArgs,
    /// The format of the file [default: by the end of its name, .parquet, .sqlite, .db or .csv].
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// The file to write; - writes CSV to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How txids and other hashes are written.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = HashName::Hex)]
    txid: HashName,
    /// How scripts and witnesses are written.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = BytesName::Hex)]
    spk: BytesName,
    /// Begin with the block at this height, and leave out coins of blocks below it [default: 0].
    #[arg(long, value_name = "N")]
    start_height: Option<u32>,
    /// End with the block at this height [default: the tip].
    #[arg(long, value_name = "N")]
    stop_height: Option<u32>,
    #[command(flatten)]
    directory: Directory,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  apus export coins -o utxos.parquet                   the UTXO set of Bitcoin Core's own directory
  apus export coins -o utxos.sqlite                    as Core's utxo_to_sqlite.py makes it
  apus export inputs --start-height 840000 -o i.parquet --txid rawle --spk raw
                                                       half as large: bytes in place of hex digits
  apus export --match 'wpkh(xpub6.../84h/0h/0h/0/*)' -o wallet.csv
                                                       what a wallet has received and spent
  apus export transactions --format csv -o - | gzip > transactions.csv.gz
  duckdb -c \"SELECT height // 52500, sum(value) / 1e8 FROM 'utxos.parquet' GROUP BY 1\"";

/// The tables of [`ExportTable`].
#[derive(Clone, Copy, ValueEnum)]
pub enum TableName {
    /// The UTXO set: txid, vout, value, coinbase, height, scriptpubkey.
    Coins,
    /// Blocks: header, sizes, counts, subsidy, reward and fees.
    Blocks,
    /// Transactions: position, ids, sizes, counts, value and fee.
    Transactions,
    /// Inputs: scripts and witness, and the coin that each spends.
    Inputs,
    /// Outputs, spent or not: value, kind and script.
    Outputs,
}

/// The formats of [`Format`].
#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// An SQLite 3 database with one table and no index; the table of coins is named utxos.
    Sqlite,
    /// A line of column names, then one line for each row; nothing is quoted, and an empty field is
    /// no value.
    Csv,
}

/// The forms of [`HashForm`], by the names of Core's `utxo_to_sqlite.py`.
#[derive(Clone, Copy, ValueEnum)]
pub enum HashName {
    /// Hex digits, as Bitcoin Core shows them.
    Hex,
    /// 32 bytes in the order in which they are hashed.
    Raw,
    /// 32 bytes in the order of the hex digits.
    Rawle,
}

/// The forms of [`BytesForm`].
#[derive(Clone, Copy, ValueEnum)]
pub enum BytesName {
    /// Hex digits.
    Hex,
    /// The bytes.
    Raw,
}

#[derive(Serialize)]
struct ExportedJson {
    file: String,
    table: &'static str,
    format: String,
    start_height: u32,
    stop_height: u32,
    bestblock: String,
    rows: u64,
    bytes: u64,
    blocks_without_fees: u64,
    seconds: f64,
    interrupted: bool,
}

/// Runs `apus export`.
pub fn run(command: &ExportCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let form = command.form()?;
    let to_stdout = command.is_to_stdout();
    let path = if to_stdout { PathBuf::from(STDOUT) } else { new_file(&command.output, None)? };
    let chosen = command.directory.to_existing()?;
    let reporting = Reporting { quiet, json: command.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let to = if to_stdout {
        Destination::Stream("standard output", Box::new(std::io::stdout()))
    } else {
        Destination::File(&path)
    };
    let watch = Watch::new(&reporter, &stop);
    let failed = |error| if to_stdout { of_stdout(error) } else { error.into() };
    let Some(table) = command.table else {
        let result =
            apus_tables::export_history(&chosen.options, &command.history(form), to, watch);
        reporter.finish();
        return command.end_history(&result.map_err(failed)?, &path, reporting, &reporter, form.0);
    };
    let result =
        apus_tables::export(&chosen.options, &command.asked(table.into(), form), to, watch);
    reporter.finish();
    let exported = result.map_err(failed)?;
    if to_stdout {
        reporter.took(format_args!("{} rows written", thousands(exported.rows)))
    } else {
        reporting.report(
            || ExportCommand::json(&exported, table.into(), &path, form.0),
            || ExportCommand::text(&exported, table.into(), &path),
        )?
    }
    Ok(exit::status(exported.interrupted))
}

/// Converts an error of an export to standard output; it has no message if the reader has closed
/// the pipe.
fn of_stdout(error: SyncError) -> Failure {
    match error {
        SyncError::Store(error) if error.source.as_ref().is_some_and(output::reader_has_gone) => {
            Failure::silent()
        }
        error => error.into(),
    }
}

impl ExportCommand {
    fn is_to_stdout(&self) -> bool {
        self.output == Path::new(STDOUT)
    }

    /// Returns what to export of a table.
    fn asked(&self, table: ExportTable, (format, forms): (Format, Forms)) -> Export {
        let start_height = self.start_height;
        let stop_height = self.stop_height;
        Export { table, format, forms, start_height, stop_height }
    }

    /// Returns what history to export.
    fn history(&self, (format, forms): (Format, Forms)) -> HistoryAsked<'_> {
        HistoryAsked {
            descriptors: &self.matching.descriptors,
            range: self.matching.range.unwrap_or_default(),
            format,
            forms,
            start_height: self.start_height,
            stop_height: self.stop_height,
        }
    }

    /// Reports a history, and what it may lack; that also under `--quiet`.
    fn end_history(
        &self,
        history: &HistoryExported,
        path: &Path,
        reporting: Reporting,
        reporter: &Reporter,
        format: Format,
    ) -> Result<ExitCode, Failure> {
        let exported = &history.exported;
        if self.is_to_stdout() {
            reporter.took(format_args!("{} rows written", thousands(exported.rows)))
        } else {
            reporting.report(
                || HistoryJson::new(history, path, format).to_text(),
                || export_match::text(history, path),
            )?
        }
        export_match::warnings(history).iter().for_each(output::note);
        Ok(if history.blocks_pruned.is_empty() {
            exit::status(exported.interrupted)
        } else {
            ExitCode::from(exit::REFUSED)
        })
    }

    /// Returns the format and the forms of values.
    ///
    /// # Errors
    /// The format is not known, or does not allow the other options.
    fn form(&self) -> Result<(Format, Forms), Failure> {
        if self.table.is_none() && self.matching.descriptors.is_empty() {
            return Err(Failure::usage(
                "there is nothing to export: name a table (coins, blocks, transactions, inputs, \
                 outputs), or with --match a descriptor whose history is wanted",
            ));
        }
        if self.table.is_some() && self.matching.range.is_some() {
            return Err(Failure::usage(
                "--range is for descriptors: give one with --match in place of a table",
            ));
        }
        let format = match self.format {
            Some(FormatName::Parquet) => Format::Parquet,
            Some(FormatName::Sqlite) => Format::Sqlite,
            Some(FormatName::Csv) => Format::Csv,
            None => self.format_of_name()?,
        };
        let forms = Forms { hash: self.txid.into(), bytes: self.spk.into() };
        if format == Format::Csv && !forms.are_text() {
            return Err(Failure::usage(
                "CSV is text, which raw bytes are not: leave out --txid and --spk, or choose \
                 --format parquet or sqlite",
            ));
        }
        if self.is_to_stdout() && format != Format::Csv {
            return Err(Failure::usage(
                "--output -: only CSV can be written to standard output, since the other formats \
                 can be read only when the file is complete: name a file",
            ));
        }
        if self.is_to_stdout() && self.json {
            return Err(Failure::usage(
                "--output - and --json would both write to standard output: leave one out",
            ));
        }
        Ok((format, forms))
    }

    fn format_of_name(&self) -> Result<Format, Failure> {
        let ending = self.output.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match &*ending {
            "parquet" => Ok(Format::Parquet),
            "sqlite" | "sqlite3" | "db" => Ok(Format::Sqlite),
            "csv" => Ok(Format::Csv),
            _ => Err(Failure::usage(format!(
                "--output {}: the name does not end in .parquet, .sqlite, .db or .csv: add \
                 --format parquet, sqlite or csv",
                self.output.display()
            ))),
        }
    }

    fn json(exported: &Exported, table: ExportTable, path: &Path, format: Format) -> String {
        let json = ExportedJson {
            file: path.display().to_string(),
            table: table.name(),
            format: format!("{format:?}").to_lowercase(),
            start_height: exported.heights.0,
            stop_height: exported.heights.1,
            bestblock: exported.best_block.to_string(),
            rows: exported.rows,
            bytes: exported.bytes,
            blocks_without_fees: exported.blocks_without_fees,
            seconds: exported.elapsed.as_secs_f64(),
            interrupted: exported.interrupted,
        };
        serde_json::to_string(&json).expect("plain data")
    }

    fn text(exported: &Exported, table: ExportTable, path: &Path) -> String {
        if exported.interrupted {
            return format!("Interrupted: {} was not written", path.display());
        }
        let (start, stop) = exported.heights;
        format!(
            "{}: {} rows of heights {} to {}, tip {}\n{} bytes in {}, written in {}",
            table.name(),
            thousands(exported.rows),
            thousands(start.into()),
            thousands(stop.into()),
            exported.best_block,
            thousands(exported.bytes),
            path.display(),
            precise(exported.elapsed),
        )
    }
}

impl From<TableName> for ExportTable {
    fn from(name: TableName) -> Self {
        match name {
            TableName::Coins => Self::Coins,
            TableName::Blocks => Self::Blocks,
            TableName::Transactions => Self::Transactions,
            TableName::Inputs => Self::Inputs,
            TableName::Outputs => Self::Outputs,
        }
    }
}

impl From<HashName> for HashForm {
    fn from(name: HashName) -> Self {
        match name {
            HashName::Hex => Self::Hex,
            HashName::Raw => Self::Raw,
            HashName::Rawle => Self::RawReversed,
        }
    }
}

impl From<BytesName> for BytesForm {
    fn from(name: BytesName) -> Self {
        match name {
            BytesName::Hex => Self::Hex,
            BytesName::Raw => Self::Raw,
        }
    }
}
