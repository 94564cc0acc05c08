//! The blocks that a run does not take.

use apus_chain::{BlockId, Tree};
use apus_hash::Hash;
use apus_progress::outcome::Refusal;

/// The blocks, and parts of source files, that were not taken.
#[derive(Default)]
pub struct Refusals {
    pub listed: Vec<Refusal>,
    /// The refused blocks whose headers break a rule on their parents, with these parents.
    pub on_parents: Vec<(Hash, BlockId)>,
}

impl Refusals {
    /// Returns all refusals so far, and clears them. Headers are read before blocks here; Core may
    /// by then know that the parent is invalid, which it checks first, so the reason is then
    /// `bad-prevblk`.
    pub fn take(&mut self, tree: &Tree) -> Vec<Refusal> {
        let Self { mut listed, on_parents } = std::mem::take(self);
        for (hash, parent) in on_parents {
            if tree.node(parent).failed {
                let of_block = listed.iter_mut().filter(|refusal| refusal.block == Some(hash));
                of_block.for_each(|refusal| refusal.reason = "bad-prevblk".to_string());
            }
        }
        listed
    }
}
