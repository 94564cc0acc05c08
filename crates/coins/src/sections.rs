//! The coins of blocks, section by section of the cache. Sections share nothing, so each may be at
//! another block, as long as each connects the blocks in order.

use std::ops::Range;

use apus_wire::OutPoint;

use super::cache::CoinsCache;
use super::coin::Coin;
use super::groups::{Groups, Member};
use super::lookup::{Lookup, Overwrite};
use super::shards::SHARDS;

/// The number of sections of the cache: as many threads as can connect blocks at once.
pub const SECTIONS: usize = 16;

/// The coins that a block spends and creates, sorted by their places in the cache.
pub struct SortedCoins {
    pub(super) spent: Groups,
    created: Groups,
}

/// The coins that a block spends and creates.
#[derive(Clone, Copy)]
pub struct BlockCoins<'a> {
    /// The outpoints of the coins that the block spends.
    pub spent: &'a [OutPoint],
    /// The coins that the block creates and does not spend itself, those of the coinbase first.
    pub created: &'a [(OutPoint, Coin)],
    /// The number of coins in `created` that the coinbase creates.
    pub created_by_coinbase: usize,
    /// The same, sorted by [`CoinsCache::sort`].
    pub sorted: &'a SortedCoins,
}

impl SortedCoins {
    /// Returns the coins that a block spends in the order of its inputs, given those of each
    /// section from [`CoinsCache::connect_section`].
    pub fn merge(&self, sections: impl Iterator<Item = Vec<Coin>>) -> Vec<Coin> {
        let mut merged = vec![None; self.spent.members(0..SHARDS).len()];
        for (section, coins) in sections.enumerate() {
            for (member, coin) in self.spent.members(shards(section)).iter().zip(coins) {
                merged[member.index as usize] = Some(coin);
            }
        }
        let merged = merged.into_iter();
        merged.map(|coin| coin.expect("each input is in one section")).collect()
    }
}

impl CoinsCache {
    /// Sorts what a block spends and creates by the place in this cache.
    pub fn sort(&self, spent: &[OutPoint], created: &[(OutPoint, Coin)]) -> SortedCoins {
        SortedCoins {
            spent: Groups::new(&self.hasher, spent, |outpoint| outpoint),
            created: Groups::new(&self.hasher, created, |(outpoint, _)| outpoint),
        }
    }

    /// Spends the coins of a block that are in this section, adds those that it creates there, and
    /// returns the spent ones, for [`SortedCoins::merge`]. `read` returns from the tables the coins
    /// that the cache does not know. Returns `None` if a coin to be spent is missing, or one to be
    /// created exists already; the section is then as before, but for a coin that the coinbase
    /// replaced. One thread at a time works on a section, and takes the blocks in order.
    ///
    /// # Errors
    /// `read` fails; the section is then as before.
    pub fn connect_section<E>(
        &self,
        section: usize,
        block: BlockCoins,
        read: impl FnOnce(&[OutPoint]) -> Result<Vec<Option<Coin>>, E>,
    ) -> Result<Option<Vec<Coin>>, E> {
        let spent = self.spend_section(section, block, read)?;
        if spent.iter().all(|coin| coin.is_some()) {
            let added = self.add_section(section, block);
            if added == block.sorted.created.members(shards(section)).len() {
                let spent = spent.into_iter();
                return Ok(Some(spent.map(|coin| coin.expect("none is missing")).collect()));
            }
            self.remove_section(section, block, added);
        }
        self.restore_section(section, block, spent.into_iter());
        Ok(None)
    }

    /// Takes back what [`CoinsCache::connect_section`] did, which returned `spent`.
    pub fn disconnect_section(&self, section: usize, block: BlockCoins, spent: Vec<Coin>) {
        self.remove_section(section, block, usize::MAX);
        self.restore_section(section, block, spent.into_iter().map(Some));
    }

    /// Announces that a block that wanted coins ([`CoinsCache::want`]) will not be connected in
    /// this section.
    pub fn release_section(&self, section: usize, block: BlockCoins) {
        for (shard, members) in block.sorted.spent.of(shards(section)) {
            let mut shard = self.lock(shard);
            for member in members {
                shard.release(member.hash, &block.spent[member.index as usize]);
            }
        }
    }

