//! `apus hints …`: makes, describes, converts and compresses hints files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use apus_claims::HintsSummary;
use apus_host::MemoryInUse;
use apus_node as node;
use apus_node::SyncError;
use apus_progress::{Observer, Phase, Progress, Watch};
use apus_swiftsync::hints::Statistics;
use apus_swiftsync::hints::elias_fano::BitOrder;
use apus_swiftsync::{Format, hints};
use apus_sync::HintsFile;
use apus_wire::{Chain, Network};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::directory::Directory;
use super::exit;
use super::failure::Failure;
use super::home::{expand_home, new_file};
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{precise, thousands};
use super::progress::Reporter;
use super::prove;
use super::prove::ProveCommand;
use super::report::mapped_at_peak;
use super::reporting::Reporting;

#[derive(Subcommand)]
pub enum HintsCommand {
    Create(Create),
    Info(Info),
    /// Same as `apus prove`.
    #[command(hide = true)]
    Verify(Box<ProveCommand>),
    Convert(Convert),
    Compress(Compress),
}

/// Make a hints file from a synced directory.
///
/// Hints say which outputs of blocks 1 to N are unspent at height N. With them, anyone can build
/// the UTXO set of that height from the blocks in any order, in parallel and without look-ups, and
/// prove at the end that it is right: hints need no trust.
///
/// The directory, made by Bitcoin Core or by `apus sync`, is read and not changed; bitcoind must
/// not be running on it. It must hold every block up to N (no pruning) and, for a height below its
/// tip, the undo data of the blocks above N.
#[derive(Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct Create {
    #[command(flatten)]
    directory: Directory,
    /// The height at which outputs count as unspent [default: the directory's tip].
    #[arg(long, value_name = "N")]
    height: Option<u32>,
    /// Take the unspent outputs from this UTXO snapshot, for the height of its base block. Only the
    /// blocks of the directory are used, and no undo data is needed.
    #[arg(long, value_name = "FILE", conflicts_with = "height")]
    snapshot: Option<PathBuf>,
    /// The format of the file to write.
    #[arg(long, value_enum, default_value_t = FileFormat::Bip456)]
    format: FileFormat,
    #[command(flatten)]
    output: Output,
    /// MiB of memory for sorting the unspent outputs, at least 16; what does not fit goes to a
    /// temporary file. The report names the peak memory of the whole run [default: a
    /// quarter of the free memory, from 16 to 450].
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
}

const CREATE_EXAMPLES: &str = "\
Examples:
  apus hints create -o mainnet.hints                   at the tip of Bitcoin Core's own directory
  apus hints create --height 840000 -o 840000.hints    at a height below it; nothing is rewound
  apus hints create --format hintsfile-0.2 -o crate.hints  for programs with the crate hintsfile
  apus hints create --format booster -o bitmap.bin     for IBD Booster
  apus hints create --snapshot utxo.dat -o utxo.hints  from a UTXO snapshot and the blocks";

