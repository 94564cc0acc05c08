//! Proofs of every rule where undo data is missing: a join finds the coins, in a temporary
//! directory of which nothing is left.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_hash::Hash;
use apus_node::JoinOptions;
use apus_node::{Options, SyncError};
use apus_progress::Watch;
use apus_progress::{Observer, Phase, Progress, Unobserved};
use apus_swiftsync::Format;
use apus_sync::Summary;
use apus_testchain::block::encode_block;
use apus_testchain::{Break, Builder, Chain, used_len};

use super::{RIGHT, made, options_of};
use crate::broken_rules::assert_refused_for;
use crate::support::chains::{small, small_fork};
use crate::support::fill_disk::FillDisk;
use crate::support::mounts::{run_on_small_disk, run_with_mounts, small_disk};
use crate::support::program::{apus, assert_ends, program_on, stderr, stdout};
use crate::support::snapshot::Snapshot;
use crate::support::stop_when::StopWhen;
use crate::support::swift::{Mode, World, small_chain, try_sync_with};
use crate::support::tree::tree;
use crate::support::{Place, change_file, hash_of, with_genesis};

/// The passes of a join.
const JOIN: [Phase; 3] = [Phase::JoinReading, Phase::JoinMatching, Phase::JoinChecking];

/// A chain of which a SwiftSync stores undo data for the upper part alone.
fn tall() -> Chain {
    small_chain(31, 260, 3_000)
}

/// A place for a proof, with a snapshot and a file of blocks, without undo data.
struct Case {
    place: Place,
    snapshot: PathBuf,
    blocks: PathBuf,
}

impl Case {
    fn new<'a>(snapshot: &Snapshot, blocks: impl IntoIterator<Item = &'a Vec<u8>>) -> Self {
        let place = Place::new(apus_wire::Chain::Regtest);
        std::fs::create_dir(place.root().join("tmp")).unwrap();
        Self {
            snapshot: place.write_bytes("utxo.dat", &snapshot.to_bytes()),
            blocks: place.write("blocks.dat", blocks),
            place,
        }
    }

    /// The snapshot that fits these blocks, whether or not they are valid.
    fn fitting(blocks: &[Vec<u8>]) -> Self {
        let network = apus_wire::Network::new(apus_wire::Chain::Regtest);
        Self::new(&Snapshot::of_blocks(&network, blocks), blocks)
    }

    fn options(&self) -> Options {
        full_options(&self.place)
    }

    fn verify(&self, options: &Options, observer: &dyn Observer) -> Result<Summary, SyncError> {
        let from = [self.blocks.clone()];
        let stop = AtomicBool::new(false);
        let result =
            apus_claims::prove(options, &self.snapshot, &from, Watch::new(observer, &stop));
        assert_empty(&self.place.root().join("tmp"));
        result
    }
}

/// Options for a proof of every rule, with temporary files below `tmp`.
fn full_options(place: &Place) -> Options {
    let mut options = options_of(place, Mode::Full);
    options.join.spill_dir = Some(place.root().join("tmp"));
    options
}

#[track_caller]
fn assert_empty(directory: &Path) {
    let names: Vec<_> = directory.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.is_empty(), "left: {names:?}");
}

/// Notes the phases that a proof goes through, and the lines for the user.
#[derive(Default)]
struct Watcher {
    phases: Mutex<Vec<Phase>>,
    notes: Mutex<Vec<String>>,
}

impl Observer for Watcher {
    fn observe(&self, progress: &Progress) {
        let mut phases = self.phases.lock().unwrap();
        if phases.last() != Some(&progress.phase) {
            phases.push(progress.phase);
        }
    }

    fn note(&self, line: &str) {
        self.notes.lock().unwrap().push(line.to_string());
    }
}

impl Watcher {
    fn has_joined(&self) -> bool {
        self.phases.lock().unwrap().iter().any(|phase| JOIN.contains(phase))
    }
}

#[track_caller]
fn assert_same(joined: &Summary, at_once: &Summary) {
    assert_eq!((joined.height, joined.best_block), (at_once.height, at_once.best_block));
    assert_eq!(joined.coins, at_once.coins);
    assert_eq!(joined.counts, at_once.counts);
    assert!(joined.checked.not_checked().is_empty() && !joined.interrupted);
    let decided = |summary: &Summary| summary.scripts.fast + summary.scripts.core;
    assert_eq!(decided(joined), decided(at_once));
    assert!(joined.refusals.is_empty(), "{:?}", joined.refusals);
}

