//! What all threads of one SwiftSync work on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::Plan;
use super::recent::Recent;
use crate::coins::Survivors;
use crate::store::FlatFilePos;
use crate::swiftsync::Salt;
use crate::sync::block::shared::Shared;
use crate::sync::block::validate::BranchTimes;
use crate::sync::hints_file::HintsFile;

/// The blocks to work through, and what every thread needs for it.
pub(super) struct Job<'a> {
    pub shared: &'a Shared<'a>,
    pub hints: &'a HintsFile,
    pub plan: &'a Plan,
    pub salt: &'a Salt,
    /// Where unspent coins are kept; `None` if only the proof is wanted.
    pub survivors: Option<&'a Survivors>,
    /// The coins that the last blocks spend; `None` if none of them is looked for.
    pub recent: Option<&'a Recent>,
    /// Median times past of the plan's chain.
    pub times: BranchTimes,
    /// Steps to do, as indices of the plan's.
    todo: Vec<usize>,
    /// How many of `todo` were taken by a worker.
    taken: AtomicUsize,
}

impl<'a> Job<'a> {
    /// All steps of `plan` but those of blocks at the heights in `done`; coins are not kept.
    pub fn new(
        shared: &'a Shared<'a>,
        hints: &'a HintsFile,
        plan: &'a Plan,
        salt: &'a Salt,
        done: &HashSet<u32>,
    ) -> Self {
        let is_done = |step: &usize| done.contains(&shared.tree.node(plan.steps[*step].id).height);
        let todo = (0..plan.steps.len()).filter(|step| !is_done(step)).collect();
        let times = BranchTimes::of(shared.tree, plan.target);
        let (survivors, recent, taken) = (None, None, AtomicUsize::new(0));
        Self { shared, hints, plan, salt, survivors, recent, times, todo, taken }
    }

    /// The next step that no worker has taken; `None` if all are taken.
    pub fn take_step(&self) -> Option<usize> {
        self.todo.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }

    /// Whether every step was taken.
    pub fn all_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.todo.len()
    }

    /// The steps to do.
    pub fn todo(&self) -> &[usize] {
        &self.todo
    }
}

/// A block that a worker has finished.
pub(super) struct FinishedBlock {
    /// Index among the plan's steps.
    pub step: usize,
    pub tx_count: u32,
    /// Where it was stored, if it came from a source.
    pub stored: Option<FlatFilePos>,
    /// Where its undo data was written in the rev file of the same number, if it was not there.
    pub undo_pos: Option<u32>,
    pub bytes: u64,
}
