//! The result of a job.

use apus_hash::Hash;
use apus_progress::outcome::{Counts, Refusal};

/// The result of a job.
#[derive(Debug)]
pub struct Finished {
    /// The height of the last block that is connected.
    pub height: u32,
    /// Its hash.
    pub best_block: Hash,
    /// The number of coins after it.
    pub coins: u64,
    /// The sum of their amounts in satoshi; `None` if a block was connected after the job's last.
    pub amount: Option<u64>,
    /// The blocks, bytes, transactions, inputs and scripts that were checked.
    pub counts: Counts,
    /// Why the next block is not connected, if it breaks a rule.
    pub refusal: Option<Refusal>,
}
