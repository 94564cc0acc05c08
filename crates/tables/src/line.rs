//! Reads, encodes and writes a table on all threads, in order.
//!
//! ```text
//! items ──► batches ──► one batch after the other, ──► encoded ──► one writer
//!   any thread           cut into larger ones           any thread   one at a time
//! ```
//!
//! A thread takes the piece of work that is nearest to the end of the line. It begins an item only
//! if few items are ahead of the first that is not read, which bounds memory: with T threads, at
//! most [`ITEMS_AHEAD`] × T items are being read or wait, and 2 × T batches of at most
//! [`BATCH_BYTES_MAX`] and one item, which take up to three times as much while they are encoded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apus_disk::Share;
use apus_export::{Batch, Table};
use apus_host::threads::RaiseOnDrop;
use apus_node::error::SyncError;
use apus_node::workers::check_stop;
use rayon::ThreadPool;

use super::sink::Sink;
use super::source::Source;

/// Items for each thread that may be begun and not yet joined.
const ITEMS_AHEAD: usize = 2;
/// Rows at which a batch is full: the size of DuckDB's row group.
const BATCH_ROWS_MAX: usize = 122_880;
/// Bytes of values at which a batch is full. With [`BATCH_ROWS_MAX`] rows of inputs, a row group
/// would have 50 MB.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// How often a waiting thread checks whether the others have failed.
const WAIT: Duration = Duration::from_millis(100);

/// The source and the destination of a table.
pub(super) struct Line<'a, S: Sink> {
    pub source: &'a dyn Source,
    pub table: &'static Table,
    pub sink: &'a S,
    /// Counts the items that were read.
    pub share: Share<'a>,
    pub stop: &'a AtomicBool,
}

/// A piece of work for a thread.
enum Work<S: Sink> {
    /// Read the item at an index.
    Read(usize),
    /// Encode the batch with a number.
    Encode(usize, Batch),
    /// Write the next batch.
    Write(S::Writer, S::Piece),
}

/// The state of the work on a table.
struct LineState<S: Sink> {
    /// The most items that are begun and not joined, and the most encoded batches that wait.
    ahead_max: (usize, usize),
    /// Number of items that were begun.
    begun: usize,
    /// Number of items that were joined to the rows before them.
    joined: usize,
    /// Items that were read and wait for an earlier one.
    read: BTreeMap<usize, Batch>,
    /// The rows after the last full batch.
    open: Batch,
    /// Batches to be encoded, with their numbers.
    full: VecDeque<(usize, Batch)>,
    /// Number of batches so far.
    batches: usize,
    encoded: BTreeMap<usize, S::Piece>,
    /// Number of batches that were written.
    written: usize,
    /// `None` while a thread writes.
    writer: Option<S::Writer>,
    rows: u64,
}

