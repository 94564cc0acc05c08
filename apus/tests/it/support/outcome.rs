//! The outcome of a sync, for comparison with that of another method: the summary, the UTXO set,
//! the block index and the undo data. Where things lie in the files does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use apus_hash::Hash;
use apus_node::{JoinOptions, Options};
use apus_progress::Method;
use apus_store::BlockStatus;
use apus_sync::Summary;
use apus_tools::{UtxoHash, UtxoStats};

use super::Place;
use super::swift::{Indexed, try_sync_with};

/// How a run ended, and what the data directory holds after it.
pub struct Outcome {
    pub summary: Summary,
    pub coins: UtxoStats,
    pub index: BTreeMap<Hash, Indexed>,
    pub undo: BTreeMap<Hash, Vec<u8>>,
}

impl Outcome {
    /// Returns the outcome of a run with this summary, and what the directory holds.
    pub fn of(place: &Place, summary: Summary) -> Self {
        let coins = place.stats(UtxoHash::HashSerialized3);
        Self { summary, coins, index: place.index(), undo: place.undo() }
    }

    /// Syncs in `place`, and returns the outcome.
    pub fn of_sync(place: &Place, options: &Options, sources: &[PathBuf]) -> Self {
        let summary = try_sync_with(options, sources).unwrap();
        Self::of(place, summary)
    }

    pub fn height(&self) -> u32 {
        self.summary.height
    }

    /// Returns the blocks that were refused, each with the reason.
    pub fn refusals(&self) -> Vec<(Option<Hash>, String)> {
        let refusals = self.summary.refusals.iter();
        let mut refusals: Vec<_> = refusals.map(|r| (r.block, r.reason.clone())).collect();
        refusals.sort();
        refusals
    }

    /// Panics unless both runs have the same outcome.
    #[track_caller]
    pub fn assert_same(&self, other: &Self, what: &str) {
        let our = &self.summary;
        let their = &other.summary;
        assert_eq!((our.height, our.best_block), (their.height, their.best_block), "{what}: tip");
        assert_eq!(self.refusals(), other.refusals(), "{what}");
        assert_eq!(our.coins, their.coins, "{what}: coins by the summary");
        assert_eq!(our.counts, their.counts, "{what}: work");
        assert_eq!(our.checked, their.checked, "{what}: rules that were checked");
        assert_eq!(our.undo_from, their.undo_from, "{what}: undo data by the summary");
        self.assert_holds_same(other, what);
    }

    /// Panics unless both directories hold the same, however they were synced.
    #[track_caller]
    pub fn assert_holds_same(&self, other: &Self, what: &str) {
        let tip = |outcome: &Self| (outcome.coins.height, outcome.coins.best_block);
        assert_eq!(tip(self), tip(other), "{what}: tip of the UTXO set");
        assert_eq!(self.coins.txouts, other.coins.txouts, "{what}: number of coins");
        assert_eq!(self.coins.total_amount, other.coins.total_amount, "{what}: amount");
        assert_eq!(self.coins.hash, other.coins.hash, "{what}: hash_serialized_3");
        assert_same_index(&self.index, &other.index, what);
        assert!(self.undo.keys().eq(other.undo.keys()), "{what}: which blocks have undo data");
        for (hash, undo) in &self.undo {
            assert!(other.undo[hash] == *undo, "{what}: undo data of {hash}");
        }
    }
}

/// Panics unless two block indexes are the same except for the bytes of failed blocks: a join has
/// stored those after the invalid block, and a sync in order has not.
#[track_caller]
fn assert_same_index(ours: &BTreeMap<Hash, Indexed>, theirs: &BTreeMap<Hash, Indexed>, what: &str) {
    let hashes: BTreeSet<&Hash> = ours.keys().chain(theirs.keys()).collect();
    for hash in hashes {
        let our = ours.get(hash).copied();
        let their = theirs.get(hash).copied();
        let our = our.map(without_failed_bytes);
        let their = their.map(without_failed_bytes);
        assert_eq!(our, their, "{what}: block index, {hash}");
    }
}

fn without_failed_bytes((height, status, tx_count): Indexed) -> Indexed {
    match status.0 & BlockStatus::BLOCK_FAILED_VALID {
        0 => (height, status, tx_count),
        failed => (height, BlockStatus(failed), 0),
    }
}

impl Place {
    /// Returns options for a sync in order that checks every script.
    pub fn in_order(&self) -> Options {
        Options { method: Some(Method::InOrder), ..self.options() }
    }

    /// Returns options for a join up to the tip that checks every script.
    pub fn join(&self) -> Options {
        Options {
            method: Some(Method::Join),
            join: JoinOptions { depth: 0, ..Default::default() },
            ..self.options()
        }
    }
}