/// Show what a hints file holds: height, outputs, size, and how close the size is to the minimum.
#[derive(Args)]
pub struct Info {
    /// The hints file, in any format.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Write a hints file in another format.
///
/// The formats count outputs in different ways: booster and bitset count all outputs; all others
/// leave out unspendable outputs, and do not say how many outputs a block has. So a conversion from
/// the latter to the former, or back, reads the blocks that the hints are for, from a synced
/// directory, which is not changed. All other conversions need no directory.
#[derive(Args)]
pub struct Convert {
    /// The hints file to read.
    input: PathBuf,
    /// The format of the file to write.
    #[arg(long, value_enum, default_value_t = FileFormat::Bip456)]
    format: FileFormat,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    directory: Directory,
}

/// Make a smaller hints file, for distribution.
///
/// Every command that reads hints also reads the compressed file, and `apus hints convert` turns it
/// back into the same bip456 file, byte for byte.
#[derive(Args)]
pub struct Compress {
    /// The hints file to read, in any format but booster and bitset.
    file: PathBuf,
    /// The bit of each byte that comes first in a file of BIP 456: bit 0 (lsb) or bit 7 (msb). It
    /// is needed only if an error asks for it: very small files may say different things in the
    /// two orders.
    #[arg(long, value_enum, value_name = "ORDER")]
    bit_order: Option<Order>,
    #[command(flatten)]
    output: Output,
}

/// The options of a command that writes a hints file.
#[derive(Args)]
struct Output {
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

/// The orders of the bits in a byte.
#[derive(Clone, Copy, ValueEnum)]
enum Order {
    Lsb,
    Msb,
}

/// The formats of [`Format::WRITTEN`]; a new one is added here.
#[derive(Clone, Copy, ValueEnum)]
enum FileFormat {
    /// Draft BIP 456 as of August 2026 (Elias-Fano): an element for block 0, and bit 7 of a byte
    /// first. Small, and the one to share.
    Bip456,
    /// The same without an element for block 0, and with bit 0 first: what the crate hintsfile 0.2
    /// reads, and what Apus called bip456 before.
    #[value(name = "hintsfile-0.2")]
    Hintsfile02,
    /// The same without an element for block 0: the crate hintsfile 0.1, and Bitcoin Core's draft
    /// branch of July 2026.
    #[value(name = "hintsfile-0.1")]
    Hintsfile01,
    /// The gaps between unspent outputs, as in btcd's pull request 2478. btcd itself reads such a
    /// file after `gzip`; Apus reads both.
    Btcd,
    /// IBD Booster's bitmap; cannot hold a block with more than 65,535 outputs.
    Booster,
    /// A bitset for each block, with an index, as in Bitcoin Core's pull request 34004.
    Bitset,
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Bip456 => Self::Bip456,
            FileFormat::Hintsfile02 => Self::Hintsfile02,
            FileFormat::Hintsfile01 => Self::Hintsfile01,
            FileFormat::Btcd => Self::Btcd,
            FileFormat::Booster => Self::Booster,
            FileFormat::Bitset => Self::Bitset,
        }
    }
}

/// Runs one of the commands.
pub fn run(command: HintsCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        HintsCommand::Create(create) => run_create(&create, quiet),
        HintsCommand::Info(info) => run_info(&info, quiet),
        HintsCommand::Verify(command) => prove::run(&command, quiet),
        HintsCommand::Convert(convert) => run_convert(&convert, quiet),
        HintsCommand::Compress(compress) => run_compress(&compress, quiet),
    }
}

fn run_create(create: &Create, quiet: bool) -> Result<ExitCode, Failure> {
    let path = create.output.path()?;
    let chosen = create.directory.with_cache(create.dbcache)?;
    chosen.announce(&[], Reporting { quiet, json: create.output.json });
    create.output.write(&path, create.format.into(), quiet, |reporter| {
        let stop = stop_on_signal(Interrupted::WritesNothing);
        create.create(&chosen.options, &path, Watch::new(reporter, &stop))
    })
}

impl Create {
    /// Makes the file in the process of another program. Returns the object of `--json`.
    pub fn run_in_process(&self, watch: Watch) -> Result<String, SyncError> {
        let path = self.output.path()?;
        let chosen = self.directory.with_cache(self.dbcache)?;
        chosen.warn(watch.observer);
        let summary = self.create(&chosen.options, &path, watch)?;
        Ok(summary_json(&summary, self.format.into(), &path, MemoryInUse::default()))
    }

    fn create(
        &self,
        options: &node::Options,
        path: &Path,
        watch: Watch,
    ) -> Result<HintsSummary, SyncError> {
        let format = self.format.into();
        match self.snapshot.as_deref().map(expand_home) {
            Some(file) => {
                apus_claims::create_hints_of_snapshot(options, &file, format, path, watch)
            }
            None => apus_claims::create_hints(options, self.height, format, path, watch),
        }
    }
}

