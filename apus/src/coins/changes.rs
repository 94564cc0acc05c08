use std::cmp::Ordering;

use rayon::prelude::*;

use crate::wire::OutPoint;

use super::coin::{CoinParts, key_order};
use super::shard::Shard;
use super::slab::State;

/// The changed entries of a cache, in the order of their keys in the tables.
pub struct Changes<'a> {
    shards: Vec<&'a Shard>,
    sorted: Vec<Change>,
}

/// The location of a changed entry, and enough of its key to compare it with most others.
#[derive(Clone, Copy)]
struct Change {
    /// The txid's first eight bytes, big-endian.
    prefix: u64,
    shard: u32,
    slot: u32,
}

impl<'a> Changes<'a> {
    /// Collects the lists of changed entries of these shards; no other entry is touched.
    pub(super) fn collect(shards: Vec<&'a Shard>) -> Self {
        let count = shards.iter().map(|shard| shard.changed()).sum();
        let mut sorted = vec![Change { prefix: 0, shard: 0, slot: 0 }; count];
        let (mut rest, mut lists) = (&mut sorted[..], Vec::with_capacity(shards.len()));
        for shard in &shards {
            let (list, more) = rest.split_at_mut(shard.changed());
            lists.push((shard, list));
            rest = more;
        }
        lists.into_par_iter().enumerate().for_each(|(index, (shard, list))| {
            for (change, slot) in list.iter_mut().zip(shard.changed_slots()) {
                let [a, b, c, d, e, f, g, h, ..] = shard.slab().get(slot).outpoint.txid.0;
                let prefix = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
                *change = Change { prefix, shard: index as u32, slot };
            }
        });
        let outpoint = |change: &Change| shards[change.shard as usize].slab().get(change.slot);
        let by_key = |a: &Change, b: &Change| match a.prefix.cmp(&b.prefix) {
            Ordering::Equal => key_order(&outpoint(a).outpoint, &outpoint(b).outpoint),
            unequal => unequal,
        };
        sorted.par_sort_unstable_by(by_key);
        Self { shards, sorted }
    }

    /// The number of changed entries.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether no entry has changed.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// All entries, ascending by key: the outpoint, and the coin to be written or `None` if the
    /// tables have to delete it.
    pub fn iter(&self) -> impl Iterator<Item = (&OutPoint, Option<CoinParts<'_>>)> {
        self.range(0, self.len())
    }

    /// All entries as [`Changes::iter`] gives them, cut into at most `parts` consecutive parts of
    /// about equal length, of which none is empty.
    pub fn split(
        &self,
        parts: usize,
    ) -> Vec<impl Iterator<Item = (&OutPoint, Option<CoinParts<'_>>)> + Send> {
        let step = self.len().div_ceil(parts.max(1)).max(1);
        let starts = (0..self.len()).step_by(step);
        starts.map(|start| self.range(start, self.len().min(start + step))).collect()
    }

    fn range(
        &self,
        start: usize,
        end: usize,
    ) -> impl Iterator<Item = (&OutPoint, Option<CoinParts<'_>>)> + Send {
        self.sorted[start..end].iter().map(|change| {
            let slab = self.shards[change.shard as usize].slab();
            let entry = slab.get(change.slot);
            (&entry.outpoint, (entry.state != State::Spent).then(|| slab.parts(change.slot)))
        })
    }
}
