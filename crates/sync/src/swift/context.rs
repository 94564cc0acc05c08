//! The context of a SwiftSync: what all its threads share.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use apus_coins::Survivors;
use apus_disk::lock;
use apus_node::block::step::Step;
use apus_node::block::validate::BranchTimes;
use apus_node::block_peers::Wanted;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_node::sources::BlockOrigin;
use apus_store::FlatFilePos;
use apus_swiftsync::Salt;

use super::find_differences::COINS_MAX;
use super::hinted::WrongHint;
use super::opened_claim::Unspent;
use super::plan::SwiftPlan;
use super::ranges::{Ranges, Turn};
use super::recent::Recent;
use super::undo::{UndoAt, no_undo};

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
    /// The ranges of `todo` if peers send coins; `None` if every step is taken by itself.
    ranges: Option<Ranges>,
    /// Steps, taken by themselves, that workers have given back.
    given_back: Mutex<Vec<usize>>,
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
        let height = |step: usize| shared.tree.node(plan.steps[step].id).height;
        let ranges = plan.asks_for_coins().then(|| Ranges::new(&todo, height));
        Self {
            shared,
            unspent,
            plan,
            salt,
            keeps: false,
            survivors: None,
            recent: None,
            corrects: false,
            times,
            from_peers,
            tickets: Tickets::new(todo.len()),
            ranges,
            todo,
            given_back: Mutex::default(),
            wrong_hints: Mutex::default(),
            put_off: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
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

    /// Returns the next step for a worker, as [`Context::take_step`] does, or in its turn if peers
    /// send coins.
    pub fn take(&self, halt: &AtomicBool) -> Option<Taken<'_>> {
        if let Some(ranges) = &self.ranges {
            return ranges.take(halt).map(Taken::InTurn);
        }
        let given_back = lock(&self.given_back).pop();
        given_back.or_else(|| self.take_step(halt)).map(Taken::Alone)
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

    /// Gives back a step that is not done.
    pub fn give_back(&self, taken: Taken) {
        match taken {
            Taken::Alone(step) => lock(&self.given_back).push(step),
            Taken::InTurn(turn) => turn.give_back(),
        }
    }

    /// Notes wrong hints about the blocks that are done already.
    pub fn note_earlier(&mut self, wrong: Vec<WrongHint>) {
        self.wrong_hints = Mutex::new(wrong);
    }

    /// Notes a wrong hint, by which the sums and the coins do not go.
    ///
    /// # Errors
    /// There are too many, so that the hints are likely for another chain.
    pub fn note_wrong_hint(&self, wrong: WrongHint) -> Result<(), Fault> {
        let mut noted = lock(&self.wrong_hints);
        if noted.len() >= COINS_MAX {
            return Err(wrong.into_fault());
        }
        noted.push(wrong);
        Ok(())
    }

    /// Returns the wrong hints that were noted, in order of height.
    pub fn wrong_hints(&self) -> Vec<WrongHint> {
        let noted = lock(&self.wrong_hints);
        let mut noted = noted.clone();
        noted.sort_unstable_by_key(|wrong| (wrong.height, wrong.outpoint));
        noted
    }

    /// Returns the fault of a step's block if the block is put off: its undo data may be wrong
    /// about some coins, so it is checked once the right coins are found.
    ///
    /// # Errors
    /// The block is not put off, for this fault or because too many are
    /// ([`UndoFaults`](apus_node::options::UndoFaults)).
    pub fn puts_off(&self, step: usize, fault: Fault) -> Result<Fault, Fault> {
        let max = self.plan.undo_faults.blocks_max;
        if !self.corrects || !matches!(fault, Fault::Rule(..) | Fault::Undo { .. }) {
            return Err(fault);
        }
        if self.put_off.fetch_add(1, Ordering::Relaxed) < max {
            return Ok(fault);
        }
        let why = format!(
            " with which it is valid, nor for {max} other blocks, the most that are checked again"
        );
        Err(self.no_undo(step, &why))
    }

    /// Counts `coins` more that a step's block spends and whose undo data cannot be used.
    ///
    /// # Errors
    /// There are too many to be found.
    pub fn look_for(&self, step: usize, coins: usize) -> Result<(), Fault> {
        let max = self.plan.undo_faults.coins_max;
        if self.unknown.fetch_add(coins, Ordering::Relaxed) + coins <= max {
            return Ok(());
        }
        let why = format!(
            " that can be used, nor for others: together these blocks spend more than {max} coins, \
             the most that are looked up in the blocks"
        );
        Err(self.no_undo(step, &why))
    }

    fn no_undo(&self, step: usize, why: &str) -> Fault {
        let height = self.shared.tree.height(self.plan.steps[step].id);
        let path = self.plan.undo_copies.path(self.shared, self.plan.undo[step]);
        no_undo(height, path, why)
    }

    /// Returns the fault for a block whose coins no peer sends.
    pub fn lacks_coins(&self, step: usize) -> Fault {
        let id = self.plan.steps[step].id;
        let path = self.plan.undo_copies.path(self.shared, UndoAt::Peers);
        Fault::Undo { id, path, what: "no peer sends the coins that it spends".to_string() }
    }

    /// Returns whether every step is taken.
    pub fn all_taken(&self) -> bool {
        match &self.ranges {
            Some(ranges) => ranges.are_all_taken(),
            None => self.tickets.all_taken() && lock(&self.given_back).is_empty(),
        }
    }

    /// Returns the steps to do, as indices of the plan's steps.
    pub fn todo(&self) -> &[usize] {
        &self.todo
    }
}

/// A step that a worker has taken.
pub(super) enum Taken<'a> {
    /// An index of the plan's steps.
    Alone(usize),
    /// A step whose block takes coins from the blocks before it.
    InTurn(Turn<'a>),
}

impl Taken<'_> {
    /// Returns the index of the step.
    pub fn step(&self) -> usize {
        match self {
            Self::Alone(step) => *step,
            Self::InTurn(turn) => turn.step,
        }
    }
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
    use super::*;

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