fn run_convert(convert: &Convert, quiet: bool) -> Result<ExitCode, Failure> {
    let path = convert.output.path()?;
    let hints = open(&convert.input)?;
    let format = convert.format.into();
    let needs_blocks = apus_claims::conversion_needs_blocks(hints.reader.as_ref(), format);
    let options = if needs_blocks {
        let chosen = convert.directory.to_options()?;
        chosen.announce(&[], Reporting { quiet, json: convert.output.json });
        chosen.options
    } else {
        node::Options::new(PathBuf::new(), Network::new(Chain::Main))
    };
    let why = |failure: Failure| {
        if needs_blocks && !failure.is_of_disk() {
            failure.and(&format!(
        "This conversion needs the blocks that the hints are for, since the two formats count \
         outputs in different ways, or only the new one says how many outputs a block has: \
         name a directory synced to height {} or above with --datadir",
        hints.reader.height()
    ))
        } else {
            failure
        }
    };
    let written = convert.output.write(&path, format, quiet, |reporter| {
        let stop = stop_on_signal(Interrupted::WritesNothing);
        apus_claims::convert_hints(&hints, &options, format, &path, Watch::new(reporter, &stop))
    });
    written.map_err(why)
}

fn run_compress(compress: &Compress, quiet: bool) -> Result<ExitCode, Failure> {
    let path = compress.output.path()?;
    let order = compress.bit_order.map(|order| match order {
        Order::Lsb => BitOrder::Lsb,
        Order::Msb => BitOrder::Msb,
    });
    let hints = HintsFile::open_with(&expand_home(&compress.file), order)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    compress.output.write(&path, Format::Compressed, quiet, |reporter| {
        let stop = stop_on_signal(Interrupted::WritesNothing);
        apus_claims::compress_hints(&hints, threads, &path, Watch::new(reporter, &stop))
    })
}

impl Output {
    /// Returns the path of the file to write.
    ///
    /// # Errors
    /// The path is a directory, or the file exists and `--force` is not given.
    fn path(&self) -> Result<PathBuf, SyncError> {
        new_file(&self.output, Some(self.force))
    }

    /// Makes the file with `work`, and reports the result.
    fn write(
        &self,
        path: &Path,
        format: Format,
        quiet: bool,
        work: impl FnOnce(&Reporter) -> Result<HintsSummary, node::SyncError>,
    ) -> Result<ExitCode, Failure> {
        let reporting = Reporting { quiet, json: self.json };
        let reporter = reporting.reporter();
        let result = work(&reporter);
        reporter.finish();
        let summary = result?;
        let memory = reporter.most_memory();
        let text = || summary_text(&summary, path);
        reporting.report(|| summary_json(&summary, format, path, memory), text)?;
        Ok(exit::status(summary.interrupted))
    }
}

#[derive(Serialize)]
struct SummaryJson {
    file: String,
    format: &'static str,
    height: u32,
    bestblock: Option<String>,
    blocks: u32,
    outputs: Option<u64>,
    unspent: u64,
    bytes: u64,
    seconds: f64,
    peak_memory: u64,
    peak_memory_mapped: Option<u64>,
    interrupted: bool,
}

fn summary_json(
    summary: &HintsSummary,
    format: Format,
    path: &Path,
    memory: MemoryInUse,
) -> String {
    let json = SummaryJson {
        file: path.display().to_string(),
        format: format.name(),
        height: summary.height,
        bestblock: summary.best_block.map(|hash| hash.to_string()),
        blocks: summary.blocks,
        outputs: summary.outputs,
        unspent: summary.unspent,
        bytes: summary.bytes,
        seconds: summary.elapsed.as_secs_f64(),
        peak_memory: summary.peak_memory,
        peak_memory_mapped: mapped_at_peak(summary.peak_memory, memory),
        interrupted: summary.interrupted,
    };
    serde_json::to_string(&json).expect("plain data")
}

