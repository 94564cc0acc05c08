use std::ops::Range;

use apus_wire::OutPoint;

use super::hasher::{OutPointHash, OutPointHasher};
use super::shards::SHARDS;

pub(super) fn shard_of(hash: OutPointHash) -> usize {
    (hash.txid >> (64 - SHARDS.trailing_zeros())) as usize
}

/// The items of a batch, grouped by shard; the items of one shard are in the order given.
pub(super) struct Groups {
    members: Vec<Member>,
    /// The end of the items of each shard.
    ends: [u32; SHARDS],
}

/// An item of a batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Member {
    /// The index of the item in the batch.
    pub index: u32,
    /// The hash of its outpoint.
    pub hash: u64,
}

impl Groups {
    pub fn new<T>(
        hasher: &OutPointHasher,
        items: &[T],
        outpoint: impl Fn(&T) -> &OutPoint,
    ) -> Self {
        assert!(items.len() < u32::MAX as usize, "a batch has less than 2^32 items");
        let mut starts = [0u32; SHARDS];
        let hashes = items.iter().map(|item| hasher.hash(outpoint(item)));
        let hashes: Vec<_> = hashes.map(|hash| (shard_of(hash), hash.outpoint)).collect();
        hashes.iter().for_each(|(shard, _)| starts[*shard] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        let mut members = vec![Member::default(); items.len()];
        for (i, (shard, hash)) in hashes.iter().enumerate() {
            members[starts[*shard] as usize] = Member { index: i as u32, hash: *hash };
            starts[*shard] += 1;
        }
        Self { members, ends: starts }
    }

    /// Returns an iterator over those of `shards` that have items, with their items.
    pub fn of(&self, shards: Range<usize>) -> impl Iterator<Item = (usize, &[Member])> {
        shards.filter_map(|shard| {
            let members = self.members(shard..shard + 1);
            (!members.is_empty()).then_some((shard, members))
        })
    }

    /// Returns the items of these shards.
    pub fn members(&self, shards: Range<usize>) -> &[Member] {
        let end_before = |shard: usize| shard.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.members[end_before(shards.start) as usize..end_before(shards.end) as usize]
    }
}
