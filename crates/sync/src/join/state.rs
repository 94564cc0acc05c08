//! The state of a join: what its passes have done so far.

use std::collections::HashSet;

use apus_join::Span;
use apus_leveldb::PendingTable;
use apus_progress::outcome::Counts;
use apus_store::FlatFilePos;

/// The work of a join's passes so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinState {
    /// The spans to read, in order of height.
    pub spans: Vec<SpanState>,
    /// Numbers of the sources whose records were given up.
    pub dropped: HashSet<u32>,
    /// Number of sources of records so far.
    pub sources: u32,
    /// The work of the second pass.
    pub paired: Paired,
    /// Number of blocks that have passed all checks, from the first on.
    pub checked: usize,
    /// Number of blocks, from the first on, that may have been read as assumed valid: their scripts
    /// can be checked only if they are read once more.
    pub assumed: usize,
    /// Where undo data was written for blocks that had none.
    pub undo: Vec<UndoAt>,
}

/// The place of undo data that the block index does not know yet, with the index of its block among
/// the steps. The block itself may move to another file later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoAt {
    /// The block.
    pub index: u32,
    /// The undo data.
    pub at: FlatFilePos,
}

/// A span of blocks, how far it is read, and the counts of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanState {
    /// The source number of its records.
    pub source: u32,
    /// The first block, by index among the steps.
    pub first: usize,
    /// The next block to read, by index among the steps.
    pub next: usize,
    /// One after the last block.
    pub end: usize,
    /// The counts of what was read.
    pub read: ReadCounts,
}

/// Counts of what the first pass has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Blocks, bytes, transactions, inputs and scripts.
    pub counts: Counts,
    /// Spendable outputs that were created.
    pub created: u64,
    /// Spends of outputs of the same block.
    pub inside: u64,
    /// Spends of outputs of earlier blocks in the window.
    pub early: u64,
    /// Spends that went to partitions.
    pub late: u64,
}

impl ReadCounts {
    /// Adds the counts of another span.
    pub fn add(&mut self, other: &Self) {
        self.counts = self.counts.plus(other.counts);
        self.created += other.created;
        self.inside += other.inside;
        self.early += other.early;
        self.late += other.late;
    }
}

/// The work of the second pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// The source number of the spent coins.
    pub source: u32,
    /// For each partition, whether it is done.
    pub done: Vec<bool>,
    /// The counts of outputs.
    pub counts: PairCounts,
    /// Tables written so far that are durable.
    pub tables: Vec<PendingTable>,
    /// The height of the lowest block that the second pass refuses.
    pub fault: Option<u32>,
}

/// Counts of outputs, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Matched with a spend in their partition.
    pub taken: u64,
    /// Unspent.
    pub left: u64,
    /// The sum of their amounts in satoshi.
    pub left_amount: u64,
    /// Replaced by a later coin with the same outpoint.
    pub overwritten: u64,
    /// Spent coins of the UTXO set that the join began with.
    pub base_taken: u64,
    /// The sum of their amounts in satoshi.
    pub base_amount: u64,
    /// Replaced coins of the UTXO set that the join began with.
    pub base_overwritten: u64,
}

impl PairCounts {
    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.left += other.left;
        self.left_amount += other.left_amount;
        self.overwritten += other.overwritten;
        self.base_taken += other.base_taken;
        self.base_amount += other.base_amount;
        self.base_overwritten += other.base_overwritten;
    }
}

impl JoinState {
    /// Creates the state of a join that has yet to read these spans and to match this number of
    /// partitions.
    pub fn new(spans: &[Span], partitions: usize) -> Self {
        let mut state = Self::default();
        for span in spans {
            state.add_span(span.first, span.end);
        }
        state.begin_pairing(partitions);
        state
    }

    /// Returns the number of a new source of records.
    fn new_source(&mut self) -> u32 {
        self.sources += 1;
        self.sources
    }

    fn add_span(&mut self, first: usize, end: usize) {
        let source = self.new_source();
        let read = ReadCounts::default();
        self.spans.push(SpanState { source, first, next: first, end, read });
    }

    /// Starts the second pass over, and gives up the spent coins that it has written.
    pub fn begin_pairing(&mut self, partitions: usize) {
        self.dropped.insert(self.paired.source);
        let source = self.new_source();
        self.paired = Paired { source, done: vec![false; partitions], ..Paired::default() };
    }

    /// Returns the counts of all spans together.
    pub fn read(&self) -> ReadCounts {
        let mut all = ReadCounts::default();
        self.spans.iter().for_each(|span| all.add(&span.read));
        all
    }

    pub fn blocks_read(&self) -> usize {
        self.spans.iter().map(|span| span.next - span.first).sum()
    }

    /// Ends the join before the block at index `end`. A span that was read beyond it is read again,
    /// since spends of blocks that no longer count have taken outputs from its window.
    pub fn end_at(&mut self, end: usize) {
        let partitions = self.paired.done.len();
        let spans = std::mem::take(&mut self.spans);
        for mut span in spans {
            if span.next <= end {
                span.end = span.end.min(end);
                if span.first < end {
                    self.spans.push(span);
                } else {
                    self.dropped.insert(span.source);
                }
                continue;
            }
            self.dropped.insert(span.source);
            if span.first < end {
                self.add_span(span.first, end);
            }
        }
        self.begin_pairing(partitions);
        self.checked = self.checked.min(end);
        self.assumed = self.assumed.min(end);
        self.undo.retain(|undo| (undo.index as usize) < end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_were_read_too_far_are_read_again() {
        let span = |first, end| Span { first, end };
        let mut state = JoinState::new(&[span(0, 10), span(10, 20), span(20, 30)], 4);
        state.spans[0].next = 10;
        state.spans[1].next = 17;
        state.spans[2].next = 21;
        let sources: Vec<u32> = state.spans.iter().map(|span| span.source).collect();
        state.paired.fault = Some(3);
        let at = FlatFilePos { file: 0, pos: 8 };
        state.undo = [3, 14, 15, 16].map(|index| UndoAt { index, at }).to_vec();
        state.end_at(15);
        assert_eq!(state.undo.iter().map(|undo| undo.index).max(), Some(14));
        assert_eq!(state.spans.len(), 2);
        assert_eq!((state.spans[0].source, state.spans[0].next), (sources[0], 10));
        assert_eq!((state.spans[1].first, state.spans[1].next, state.spans[1].end), (10, 10, 15));
        assert!(state.spans[1].source > sources[2]);
        assert!(state.dropped.contains(&sources[1]) && state.dropped.contains(&sources[2]));
        assert!(!state.dropped.contains(&sources[0]) && state.paired.fault.is_none());
        // A span that was read exactly up to the end is kept.
        state.spans[1].next = 12;
        state.end_at(12);
        assert_eq!((state.spans[1].next, state.spans[1].end), (12, 12));
    }
}
