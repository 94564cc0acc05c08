//! What all threads of one join work on.

use std::sync::atomic::{AtomicU32, Ordering};

use apus_disk::Parts;
use apus_hash::HashKey;
use apus_join::{Layout, Memory};
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_rules::BlockContext;

use super::plan::Plan;

/// The blocks to work through, and what every thread needs for it.
pub(super) struct Context<'a> {
    pub shared: &'a Shared<'a>,
    pub plan: &'a Plan,
    pub layout: &'a Layout,
    pub memory: Memory,
    /// Records and spent coins.
    pub parts: &'a Parts,
    /// By which blocks are known when they are read again.
    pub hash_key: &'a HashKey,
    /// The height of the lowest block that was refused; `u32::MAX` if none was.
    fault: AtomicU32,
}

impl<'a> Context<'a> {
    /// A context in which no block was refused yet.
    pub fn new(
        shared: &'a Shared<'a>,
        plan: &'a Plan,
        layout: &'a Layout,
        memory: Memory,
        parts: &'a Parts,
        hash_key: &'a HashKey,
    ) -> Self {
        Self { shared, plan, layout, memory, parts, hash_key, fault: AtomicU32::new(u32::MAX) }
    }

    /// Where the block at `index` of the steps is, for the rules.
    pub fn block_context(&self, index: usize) -> BlockContext<'a> {
        let Shared { network, tree, .. } = *self.shared;
        let id = self.plan.steps[index].id;
        let parent_median_time_past = tree.parent_median_time_past(id);
        BlockContext { network, height: self.plan.height(index), parent_median_time_past }
    }

    /// Notes that the block at `height` is refused.
    pub fn refuse(&self, height: u32) {
        self.fault.fetch_min(height, Ordering::Relaxed);
    }

    /// Whether the block at `height` or one below it is refused.
    pub fn is_refused(&self, height: u32) -> bool {
        height >= self.fault.load(Ordering::Relaxed)
    }

    /// The height of the lowest block that was refused.
    pub fn fault(&self) -> Option<u32> {
        Some(self.fault.load(Ordering::Relaxed)).filter(|height| *height < u32::MAX)
    }
}

/// The fault of the block at `height`: a join never refuses a block, but ends below it.
pub(super) fn refused_at(height: u32, fault: Fault) -> Fault {
    match fault {
        // A branch that no peer has is not far below the best header.
        Fault::Rule(..) | Fault::Gone(_) => Fault::Unjudged(height),
        fault => fault,
    }
}