#[test]
fn files_of_blocks_prove_the_same_as_with_undo_data() {
    let (world, place, _) = &*RIGHT;
    for (seed, height) in [1, 130, world.height() - 1, world.height()].into_iter().enumerate() {
        let snapshot = made(place, height);
        let order = world.shuffled(seed as u64);
        let case = Case::new(&snapshot, order.iter().map(|at| &world.blocks[*at]));
        let stop = AtomicBool::new(false);
        let options = options_of(place, Mode::Full);
        let watch = Watcher::default();
        let at_once =
            apus_claims::prove(&options, &case.snapshot, &[], Watch::new(&watch, &stop)).unwrap();
        assert!(!watch.has_joined(), "there is undo data for all");
        for (threads, dbcache_bytes) in [(1, 0), (2, 450 << 20), (3, 20 << 20)] {
            let options = Options { threads, dbcache_bytes, ..case.options() };
            let watch = Watcher::default();
            let joined = case.verify(&options, &watch).unwrap();
            assert_same(&joined, &at_once);
            assert!(joined.spilled_bytes.is_some());
            assert!(watch.has_joined());
            let notes = watch.notes.into_inner().unwrap();
            let [note] = &notes[..] else { panic!("one note is due: {notes:?}") };
            let place = std::env::temp_dir().display().to_string();
            assert!(note.contains("no undo data for block 1") && note.contains(&place), "{note}");
        }
    }
}

