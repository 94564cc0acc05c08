//! The context of a SwiftSync: what all its threads share.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use apus_coins::Survivors;
use apus_node::block::step::Step;
use apus_node::block::validate::BranchTimes;
use apus_node::block_peers::{Wanted, coins_cutoff};
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_node::sources::BlockOrigin;
use apus_store::FlatFilePos;
use apus_swiftsync::Salt;

use super::find_differences::COINS_MAX;
use super::hinted::WrongHint;
use super::opened_claim::Unspent;
use super::plan::SwiftPlan;
use super::range_blocks::RangeBlocks;
use super::recent::Recent;
use super::undo::UndoAt;

/// The most blocks that are put off. Each is read and checked once more at the end.
const PUT_OFF_MAX: usize = 4096;

/// The blocks to work on, and what every thread needs for that.
pub(super) struct Context<'a> {
    pub shared: &'a Shared<'a>,
    pub unspent: Unspent<'a>,
    pub plan: &'a SwiftPlan,
    pub salt: &'a Salt,
    /// Whether blocks and undo data are stored; false if only the proof is wanted.
    pub keeps: bool,
    /// Where unspent coins are gathered; `None` if nothing is stored, or if a snapshot has the
    /// coins in the order of the tables.
    pub survivors: Option<&'a Survivors>,
    /// The coins that the last blocks spend; `None` if there are none to collect.
    pub recent: Option<&'a Recent>,
    /// Whether hints and undo data that are wrong about some coins are corrected.
    pub corrects: bool,
    /// Median times past of the blocks of the plan's chain.
    pub times: BranchTimes,
    /// Indices of the steps to do; steps whose blocks peers send are last.
    todo: Vec<usize>,
    /// Number of steps at the end of `todo` that are taken in the order in which peers send their
    /// blocks.
    from_peers: usize,
    tickets: Tickets,
    /// The parts of `todo` that one worker each takes, in order, and tickets for these; `None` if
    /// every step is taken by itself.
    ranges: Option<(Vec<Range<usize>>, Tickets)>,
    /// Steps that workers have taken and given back.
    given_back: Mutex<Vec<Taken>>,
    /// The hints that are wrong as their block alone shows.
    wrong_hints: Mutex<Vec<WrongHint>>,
    /// Numbers of blocks that are put off, and of coins that these spend and that are not known.
    put_off: AtomicUsize,
    unknown: AtomicUsize,
}

impl<'a> Context<'a> {
    /// Creates the context for all steps of `plan`, except those at the heights in `done`. It
    /// stores nothing by default.
    pub fn new(
        shared: &'a Shared<'a>,
        unspent: Unspent<'a>,
        plan: &'a SwiftPlan,
        salt: &'a Salt,
        done: &HashSet<u32>,
    ) -> Self {
        let is_done = |step: &usize| done.contains(&shared.tree.node(plan.steps[*step].id).height);
        let todo = (0..plan.steps.len()).filter(|step| !is_done(step));
        let times = BranchTimes::of(shared.tree, plan.target);
        let todo: Vec<usize> = todo.collect();
        let is_theirs = |step: &&usize| plan.steps[**step].place == BlockOrigin::Peers;
        let from_peers =
            if plan.asks_for_coins() { 0 } else { todo.iter().filter(is_theirs).count() };
        let keeps = false;
        let survivors = None;
        let recent = None;
        let tickets = Tickets::new(todo.len());
        let ranges = plan.asks_for_coins().then(|| {
            let height = |at: &usize| shared.tree.node(plan.steps[*at].id).height;
            let ranges = ranges(todo.iter().map(height));
            let tickets = Tickets::new(ranges.len());
            (ranges, tickets)
        });
        let given_back = Mutex::default();
        let wrong_hints = Mutex::default();
        let corrects = false;
        let put_off = AtomicUsize::new(0);
        let unknown = AtomicUsize::new(0);
        Self {
            shared,
            unspent,
            plan,
            salt,
            keeps,
            survivors,
            recent,
            times,
            todo,
            from_peers,
            tickets,
            ranges,
            given_back,
            wrong_hints,
            corrects,
            put_off,
            unknown,
        }
    }

    /// Returns the blocks that peers shall send, in any order, and those whose coins.
    pub fn wanted(&self) -> Wanted {
        let plan = self.plan;
        if plan.asks_for_coins() {
            let steps: Vec<Step> = self.todo.iter().map(|step| plan.steps[*step]).collect();
            let of_peers = self.todo.iter().filter(|step| plan.undo[**step] == UndoAt::Peers);
            let coins = of_peers.map(|step| plan.steps[*step].id).collect();
            return Wanted { coins, ..Wanted::of([&steps[..]]) };
        }
        let theirs = &self.todo[self.todo.len() - self.from_peers..];
        let steps: Vec<Step> = theirs.iter().map(|step| plan.steps[*step]).collect();
        Wanted { stripped_below: plan.stripped_below, ..Wanted::of([&steps[..]]) }
    }

    /// Returns the next steps for a worker, as [`Context::take_step`] does; if peers send coins,
    /// those of a range of blocks.
    pub fn take(&self, halt: &AtomicBool) -> Option<Taken> {
        if let Some(taken) = self.given_back().pop() {
            return Some(taken);
        }
        let steps = match &self.ranges {
            None => VecDeque::from([self.take_step(halt)?]),
            Some((ranges, tickets)) => self.todo[ranges[tickets.take()?].clone()].to_vec().into(),
        };
        Some(Taken { steps, range: RangeBlocks::default() })
    }

    /// Returns whether a worker takes the steps of a range, in order.
    pub fn takes_ranges(&self) -> bool {
        self.ranges.is_some()
    }

