//! SwiftSync: the chainstate from blocks in any order, on all cores, without a look-up. Hints say
//! which outputs stay; every other one meets its spending in the aggregate, and only when the sums
//! agree does anything become visible.
//!
//! ```text
//! blocks ─► check ─┬─► outputs that stay ────────► survivors ─────► tables ─► commit
//!                  └─► other outputs, and inputs ─► two sums ─► equal? ──┘
//! ```

mod attempt;
mod fault;
mod finish;
mod plan;
mod recent;
mod run;
mod saved;
mod spends;
mod undo;
mod verify;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::activate::{Activated, drop_copy};
use super::node::Node;
use super::options::{AggregateKind, Observer, SyncError};
use crate::disk::{Disk, StoreError};
use crate::swiftsync::{self, Hints, HintsError, MuHashAggregate, SumAggregate};
use crate::wire::{Hash, sha256d};
use fault::Fault;
pub use verify::verify_hints;

use attempt::attempt;
use plan::Plan;

/// The directory, beside Core's `chainstate`, that a SwiftSync works in.
pub const DIRECTORY: &str = "swiftsync";

/// Blocks below the hints' height that get undo data in any case: Core never asks for more
/// (`MIN_BLOCKS_TO_KEEP`).
const UNDO_BLOCKS_MIN: u32 = 288;

/// An opened hints file.
pub(super) struct HintsFile {
    pub path: PathBuf,
    pub reader: Box<dyn Hints>,
    digest: Hash,
}

impl HintsFile {
    /// Maps the file and finds out its format.
    pub fn open(path: &Path) -> Result<Self, SyncError> {
        let file = Disk::new().open_read(path)?;
        let wrong = |error| SyncError::WrongHints { path: path.to_path_buf(), error };
        if file.is_empty()? {
            return Err(wrong(HintsError::new("the file is empty")));
        }
        let map = file.map()?;
        let digest = sha256d(&map);
        let reader = swiftsync::open(map).map_err(wrong)?;
        Ok(Self { path: path.to_path_buf(), reader, digest })
    }

    /// What is wrong with this file.
    pub fn error(&self, error: HintsError) -> SyncError {
        SyncError::WrongHints { path: self.path.clone(), error }
    }
}

/// Builds the chainstate of `node` up to the height of `hints`, in the place of what it holds, and
/// makes that block the tip. Interrupted, it carries on when it is called again.
///
/// # Errors
/// Hints, blocks or undo data are wrong, or do not reach as far as needed. Nothing is committed
/// then but blocks.
pub(super) fn build(
    node: &mut Node,
    hints: &HintsFile,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Activated, SyncError> {
    loop {
        let plan = Plan::new(node, hints)?;
        let result = match node.options.aggregate {
            AggregateKind::Sha256 => attempt::<SumAggregate>(node, hints, &plan, observer, stop),
            AggregateKind::MuHash => attempt::<MuHashAggregate>(node, hints, &plan, observer, stop),
        };
        match result {
            Ok(activated) => return Ok(activated),
            // Another copy may be good; what was saved is carried on from.
            Err(Fault::Damaged(step, what)) if node.sources.copies(step.id).nth(1).is_some() => {
                drop_copy(node, step, &what);
            }
            Err(fault) => {
                let directory = node.dir.path().join(DIRECTORY);
                let keeps = match &fault {
                    // What was put aside came back damaged: carrying on would end here again.
                    Fault::Store(error) => {
                        error.source.is_some() || !error.path.starts_with(&directory)
                    }
                    _ => false,
                };
                let error = fault.into_error(node, hints);
                if !matches!(error, SyncError::Store(_)) {
                    // The blocks are good whatever the hints are.
                    node.ledger.write_index(&node.files)?;
                }
                if !keeps {
                    forget(node)?;
                }
                return Err(error);
            }
        }
    }
}

/// Whether the chainstate is past what the hints can build: the block at their height is active.
pub(super) fn is_behind(node: &Node, hints: &HintsFile) -> bool {
    node.ledger.active.height().is_some_and(|height| height >= hints.reader.height())
}

/// Whether there are coins already, and not all that the hints can build: SwiftSync then builds a
/// whole set beside them.
pub(super) fn has_to_start_over(node: &Node, hints: &HintsFile) -> bool {
    node.ledger.active.height().is_some_and(|height| height > 0) && !is_behind(node, hints)
}

/// Removes what an interrupted SwiftSync has left.
pub(super) fn forget(node: &Node) -> Result<(), StoreError> {
    remove_directory(node.dir.disk(), &node.dir.path().join(DIRECTORY))
}

/// Removes a directory that SwiftSync has worked in.
fn remove_directory(disk: &Disk, directory: &Path) -> Result<(), StoreError> {
    if !directory.is_dir() {
        return Ok(());
    }
    for name in disk.list(directory)? {
        disk.remove(directory.join(name))?;
    }
    disk.remove_empty_dir(directory)
}