#[test]
fn a_directory_with_undo_data_of_the_last_blocks_is_proved() {
    let world = World::of(&tall());
    let in_order = world.in_order();
    let place = world.swift(Mode::AssumeValid, world.height());
    std::fs::create_dir(place.root().join("tmp")).unwrap();
    let before = tree(&place.datadir());
    let options = full_options(&place);
    let once = options_of(&in_order, Mode::Full);
    let stop = AtomicBool::new(false);
    for height in [5, world.height()] {
        let path = place.write_bytes("utxo.dat", &made(&in_order, height).to_bytes());
        let watch = Watcher::default();
        let from = &[];
        let joined = apus_claims::prove(&options, &path, from, Watch::new(&watch, &stop)).unwrap();
        assert!(watch.has_joined());
        let at_once = apus_claims::prove(&once, &path, from, Watch::default()).unwrap();
        assert_same(&joined, &at_once);
        let hints = place.write_bytes("h", &world.model.hints_file(height, Format::Bip456));
        let joined =
            apus_claims::prove(&options, &hints, &[], Watch::new(&Watcher::default(), &stop))
                .unwrap();
        assert_same(&joined, &at_once);
        assert_empty(&place.root().join("tmp"));
    }
    assert!(tree(&place.datadir()) == before);
    // Its only rev file is next to all blocks, and has no undo data of the lower ones. The thread
    // that is first to miss one names it.
    assert_from_is_proved_by_a_join(&world, &place.datadir());
    // A sync of every rule still needs undo data, and says what does not.
    let fresh = world.place();
    let hints = world.write_hints(&fresh, world.height());
    let blocks = fresh.write("blocks", &world.blocks);
    let error = try_sync_with(&world.options(&fresh, Mode::Full, &hints), &[blocks]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no undo data") && text.contains("apus prove --full"), "{text}");
}

/// Proves the snapshot of a world's tip by the blocks of another directory.
#[track_caller]
fn assert_from_is_proved_by_a_join(world: &World, from: &Path) {
    let in_order = world.in_order();
    let case = Case::new(&made(&in_order, world.height()), []);
    let watch = Watcher::default();
    let stop = AtomicBool::new(false);
    let from = [from.to_path_buf()];
    let joined =
        apus_claims::prove(&case.options(), &case.snapshot, &from, Watch::new(&watch, &stop))
            .unwrap();
    assert!(watch.has_joined());
    let once = options_of(&in_order, Mode::Full);
    let at_once = apus_claims::prove(&once, &case.snapshot, &[], Watch::default()).unwrap();
    assert_same(&joined, &at_once);
    let notes = watch.notes.into_inner().unwrap();
    assert!(notes.iter().any(|line| line.contains("no undo data for block ")), "{notes:?}");
    assert_empty(&case.place.root().join("tmp"));
}

#[test]
fn damaged_undo_data_of_a_source_is_done_without() {
    let world = World::of(small(5));
    let place = world.in_order();
    let rev = place.network_dir().join("blocks/rev00000.dat");
    // The end of the file is reserved and empty.
    let middle = used_len(&rev).unwrap() as usize / 2;
    change_file(&rev, |bytes| bytes[middle] ^= 1);
    assert_from_is_proved_by_a_join(&world, &place.datadir());
}

#[test]
fn wrong_snapshots_and_hints_are_named_before_any_join() {
    let (world, _, right) = &*RIGHT;
    type Fault = (&'static str, fn(&mut Snapshot));
    let faults: [Fault; 4] = [
        ("changed", |s| s.coins[50].1.amount += 1),
        ("missing", |s| {
            s.coins.remove(50);
            s.count -= 1;
        }),
        ("never_created", |s| {
            let (mut outpoint, coin) = s.coins[50].clone();
            outpoint.txid.0[20] ^= 1;
            s.coins.push((outpoint, coin));
            s.count += 1;
        }),
        ("cut short", |s| s.count += 1),
    ];
    for (due, fault) in faults {
        let mut wrong = right.clone();
        fault(&mut wrong);
        let case = Case::new(&wrong, &world.blocks);
        let watch = Watcher::default();
        let error = case.verify(&case.options(), &watch).expect_err(due);
        match &error {
            SyncError::Differs { differences, .. } if !differences.coins.is_empty() => {
                assert_eq!(differences.coins[0].kind.name(), due, "{error}");
            }
            error => assert!(error.to_string().contains(due), "{due}: {error}"),
        }
        assert!(!watch.has_joined(), "{due}");
    }
    let place = World::of(&tall()).swift(Mode::AssumeValid, 300);
    std::fs::create_dir(place.root().join("tmp")).unwrap();
    let world = World::of(&tall());
    // Those of another height.
    let hints = world.model.hints(world.height(), apus_swiftsync::Numbering::Spendable);
    let hints = crate::support::model::encode(&hints[..200], Format::Bip456);
    let hints = place.write_bytes("wrong.hints", &hints);
    let watch = Watcher::default();
    let stop = AtomicBool::new(false);
    let error = apus_claims::prove(&full_options(&place), &hints, &[], Watch::new(&watch, &stop))
        .unwrap_err();
    let SyncError::Differs { differences, .. } = &error else { panic!("{error}") };
    assert!(!differences.coins.is_empty() && !watch.has_joined(), "{error}");
}

/// Rules that a block may break at the top of a chain, of every kind.
const BROKEN: &[Break] = &[
    Break::P2pkhSignature,
    Break::P2trKeySignature,
    Break::P2wshMultisigSignature,
    Break::CltvHeight,
    Break::CsvHeight,
    Break::BadTxnsInBelowout,
    Break::BadCbAmount,
    Break::MissingNeverExisted,
    Break::SpentInEarlierBlock,
    Break::SpentTwiceInBlock,
    Break::SpendsLaterTx,
    Break::PrematureSpendOfCoinbase,
    Break::BadTxnsNonfinalBip68Height,
    Break::BadBlkSigopsP2sh,
    Break::BadTxnmrklroot,
];

#[test]
fn a_block_that_breaks_a_rule_is_refused_for_cores_reason() {
    let chain = small(5);
    let sound = with_genesis(chain);
    for rule in BROKEN {
        let broken = chain.broken(*rule);
        let case = Case::fitting(&[&sound[..], std::slice::from_ref(&broken.block)].concat());
        let error = case.verify(&case.options(), &Unobserved).expect_err("it is invalid");
        let SyncError::Refused(refusal) = &error else { panic!("{rule:?}: {error}") };
        assert_refused_for(*rule, broken.reason, &refusal.reason);
        assert!(!error.to_string().contains("committed"), "a proof commits nothing: {error}");
        assert_eq!(refusal.block, Some(hash_of(&broken.block)), "{rule:?}");
        assert_eq!(refusal.path.as_ref(), Some(&case.blocks), "{rule:?}");
        // A twin that narrowly keeps the rule.
        let case = Case::fitting(&[&sound[..], std::slice::from_ref(&broken.sound)].concat());
        let summary = case.verify(&case.options(), &Unobserved).unwrap();
        assert_eq!(summary.best_block, hash_of(&broken.sound), "{rule:?}");
    }
}

#[test]
fn a_block_that_issues_too_much_is_refused_for_cores_reason() {
    let chain = small(5);
    let parent = chain.parent(chain.height());
    let rich = Builder::block_on(&parent).coinbase_value(1_000_000 * 100_000_000).finish();
    let blocks = [&with_genesis(chain)[..], &[encode_block(&rich)]].concat();
    let case = Case::fitting(&blocks);
    let error = case.verify(&case.options(), &Unobserved).expect_err("it is invalid");
    let SyncError::Refused(refusal) = &error else { panic!("{error}") };
    assert!(refusal.reason.starts_with("bad-cb-amount"), "{refusal}");
    assert_eq!(refusal.block, blocks.last().map(|block| hash_of(block)));
    // Where blocks are taken as valid, the supply alone is wrong.
    let options = options_of(&case.place, Mode::AssumeValid);
    let error = case.verify(&options, &Unobserved).unwrap_err();
    assert!(matches!(error, SyncError::Unproved(_)), "{error}");
    assert!(!error.to_string().contains("committed"), "a proof commits nothing: {error}");
}

#[test]
fn what_a_directory_has_taken_as_valid_is_refused() {
    let chain = tall();
    let broken = chain.broken(Break::P2pkhSignature);
    let world = World::new(
        apus_wire::Chain::Regtest,
        [&with_genesis(&chain)[..], std::slice::from_ref(&broken.block)].concat(),
    );
    let place = world.swift(Mode::AssumeValid, world.height());
    std::fs::create_dir(place.root().join("tmp")).unwrap();
    let hints = world.write_hints(&place, world.height());
    let options = full_options(&place);
    let error = apus_claims::prove(&options, &hints, &[], Watch::default()).unwrap_err();
    let SyncError::Refused(refusal) = &error else { panic!("{error}") };
    assert!(refusal.reason.starts_with("block-script-verify-flag-failed"), "{error}");
    assert_eq!(refusal.block, Some(world.tip()));
    assert!(refusal.path.as_ref().unwrap().ends_with("blocks/blk00000.dat"), "{error}");
    assert_empty(&place.root().join("tmp"));
}

#[test]
fn a_base_block_beside_the_best_chain_is_proved() {
    let height = 180;
    let blocks = 12;
    let best = World::of(small(5));
    let fork = World::of(small_fork(5, height, blocks, 9));
    assert!(fork.height() < best.height());
    let both = || best.blocks.iter().chain(&fork.blocks[height as usize + 1..]);
    for world in [&fork, &best] {
        let snapshot = made(&world.in_order(), world.height());
        let case = Case::new(&snapshot, both());
        let summary = case.verify(&case.options(), &Unobserved).unwrap();
        assert_eq!((summary.height, summary.best_block), (world.height(), world.tip()));
        assert_eq!(summary.coins, Some(snapshot.count));
    }
    // Its own top is wrong.
    let chain = small_fork(5, height, blocks, 9);
    let broken = chain.broken(Break::P2pkhSignature);
    let wrong = [&fork.blocks[..], std::slice::from_ref(&broken.block)].concat();
    let network = apus_wire::Network::new(apus_wire::Chain::Regtest);
    let case = Case::new(&Snapshot::of_blocks(&network, &wrong), both().chain([&broken.block]));
    let error = case.verify(&case.options(), &Unobserved).unwrap_err();
    let SyncError::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!(refusal.block, Some(hash_of(&broken.block)), "{error}");
}

#[test]
fn interrupted_in_any_pass_it_says_so_and_leaves_nothing() {
    let (world, _, right) = &*RIGHT;
    let case = Case::new(right, &world.blocks);
    let from = [case.blocks.clone()];
    for phase in [&[Phase::ReadingSnapshot, Phase::SwiftSync], &JOIN[..]].concat() {
        let stop = AtomicBool::new(false);
        let watch = StopWhen(&stop, move |progress: &Progress| progress.phase == phase);
        let options = Options { threads: 1, ..case.options() };
        let result = apus_claims::prove(&options, &case.snapshot, &from, Watch::new(&watch, &stop));
        let summary = result.unwrap_or_else(|error| panic!("{phase:?}: {error}"));
        assert!(stop.load(Relaxed), "{phase:?}: it never came");
        assert!(summary.interrupted && summary.coins.is_none(), "{phase:?}");
        assert_empty(&case.place.root().join("tmp"));
    }
    let world = World::of(&tall());
    let place = world.swift(Mode::AssumeValid, world.height());
    std::fs::create_dir(place.root().join("tmp")).unwrap();
    let hints = world.write_hints(&place, world.height());
    for phase in [&[Phase::SwiftSync], &JOIN[..]].concat() {
        let stop = AtomicBool::new(false);
        let watch = StopWhen(&stop, move |progress: &Progress| progress.phase == phase);
        let options = Options { threads: 1, ..full_options(&place) };
        let summary = apus_claims::prove(&options, &hints, &[], Watch::new(&watch, &stop)).unwrap();
        assert!(stop.load(Relaxed), "{phase:?}: it never came");
        assert!(summary.interrupted && summary.coins.is_none(), "{phase:?}");
        assert_empty(&place.root().join("tmp"));
    }
}

/// An observer that damages a block in a file at the first report of a phase.
struct Damage<'a> {
    phase: Phase,
    path: &'a Path,
    at: usize,
    is_done: AtomicBool,
}

impl Observer for Damage<'_> {
    fn observe(&self, progress: &Progress) {
        if progress.phase == self.phase && !self.is_done.swap(true, Relaxed) {
            let file = std::fs::File::options().read(true).write(true).open(self.path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, self.at as u64).unwrap();
            file.write_all_at(&[byte[0] ^ 1], self.at as u64).unwrap();
        }
    }
}

