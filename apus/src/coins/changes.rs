use std::cmp::Ordering;

use rayon::prelude::*;

use crate::wire::OutPoint;

use super::coin::{CoinParts, key_order};
use super::shard::Shard;
use super::slab::State;

/// The changed entries of a cache, sorted as the tables sort their keys.
pub struct Changes<'a> {
    shards: Vec<&'a Shard>,
    sorted: Vec<Change>,
}

/// Where a changed entry is, and enough of its key to compare most.
#[derive(Clone, Copy)]
struct Change {
    /// The txid's first eight bytes, big-endian.
    prefix: u64,
    shard: u32,
    slot: u32,
}

impl<'a> Changes<'a> {
    /// Follows the list of each shard, and touches nothing that is not in one.
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

    /// Changed entries.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// All entries, ascending by key: the outpoint, and its coin or `None` where the tables have
    /// to delete it.
    pub fn iter(&self) -> impl Iterator<Item = (&OutPoint, Option<CoinParts<'_>>)> {
        self.range(0, self.len())
    }

    /// At most `parts` runs of about equal length, none empty, ascending; each as
    /// [`Changes::iter`].
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
