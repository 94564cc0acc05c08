//! Tables in memory: record batches of Arrow, made by the same threads as the files of exports.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::Share;
use apus_export::{ArrowEncoder, Batch, Forms};
use apus_host::threads;
use apus_node::error::SyncError;
use arrow_array::RecordBatch;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::columns::ExportTable;
use super::line::Line;
use super::part::Part;
use super::sink::Sink;
use crate::reader::ChainReader;

/// Record batches that wait for their reader: one that is ready when the reader asks, and one that
/// is being made meanwhile.
const BATCHES_AHEAD: usize = 2;

/// The rows of a table that are asked for, and their form.
#[derive(Clone, Debug)]
pub struct ArrowRows {
    pub table: ExportTable,
    /// The names of the columns, in the order that record batches have; `None` for all.
    pub columns: Option<Vec<String>>,
    /// The forms of hashes, scripts and witnesses.
    pub forms: Forms,
    /// The height of the first block; for coins, of the first block whose coins are read. `None`
    /// for genesis.
    pub start_height: Option<u32>,
    /// The height of the last block. `None` for the tip.
    pub stop_height: Option<u32>,
}

/// The record batches of a table, in order. Threads of their own read ahead until some batches
/// wait; they end when this is dropped. Memory is that of an export.
pub struct RecordBatches {
    batches: Receiver<Result<RecordBatch, SyncError>>,
    stop: Arc<AtomicBool>,
}

impl ArrowRows {
    /// Returns an encoder of these rows, which has their schema.
    ///
    /// # Errors
    /// The heights are not in the chain, a block or undo data that is needed is not stored, or the
    /// table has no such column.
    pub fn encoder(&self, reader: &ChainReader) -> Result<ArrowEncoder, SyncError> {
        let facts = self.part(reader)?.facts();
        let names = self.columns.as_deref();
        let encoder = ArrowEncoder::new(self.table.layout(), self.forms, names, &facts);
        encoder.map_err(|error| SyncError::WrongOptions(error.to_string()))
    }

    fn part<'a>(&self, reader: &'a ChainReader) -> Result<Part<'a>, SyncError> {
        let heights = (self.start_height, self.stop_height);
        Part::new(&reader.chain, &reader.options.network, self.table, heights)
    }
}

impl RecordBatches {
    /// Begins to read.
    pub fn new(reader: Arc<ChainReader>, rows: ArrowRows, encoder: ArrowEncoder) -> Self {
        let (sender, batches) = bounded(BATCHES_AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        threads::spawn_free("apus-arrow".to_string(), move || {
            let result = run(&reader, &rows, &encoder, &sender, &stops);
            // The lock on the directory may end with this reader, and must not outlive the batches.
            drop(reader);
            if let Err(error) = result {
                let _ = sender.send(Err(error));
            }
        });
        Self { batches, stop }
    }
}

impl Iterator for RecordBatches {
    type Item = Result<RecordBatch, SyncError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl Drop for RecordBatches {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Sends all record batches. The threads are those of this call alone, since they wait while the
/// batches of another one are read.
fn run(
    reader: &ChainReader,
    rows: &ArrowRows,
    encoder: &ArrowEncoder,
    sender: &Sender<Result<RecordBatch, SyncError>>,
    stop: &AtomicBool,
) -> Result<(), SyncError> {
    let pool = threads::pool(reader.options.threads)?;
    let source = rows.part(reader)?.source(stop)?;
    let source = source.as_ref();
    let share = Share::new(source.items() as u64, &|_| {});
    let line = Line { source, table: rows.table.layout(), sink: encoder, share, stop };
    line.run(sender.clone(), &pool)?;
    Ok(())
}

impl Sink for ArrowEncoder {
    type Piece = RecordBatch;
    type Writer = Sender<Result<RecordBatch, SyncError>>;

    fn encode(&self, batch: Batch) -> Result<RecordBatch, SyncError> {
        Self::encode(self, batch).map_err(|error| SyncError::Input(error.to_string()))
    }

    /// Waits until there is room. If the reader is gone, nothing more is made.
    fn append(&self, writer: &mut Self::Writer, piece: RecordBatch) -> Result<(), SyncError> {
        writer.send(Ok(piece)).map_err(|_| SyncError::Stopped)
    }

    fn finish(&self, _: Self::Writer) -> Result<(), SyncError> {
        Ok(())
    }
}
