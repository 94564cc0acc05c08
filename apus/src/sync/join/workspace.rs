//! What a join works with, from its beginning to its end, and its directory.

use std::path::PathBuf;
use std::time::Duration;

use super::plan::Plan;
use super::state::State;
use crate::disk::{Disk, Parts, StoreError};
use crate::join::{Layout, Memory, cut};
use crate::sync::node::Node;

/// The directory, next to Core's `chainstate` or where the user wants it, that a join works in.
pub const DIRECTORY: &str = "join";

/// The file of records and spent coins.
const SPILL: &str = "spill.dat";

/// The parts of a join.
pub(super) struct Workspace {
    pub parts: Parts,
    pub layout: Layout,
    pub memory: Memory,
    pub state: State,
    /// Time from one save to the next.
    pub save_every: Duration,
}

impl Workspace {
    /// Begins from nothing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn begin(node: &Node, plan: &Plan) -> Result<Self, StoreError> {
        let threads = node.options.threads;
        let workers = if threads > 1 { threads + 1 } else { 1 };
        let memory = Memory { bytes: node.options.dbcache_bytes, workers };
        let sizes: Vec<u64> = plan.steps.iter().map(|step| step.weight).collect();
        let layout = Layout::new(plan.first_height, &sizes, memory);
        let path = directory(node).join(SPILL);
        let parts =
            Parts::new(node.dir.disk(), path, layout.parts(), layout.piece_bytes(memory));
        let state = State::new(&cut(&sizes, workers), layout.partitions());
        let save_every = node.options.save_every;
        Ok(Self { parts, layout, memory, state, save_every })
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(self, node: &Node) -> Result<(), StoreError> {
        self.parts.destroy()?;
        Self::forget(node)
    }

    /// Removes what an interrupted join has left.
    ///
    /// # Errors
    /// The disk fails.
    pub fn forget(node: &Node) -> Result<(), StoreError> {
        remove_directory(node.dir.disk(), &directory(node))
    }
}

/// The directory that the join of a node works in.
fn directory(node: &Node) -> PathBuf {
    match &node.options.spill_dir {
        Some(dir) => dir.join(DIRECTORY),
        None => node.dir.path().join(DIRECTORY),
    }
}

fn remove_directory(disk: &Disk, directory: &std::path::Path) -> Result<(), StoreError> {
    if !directory.is_dir() {
        return Ok(());
    }
    for name in disk.list(directory)? {
        disk.remove(directory.join(name))?;
    }
    disk.remove_empty_dir(directory)
}
