//! Undo data of stale siblings that could be the active block's: it has its shape and its checksum,
//! and coins that pass every rule.

use apus_coins::Coin;
use apus_disk::Disk;
use apus_testchain::block::encode_block;
use apus_testchain::{Builder, Chain, Kind, Parent, Payment};

use super::refusals::{assert_right, contents, differences};
use crate::support::Place;
use crate::support::model::Model;
use crate::support::swift::{Mode, World, small_chain};

/// A chain with blocks on top that each spend one coin, and stale siblings of these blocks.
struct Siblings {
    world: World,
    /// By height, the undo data of stale blocks on the same parent.
    stale: Vec<(u32, Vec<u8>)>,
    /// By height, the stale blocks.
    blocks: Vec<(u32, Vec<u8>)>,
}

/// The amount that a block pays out, which any coin covers.
const LITTLE: u64 = 100;

impl Siblings {
    /// A chain with `pairs` times two blocks on top, of which the first has so many stale siblings.
    fn new(chain: &Chain, pairs: usize, siblings: usize) -> Self {
        let mut coins = chain.spendable(Kind::OpTrue).into_iter();
        let base = World::of(chain);
        let mut blocks = base.blocks;
        let mut tip = chain.parent(chain.height());
        let mut stale = Vec::new();
        let mut stale_blocks = Vec::new();
        let mut pay = |tip: &Parent, amount: Option<u64>| {
            let coin = coins.next().expect("enough coins that everybody may spend");
            let amount = amount.unwrap_or(coin.amount);
            let payment = Payment::new(&[coin], [(amount, vec![0x51])]);
            let block = Builder::block_on(tip).tx(payment.to_transaction(chain.keys())).finish();
            (encode_block(&block), tip.child(&block))
        };
        for _ in 0..pairs {
            let height = blocks.len() as u32;
            for _ in 0..siblings {
                let (block, _) = pay(&tip, Some(LITTLE));
                let mut branch = blocks.clone();
                branch.push(block.clone());
                stale.push((height, Model::of(&branch).undo(height)));
                stale_blocks.push((height, block));
            }
            for _ in 0..2 {
                let (block, next) = pay(&tip, Some(LITTLE));
                blocks.push(block);
                tip = next;
            }
        }
        let world = World::new(base.network, blocks);
        Self { world, stale, blocks: stale_blocks }
    }

    /// The undo data of all blocks, with that of stale siblings before or after the right one.
    fn records(&self, stale_first: bool) -> Vec<(u32, Vec<u8>)> {
        let mut records = Vec::new();
        for height in 1..=self.world.height() {
            let stale = self.stale.iter().filter(|(of, _)| *of == height).cloned();
            let right = (height, self.world.model.undo(height));
            if stale_first {
                records.extend(stale.chain([right]))
            } else {
                records.extend([right].into_iter().chain(stale))
            }
        }
        records
    }
}

/// Without the block index of its source, nothing but the sums tells which record is a block's, so
/// the first that fits is taken, and corrected.
#[test]
fn undo_data_of_a_sibling_may_come_first() {
    let chain = small_chain(181, 40, 6_000);
    let siblings = Siblings::new(&chain, 1, 1);
    let world = &siblings.world;
    let right = world.in_order().utxo_hash();
    for stale_first in [true, false] {
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let records = siblings.records(stale_first);
        let source = world.write_source_with(&place, "source", &world.shuffled(1), &records);
        let result = world.try_swift(&place, Mode::Full, &hints, &[source]);
        assert_eq!(result.unwrap().best_block, world.tip());
        assert_right(&place, world, &right, "undo data of siblings");
    }
}

#[test]
fn a_sibling_that_breaks_a_rule_is_passed_over() {
    let chain = small_chain(184, 40, 6_000);
    let siblings = Siblings::new(&chain, 1, 1);
    let world = &siblings.world;
    let right = world.in_order().utxo_hash();
    // The sibling's coin has too small an amount.
    let (height, _) = siblings.stale[0];
    let poor =
        crate::support::model::encode_undo(&[vec![Coin::new(LITTLE - 1, &[0x51], 50, false)]]);
    let rights: Vec<_> = (1..=world.height()).map(|at| (at, world.model.undo(at))).collect();
    let mut both = rights.clone();
    let mut poor_alone = rights.clone();
    both.insert(height as usize - 1, (height, poor.clone()));
    poor_alone[height as usize - 1].1 = poor;
    // The records are in one rev file, or in those of two sources.
    for split in [false, true] {
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let order = world.file_order();
        let mut sources = Vec::new();
        if split {
            sources.push(world.write_source_with(&place, "poor", &order, &poor_alone));
            sources.push(world.write_source_with(&place, "right", &order, &rights));
        } else {
            sources.push(world.write_source_with(&place, "both", &order, &both));
        }
        let summary = world.try_swift(&place, Mode::Full, &hints, &sources);
        let summary = summary.unwrap_or_else(|error| panic!("two sources: {split}: {error}"));
        assert_eq!(summary.best_block, world.tip());
        assert_right(&place, world, &right, "a poor sibling");
    }
}

/// A directory that connected each stale block and disconnected it again.
fn reorganised(siblings: &Siblings) -> Place {
    let world = &siblings.world;
    let place = siblings.world.place();
    for (height, block) in &siblings.blocks {
        let below = world.blocks[..*height as usize].iter();
        let stale = place.sync(&[place.write("stale", below.chain([block]))]);
        assert_eq!(stale.height, *height);
        let next = &world.blocks[*height as usize..*height as usize + 2];
        assert_eq!(place.sync(&[place.write("next", next)]).height, height + 1);
    }
    place.shrink();
    place
}

#[test]
fn the_block_index_of_a_source_says_which_undo_data_is_right() {
    let chain = small_chain(185, 120, 6_000);
    let siblings = Siblings::new(&chain, 3, 1);
    let world = &siblings.world;
    let right = world.in_order().utxo_hash();
    let source = reorganised(&siblings);
    let sync = |place: &Place| {
        let hints = world.write_hints(place, world.height());
        world.try_swift(place, Mode::Full, &hints, &[source.datadir()])
    };
    let index = source.network_dir().join("blocks/index");
    let before = contents(&source.datadir());
    {
        // The directory's owner is running.
        let _owner = Disk::new().lock(index.join("LOCK")).unwrap();
        let place = world.place();
        assert_eq!(sync(&place).unwrap().best_block, world.tip());
        assert_right(&place, world, &right, "in use");
    }
    std::fs::remove_file(index.join("LOCK")).unwrap();
    let place = world.place();
    assert_eq!(sync(&place).unwrap().best_block, world.tip());
    let changed = differences(&source.datadir(), &before);
    assert_eq!(changed, [index.join("LOCK")], "nothing is made or written in a source");
}