#[test]
fn a_block_damaged_meanwhile_is_taken_from_another_file() {
    let (world, _, right) = &*RIGHT;
    let hurt = 150;
    // In the last transaction of that block.
    let at = world.blocks[..=hurt].iter().map(|block| block.len() + 8).sum::<usize>() - 9;
    for phase in [Phase::JoinReading, Phase::JoinMatching] {
        for has_other in [true, false] {
            let what = format!("{phase:?}, another copy: {has_other}");
            let case = Case::new(right, &world.blocks);
            let mut from = vec![case.blocks.clone()];
            if has_other {
                from.push(case.place.write("other", [&world.blocks[hurt]]));
            }
            let damage = Damage { phase, path: &case.blocks, at, is_done: AtomicBool::new(false) };
            let options = Options { threads: 1, ..case.options() };
            let stop = AtomicBool::new(false);
            let result =
                apus_claims::prove(&options, &case.snapshot, &from, Watch::new(&damage, &stop));
            assert!(damage.is_done.into_inner(), "{what}");
            match (result, has_other) {
                (Ok(summary), true) => {
                    assert_eq!(summary.best_block, world.tip(), "{what}");
                    assert_eq!(summary.refusals.len(), 1, "{what}: {:?}", summary.refusals);
                }
                (Err(SyncError::Refused(refusal)), false) => {
                    assert_eq!(refusal.block, Some(world.hash(hurt as u32)), "{what}");
                    assert_eq!(refusal.path.as_ref(), Some(&case.blocks), "{what}: {refusal}");
                }
                (result, _) => panic!("{what}: {result:?}"),
            }
            assert_empty(&case.place.root().join("tmp"));
        }
    }
}

