//! The surroundings that all workers of one pass of a join share.

use std::sync::atomic::{AtomicU32, Ordering};

use apus_consensus::BlockContext;
use apus_disk::Parts;
use apus_hash::HashKey;
use apus_join::{Layout, Memory};
use apus_node::fault::Fault;
use apus_node::shared::Shared;

use super::plan::JoinPlan;

/// The plan, files and memory that all workers of one pass share.
pub struct Context<'a> {
    /// The parts of the node that threads share.
    pub shared: &'a Shared<'a>,
    /// The blocks.
    pub plan: &'a JoinPlan,
    /// The partitions and buckets.
    pub layout: &'a Layout,
    /// The memory that all workers may take.
    pub memory: Memory,
    /// The records and spent coins in the spill file.
    pub parts: &'a Parts,
    /// The key of the hashes by which blocks are recognised when they are read again.
    pub hash_key: &'a HashKey,
    /// The height of the lowest block that was refused; `u32::MAX` if none was.
    fault: AtomicU32,
}

impl<'a> Context<'a> {
    /// Creates a context in which no block is refused yet.
    pub fn new(
        shared: &'a Shared<'a>,
        plan: &'a JoinPlan,
        layout: &'a Layout,
        memory: Memory,
        parts: &'a Parts,
        hash_key: &'a HashKey,
    ) -> Self {
        Self { shared, plan, layout, memory, parts, hash_key, fault: AtomicU32::new(u32::MAX) }
    }

    /// Returns the network, the height and the parent's median time past of the block at `index` of
    /// the steps.
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

    /// Returns whether the block at `height` or one below it is refused.
    pub fn is_refused(&self, height: u32) -> bool {
        height >= self.fault.load(Ordering::Relaxed)
    }

    /// Returns the height of the lowest block that was refused; `None` if none was.
    pub fn fault(&self) -> Option<u32> {
        Some(self.fault.load(Ordering::Relaxed)).filter(|height| *height < u32::MAX)
    }
}

/// Converts a fault of the block at `height`: a join never refuses a block, but ends below one that
/// breaks a rule or that no peer has.
pub(super) fn refused_at(height: u32, fault: Fault) -> Fault {
    match fault {
        Fault::Rule(..) | Fault::Gone(_) => Fault::Unjudged(height),
        fault => fault,
    }
}
