//! Why work on blocks cannot continue, and what is to blame.

use std::path::PathBuf;

use apus_chain::BlockId;
use apus_coins::SnapshotError;
use apus_consensus::RuleError;
use apus_disk::StoreError;
use apus_swiftsync::HintsError;

use super::block::step::Step;
use super::coin_tables::TablesError;

/// Why work on blocks cannot continue.
///
/// | blamed | variants | what to do |
/// |---|---|---|
/// | no one | `Stopped` | keep what is done |
/// | the disk | `Store`, `Full` | end; on a full disk, commit what is finished |
/// | a copy of a block | `Damaged`, `Gone` | read another copy |
/// | a block | `Rule`, `Unjudged`, `Chain` | refuse it; or leave it to a sync in order |
/// | undo data | `NoUndo`, `Undo` | take the coins from elsewhere |
/// | hints, a snapshot | `Hints`, `Snapshot` | end without a commit |
/// | the caller | `Memory`, `Usage` | end |
pub enum Fault {
    /// The work was asked to stop.
    Stopped,
    /// The disk failed, or the content of a file in the data directory is wrong.
    Store(StoreError),
    /// The disk is full. The cache holds the UTXO set after the last finished block.
    Full(StoreError),
    /// The bytes at the step's place are not the block that belongs there, or may be damaged.
    /// Another copy of the block may be good.
    Damaged(Step, String),
    /// No peer has the block of the step.
    Gone(Step),
    /// The block of the step breaks a rule, or its undo data does not fit it, whichever copy is
    /// read.
    Rule(Step, RuleError),
    /// The block at this height is invalid, or only a sync in order can judge it.
    Unjudged(u32),
    /// The chain as a whole breaks a rule, or only a sync in order can judge it.
    Chain(String),
    /// Undo data is missing for the block at this height, and possibly for others above it.
    NoUndo(u32, StoreError),
    /// The undo data of a block is damaged, or that of another block.
    Undo {
        /// The block.
        id: BlockId,
        /// The rev file.
        path: PathBuf,
        /// The fault of the undo data.
        what: String,
    },
    /// The hints are wrong.
    Hints(HintsError),
    /// The snapshot is wrong.
    Snapshot(SnapshotError),
    /// There is too little memory to begin.
    Memory(String),
    /// The work cannot be done with the available blocks.
    Usage(String),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<TablesError> for Fault {
    fn from(error: TablesError) -> Self {
        match error {
            TablesError::Store(error) => Self::Store(error),
            TablesError::Snapshot(error) => Self::Snapshot(error),
            TablesError::Twice(outpoint) => Self::Chain(format!(
                "the output {outpoint} was created twice: only a sync in order can tell whether \
                 BIP30 allows it"
            )),
        }
    }
}