/// The program with temporary files in `tmp`, and in the place of that in `$TMPDIR`.
fn verify_with(case: &Case, tmpdir: &Path, args: &[&str]) -> std::process::Output {
    let snapshot = case.snapshot.to_str().unwrap();
    let blocks = case.blocks.to_str().unwrap();
    let args = [&["snapshot", "verify", snapshot, "--full", "--from", blocks], args].concat();
    program_on(&case.place, &args).env("TMPDIR", tmpdir).output().unwrap()
}

#[test]
fn the_program_says_how_it_proves_and_where() {
    let (world, place, right) = &*RIGHT;
    let case = Case::new(right, &world.blocks);
    let tmp = case.place.root().join("tmp");
    let output = verify_with(&case, &tmp, &[]);
    assert_ends(&output, 0, &["no undo data for block 1", tmp.to_str().unwrap()]);
    assert!(stdout(&output).contains("every script"), "{}", stdout(&output));
    assert_empty(&tmp);
    let json = |output: &std::process::Output| -> serde_json::Value {
        serde_json::from_str(&stdout(output)).unwrap()
    };
    let by_join = json(&verify_with(&case, &tmp, &["--json"]));
    let file = case.snapshot.to_str().unwrap();
    let at_once = json(&apus(place, &["snapshot", "verify", file, "--full", "--json"]));
    for field in ["height", "bestblock", "coins", "blocks", "inputs", "scripts_checked", "checked"]
    {
        assert_eq!(by_join[field], at_once[field], "{field}");
    }
    assert!(by_join["spilled_bytes"].is_u64() && at_once["spilled_bytes"].is_null());
    let nowhere = case.place.root().join("none");
    assert_ends(&verify_with(&case, &nowhere, &[]), 1, &["TMPDIR", "none"]);
    assert!(!case.place.datadir().exists());
    // Hints, in a directory.
    let world = World::of(&tall());
    let place = world.swift(Mode::AssumeValid, world.height());
    let hints = world.write_hints(&place, world.height()).display().to_string();
    let args = ["hints", "verify", &hints, "--full"];
    let output = program_on(&place, &args).env("TMPDIR", &tmp).output().unwrap();
    assert_ends(&output, 0, &["no undo data for block 1", tmp.to_str().unwrap()]);
    assert!(stdout(&output).contains("none more and none less"), "{}", stdout(&output));
    let output = program_on(&place, &args).env("TMPDIR", &nowhere).output().unwrap();
    assert_ends(&output, 1, &["TMPDIR", "none"]);
    assert_empty(&tmp);
}

