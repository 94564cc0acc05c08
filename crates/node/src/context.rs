//! Context of errors: possible causes, what is kept, next steps.

use apus_hash::Hash;
use apus_progress::outcome::Refusal;
use apus_store::IndexKind;
use thiserror::Error;

use super::block::script_difference::ScriptDifference;

/// Context of an error: a possible cause, what is kept, and what to do.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Context {
    /// The missing coins may be in blocks that were refused.
    #[error(". Refused: {first}{}", more(*others))]
    BlocksRefused {
        first: Refusal,
        /// The number of other refusals.
        others: usize,
    },
    /// The refused block has shown a fault in Apus.
    #[error(". {0}")]
    EnginesDiffer(ScriptDifference),
    /// The snapshot that the blocks were to prove is loaded for bitcoind.
    #[error(
        ". The snapshot is loaded: bitcoind starts here at height {height} or above, and fetches \
         and validates the blocks below by itself"
    )]
    SnapshotLoaded { height: u32 },
    /// The error is of work that followed the connection of blocks.
    #[error(". The blocks are connected: the UTXO set is that of height {height}")]
    BlocksConnected { height: u32 },
    /// A SwiftSync has failed; `option` has named its claim.
    #[error(". Nothing was committed: {}sync without {option}", claim_remedy(*claim))]
    NothingCommitted { claim: Option<WrongClaim>, option: &'static str },
    /// A proof blames hints.
    #[error(". Get correct hints, or sync without --hints")]
    HintsNotProved,
    /// The error is about blocks that this index needs.
    #[error(" ({})", .0.name())]
    OfIndex(IndexKind),
    /// Hints or a snapshot fit none of several branches; the error is that of the first.
    #[error(
        " (on the first branch tried; {branches} branches reach height {height}, and none of them \
         fits {claim})"
    )]
    FirstOfBranches { branches: usize, height: u32, claim: &'static str },
    /// Hints or a snapshot do not fit the one branch that was tried.
    #[error(
        " (tried on the chain of the block assumed valid, up to block {block} at height {height})"
    )]
    AssumedChain { block: Hash, height: u32 },
}

/// A claim that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongClaim {
    Hints,
    Snapshot,
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

fn claim_remedy(claim: Option<WrongClaim>) -> &'static str {
    match claim {
        Some(WrongClaim::Hints) => "get correct hints, or ",
        Some(WrongClaim::Snapshot) => {
            "`apus prove` names the coins that differ; get a correct snapshot, or "
        }
        None => "",
    }
}
