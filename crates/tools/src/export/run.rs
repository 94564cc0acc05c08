//! Runs an export, from the request to the file.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use apus_disk::{Disk, File, Share};
use apus_export::{Encoder, Format, Forms, Target};
use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::progress::{Phase, Progress, Watch};
use apus_node::{remedy, snapshot_chainstate, threads};
use rayon::ThreadPool;

use super::blocks::{BlockSource, lacks_undo};
use super::coins::CoinSource;
use super::columns::ExportTable;
use super::line::Line;
use super::output::{Counted, Destination, FileStream, Output};
use super::source::Source;
use crate::stored::StoredChain;

/// What to export, and how.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// The table.
    pub table: ExportTable,
    /// The format of the file.
    pub format: Format,
    /// The forms of hashes, scripts and witnesses.
    pub forms: Forms,
    /// The height of the first block; for coins, of the first block whose coins are exported.
    /// `None` for genesis.
    pub start_height: Option<u32>,
    /// The height of the last block. `None` for the tip.
    pub stop_height: Option<u32>,
}

/// The result of an export.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// The first and the last height.
    pub heights: (u32, u32),
    /// The block at the tip of the directory.
    pub best_block: Hash,
    /// Number of rows; 0 if the export was interrupted.
    pub rows: u64,
    /// The length of the file, or the number of bytes written to the stream.
    pub bytes: u64,
    /// Number of blocks whose fees the table lacks, since their undo data is not stored.
    pub blocks_without_fees: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Whether the work was stopped before the end, so that no file was made.
    pub interrupted: bool,
}

/// Exports a table from a data directory, which is locked and read, not changed; other programs may
/// read it at the same time.
///
/// Coins come in the order of the chainstate, everything else by height. Coins need no blocks. The
/// other tables need the blocks of the range, and the table of inputs needs the undo data of each
/// block that spends coins. Without undo data, the tables of blocks and of transactions lack fees.
///
/// Memory: 64 bytes for each block of the chain (400 while the index is read, before the rest), and
/// for each thread up to two items of about 4 MiB and two batches of rows of 16 MiB, which grow to
/// three times as much while they are encoded. Parquet adds some kilobytes for each row group.
///
/// # Errors
/// The directory is missing, or another program has it open for writing; the range is not in the
/// chain; a block or undo data that is needed is not stored; the destination exists or cannot be
/// written to; or a file in the directory is damaged.
pub fn export(
    options: &Options,
    asked: &Export,
    to: Destination,
    watch: Watch,
) -> Result<Exported, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let pool = threads::pool(options.threads)?;
        let chain = StoredChain::open(options, &pool)?;
        snapshot_chainstate::announce(&Disk::new(), &options.network_dir(), watch.observer)?;
        let heights = range(asked, chain.height())?;
        check_stored(&chain, asked.table, &heights)?;
        let blocks_without_fees = without_fees(&chain, asked.table, &heights);
        if blocks_without_fees > 0 {
            watch.observer.note(&format!(
                "{blocks_without_fees} blocks have no undo data here, so their fees are left \
                 empty (`apus reindex` writes undo data)"
            ));
        }
        let work = Run { options, asked, chain: &chain, heights, pool: &pool, watch };
        let (rows, bytes, interrupted) = match work.write_to(to) {
            Ok((rows, bytes)) => (rows, bytes, false),
            Err(SyncError::Stopped) => (0, 0, true),
            Err(error) => return Err(error),
        };
        Ok(Exported {
            heights: work.heights.clone().into_inner(),
            best_block: work.tip(),
            rows,
            bytes,
            blocks_without_fees,
            elapsed: started.elapsed(),
            interrupted,
        })
    })
}

/// Returns the heights that are asked for.
fn range(asked: &Export, tip: u32) -> Result<RangeInclusive<u32>, SyncError> {
    let (start, stop) = (asked.start_height.unwrap_or(0), asked.stop_height.unwrap_or(tip));
    if start.max(stop) > tip {
        return Err(SyncError::Input(format!(
            "the chainstate is at height {tip}, which is below height {}",
            start.max(stop)
        )));
    }
    if start > stop {
        let what = format!("the first height, {start}, is above the last height, {stop}");
        return Err(SyncError::WrongOptions(what));
    }
    Ok(start..=stop)
}

