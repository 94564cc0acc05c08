//! Appends undo data in order of height, whatever the order in which workers finish blocks: readers
//! of rev files expect the records of a file in about that order, as Bitcoin Core writes them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use apus_disk::{StoreError, lock};
use apus_store::{BlockFiles, EncodedUndo, FlatFilePos};

use super::state::UndoAt;

/// How many blocks workers may be ahead of the first unfinished block. The undo data of these
/// blocks waits in memory, 100 KB to 1 MB for each.
const AHEAD_MAX: usize = 64;
/// Bytes of waiting undo data above which workers wait: a single block may have 240 MB.
const AHEAD_BYTES_MAX: usize = 64 << 20;
/// How often a waiting thread checks whether it must end.
const WAIT: Duration = Duration::from_millis(20);

/// The queue through which threads append undo data in order of height.
pub(super) struct Sequencer<'a> {
    files: &'a BlockFiles,
    line: Mutex<Line>,
    moved: Condvar,
}

struct Line {
    /// The block whose undo data is appended next, by index among the steps.
    next: usize,
    waiting: BTreeMap<usize, Option<Undo>>,
    /// Bytes of all undo data in `waiting`, and of that which is being appended.
    waiting_bytes: usize,
    /// Whether a thread is appending. It takes what others add meanwhile, so that they need not
    /// wait for its writes. Stays set after an error: nothing more is appended then.
    is_appending: bool,
    written: Vec<UndoAt>,
}

/// Undo data to append to the rev file with the number `file`.
pub(super) struct Undo {
    pub file: u32,
    pub height: u32,
    pub record: EncodedUndo,
}

impl<'a> Sequencer<'a> {
    /// Creates a queue that begins with the block at index `next`.
    pub fn new(files: &'a BlockFiles, next: usize) -> Self {
        let line = Line {
            next,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            is_appending: false,
            written: Vec::new(),
        };
        Self { files, line: Mutex::new(line), moved: Condvar::new() }
    }

