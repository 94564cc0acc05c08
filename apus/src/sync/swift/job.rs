use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::hints_file::HintsFile;
use super::plan::Plan;
use super::recent::Recent;
use crate::coins::Survivors;
use crate::store::FlatFilePos;
use crate::swiftsync::Salt;
use crate::sync::block::shared::Shared;

/// What all workers share.
pub(super) struct Job<'a> {
    pub shared: &'a Shared<'a>,
    pub hints: &'a HintsFile,
    pub plan: &'a Plan,
    pub salt: &'a Salt,
    /// Steps to do, as indices of the plan's.
    pub todo: &'a [usize],
    /// Where coins that stay go; none if only the proof is wanted.
    pub survivors: Option<&'a Survivors>,
    pub recent: Option<&'a Recent>,
    pub times: Arc<Vec<u32>>,
    /// The next of `todo` that nobody has taken.
    pub next: AtomicUsize,
    /// Whether workers are to hand over what they have and wait.
    pub pause: AtomicBool,
}

/// A block that is done.
pub(super) struct Done {
    /// Index of the plan's steps.
    pub step: usize,
    pub tx_count: u32,
    /// Where it was stored, if it came from a source.
    pub stored: Option<FlatFilePos>,
    /// Where its undo data was written in the rev file of the same number, if it was not there.
    pub undo_pos: Option<u32>,
    pub bytes: u64,
}