/// Checks that the blocks and undo data that the table needs are stored.
fn check_stored(
    chain: &StoredChain,
    table: ExportTable,
    heights: &RangeInclusive<u32>,
) -> Result<(), SyncError> {
    let (start, stop) = heights.clone().into_inner();
    let blocks = &chain.blocks[start as usize..=stop as usize];
    // Missing data lies below stored data, so the advice is to begin above the highest block that
    // lacks it.
    let last = |is_missing: &dyn Fn(usize) -> bool| {
        (0..blocks.len()).rev().find(|at| is_missing(*at)).map(|at| start + at as u32)
    };
    let advice = |height: u32, else_what: &str| match height == chain.height() {
        true => else_what.to_string(),
        false => format!("begin above it, with --start-height {}, or {else_what}", height + 1),
    };
    let needs_blocks = table != ExportTable::Coins;
    if needs_blocks && let Some(height) = last(&|at| blocks[at].pos.is_none()) {
        return Err(SyncError::Input(format!(
            "block {height} is not stored here, since its file was pruned: {}",
            advice(height, "use a directory that holds it (coins need no blocks)")
        )));
    }
    let needs_undo = table == ExportTable::Inputs;
    if needs_undo && let Some(height) = last(&|at| lacks_undo(&blocks[at])) {
        return Err(SyncError::Input(format!(
            "block {height} has no undo data here, so the coins that it spent are unknown: {}",
            advice(height, "let `apus reindex` write it")
        )));
    }
    Ok(())
}

/// Returns the number of blocks whose fees are unknown; 0 if the table has no fees.
fn without_fees(chain: &StoredChain, table: ExportTable, heights: &RangeInclusive<u32>) -> u64 {
    let (start, stop) = heights.clone().into_inner();
    let blocks = chain.blocks[start as usize..=stop as usize].iter();
    match table {
        ExportTable::Blocks | ExportTable::Transactions => {
            blocks.filter(|block| lacks_undo(block)).count() as u64
        }
        ExportTable::Coins | ExportTable::Inputs | ExportTable::Outputs => 0,
    }
}

/// An export that was checked and can begin.
struct Run<'a> {
    options: &'a Options,
    asked: &'a Export,
    chain: &'a StoredChain,
    heights: RangeInclusive<u32>,
    pool: &'a ThreadPool,
    watch: Watch<'a>,
}

impl Run<'_> {
    fn tip(&self) -> Hash {
        self.chain.blocks[self.chain.height() as usize].hash
    }

    /// Writes the table. Returns the numbers of rows and bytes.
    fn write_to(&self, to: Destination) -> Result<(u64, u64), SyncError> {
        match to {
            Destination::File(path) => Disk::new().write_new(path, |file| self.write_file(file)),
            Destination::Stream(name, stream) => {
                let output = Output::new(Path::new(name));
                let stream = Counted { stream, output: &output };
                let rows = self.write(Target::Stream(Box::new(stream)), &output)?;
                Ok((rows, output.bytes()))
            }
        }
    }

    fn write_file(&self, file: &File) -> Result<(u64, u64), SyncError> {
        let output = Output::new(file.path());
        let target = match self.asked.format {
            Format::Sqlite => Target::Path(file.path()),
            Format::Parquet | Format::Csv => {
                Target::Stream(Box::new(FileStream { file, output: &output }))
            }
        };
        let rows = self.write(target, &output)?;
        Ok((rows, file.len()?))
    }

    fn write(&self, target: Target, output: &Output) -> Result<u64, SyncError> {
        let Self { asked, chain, watch, .. } = *self;
        let table = asked.table.layout();
        let (start, end) = self.heights.clone().into_inner();
        let facts = [
            ("chain", self.options.network.chain.name().to_string()),
            ("best_block", self.tip().to_string()),
            ("start_height", start.to_string()),
            ("stop_height", end.to_string()),
        ];
        let blamed = |error| output.blamed(error);
        let encoder = Encoder::new(table, asked.format, asked.forms, &facts).map_err(blamed)?;
        let writer = encoder.writer(target).map_err(blamed)?;
        let heights = self.heights.clone();
        let network = &self.options.network;
        let source: Box<dyn Source> = match asked.table {
            ExportTable::Coins => {
                Box::new(CoinSource::new(&chain.chainstate, heights, watch.stop)?)
            }
            table => Box::new(BlockSource::new(chain, network, table, heights, watch.stop)),
        };
        let report = Progress::of(Phase::Exporting).share_to(self.watch.observer);
        let share = Share::new(source.items() as u64, &report);
        let source = source.as_ref();
        let line = Line { source, table, encoder: &encoder, output, share, stop: watch.stop };
        line.run(writer, self.pool)
    }
}