    /// Waits until there is room for the undo data of the block at `index`: the block is the next
    /// one, or it is near enough to the next one and little enough undo data waits. Returns false
    /// if `is_vain` returns true before that, since the blocks below may then never be finished.
    pub fn wait_for_room(&self, index: usize, is_vain: impl Fn() -> bool) -> bool {
        let mut line = lock(&self.line);
        let has_room =
            |line: &Line| line.waiting_bytes <= AHEAD_BYTES_MAX && index <= line.next + AHEAD_MAX;
        while index != line.next && !has_room(&line) {
            if is_vain() {
                return false;
            }
            let waited = self.moved.wait_timeout(line, WAIT);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Adds the undo data of the finished block at `index`, `None` if it is stored already, and
    /// appends all undo data whose turn it is, unless another thread does.
    pub fn finish(&self, index: usize, undo: Option<Undo>) -> Result<(), StoreError> {
        let mut line = lock(&self.line);
        line.waiting_bytes += undo.as_ref().map_or(0, |undo| undo.record.bytes());
        line.waiting.insert(index, undo);
        if std::mem::replace(&mut line.is_appending, true) {
            return Ok(());
        }
        loop {
            let next = line.next;
            let Some(undo) = line.waiting.remove(&next) else { break };
            if let Some(Undo { file, height, record }) = undo {
                let bytes = record.bytes();
                drop(line);
                let appended = self.files.append_encoded_undo(file, height, record);
                line = lock(&self.line);
                line.waiting_bytes -= bytes;
                let at = FlatFilePos { file, pos: appended? };
                line.written.push(UndoAt { index: next as u32, at });
            }
            line.next += 1;
            self.moved.notify_all();
        }
        line.is_appending = false;
        Ok(())
    }

    /// Returns the number of blocks that are finished without a gap, and where undo data was
    /// written.
    pub fn into_written(self) -> (usize, Vec<UndoAt>) {
        let line = self.line.into_inner().unwrap_or_else(PoisonError::into_inner);
        (line.next, line.written)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use apus_disk::Disk;
    use apus_hash::Hash;
    use apus_store::{BlockFilesOptions, Obfuscation};
    use apus_testdata::Random;

    use super::*;

    const BLOCKS: usize = 300;
    const FIRST: usize = 20;
    const THREADS: usize = 5;
    /// The longest that a thread waits for the others.
    const LIMIT: Duration = Duration::from_secs(60);

    fn files(dir: &Path) -> BlockFiles {
        let key = Obfuscation::new([1; 8]);
        let options = BlockFilesOptions::default();
        BlockFiles::new(&Disk::new(), dir, [2; 4], key, vec![], options)
    }

    fn payload(index: usize) -> Vec<u8> {
        let mut random = Random(index as u64);
        let len = 1 + random.below(400usize);
        random.bytes(len)
    }

    fn prev(index: usize) -> Hash {
        Hash([index as u8; 32])
    }

    /// Returns the undo data of a block; that of every third block is stored already.
    fn undo(files: &BlockFiles, index: usize) -> Option<Undo> {
        let record = files.encode_undo(&payload(index), &prev(index));
        (!index.is_multiple_of(3)).then_some(Undo { file: 0, height: index as u32, record })
    }

    /// Returns the block files of a directory with a blk file of number 0, so that undo data can be
    /// appended.
    fn with_block(dir: &Path) -> BlockFiles {
        let files = files(dir);
        files.append_block(&[0; 100], 0, 0).unwrap();
        files
    }

    /// The blocks that no thread has taken yet.
    struct Untaken {
        next: Mutex<usize>,
        taken: Condvar,
    }

    impl Untaken {
        /// The index of the next block.
        fn take(&self) -> usize {
            let mut next = self.next.lock().unwrap();
            *next += 1;
            self.taken.notify_all();
            *next - 1
        }

        /// Waits until all blocks below `end` are taken; false if they are not after [`LIMIT`].
        fn wait_until(&self, end: usize) -> bool {
            let are_left = |next: &mut usize| *next < end;
            let next = self.next.lock().unwrap();
            *self.taken.wait_timeout_while(next, LIMIT, are_left).unwrap().0 >= end
        }
    }

    /// Five threads, one of which at a time may keep a block until all others wait for room.
    #[test]
    fn undo_data_is_in_order_of_height_whoever_finishes_first() {
        for seed in 0..4u64 {
            let dir = tempfile::tempdir().unwrap();
            let files = with_block(dir.path());
            let sequencer = Sequencer::new(&files, FIRST);
            let untaken = Untaken { next: Mutex::new(FIRST), taken: Condvar::new() };
            let is_kept = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..THREADS as u64 {
                    let files = &files;
                    let sequencer = &sequencer;
                    let untaken = &untaken;
                    let is_kept = &is_kept;
                    scope.spawn(move || {
                        let mut random = Random(seed * 100 + thread);
                        loop {
                            let index = untaken.take();
                            if index >= BLOCKS {
                                break;
                            }
                            let mut are_taken = true;
                            if random.below(10u32) == 0 && !is_kept.swap(true, Relaxed) {
                                let ahead = random.below(AHEAD_MAX + THREADS + 1);
                                are_taken = untaken.wait_until(BLOCKS.min(index + ahead));
                                is_kept.store(false, Relaxed);
                            }
                            assert!(sequencer.wait_for_room(index, || false));
                            sequencer.finish(index, undo(files, index)).unwrap();
                            assert!(are_taken, "the others wait without need behind {index}");
                        }
                    });
                }
            });
            let (finished, written) = sequencer.into_written();
            assert_eq!(finished, BLOCKS);
            let due = (FIRST..BLOCKS).filter(|index| !index.is_multiple_of(3));
            assert!(written.iter().map(|undo| undo.index as usize).eq(due));
            assert!(written.is_sorted_by_key(|undo| undo.at), "in the file as well");
            for UndoAt { index, at } in written {
                let index = index as usize;
                assert_eq!(files.read_undo(at, &prev(index)).unwrap(), payload(index));
            }
        }
    }

    #[test]
    fn after_a_gap_nothing_is_written_and_nobody_is_too_far_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let files = with_block(dir.path());
        let sequencer = Sequencer::new(&files, 0);
        for index in (0..AHEAD_MAX).filter(|index| *index != 10) {
            assert!(sequencer.wait_for_room(index, || true), "{index}");
            sequencer.finish(index, undo(&files, index)).unwrap();
        }
        assert!(sequencer.wait_for_room(10 + AHEAD_MAX, || true));
        assert!(!sequencer.wait_for_room(11 + AHEAD_MAX, || true), "the threads are to end");
        let (finished, written) = sequencer.into_written();
        assert_eq!(finished, 10);
        assert_eq!(written.iter().map(|undo| undo.index).max(), Some(8));
    }

    #[test]
    fn undo_data_that_waits_has_a_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let files = with_block(dir.path());
        let sequencer = Sequencer::new(&files, 0);
        let record = files.encode_undo(&vec![0; AHEAD_BYTES_MAX + 1], &prev(2));
        assert!(sequencer.wait_for_room(2, || true));
        sequencer.finish(2, Some(Undo { file: 0, height: 2, record })).unwrap();
        assert!(!sequencer.wait_for_room(1, || true) && !sequencer.wait_for_room(3, || true));
        for index in [0, 1] {
            assert!(sequencer.wait_for_room(index, || true), "the first in line");
            sequencer.finish(index, undo(&files, index)).unwrap();
        }
        assert!(sequencer.wait_for_room(4, || true), "it is written");
    }
}
