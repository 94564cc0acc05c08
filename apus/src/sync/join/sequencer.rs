//! Undo data in the order of heights, whatever the order in which workers finish blocks: readers of
//! rev files expect the records of a file to be in about that order, as Bitcoin Core writes them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::state::UndoAt;
use crate::disk::StoreError;
use crate::store::{BlockFiles, EncodedUndo};

/// How many blocks may be finished before one that is not. Their undo data waits in memory, 100 KB
/// to 1 MB each.
const AHEAD_MAX: usize = 64;
/// How often a thread that waits looks at whether all are to end.
const WAIT: Duration = Duration::from_millis(20);

/// The threads' place in line for appending undo data.
pub(super) struct Sequencer<'a> {
    files: &'a BlockFiles,
    line: Mutex<Line>,
    moved: Condvar,
}

struct Line {
    /// The block whose turn it is, by index among the steps.
    next: usize,
    waiting: BTreeMap<usize, Option<Undo>>,
    written: Vec<UndoAt>,
}

/// Undo data to be appended to the rev file of this number.
pub(super) struct Undo {
    pub file: u32,
    pub height: u32,
    pub record: EncodedUndo,
}

impl<'a> Sequencer<'a> {
    /// A line in which it is the turn of the block at index `next`.
    pub fn new(files: &'a BlockFiles, next: usize) -> Self {
        let line = Line { next, waiting: BTreeMap::new(), written: Vec::new() };
        Self { files, line: Mutex::new(line), moved: Condvar::new() }
    }

    /// Waits until the block at `index` is near enough to the front of the line; returns false if
    /// `halt` was raised before that.
    pub fn wait_for_room(&self, index: usize, halt: &AtomicBool) -> bool {
        let mut line = self.lock();
        while index > line.next + AHEAD_MAX {
            if halt.load(Relaxed) {
                return false;
            }
            let waited = self.moved.wait_timeout(line, WAIT);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Takes in the undo data of the finished block at `index`, `None` if it is stored already, and
    /// appends all whose turn it is.
    pub fn finish(&self, index: usize, undo: Option<Undo>) -> Result<(), StoreError> {
        let mut line = self.lock();
        line.waiting.insert(index, undo);
        loop {
            let next = line.next;
            let Some(undo) = line.waiting.remove(&next) else { break };
            if let Some(Undo { file, height, record }) = undo {
                let pos = self.files.append_encoded_undo(file, height, record)?;
                line.written.push(UndoAt { index: next as u32, pos });
            }
            line.next += 1;
        }
        drop(line);
        self.moved.notify_all();
        Ok(())
    }

    /// How many blocks are finished without a gap, and the undo data that was written.
    pub fn into_written(self) -> (usize, Vec<UndoAt>) {
        let line = self.line.into_inner().unwrap_or_else(PoisonError::into_inner);
        (line.next, line.written)
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