    /// Returns the next step that no worker has taken. It waits for blocks from peers, and returns
    /// their steps in the order in which the blocks arrive. Returns `None` if all steps are taken,
    /// or once `halt` is raised.
    pub fn take_step(&self, halt: &AtomicBool) -> Option<usize> {
        let stored = self.todo.len() - self.from_peers;
        let ticket = self.tickets.take()?;
        let Some(peers) = self.shared.peers.filter(|_| ticket >= stored) else {
            return Some(self.todo[ticket]);
        };
        let Some(id) = peers.next(halt) else {
            self.tickets.put_back();
            return None;
        };
        // Steps whose blocks peers send are in order of height.
        let height = |step: &usize| self.shared.tree.node(self.plan.steps[*step].id).height;
        let wanted = self.shared.tree.node(id).height;
        let theirs = &self.todo[stored..];
        theirs.binary_search_by_key(&wanted, height).ok().map(|at| theirs[at])
    }

    /// Gives back the steps that were taken and are not done.
    pub fn give_back(&self, taken: Taken) {
        if !taken.steps.is_empty() {
            self.given_back().push(taken);
        }
    }

    /// Notes a wrong hint, by which the sums and the coins do not go.
    ///
    /// # Errors
    /// There are too many, so that the hints are likely for another chain.
    pub fn note_wrong_hint(&self, wrong: WrongHint) -> Result<(), Fault> {
        let mut noted = self.wrong_hints.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= COINS_MAX {
            return Err(wrong.into_fault());
        }
        noted.push(wrong);
        Ok(())
    }

    /// Returns the wrong hints that were noted, and forgets them.
    pub fn take_wrong_hints(&self) -> Vec<WrongHint> {
        let mut noted = self.wrong_hints.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = std::mem::take(&mut *noted);
        taken.sort_unstable_by_key(|wrong| (wrong.height, wrong.outpoint));
        taken
    }

    /// Returns whether a block with this fault is put off: its undo data may be wrong about some
    /// coins, so the block is checked once the right coins are found. Blocks beyond
    /// [`PUT_OFF_MAX`] are not.
    pub fn puts_off(&self, fault: &Fault) -> bool {
        self.corrects
            && matches!(fault, Fault::Rule(..) | Fault::Undo { .. })
            && self.put_off.fetch_add(1, Ordering::Relaxed) < PUT_OFF_MAX
    }

    /// Counts `coins` more that a block spends and whose undo data cannot be used. Returns whether
    /// these are few enough to be found.
    pub fn can_find(&self, coins: usize) -> bool {
        self.unknown.fetch_add(coins, Ordering::Relaxed) + coins <= COINS_MAX
    }

    /// Returns the fault for a block whose coins no peer sends.
    pub fn lacks_coins(&self, step: usize) -> Fault {
        let id = self.plan.steps[step].id;
        let path = self.plan.undo_copies.path(self.shared, UndoAt::Peers);
        Fault::Undo { id, path, what: "no peer sends the coins that it spends".to_string() }
    }

    /// Returns whether a block with this fault is put off because no peer sends its coins.
    pub fn looks_up(&self, fault: &Fault) -> bool {
        self.plan.looks_up_coins && self.puts_off(fault)
    }

    fn given_back(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.given_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether every step is taken.
    pub fn all_taken(&self) -> bool {
        let tickets = self.ranges.as_ref().map_or(&self.tickets, |(_, tickets)| tickets);
        tickets.all_taken() && self.given_back().is_empty()
    }

    /// Returns the steps to do, as indices of the plan's steps.
    pub fn todo(&self) -> &[usize] {
        &self.todo
    }
}

/// Steps that a worker has taken.
pub(super) struct Taken {
    /// Indices of the plan's steps.
    pub steps: VecDeque<usize>,
    /// The blocks of their range before them.
    pub range: RangeBlocks,
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

/// Tickets for the steps to do: a worker needs one to take a step.
struct Tickets {
    taken: AtomicUsize,
    all: usize,
}

impl Tickets {
    fn new(all: usize) -> Self {
        Self { taken: AtomicUsize::new(0), all }
    }

    /// Takes a ticket, and returns the number of tickets taken before. Returns `None` if there are
    /// none left, and then changes nothing: otherwise a ticket that another worker puts back could
    /// be lost.
    fn take(&self) -> Option<usize> {
        let one_more = |taken| (taken < self.all).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()
    }

    /// Puts back a ticket with which no step was taken.
    fn put_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    fn all_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) == self.all
    }
}

/// A worker's report on a block that it has finished.
pub(super) struct FinishedBlock {
    /// Index of the block among the plan's steps.
    pub step: usize,
    pub tx_count: u32,
    /// Where this run has stored the block; `None` if it did not.
    pub stored: Option<FlatFilePos>,
    /// Where this run has written the undo data of the block; `None` if it did not.
    pub undo: Option<FlatFilePos>,
    pub bytes: u64,
    /// Whether the block lacks its witnesses because a peer was asked to leave them out.
    pub is_stripped: bool,
    /// Whether the block is not checked yet ([`Context::puts_off`]).
    pub is_put_off: bool,
    /// Whether no peer has sent the coins that the block spends: it is stored, and left to do.
    pub lacks_coins: bool,
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

    /// Of two steps, one worker takes the first. A second worker waits for a peer's block with the
    /// last ticket, a third finds no ticket, and then the second is told to end.
    #[test]
    fn a_step_that_nobody_took_stays_to_do() {
        let tickets = Tickets::new(2);
        assert_eq!((tickets.take(), tickets.take(), tickets.take()), (Some(0), Some(1), None));
        assert!(tickets.all_taken());
        tickets.put_back();
        assert!(!tickets.all_taken());
        assert_eq!((tickets.take(), tickets.take()), (Some(1), None));
        assert!(tickets.all_taken());
    }
}
