//! Wrong snapshots, one fault each: refused by the proof, which names the coins, and by a sync,
//! which commits nothing.

use apus_coins::Coin;
use apus_hash::Hash;
use apus_node::{CoinDifference, Options, SyncError};
use apus_progress::Watch;
use apus_swiftsync::{Format, Numbering};
use apus_sync as sync;
use apus_tools as tools;
use apus_wire::OutPoint;

use super::{RIGHT, options_of};
use crate::support::model::encode;
use crate::support::program::{apus, assert_ends};
use crate::support::snapshot::{Snapshot, snapshot_info};
use crate::support::swift::{MODES, Mode, World};

/// The report that is due for a fault.
enum Due {
    /// Words of the error; no coins are named.
    Words(&'static str),
    /// The kinds of the coins that are named, with words on the first.
    Coins(&'static [&'static str], &'static str),
}
use Due::{Coins, Words};

/// A fault, and what is due for it. The 50th coin is one that is not the coinbase's.
type Fault = (&'static str, fn(&mut Snapshot, &World), Due);

const AT: usize = 50;

fn coin(snapshot: &mut Snapshot) -> &mut Coin {
    &mut snapshot.coins[AT].1
}

fn remove(snapshot: &mut Snapshot, at: usize) {
    snapshot.coins.remove(at);
    snapshot.count -= 1;
}

fn add(snapshot: &mut Snapshot, coin: (OutPoint, Coin)) {
    snapshot.coins.push(coin);
    snapshot.count += 1;
}

/// A coin that a block has spent.
fn spent(world: &World) -> (OutPoint, Coin) {
    let block = world.blocks.last().map(|_| world.height() - 20).unwrap();
    let bytes = &world.blocks[block as usize];
    let block: bitcoin::Block = bitcoin::consensus::deserialize(bytes).unwrap();
    let input = block.txdata[1].input[0].previous_output;
    let txid = Hash(bitcoin::hashes::Hash::to_byte_array(input.txid));
    let coin = world.model.blocks[world.height() as usize - 20].undo[0][0].clone();
    (OutPoint { txid, vout: input.vout }, coin)
}

fn other_script(coin: &mut Coin) {
    let mut script = coin.script.to_script();
    *script.last_mut().unwrap() ^= 1;
    *coin = Coin::new(coin.amount, &script, coin.height, coin.is_coinbase);
}

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    ("a coin is missing", |s, _| remove(s, AT), Coins(&["missing"], "although no block spends it")),
    ("the first is missing", |s, _| remove(s, 0), Coins(&["missing"], "")),
    ("the last is missing", |s, _| remove(s, s.coins.len() - 1), Coins(&["missing"], "")),
    ("three are missing", |s, _| (0..3).for_each(|i| remove(s, 30 * i)),
        Coins(&["missing"; 3], "")),
    ("a spent coin", |s, w| add(s, spent(w)), Coins(&["spent"], "but block 180 spends it")),
    ("a coin that never was", |s, _| {
        let (mut outpoint, coin) = s.coins[AT].clone();
        outpoint.txid.0[20] ^= 1;
        add(s, (outpoint, coin));
    }, Coins(&["never_created"], "no block creates it")),
    ("an output that is none", |s, _| {
        let (mut outpoint, coin) = s.coins[AT].clone();
        outpoint.vout += 1000;
        add(s, (outpoint, coin));
    }, Coins(&["never_created"], "")),
    ("a coin twice", |s, _| { let coin = s.coins[AT].clone(); add(s, coin) },
        Coins(&["repeated"], "more than once")),
    ("a coin twice, of two heights", |s, _| {
        let mut coin = s.coins[AT].clone();
        coin.1.height -= 1;
        add(s, coin);
    }, Coins(&["repeated"], "")),
    ("another txid", |s, _| s.coins[AT].0.txid.0[3] ^= 1, Coins(&["never_created", "missing"], "")),
    ("another txid, far behind", |s, _| s.coins[AT].0.txid.0[31] ^= 1,
        Coins(&["never_created", "missing"], "")),
    ("another index", |s, _| s.coins[AT].0.vout += 77, Coins(&["never_created", "missing"], "")),
    ("amount one more", |s, _| coin(s).amount += 1, Coins(&["changed"], "value")),
    ("amount one less", |s, _| coin(s).amount -= 1, Coins(&["changed"], "value")),
    ("amount 0", |s, _| coin(s).amount = 0, Coins(&["changed"], "value 0 satoshi")),
    ("height one more", |s, _| coin(s).height += 1, Coins(&["changed"], "height")),
    ("height one less", |s, _| coin(s).height -= 1, Coins(&["changed"], "height")),
    ("another flag", |s, _| coin(s).is_coinbase ^= true, Coins(&["changed"], "coinbase")),
    ("another script", |s, _| other_script(coin(s)), Coins(&["changed"], "scriptPubKey")),
    ("two amounts exchanged", |s, _| {
        let a = s.coins[AT].1.amount;
        let (_, other) = s.coins[AT..].iter_mut().find(|(_, coin)| coin.amount != a).unwrap();
        let b = std::mem::replace(&mut other.amount, a);
        coin(s).amount = b;
    }, Coins(&["changed"; 2], "value")),
    ("height above the base", |s, w| coin(s).height = w.height() + 1,
        Words("above the base block")),
    ("height 0", |s, _| coin(s).height = 0, Words("of block 0")),
    ("amount out of range", |s, _| coin(s).amount = 2_100_000_000_000_001,
        Words("but the maximum is")),
    ("index 2^32 - 1", |s, _| s.coins[AT].0.vout = u32::MAX, Words("CompactSize over 32 MiB")),
    ("a base block below", |s, w| s.base = w.hash(w.height() - 1), Words("above the base block")),
    ("a base block that is none", |s, _| s.base = Hash([7; 32]), Words("its base block")),
    ("another network", |s, _| s.magic = [1, 2, 3, 4], Words("magic bytes 01020304")),
    ("one coin more in the head", |s, _| s.count += 1, Words("cut short")),
    ("one coin less in the head", |s, _| s.count -= 1, Words("")),
    ("trailing bytes", |s, _| s.tail = vec![0], Words("goes on for 1 bytes after its last coin")),
    ("no coins", |s, _| { s.coins.clear(); s.count = 0 }, Coins(&[], "missing")),
];

/// The differences that an error names; none if it names none.
fn named(error: &SyncError) -> &[CoinDifference] {
    match error {
        SyncError::Differs { differences, .. } => &differences.coins,
        _ => &[],
    }
}

/// Panics unless the error is what is due.
#[track_caller]
fn assert_due(what: &str, error: &SyncError, due: &Due) {
    let text = error.to_string();
    let kinds: Vec<&str> = named(error).iter().map(|coin| coin.kind.name()).collect();
    match due {
        Words(words) => {
            assert!(text.contains(words), "{what}: {text}");
            assert!(kinds.is_empty(), "{what}: {text}");
        }
        Coins(expected, words) => {
            assert!(text.contains(words), "{what}: {text}");
            assert!(expected.is_empty() || kinds == *expected, "{what}: {kinds:?} {text}");
            assert!(!kinds.is_empty(), "{what}: {text}");
        }
    }
}

#[test]
fn every_fault_is_found_and_the_coins_are_named() {
    let (world, place, right) = &*RIGHT;
    let before = place.utxo_hash();
    let path = place.root().join("wrong.dat");
    for (what, fault, due) in FAULTS {
        let mut wrong = right.clone();
        fault(&mut wrong, world);
        assert_ne!(&wrong, right, "{what}");
        std::fs::write(&path, wrong.to_bytes()).unwrap();
        for mode in MODES {
            let options = options_of(place, mode);
            let result = apus_claims::prove(&options, &path, &[], Watch::default());
            assert_due(what, &result.expect_err(what), due);
        }
    }
    assert_eq!(place.utxo_hash(), before);
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let (_, place, right) = &*RIGHT;
    let bytes = right.to_bytes();
    let path = place.root().join("cut.dat");
    for len in (0..60).chain((60..bytes.len()).step_by(997)).chain([bytes.len() - 1]) {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let options = options_of(place, Mode::AssumeValid);
        let verified = apus_claims::prove(&options, &path, &[], Watch::default());
        let error = verified.expect_err("it is cut").to_string();
        assert!(error.contains("cut.dat"), "{error}");
        assert!(snapshot_info(&path).is_err(), "{len} bytes");
    }
}

#[test]
fn a_sync_with_any_fault_commits_nothing_and_carries_on_without() {
    let (world, _, right) = &*RIGHT;
    for mode in MODES {
        let place = world.place();
        let path = place.root().join("wrong.dat");
        let sources = world.sources(&place, mode, &world.file_order());
        let options = world.options_of_snapshot(&place, mode, &path);
        for (what, fault, _) in FAULTS {
            let mut wrong = right.clone();
            fault(&mut wrong, world);
            std::fs::write(&path, wrong.to_bytes()).unwrap();
            let error = sync::sync(&options, &sources, Watch::default()).expect_err(what);
            assert!(matches!(error, SyncError::Snapshot { .. }), "{what}: {error}");
            assert!(error.to_string().contains("Nothing was committed"), "{what}: {error}");
            let status = tools::status(&place.options()).unwrap();
            assert_eq!(status.height, 0, "{what}");
        }
        std::fs::write(&path, right.to_bytes()).unwrap();
        let summary = sync::sync(&options, &sources, Watch::default()).unwrap();
        assert_eq!(summary.best_block, world.tip());
        assert_eq!(place.utxo_hash(), RIGHT.1.utxo_hash());
    }
}

#[test]
fn an_error_of_a_sync_with_a_snapshot_speaks_of_no_hints() {
    let (world, _, right) = &*RIGHT;
    let sync = |mode, blocks: &[Vec<u8>], snapshot: &Snapshot, change: fn(&mut Options)| {
        let place = world.place();
        let path = place.write_bytes("utxo.dat", &snapshot.to_bytes());
        let source = match mode {
            Mode::AssumeValid => place.write("blocks", blocks),
            Mode::Full => world.write_source(&place, "source", &world.file_order()),
        };
        let mut options = world.options_of_snapshot(&place, mode, &path);
        change(&mut options);
        sync::sync(&options, &[source], Watch::default()).unwrap_err().to_string()
    };
    let unknown = |options: &mut Options| {
        options.assumevalid = apus_node::AssumeValid::Block(apus_hash::Hash([7; 32]));
    };
    let mut lacking = world.blocks.clone();
    lacking.remove(120);
    let mut damaged = world.blocks.clone();
    let middle = damaged[120].len() / 2;
    damaged[120][middle] ^= 1;
    let mut wrong = right.clone();
    wrong.coins[3].1.amount += 1;
    let nothing: fn(&mut Options) = |_| {};
    let errors = [
        sync(Mode::AssumeValid, &world.blocks, right, unknown),
        sync(Mode::AssumeValid, &lacking, right, nothing),
        sync(Mode::AssumeValid, &damaged, right, nothing),
        sync(Mode::AssumeValid, &world.blocks, &wrong, nothing),
        sync(Mode::Full, &world.blocks, &wrong, nothing),
    ];
    for error in errors {
        assert!(!error.contains("hints"), "there are none: {error}");
        assert!(
            error.contains("without --snapshot") || error.contains("provide more blocks"),
            "{error}"
        );
    }
}

#[test]
fn a_snapshot_of_genesis_is_refused() {
    let (world, _, right) = &*RIGHT;
    let mut of_genesis = right.clone();
    (of_genesis.base, of_genesis.count, of_genesis.coins) = (world.hash(0), 0, Vec::new());
    let place = world.place();
    let snapshot = place.write_bytes("genesis.dat", &of_genesis.to_bytes());
    place.write("blocks", &world.blocks);
    let snapshot = format!("--snapshot={}", snapshot.display());
    let from = format!("--from={}", place.root().join("blocks").display());
    for more in [&[][..], &["--method=swiftsync"], &["--assumevalid=0"]] {
        let output = apus(&place, &[&["sync", &from, &snapshot][..], more].concat());
        assert_ends(&output, 2, &["genesis.dat", "genesis block", "remove --snapshot"]);
        assert!(!place.datadir().exists());
    }
}

/// Hints and snapshots that the UTXO set has passed are of no use, and the user hears of it.
#[test]
fn a_snapshot_below_the_tip_is_not_passed_over_in_silence() {
    let (world, place, right) = &*RIGHT;
    let place = place.copy();
    let snapshot = place.write_bytes("right.dat", &right.to_bytes());
    let args = ["sync", "--connect=0", "--snapshot", snapshot.to_str().unwrap()];
    let output = apus(&place, &args);
    let height = world.height();
    let words = format!("is for height {height} and is not used");
    let tip = format!("the UTXO set is already at height {height}");
    assert_ends(&output, 0, &["--snapshot", &words, &tip]);
}

#[test]
fn undo_data_is_missed_where_the_block_is() {
    let (world, _, right) = &*RIGHT;
    let place = world.place();
    let snapshot = place.write_bytes("right.dat", &right.to_bytes());
    let options = world.options_of_snapshot(&place, Mode::Full, &snapshot);
    let source = place.write("bootstrap.dat", &world.blocks);
    let directory = world.write_source(&place, "node", &world.file_order());
    let rev = directory.join("rev00000.dat");
    let bytes = std::fs::read(&rev).unwrap();
    std::fs::remove_file(&rev).unwrap();
    for from in [&source, &directory] {
        let error = sync::sync(&options, std::slice::from_ref(from), Watch::default());
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with(from.to_str().unwrap()), "{text}");
        assert!(text.contains("no undo data for block 1, in this source"), "{text}");
        assert!(!text.contains(place.datadir().to_str().unwrap()), "{text}");
    }
    std::fs::write(&rev, bytes).unwrap();
    let summary = sync::sync(&options, &[directory], Watch::default()).unwrap();
    assert_eq!(summary.best_block, world.tip());
}

