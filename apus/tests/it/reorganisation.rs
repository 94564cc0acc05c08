//! Reorganisations: the branch with the most work wins in whatever order the blocks come, and the
//! others are kept.

use apus_testchain::{Break, Chain, used_len};
use apus_tools::UtxoHash;
use apus_wire::Chain as Network;

use crate::support::chains::{small, small_fork};
use crate::support::judge::Judge;
use crate::support::{Place, change_file, hash_of, with_genesis};

/// The hash of the UTXO set, and the number of coins, of a chain that was synced alone.
fn alone(chain: &Chain) -> (String, u64) {
    let place = Place::new(Network::Regtest);
    let summary = place.sync(&[place.write("chain", &with_genesis(chain))]);
    assert_eq!(summary.height, chain.height());
    assert_eq!(summary.coins, Some(chain.totals().unspent));
    place.utxo_hash()
}

fn tip_of(chain: &Chain) -> apus_hash::Hash {
    hash_of(chain.blocks().last().unwrap())
}

#[test]
fn a_branch_with_more_work_wins_and_both_are_kept() {
    let main = small(5);
    let fork = small_fork(5, 190, 15, 9);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("main", &with_genesis(main))]);
    let main_coins = place.utxo_hash();
    let summary = place.sync(&[place.write("fork", &with_genesis(fork)[191..])]);
    assert_eq!((summary.height, summary.best_block), (205, tip_of(fork)));
    assert_eq!(summary.counts.blocks, 15);
    assert_eq!(summary.coins, Some(fork.totals().unspent));
    assert_eq!(place.utxo_hash(), alone(fork));
    assert_eq!(main_coins, alone(main));

    let judge = Judge::open(&place).expect("the engine opens the result");
    assert_eq!(judge.tip(), (205, tip_of(fork)));
    judge.read_everything();
}

#[test]
fn a_hundred_blocks_are_taken_back() {
    let main = small(5);
    let fork = small_fork(5, 100, 101, 4);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("main", &with_genesis(main))]);
    let summary = place.sync(&[place.write("fork", &with_genesis(fork)[101..])]);
    assert_eq!((summary.height, summary.best_block), (201, tip_of(fork)));
    assert_eq!(place.utxo_hash(), alone(fork));
    // The branch that lost grows, and both the engine and Apus go back to it.
    let regrown = small_fork(5, 200, 5, 8);
    let back = with_genesis(regrown);
    let theirs = place.copy();
    {
        let judge = Judge::open(&theirs).unwrap();
        judge.process(&back[201..]);
        assert_eq!(judge.tip(), (205, tip_of(regrown)));
    }
    let summary = place.sync(&[place.write("back", &back)]);
    assert_eq!((summary.height, summary.best_block), (205, tip_of(regrown)));
    assert_eq!(place.utxo_hash(), alone(regrown));
    assert_eq!(theirs.utxo_hash(), place.utxo_hash());
}

#[test]
fn with_equal_work_the_first_tip_is_kept() {
    let main = small(5);
    let fork = small_fork(5, 195, 5, 2);
    let mains = with_genesis(main);
    let forks = with_genesis(fork);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("main", &mains)]);
    let summary = place.sync(&[place.write("fork", &forks)]);
    assert_eq!((summary.best_block, summary.counts.blocks), (tip_of(main), 0));

    for (first, second, tip) in [(&mains, &forks, main), (&forks, &mains, fork)] {
        let place = Place::new(Network::Regtest);
        let both = place.write("both", first.iter().chain(second));
        assert_eq!(place.sync(&[both]).best_block, tip_of(tip));
    }
}

#[test]
fn an_invalid_block_in_the_better_branch_leaves_the_best_valid() {
    let main = small(5);
    let fork = small_fork(5, 180, 30, 6);
    let mut blocks = with_genesis(fork);
    // Ten blocks before its tip the better branch has a block that claims too much.
    let broken_at = 200;
    let shorter = small_fork(5, 180, 19, 6);
    assert_eq!(tip_of(shorter), hash_of(&blocks[199]));
    blocks[broken_at] = shorter.broken(Break::BadCbAmount).block;
    blocks.truncate(broken_at + 1);
    let mut tip = shorter.parent(199).child(&decoded(&blocks[broken_at]));
    for _ in 0..9 {
        let next = apus_testchain::Builder::block_on(&tip).finish();
        tip = tip.child(&next);
        blocks.push(apus_testchain::block::encode_block(&next));
    }
    let place = Place::new(Network::Regtest);
    let sources = [place.write("main", &with_genesis(main)), place.write("fork", &blocks[181..])];
    let summary = place.sync(&sources);
    assert_eq!((summary.height, summary.best_block), (200, tip_of(main)));
    assert_eq!(place.utxo_hash(), alone(main));
    let reasons: Vec<&str> = summary.refusals.iter().map(|r| r.reason.as_str()).collect();
    assert!(reasons[0].starts_with("bad-cb-amount"), "{reasons:?}");
    // The block is remembered as invalid, so the same blocks are refused again at once.
    let again = place.sync(&sources);
    assert_eq!(again.counts.blocks, 0);
    assert!(again.refusals.iter().any(|r| r.reason.starts_with("duplicate-invalid")));
    let judge = Judge::open(&place).expect("the engine opens the result");
    assert_eq!(judge.tip(), (200, tip_of(main)));
}

fn decoded(block: &[u8]) -> bitcoin::Block {
    bitcoin::consensus::deserialize(block).unwrap()
}

#[test]
fn damaged_undo_data_stops_a_reorganisation_and_names_the_place() {
    let main = small(5);
    let fork = small_fork(5, 190, 15, 9);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("main", &with_genesis(main))]);
    let before = place.utxo_hash();
    let rev = place.network_dir().join("blocks/rev00000.dat");
    let at = used_len(&rev).unwrap() as usize - 201;
    let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1;
    change_file(&rev, flip);
    let error = place.try_sync(&[place.write("fork", &with_genesis(fork))]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("rev00000.dat at byte") && text.contains("checksum"), "{text}");
    assert_eq!(place.utxo_hash(), before);
    change_file(&rev, flip);
    assert_eq!(place.sync(&[place.write("fork", &with_genesis(fork))]).height, 205);
    assert_eq!(place.stats(UtxoHash::None).height, 205);
}
