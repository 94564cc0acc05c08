//! The arguments and the results of a verification.

use std::time::Duration;

use apus_disk::StoreError;
use apus_hash::Hash;
use apus_node::block::script_difference::ScriptDifference;
use apus_progress::outcome::Counts;
use apus_store::IndexKind;

/// The blocks to verify, and how thoroughly (the arguments of Core's `verifychain`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verify {
    /// How thoroughly, from 0 to 4; each level includes those below it.
    pub level: u8,
    /// The number of blocks from the tip down; 0 for all.
    pub blocks: u32,
}

/// The findings of a verification.
#[derive(Debug)]
pub struct Verified {
    /// The blocks and the level that were asked for.
    pub asked: Verify,
    /// Height of the tip.
    pub height: u32,
    /// Hash of the tip.
    pub best_block: Hash,
    /// How far each level got, from level 0 on.
    pub levels: Vec<LevelReport>,
    /// The damaged blocks and files, from the tip down.
    pub damage: DamageList,
    /// The optional indexes that are damaged.
    pub damaged_indexes: Vec<(IndexKind, StoreError)>,
    /// Whether the verification was stopped before its end.
    pub interrupted: bool,
    /// The blocks that were read, and with level 4 the scripts that were checked.
    pub counts: Counts,
    /// An input about which Apus and Core's engine disagree. Because of it, Core's engine alone
    /// checks scripts in this directory.
    pub script_difference: Option<ScriptDifference>,
    /// Wall clock time.
    pub elapsed: Duration,
    /// Processor time, summed over all cores.
    pub cpu: Duration,
}

impl Verified {
    /// Returns whether no damage was found.
    pub fn is_sound(&self) -> bool {
        self.damage.count == 0 && self.damaged_indexes.is_empty()
    }

    /// Returns whether all levels got as far as was asked for.
    pub fn is_complete(&self) -> bool {
        !self.interrupted && self.levels.iter().all(|level| level.ended.is_none())
    }
}

/// The damage that was found: a list of the first items, and the number of all.
#[derive(Debug, Default)]
pub struct DamageList {
    /// The items found first, at most [`DamageList::LISTED_MAX`].
    pub listed: Vec<Damage>,
    /// Number of all items found.
    pub count: u64,
}

impl DamageList {
    /// Maximum number of items that are listed.
    pub const LISTED_MAX: usize = 100;

    /// Adds an item.
    pub(super) fn note(&mut self, damage: Damage) {
        self.count += 1;
        if self.listed.len() < Self::LISTED_MAX {
            self.listed.push(damage);
        }
    }

    /// Adds the items of another list.
    pub(super) fn append(&mut self, other: Self) {
        self.count += other.count - other.listed.len() as u64;
        other.listed.into_iter().for_each(|damage| self.note(damage));
    }
}

/// How far a level of a verification got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelReport {
    pub level: u8,
    /// The height down to which it got from the tip; above the tip if it did not begin, or if it is
    /// a level 4 that did not end.
    pub from: u32,
    /// Why it got no further; `None` if it got as far as was asked for.
    pub ended: Option<Incomplete>,
}

/// Why a level of a verification got no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incomplete {
    /// The next block is pruned.
    Pruned,
    /// The next block's undo data is not stored.
    NoUndo,
    /// The coins that it keeps in memory have reached
    /// [`Options::dbcache_bytes`](apus_node::Options::dbcache_bytes).
    CacheFull,
    /// Something is damaged.
    Damaged,
    /// The verification was stopped.
    Stopped,
}

/// Damage to a block, its undo data or its coins.
#[derive(Debug)]
pub struct Damage {
    /// The level that found it.
    pub level: u8,
    /// Height of the block.
    pub height: u32,
    /// Hash of the block.
    pub block: Hash,
    /// The file, the offset in it, what is wrong, and what repairs it.
    pub error: StoreError,
}