    /// Spends the coins of a block in one section, and returns them: `None` for each that is
    /// missing.
    fn spend_section<E>(
        &self,
        section: usize,
        block: BlockCoins,
        read: impl FnOnce(&[OutPoint]) -> Result<Vec<Option<Coin>>, E>,
    ) -> Result<Vec<Option<Coin>>, E> {
        let outpoint = |member: &Member| &block.spent[member.index as usize];
        let mut coins = Vec::with_capacity(block.sorted.spent.members(shards(section)).len());
        let mut unknown = Vec::new();
        for (shard, members) in block.sorted.spent.of(shards(section)) {
            let mut locked = self.lock(shard);
            locked.warm(members.iter().map(|member| member.hash));
            for member in members {
                coins.push(match locked.spend(member.hash, outpoint(member)) {
                    Lookup::Hit(coin) => Some(coin),
                    Lookup::Spent => None,
                    Lookup::Unknown => {
                        unknown.push((coins.len(), shard, *member));
                        None
                    }
                });
            }
        }
        if unknown.is_empty() {
            return Ok(coins);
        }
        // These were written and dropped since a worker looked them up.
        let outpoints: Vec<OutPoint> =
            unknown.iter().map(|(.., member)| *outpoint(member)).collect();
        let found = match read(&outpoints) {
            Ok(found) => found,
            Err(error) => {
                self.restore_section(section, block, coins.into_iter());
                return Err(error);
            }
        };
        for ((at, shard, member), found) in unknown.into_iter().zip(found) {
            let mut shard = self.lock(shard);
            // The cache may know the coin by now: the block may spend the outpoint twice, or a
            // worker may have filled it in.
            coins[at] = match shard.spend(member.hash, outpoint(&member)) {
                Lookup::Hit(coin) => Some(coin),
                Lookup::Spent => None,
                Lookup::Unknown => found.inspect(|_| shard.remove(member.hash, outpoint(&member))),
            };
        }
        Ok(coins)
    }

    /// Adds the coins that a block creates in one section, up to the first that exists already, and
    /// returns their number.
    fn add_section(&self, section: usize, block: BlockCoins) -> usize {
        let mut added = 0;
        for (shard, members) in block.sorted.created.of(shards(section)) {
            let mut shard = self.lock(shard);
            shard.warm(members.iter().map(|member| member.hash));
            for member in members {
                let index = member.index as usize;
                let (outpoint, coin) = &block.created[index];
                // Before BIP30 a coinbase could occur twice, so the tables may have its coins
                // already.
                let overwrite = if index < block.created_by_coinbase {
                    Overwrite::Possible
                } else {
                    Overwrite::Never
                };
                if shard.add(member.hash, outpoint, coin, overwrite).is_err() {
                    return added;
                }
                added += 1;
            }
        }
        added
    }

    /// Removes the first `count` coins that a block creates in one section.
    fn remove_section(&self, section: usize, block: BlockCoins, count: usize) {
        let mut left = count;
        for (shard, members) in block.sorted.created.of(shards(section)) {
            let mut shard = self.lock(shard);
            let members = &members[..left.min(members.len())];
            for member in members {
                shard.remove(member.hash, &block.created[member.index as usize].0);
            }
            left -= members.len();
        }
    }

    fn restore_section(
        &self,
        section: usize,
        block: BlockCoins,
        mut spent: impl Iterator<Item = Option<Coin>>,
    ) {
        for (shard, members) in block.sorted.spent.of(shards(section)) {
            let mut shard = self.lock(shard);
            for (member, coin) in members.iter().zip(spent.by_ref()) {
                let Some(coin) = coin else { continue };
                let outpoint = &block.spent[member.index as usize];
                let added = shard.add(member.hash, outpoint, &coin, Overwrite::Possible);
                added.expect("a coin that may overwrite another is always added");
            }
        }
    }
}

const _: () = assert!(SHARDS.is_multiple_of(SECTIONS), "each shard is in one section");

fn shards(section: usize) -> Range<usize> {
    const EACH: usize = SHARDS / SECTIONS;
    section * EACH..(section + 1) * EACH
}