fn summary_text(summary: &HintsSummary, path: &Path) -> String {
    if summary.interrupted {
        return format!("Interrupted: {} was not written", path.display());
    }
    let block = summary.best_block.map_or(String::new(), |hash| format!(", block {hash}"));
    let of = summary.outputs.map_or(String::new(), |all| format!(" of {}", thousands(all)));
    format!(
        "Hints for height {}{block}\n{}{of} outputs unspent, {} bytes in {}, made in {}\n\
         peak memory {} MiB",
        summary.height,
        thousands(summary.unspent),
        thousands(summary.bytes),
        path.display(),
        precise(summary.elapsed),
        summary.peak_memory >> 20,
    )
}

/// Opens the hints file that an argument names.
fn open(path: &Path) -> Result<HintsFile, Failure> {
    Ok(HintsFile::open(&expand_home(path))?)
}

#[derive(Serialize)]
struct InfoJson {
    file: String,
    format: &'static str,
    height: u32,
    blocks_with_unspent: u32,
    unspent: u64,
    bytes: u64,
    bits_per_output: f64,
    bound_bytes: f64,
    times_bound: f64,
}

fn run_info(info: &Info, quiet: bool) -> Result<ExitCode, Failure> {
    let file = open(&info.file)?;
    let hints = file.reader.as_ref();
    let reporter = Reporting { quiet, json: info.json }.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let height = hints.height();
    let goes_on = |block: u32| {
        let fraction = f64::from(block) / f64::from(height);
        let blocks = u64::from(block);
        let begun = Progress::of(Phase::ReadingHints);
        reporter.observe(&Progress { height: block, blocks, fraction, ..begun });
        !stop.load(Relaxed)
    };
    let statistics = hints::statistics_watched(hints, file.len(), goes_on);
    reporter.finish();
    let Some(statistics) = statistics.map_err(|error| file.error(error))? else {
        return Ok(exit::status(true));
    };
    let format = hints.format().name();
    // --quiet does not suppress what was asked for.
    let reporting = Reporting { quiet: false, json: info.json };
    reporting
        .report(|| info_json(&info.file, format, &statistics), || info_text(format, &statistics))?;
    Ok(ExitCode::SUCCESS)
}

/// From this multiple of the minimum on, the size says nothing about the format.
const SMALL_FILE_TIMES: f64 = 10.0;

/// The theoretical minimum size of a hints file.
struct Bound {
    bytes: f64,
    /// The file's size as a multiple of the minimum.
    times: f64,
}

impl Bound {
    fn of(statistics: &Statistics) -> Self {
        let bytes = statistics.bound_bits / 8.0;
        Self { bytes, times: if bytes > 0.0 { statistics.bytes as f64 / bytes } else { 0.0 } }
    }
}

fn info_json(file: &Path, format: &'static str, statistics: &Statistics) -> String {
    let bound = Bound::of(statistics);
    let json = InfoJson {
        file: file.display().to_string(),
        format,
        height: statistics.height,
        blocks_with_unspent: statistics.blocks,
        unspent: statistics.unspent,
        bytes: statistics.bytes,
        bits_per_output: statistics.bits_per_output,
        bound_bytes: bound.bytes,
        times_bound: bound.times,
    };
    serde_json::to_string(&json).expect("plain data")
}

fn info_text(format: &str, statistics: &Statistics) -> String {
    let bound = Bound::of(statistics);
    // In a small file, headers and lengths are most of it.
    let times = if bound.times < SMALL_FILE_TIMES {
        format!(" (the file is {:.2} times as large)", bound.times)
    } else {
        String::new()
    };
    format!(
        "format           {format}\n\
         height           {}\n\
         outputs unspent  {} in {} blocks\n\
         bytes            {}\n\
         bits per output  {:.2}\n\
         minimum size     {} bytes{times}",
        thousands(u64::from(statistics.height)),
        thousands(statistics.unspent),
        thousands(u64::from(statistics.blocks)),
        thousands(statistics.bytes),
        statistics.bits_per_output,
        thousands(bound.bytes.ceil() as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_that_is_written_can_be_chosen() {
        let chosen = FileFormat::value_variants().iter().map(|format| Format::from(*format));
        assert!(chosen.eq(Format::WRITTEN));
    }
}
