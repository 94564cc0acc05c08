//! The blocks of a sync in order, and what its threads tell each other of them.

use std::sync::Arc;

use apus_coins::{BlockCoins, SortedCoins};
use apus_disk::StoreError;
use apus_node::assumevalid::Assumed;
use apus_node::block::prepare::Prepared;
use apus_node::block::step::Step;
use apus_node::block::validate::{BranchTimes, Validation};
use apus_node::fault::Fault;
use apus_node::shared::Shared;

/// The blocks to connect, and what checking them needs.
pub struct Branch<'a> {
    /// The blocks, the first of which builds on the tip.
    pub steps: &'a [Step],
    /// The blocks whose scripts are assumed valid.
    pub assumed: Assumed,
    /// The times of the branch.
    pub times: BranchTimes,
}

/// A block that is ready to be connected.
pub struct Ready {
    /// The block.
    pub prepared: Prepared,
    /// Its coins, sorted for the sections.
    pub sorted: SortedCoins,
}

/// Reports of other threads to the connector.
pub enum Event {
    /// The block of this step is ready to be connected, or could not be prepared.
    Prepared(usize, Box<Result<Ready, Fault>>),
    /// The block of this step is connected.
    Connected(usize, Arc<Validation>),
    /// A section takes no further block.
    Rests,
    /// All checks of a block are finished.
    Checked,
    /// A commit was written, or failed.
    Committed(Result<(), StoreError>),
    /// Tables could not be merged, or coins not be read from them.
    Failed(StoreError),
    /// A thread has panicked: what it was working on will never be finished.
    Panicked,
}

impl Ready {
    /// Sorts the coins of a block for the sections.
    pub fn new(shared: &Shared, prepared: Prepared) -> Self {
        let sorted = shared.cache.sort(&prepared.external, &prepared.created);
        Self { prepared, sorted }
    }

    /// Returns what the block spends and creates.
    pub fn coins(&self) -> BlockCoins<'_> {
        let Prepared { external, created, created_by_coinbase, .. } = &self.prepared;
        let created_by_coinbase = *created_by_coinbase;
        BlockCoins { spent: external, created, created_by_coinbase, sorted: &self.sorted }
    }
}
