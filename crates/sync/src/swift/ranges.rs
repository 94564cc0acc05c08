//! The ranges of heights in which each block takes coins from those before it ([`RangeBlocks`]).
//!
//! The blocks of a range are taken in order, and several workers check them side by side: a worker
//! has the turn of a range while it waits for a block, and passes it on once the block is here. The
//! lowest range whose turn is free comes first, so that blocks are taken nearly in order of height.
//! The next range is begun only if all others wait for a block: a late block holds up one worker,
//! and there are never more open ranges than workers.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use apus_disk::lock;
use apus_node::block_peers::coins_cutoff;

use super::range_blocks::RangeBlocks;

/// How often a worker that waits for a turn checks whether it must end.
const WAIT: Duration = Duration::from_millis(50);

/// The steps to do, by range.
pub(super) struct Ranges {
    state: Mutex<RangesState>,
    /// A turn is free, or steps were given back.
    changed: Condvar,
}

struct RangesState {
    /// The steps of each range that no worker has begun, the lowest range first.
    rest: VecDeque<Vec<usize>>,
    /// The ranges that were begun and have steps left, by their first step.
    open: BTreeMap<usize, OpenRange>,
}

struct OpenRange {
    /// Steps that no worker has taken, in order.
    steps: VecDeque<usize>,
    /// Whether a worker has the turn.
    is_taken: bool,
    blocks: Arc<RangeBlocks>,
}

/// A step that a worker has taken, and the turn of its range.
pub(super) struct Turn<'a> {
    ranges: &'a Ranges,
    /// The first step of the range.
    first: usize,
    pub step: usize,
    /// The blocks of the range, up to the last one that was taken.
    pub blocks: Arc<RangeBlocks>,
    is_passed: bool,
}

impl Ranges {
    /// Divides steps, which are in order of height; `height` returns the height of a step's block.
    pub fn new(steps: &[usize], height: impl Fn(usize) -> u32) -> Self {
        let ranges = ranges(steps.iter().map(|step| height(*step)));
        let rest = ranges.into_iter().map(|range| steps[range].to_vec()).collect();
        let state = Mutex::new(RangesState { rest, open: BTreeMap::new() });
        Self { state, changed: Condvar::new() }
    }

    /// Takes a step, once a turn is free. Returns `None` if all steps are taken, or once `halt` is
    /// raised.
    pub fn take(&self, halt: &AtomicBool) -> Option<Turn<'_>> {
        let mut state = lock(&self.state);
        while !halt.load(Relaxed) && !state.are_all_taken() {
            if let Some((first, range)) = state.free_range()
                && let Some(step) = range.steps.pop_front()
            {
                range.is_taken = true;
                let blocks = Arc::clone(&range.blocks);
                return Some(Turn { ranges: self, first, step, blocks, is_passed: false });
            }
            let waited = self.changed.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Returns whether every step is taken.
    pub fn are_all_taken(&self) -> bool {
        lock(&self.state).are_all_taken()
    }
}

impl RangesState {
    fn are_all_taken(&self) -> bool {
        self.rest.is_empty() && self.open.values().all(|range| range.steps.is_empty())
    }

    /// Returns the lowest range with steps left whose turn is free, and its first step.
    fn free_range(&mut self) -> Option<(usize, &mut OpenRange)> {
        self.open.retain(|_, range| range.is_taken || !range.steps.is_empty());
        if self.open.values().all(|range| range.is_taken)
            && let Some(steps) = self.rest.pop_front()
        {
            self.open.insert(steps[0], OpenRange::new(steps, Arc::default()));
        }
        let mut free = self.open.iter_mut().filter(|(_, range)| !range.is_taken);
        free.next().map(|(first, range)| (*first, range))
    }
}

impl OpenRange {
    fn new(steps: Vec<usize>, blocks: Arc<RangeBlocks>) -> Self {
        Self { steps: steps.into(), is_taken: false, blocks }
    }
}

impl Turn<'_> {
    /// Lets another worker take the next block of the range, since that of this step is among the
    /// blocks now. A worker that fails before that does not pass the turn: the next block cannot be
    /// checked.
    pub fn pass(&mut self) {
        self.is_passed = true;
        if let Some(range) = lock(&self.ranges.state).open.get_mut(&self.first) {
            range.is_taken = false;
        }
        self.ranges.changed.notify_all();
    }