#[test]
fn a_disk_without_room_is_named_before_the_first_pass() {
    let world = World::of(&tall());
    let place = world.swift(Mode::AssumeValid, world.height());
    let hints = world.write_hints(&place, world.height());
    let snapshot = made(&world.in_order(), world.height()).to_bytes();
    let snapshot = place.write_bytes("utxo.dat", &snapshot);
    let script = "
        mkdir small; mount -t tmpfs -o size=40m none small
        export TMPDIR=$PWD/small
        status=0
        $apus prove $hints --full --datadir datadir --regtest || status=1$?
        test $status = 11
        $apus prove $snapshot --full --datadir datadir --regtest || status=2$?
        test $status = 21
        test -z \"$(ls small)\"";
    let variables = [("snapshot", snapshot.as_path()), ("hints", hints.as_path())];
    let Some(output) = run_with_mounts(place.root(), &variables, script) else { return };
    let small = place.root().join("small").display().to_string();
    assert_ends(&output, 0, &["the disk is too small", "TMPDIR", "leave out --full", &small]);
    assert_eq!(stderr(&output).matches("the disk is too small").count(), 2, "{}", stderr(&output));
    assert!(!stderr(&output).contains("--spilldir"), "{}", stderr(&output));
}

#[test]
fn a_disk_that_fills_up_is_named_and_nothing_is_left_on_it() {
    run_on_small_disk(120, "snapshot::by_join::on_a_small_disk");
}

/// Not a test, but what the test above runs where the small disk is mounted.
#[test]
#[ignore = "a process that another test starts"]
fn on_a_small_disk() {
    let Some(small) = small_disk() else { return };
    let (world, _, right) = &*RIGHT;
    let case = Case::new(right, &world.blocks);
    let from = [case.blocks.clone()];
    let mut was_full = 0;
    for phase in JOIN {
        let options = Options {
            dbcache_bytes: 0,
            join: JoinOptions { spill_dir: Some(small.clone()), ..Default::default() },
            ..case.options()
        };
        let fill = FillDisk::new(phase, small.join("other"));
        let stop = AtomicBool::new(false);
        let result = apus_claims::prove(&options, &case.snapshot, &from, Watch::new(&fill, &stop));
        std::fs::remove_file(small.join("other")).unwrap();
        assert_empty(&small);
        match result {
            Ok(summary) => assert_eq!(summary.best_block, world.tip(), "{phase:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("the disk is full"), "{phase:?}: {text}");
                assert!(text.contains("TMPDIR") && !text.contains("--method"), "{text}");
                was_full += 1;
            }
        }
    }
    assert!(was_full > 0, "it was full at least once");
}

#[test]
fn a_chain_with_another_start_is_no_proof() {
    let (world, _, right) = &*RIGHT;
    // The blocks of another chain, and a base block that none of them is.
    let other = with_genesis(small(6));
    let case = Case::new(right, &other);
    let error = case.verify(&case.options(), &Unobserved).unwrap_err().to_string();
    assert!(error.contains("its base block") && error.contains("utxo.dat"), "{error}");
    // A block in the middle is missing.
    let case = Case::new(right, world.blocks.iter().enumerate().filter(|b| b.0 != 90).map(|b| b.1));
    let error = case.verify(&case.options(), &Unobserved).unwrap_err().to_string();
    assert!(error.contains("its base block"), "{error}");
    assert_ne!(Hash::ZERO, world.tip());
}