#[test]
fn wrong_hints_are_named_too() {
    let (world, place, right) = &*RIGHT;
    let height = world.height();
    let mut hints = world.model.hints(height, Numbering::Spendable);
    // An unspent output of the last block but one is left out, and a spent one of an earlier block
    // added.
    let missing = hints[height as usize - 2].0.pop().unwrap();
    let spent_in = |at: &usize| {
        let outputs = world.model.blocks[*at].outputs.iter().filter(|output| output.spendable);
        outputs.clone().position(|output| output.spent_at.is_some())
    };
    let at = (150..).find(|at| spent_in(at).is_some()).unwrap();
    hints[at - 1].0.push(spent_in(&at).unwrap() as u32);
    hints[at - 1].0.sort_unstable();
    let bytes = encode(&hints, Format::Bip456);
    let path = place.write_bytes("wrong.hints", &bytes);
    for mode in MODES {
        let options = options_of(place, mode);
        let error = apus_claims::prove(&options, &path, &[], Watch::default()).unwrap_err();
        let kinds: Vec<(Option<u32>, &str)> =
            named(&error).iter().map(|coin| (coin.height, coin.kind.name())).collect();
        assert_eq!(kinds, [(Some(at as u32), "spent"), (Some(height - 1), "missing")], "{error}");
        let outpoint = named(&error)[1].outpoint;
        assert!(right.by_outpoint().contains_key(&outpoint), "{missing}: {error}");
    }
}
