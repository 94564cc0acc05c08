//! Hints of whole chains: made by Apus, compared with the crate `hintsfile`, read in every format,
//! and verified by SwiftSync. Hints next to a count by hand, conversions, refusals and the command
//! line are in `../hints.rs`.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use apus_node as node;
use apus_node::{AssumeValid, SwiftSyncOptions};
use apus_progress::Watch;
use apus_swiftsync::AggregateKind;
use apus_swiftsync::{Format, Numbering};
use apus_sync as sync;
use apus_wire::Chain as Network;

use super::refusals::{Blame, Due, assert_due, contents, differences};
use crate::support::model::{Hinted, encode};
use crate::support::swift::{MODES, World, small_chain};
use crate::support::{Place, blocks_of, data, regtest_chain, shared};

fn create(place: &Place, height: Option<u32>, format: Format, threads: usize) -> Vec<u8> {
    let out = place.root().join("made.hints");
    let options = node::Options { threads, ..place.options() };
    let made = apus_claims::create_hints(&options, height, format, &out, Watch::default()).unwrap();
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!(made.bytes, bytes.len() as u64);
    bytes
}

/// A hints file made by the crate `hintsfile`: by 0.2.1, or by 0.1.1, which packs from bit 7 down.
fn by_the_crate(hints: &[Hinted]) -> [Vec<u8>; 2] {
    let mut lsb = Vec::new();
    let mut msb = Vec::new();
    let height = hints.len() as u32;
    let mut new = hintsfile::HintsfileBuilder::new(&mut lsb).initialize(height).unwrap();
    let mut old = hintsfile_msb::HintsfileBuilder::new(&mut msb).initialize(height).unwrap();
    for (unspent, _) in hints {
        new.append(hintsfile::EliasFano::compress(unspent)).unwrap();
        old.append(hintsfile_msb::EliasFano::compress(unspent)).unwrap();
    }
    new.finish().unwrap();
    old.finish().unwrap();
    [lsb, msb]
}

/// Panics unless Apus' hints of a directory, at its tip and below, are those that the crate makes
/// of the model.
fn compare(world: &World, heights: &[u32]) {
    let place = world.in_order();
    for height in heights {
        let expected = world.model.hints(*height, Numbering::Spendable);
        let ours = create(&place, Some(*height), Format::Hintsfile02, 2);
        let [lsb, msb] = by_the_crate(&expected);
        assert!(ours == lsb, "byte for byte, at height {height}");
        let old = create(&place, Some(*height), Format::Hintsfile01, 2);
        assert!(old == msb && lsb != msb, "byte for byte, at height {height}");
        let mut theirs = hintsfile::Hintsfile::from_reader(&mut Cursor::new(&ours)).unwrap();
        for (at, (unspent, _)) in (1..).zip(&expected) {
            assert_eq!(theirs.take_indices(at).as_ref(), Some(unspent), "block {at}");
        }
        for format in Format::WRITTEN {
            let expected = world.model.hints_file(*height, format);
            assert!(create(&place, Some(*height), format, 1) == expected, "{format:?} at {height}");
        }
    }
    let tip = create(&place, None, Format::Bip456, 3);
    assert!(tip == create(&place, Some(world.height()), Format::Bip456, 1));
}

