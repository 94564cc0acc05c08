//! Runs an export, from the request to the file.

use std::path::Path;
use std::time::{Duration, Instant};

use apus_disk::{Disk, File, Share};
use apus_export::{Encoder, Format, Forms, Table, Target};
use apus_hash::Hash;
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::remedy;
use apus_progress::{Phase, Progress, Watch};
use rayon::ThreadPool;

use super::columns::ExportTable;
use super::line::Line;
use super::output::{Counted, Destination, FileStream, Output};
use super::part::Part;
use super::sink::FileSink;
use super::source::Source;
use crate::reader::open_chain;

/// The data to export, and its form.
#[derive(Clone, Copy, Debug)]
pub struct Export {
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
        let chain = open_chain(options, &pool, watch.observer)?;
        let heights = (asked.start_height, asked.stop_height);
        let part = Part::new(&chain, &options.network, asked.table, heights)?;
        let blocks_without_fees = part.without_fees();
        if blocks_without_fees > 0 {
            watch.observer.note(&format!(
                "{blocks_without_fees} blocks have no undo data here, so their fees are left \
                 empty (`apus reindex` writes undo data)"
            ));
        }
        let source = part.source(watch.stop)?;
        let run = Run {
            table: asked.table.layout(),
            format: asked.format,
            forms: asked.forms,
            facts: &part.facts(),
            source: source.as_ref(),
            pool: &pool,
            watch,
        };
        let written = SyncError::unless_stopped(run.write_to(to))?;
        let (rows, bytes) = written.unwrap_or_default();
        Ok(Exported {
            heights: part.heights.clone().into_inner(),
            best_block: part.tip(),
            rows,
            bytes,
            blocks_without_fees,
            elapsed: started.elapsed(),
            interrupted: written.is_none(),
        })
    })
}

/// An export that was checked and can begin.
pub(super) struct Run<'a> {
    pub table: &'static Table,
    pub format: Format,
    pub forms: Forms,
    /// Facts about the table, for the file.
    pub facts: &'a [(&'static str, String)],
    pub source: &'a dyn Source,
    pub pool: &'a ThreadPool,
    pub watch: Watch<'a>,
}

impl Run<'_> {
    /// Writes the table. Returns the numbers of rows and bytes.
    pub fn write_to(&self, to: Destination) -> Result<(u64, u64), SyncError> {
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
        let target = match self.format {
            Format::Sqlite => Target::Path(file.path()),
            Format::Parquet | Format::Csv => {
                Target::Stream(Box::new(FileStream { file, output: &output }))
            }
        };
        let rows = self.write(target, &output)?;
        Ok((rows, file.len()?))
    }

    /// Writes the table to `target`, whose errors are noted in `output`. Returns the number of
    /// rows.
    pub fn write(&self, target: Target, output: &Output) -> Result<u64, SyncError> {
        let Self { table, source, pool, watch, .. } = *self;
        let blamed = |error| output.blamed(error);
        let encoder = Encoder::new(table, self.format, self.forms, self.facts);
        let encoder = encoder.map_err(blamed)?;
        let writer = encoder.writer(target).map_err(blamed)?;
        let report = Progress::of(Phase::Exporting).share_to(watch.observer);
        let share = Share::new(source.items() as u64, &report);
        let sink = FileSink { encoder: &encoder, output };
        let line = Line { source, table, sink: &sink, share, stop: watch.stop };
        line.run(writer, pool)
    }
}