impl<S: Sink> Line<'_, S> {
    /// Makes the whole table on all threads of `pool`. Returns the number of rows.
    pub fn run(&self, writer: S::Writer, pool: &ThreadPool) -> Result<u64, SyncError> {
        let threads = pool.current_num_threads();
        let state = Mutex::new(LineState {
            ahead_max: (ITEMS_AHEAD * threads, threads),
            begun: 0,
            joined: 0,
            read: BTreeMap::new(),
            open: Batch::new(self.table),
            full: VecDeque::new(),
            batches: 0,
            encoded: BTreeMap::new(),
            written: 0,
            writer: Some(writer),
            rows: 0,
        });
        let changed = Condvar::new();
        let halt = AtomicBool::new(false);
        let results = pool.broadcast(|_| {
            let raise = RaiseOnDrop(&halt);
            while let Some(work) = self.next(&state, &changed, &halt)? {
                self.perform(work, &state)?;
                changed.notify_all();
            }
            std::mem::forget(raise);
            Ok(())
        });
        results.into_iter().collect::<Result<(), SyncError>>()?;
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = state.writer {
            self.sink.finish(writer)?;
        }
        Ok(state.rows)
    }

    /// Returns the next piece of work, and waits for one if necessary; `None` at the end.
    fn next(
        &self,
        state: &Mutex<LineState<S>>,
        changed: &Condvar,
        halt: &AtomicBool,
    ) -> Result<Option<Work<S>>, SyncError> {
        let items = self.source.items();
        let mut state = lock(state);
        loop {
            check_stop(self.stop)?;
            if halt.load(Relaxed) || state.is_done(items) {
                return Ok(None);
            }
            if let Some(work) = state.next(items) {
                return Ok(Some(work));
            }
            let waited = changed.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn perform(&self, work: Work<S>, state: &Mutex<LineState<S>>) -> Result<(), SyncError> {
        match work {
            Work::Read(index) => {
                let mut batch = Batch::new(self.table);
                self.source.read(index, &mut batch)?;
                self.share.add(1);
                lock(state).join(index, batch, self.source.items());
            }
            Work::Encode(number, batch) => {
                let piece = self.sink.encode(batch)?;
                lock(state).encoded.insert(number, piece);
            }
            Work::Write(mut writer, piece) => {
                self.sink.append(&mut writer, piece)?;
                let mut state = lock(state);
                state.writer = Some(writer);
                state.written += 1;
            }
        }
        Ok(())
    }
}

fn lock<S: Sink>(state: &Mutex<LineState<S>>) -> MutexGuard<'_, LineState<S>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Sink> LineState<S> {
    fn is_done(&self, items: usize) -> bool {
        self.joined == items && self.written == self.batches
    }

    /// Returns the next piece of work, if one can begin now.
    fn next(&mut self, items: usize) -> Option<Work<S>> {
        if self.writer.is_some()
            && let Some(piece) = self.encoded.remove(&self.written)
        {
            return self.writer.take().map(|writer| Work::Write(writer, piece));
        }
        if let Some((number, batch)) = self.full.pop_front() {
            return Some(Work::Encode(number, batch));
        }
        let (items_max, batches_max) = self.ahead_max;
        let has_room = self.begun - self.joined < items_max && self.encoded.len() < batches_max;
        if self.begun == items || !has_room {
            return None;
        }
        self.begun += 1;
        Some(Work::Read(self.begun - 1))
    }

    /// Adds the rows of an item, and joins all items that are now in order.
    fn join(&mut self, index: usize, batch: Batch, items: usize) {
        self.rows += batch.rows() as u64;
        self.read.insert(index, batch);
        while let Some(batch) = self.read.remove(&self.joined) {
            self.joined += 1;
            self.open.append(batch);
            let is_last = self.joined == items && self.open.rows() > 0;
            let is_full =
                self.open.rows() >= BATCH_ROWS_MAX || self.open.bytes() >= BATCH_BYTES_MAX;
            if is_full || is_last {
                let full = self.open.take();
                self.full.push_back((self.batches, full));
                self.batches += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    use apus_export::{Column, Encoder, Format, Forms, Kind, Target, Value};
    use apus_host::threads::pool;
    use apus_node::error::SyncError;

    use super::*;
    use crate::output::Output;
    use crate::sink::FileSink;

    static NUMBERS: Table = Table {
        name: "numbers",
        about: "Numbers, ascending.",
        columns: &[Column::new("n", Kind::I64, "A number.")],
    };

    type Read = fn() -> Result<(), SyncError>;

    /// Items of very different sizes, of which one may fail.
    struct Numbers {
        sizes: Vec<usize>,
        failing: Option<(usize, Read)>,
    }

    impl Numbers {
        fn of(items: usize) -> Self {
            let size = |item: usize| match item % 7 {
                0 => 0,
                3 => 150_000,
                rest => rest * 1_000,
            };
            Self { sizes: (0..items).map(size).collect(), failing: None }
        }
    }

    impl Source for Numbers {
        fn items(&self) -> usize {
            self.sizes.len()
        }

        fn read(&self, index: usize, batch: &mut Batch) -> Result<(), SyncError> {
            if let Some((_, fails)) = self.failing.filter(|(item, _)| *item == index) {
                fails()?;
            }
            let start: usize = self.sizes[..index].iter().sum();
            (start..start + self.sizes[index])
                .for_each(|number| batch.push(&[Value::Number(number as i64)]));
            Ok(())
        }
    }

    /// Returns the CSV of all numbers, made by `threads` threads, and the number of rows.
    fn made(source: &Numbers, threads: usize) -> Result<(String, u64), SyncError> {
        let output = Output::new(Path::new("memory"));
        let encoder = Encoder::new(&NUMBERS, Format::Csv, Forms::default(), &[]).unwrap();
        let mut text = Vec::new();
        let stop = AtomicBool::new(false);
        let writer = encoder.writer(Target::Stream(Box::new(&mut text))).unwrap();
        let share = Share::new(1, &|_| {});
        let sink = FileSink { encoder: &encoder, output: &output };
        let line = Line { source, table: &NUMBERS, sink: &sink, share, stop: &stop };
        let rows = line.run(writer, &pool(threads).unwrap())?;
        Ok((String::from_utf8(text).unwrap(), rows))
    }

    #[test]
    fn rows_come_in_order_whatever_the_items_and_threads() {
        for items in [0, 1, 2, 9, 60] {
            let source = Numbers::of(items);
            let all: usize = source.sizes.iter().sum();
            let numbers = (0..all).map(|number| format!("{number}\n"));
            let expected: String = std::iter::once("n\n".to_string()).chain(numbers).collect();
            for threads in [1, 2, 5] {
                let made = made(&source, threads);
                let (text, rows) = made.unwrap_or_else(|_| panic!("it is not stopped"));
                assert!(text == expected && rows == all as u64, "{items} items, {threads} threads");
            }
        }
    }

    #[test]
    fn a_failure_or_a_panic_ends_all_threads() {
        let fails: Read = || Err(SyncError::Input("this item".to_string()));
        let panics: Read = || panic!("this item, on purpose");
        for threads in [1, 2, 5] {
            for item in [0, 20, 59] {
                let source = Numbers { failing: Some((item, fails)), ..Numbers::of(60) };
                let error = match made(&source, threads) {
                    Err(error) => error.to_string(),
                    _ => panic!("item {item} has not failed"),
                };
                assert_eq!(error, "this item");
                let source = Numbers { failing: Some((item, panics)), ..Numbers::of(60) };
                let caught = catch_unwind(AssertUnwindSafe(|| drop(made(&source, threads))));
                assert!(caught.is_err());
            }
        }
    }
}