#[test]
fn hints_of_real_chains_are_those_of_the_crate() {
    let mainnet = World::new(Network::Main, blocks_of(&data("mainnet-0-14131.dat")));
    compare(&mainnet, &[14_131, 14_130, 9_000, 170, 1]);
    compare(&World::new(Network::Regtest, regtest_chain()), &[206, 205, 150, 102, 1]);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn hints_of_testnet3_are_those_of_the_crate() {
    let testnet = World::new(Network::Test, blocks_of(&shared("testnet3-0-4000.dat")));
    compare(&testnet, &[4_000, 2_000, 1]);
}

#[test]
fn hints_of_generated_chains_are_those_of_the_crate() {
    for seed in [31, 32] {
        let world = World::of(&small_chain(seed, 60, 12_000));
        let tip = world.height();
        compare(&world, &[tip, tip - 1, tip - 3, tip - 30, 111, 110, 1]);
    }
}

#[test]
fn files_of_every_format_and_bit_order_are_taken() {
    let world = World::of(&small_chain(34, 40, 5_000));
    let right = world.in_order().utxo_hash();
    let hints = world.model.hints(world.height(), Numbering::Spendable);
    let [lsb, msb] = by_the_crate(&hints);
    assert_ne!(lsb, msb);
    let made = |format| world.model.hints_file(world.height(), format);
    for (name, bytes) in [
        ("lsb", lsb),
        ("msb", msb),
        ("bip456", made(Format::Bip456)),
        ("bip456-lsb", made(Format::Bip456Lsb)),
        ("btcd", made(Format::Btcd)),
        ("booster", made(Format::Booster)),
        ("bitset", made(Format::Bitset)),
    ] {
        for mode in MODES {
            let place = world.place();
            let file = place.write_bytes(name, &bytes);
            let sources = world.sources(&place, mode, &world.shuffled(5));
            let summary = world.try_swift(&place, mode, &file, &sources).unwrap();
            assert_eq!(summary.best_block, world.tip(), "{name}, {mode:?}");
            assert_eq!(place.utxo_hash(), right, "{name}, {mode:?}");
        }
    }
}

fn verify(
    place: &Place,
    hints: &Path,
    assumevalid: AssumeValid,
    aggregate: AggregateKind,
) -> Result<sync::Summary, node::SyncError> {
    let options = node::Options {
        assumevalid,
        swiftsync: SwiftSyncOptions { aggregate, ..Default::default() },
        ..place.options()
    };
    apus_claims::prove(&options, hints, &[], Watch::default())
}

#[test]
fn the_proof_alone_tells_right_from_wrong_and_changes_nothing() {
    let chain = small_chain(35, 40, 5_000);
    let world = World::of(&chain);
    let place = world.in_order();
    place.shrink();
    let tip = world.height();
    let before = contents(&place.datadir());
    let kinds = [AggregateKind::Sha256, AggregateKind::MuHash];
    let ways = [AssumeValid::Nothing, AssumeValid::BuiltIn, AssumeValid::Block(world.tip())];
    for height in [tip, tip - 1, tip / 2, 1] {
        let file = world.write_hints(&place, height);
        for assumevalid in ways {
            let summary = verify(&place, &file, assumevalid, kinds[0]).unwrap();
            let hints = world.model.hints(height, Numbering::Spendable);
            let coins: usize = hints.iter().map(|(unspent, _)| unspent.len()).sum();
            assert_eq!((summary.height, summary.best_block), (height, world.hash(height)));
            assert_eq!(summary.coins, Some(coins as u64), "at height {height}");
        }
        verify(&place, &file, ways[0], kinds[1]).unwrap();
    }
    let mut too_few = world.model.hints(tip, Numbering::Spendable);
    too_few[115].0.pop().unwrap();
    let fork = World::of(&chain.fork(tip - 10, 10, 3));
    let cases = [
        ("one too few", encode(&too_few, Format::Bip456)),
        ("of a fork", fork.model.hints_file(tip, Format::Bip456)),
        ("of the tip, for ten blocks less", {
            let mut hints = world.model.hints(tip, Numbering::Spendable);
            hints.truncate(tip as usize - 10);
            encode(&hints, Format::Bip456)
        }),
    ];
    for (name, bytes) in cases {
        let file = place.write_bytes("wrong", &bytes);
        for assumevalid in ways {
            for kind in kinds {
                let result = verify(&place, &file, assumevalid, kind);
                assert_due(&Due(Blame::Hints, &["wrong: "]), result, name);
            }
        }
    }
    let above = encode(&vec![(vec![0], 1); tip as usize + 1], Format::Bip456);
    let file = place.write_bytes("above", &above);
    let due = Due(Blame::Hints, &["the tip is at"]);
    assert_due(&due, verify(&place, &file, ways[0], kinds[0]), "above the tip");
    assert_eq!(differences(&place.datadir(), &before), [] as [PathBuf; 0], "it changes nothing");
    assert!(verify(&world.place(), &file, ways[0], kinds[0]).is_err(), "no chain there");
}