    /// Gives the step back, which is not done, and the turn if it was not passed.
    pub fn give_back(self) {
        let mut state = lock(&self.ranges.state);
        // The range is closed if no other step of it is left.
        let new = || OpenRange::new(Vec::new(), self.blocks);
        let range = state.open.entry(self.first).or_insert_with(new);
        range.is_taken &= self.is_passed;
        let at = range.steps.partition_point(|step| *step < self.step);
        range.steps.insert(at, self.step);
        drop(state);
        self.ranges.changed.notify_all();
    }
}

/// Returns the parts of a list of ascending heights whose blocks are of one range.
fn ranges(heights: impl Iterator<Item = u32>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut last = None;
    for (at, height) in heights.enumerate() {
        let cutoff = coins_cutoff(height);
        match ranges.last_mut().filter(|_| last == Some(cutoff)) {
            Some(range) => range.end = at + 1,
            None => ranges.push(at..at + 1),
        }
        last = Some(cutoff);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use apus_node::block_peers::COIN_RANGE_BLOCKS;

    use super::*;

    #[test]
    fn blocks_of_one_range_are_taken_together() {
        let first = COIN_RANGE_BLOCKS;
        let heights = [1, 2, first - 1, first, first + 1, 3 * first, 3 * first + 2];
        assert_eq!(ranges(heights.into_iter()), [0..3, 3..5, 5..7]);
        assert!(ranges(std::iter::empty()).is_empty());
    }

    /// Steps 0 to 4, of which 0 to 2 are of one range, and 3 and 4 of the next.
    fn two_ranges() -> Ranges {
        Ranges::new(&[0, 1, 2, 3, 4], |step| COIN_RANGE_BLOCKS - 3 + step as u32)
    }

    #[test]
    fn a_range_is_begun_while_those_before_it_wait_for_a_block() {
        let ranges = two_ranges();
        let halt = AtomicBool::new(false);
        let mut first = ranges.take(&halt).unwrap();
        let mut other = ranges.take(&halt).unwrap();
        assert_eq!((first.step, other.step), (0, 3));
        other.pass();
        let mut last = ranges.take(&halt).unwrap();
        assert_eq!(last.step, 4, "the turn of the first range is taken");
        assert!(Arc::ptr_eq(&last.blocks, &other.blocks));
        last.pass();
        first.pass();
        let mut second = ranges.take(&halt).unwrap();
        assert!(Arc::ptr_eq(&first.blocks, &second.blocks) && second.step == 1);
        assert!(!ranges.are_all_taken());
        second.pass();
        assert_eq!(ranges.take(&halt).map(|turn| turn.step), Some(2));
        assert!(ranges.are_all_taken() && ranges.take(&halt).is_none());
    }

    /// Workers that must end give their steps back in any order, before and after they pass the
    /// turn.
    #[test]
    fn steps_that_are_given_back_are_taken_again_in_order() {
        let ranges = two_ranges();
        let halt = AtomicBool::new(false);
        let mut turns = Vec::new();
        for step in 0..5 {
            let mut turn = ranges.take(&halt).unwrap();
            assert_eq!(turn.step, step);
            if step < 4 {
                turn.pass();
            }
            turns.push(turn);
        }
        assert!(ranges.are_all_taken());
        let blocks = Arc::clone(&turns[0].blocks);
        // Step 3 alone is done.
        for at in [4, 1, 0, 0] {
            turns.remove(at).give_back();
        }
        let mut again = Vec::new();
        while let Some(mut turn) = ranges.take(&halt) {
            turn.pass();
            assert_eq!(Arc::ptr_eq(&turn.blocks, &blocks), turn.step < 3);
            again.push(turn.step);
        }
        assert_eq!(again, [0, 1, 2, 4]);
        let ranges = two_ranges();
        ranges.take(&halt).unwrap().give_back();
        assert_eq!(ranges.take(&halt).map(|turn| turn.step), Some(0));
        halt.store(true, Relaxed);
        assert!(ranges.take(&halt).is_none());
    }
}
