use std::path::Path;

use apus_chain::ActiveChain;
use apus_node::error::ErrorKind;
use apus_node::opened::Coins;
use apus_node::options::{AssumeValid, Options};
use apus_node::run::Run;
use apus_node::scan::{open_sources, scan_into_node};
use apus_node::shared::NEVER;
use apus_progress::Watch;
use apus_progress::phase::Phase;
use apus_store::{BlockStatus, IndexKind};
use apus_swiftsync::hints::{Format, encoder};
use apus_testdata::data;
use apus_wire::{Chain, Network};

use super::*;
use crate::hints_file::HintsFile;
use crate::unfinished::open_node;

/// Height of the last block in the source of every node here.
const HEIGHT: u32 = 206;
/// Height of the last block that a join of all of them takes.
const TARGET: u32 = HEIGHT - 144;

/// Opens an empty node in a directory, and finds the blocks of a source.
fn node(place: &Path, method: Option<Method>) -> Node {
    let options = Options::new(place.join("data"), Network::new(Chain::Regtest));
    let options = Options { method, ..options };
    let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
    let sources = open_sources(&options, &[data("regtest-1-206.dat")]).unwrap();
    scan_into_node(&mut node, &sources, Watch::default()).unwrap();
    assert_eq!(node.tree().node(node.tree().best_header()).height, HEIGHT);
    node
}

/// Returns the block at a height of the best chain.
fn block(node: &Node, height: u32) -> BlockId {
    node.tree().ancestor(node.tree().best_header(), height).unwrap()
}

/// Makes the index say that every block is stored and has `tx_count` transactions.
fn grow(node: &mut Node, tx_count: u32) {
    for height in 1..=HEIGHT {
        let id = block(node, height);
        let entry = node.ledger_mut().change(id);
        entry.tx_count = tx_count;
        entry.status.0 |= BlockStatus::BLOCK_HAVE_DATA;
    }
}

/// Returns the estimated bytes of a stored block with this many transactions.
fn bytes_of(tx_count: u32) -> u64 {
    81 + u64::from(tx_count) * 500
}

#[track_caller]
fn assert_in_order(node: &Node, words: &str) -> ChosenMethod {
    let choice = choose(node, None).unwrap();
    assert_eq!(choice.method, Method::InOrder, "{}", choice.why);
    assert!(choice.why.contains(words), "'{words}' is not in: {}", choice.why);
    choice
}

#[track_caller]
fn assert_joins(node: &Node, first: u32, last: u32) -> ChosenMethod {
    let choice = choose(node, None).unwrap();
    assert_eq!(choice.target, Some(block(node, last)), "{}", choice.why);
    let blocks = choice.blocks.unwrap();
    assert_eq!((blocks.first, blocks.last), (first, last));
    choice
}

#[test]
fn few_bytes_go_in_order_unless_a_join_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), None);
    let choice = assert_in_order(&node, "a join is faster from 64 MB on");
    let blocks = choice.blocks.unwrap();
    assert_eq!((blocks.first, blocks.last), (1, HEIGHT));
    // Regtest has no built-in block to assume valid, and all these blocks are in the source.
    assert_eq!(blocks.with_scripts, blocks.bytes);
    assert_eq!(blocks.without_undo, blocks.bytes);
    assert_eq!(blocks.copied, blocks.bytes + 8 * u64::from(HEIGHT));
    let line = choice.line().unwrap();
    assert!(line.starts_with("Connecting blocks 1 to 206 ("), "{line}");
    let why = "in order: a join is faster from 64 MB on; it should take up to ";
    assert!(line.contains(why), "{line}");
    node.options_mut().method = Some(Method::Join);
    let choice = assert_joins(&node, 1, TARGET);
    let line = choice.line().unwrap();
    assert!(line.starts_with("Joining blocks 1 to 62 ("), "{line}");
    assert!(line.contains("--method=join asks for it; it should take up to "), "{line}");
    let why = choice.why.clone();
    assert_eq!((choice.method, choice.why), (Method::Join, why));
    node.options_mut().method = Some(Method::InOrder);
    assert_in_order(&node, "--method=order asks for it");
}

/// Stores all blocks, as a sync does before a reindex reads them.
#[test]
fn stored_blocks_count_with_their_own_bytes() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), None);
    let in_source = Waiting::of(&node).unwrap().bytes;
    let steps: Vec<_> =
        (1..=HEIGHT).map(|height| apus_node::opened::step(&node, block(&node, height))).collect();
    let (shared, ledger) = node.split();
    for step in steps.into_iter().flatten() {
        let checked = shared.checked(step, &NEVER).ok().unwrap();
        ledger.store_block(&shared, step.id, checked.view()).unwrap();
    }
    let files = node.files().infos();
    let records = &node.ledger().records.all;
    assert_eq!(files[0].blocks, HEIGHT + 1);
    // As for a node that is opened when they are stored.
    let sizes = apus_node::stored_sizes::StoredSizes::of(records, &files);
    let stored = (1..=HEIGHT).map(|height| sizes.get(block(&node, height)).unwrap());
    assert_eq!(stored.sum::<u64>(), in_source);
}

#[test]
fn what_blocks_leave_is_learned_from_those_that_can_be_read() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), None);
    let waiting = Waiting::of(&node).unwrap();
    let tables = |node: &Node| node.forecast().growth.tables(waiting.bytes);
    let before = tables(&node);
    apus_node::waiting::learn_from_samples(&mut node);
    let learned = tables(&node);
    // Nearly every one of the 206 blocks leaves the output of its coinbase unspent.
    assert!(learned.least > 206 * 40 && learned.likely < 206 * 140, "{learned:?}");
    assert!(learned.likely > 2 * before.likely, "{learned:?}, not {before:?}");
}

#[test]
fn many_bytes_are_joined() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), None);
    let enough = (FIGURES.join_bytes_min / u64::from(TARGET) / 500) as u32 + 1;
    assert!(bytes_of(enough - 1) * u64::from(TARGET) < FIGURES.join_bytes_min);
    grow(&mut node, enough - 1);
    assert_in_order(&node, "64 MB");
    assert!(bytes_of(enough) * u64::from(TARGET) >= FIGURES.join_bytes_min);
    grow(&mut node, enough);
    let choice = assert_joins(&node, 1, TARGET);
    assert_eq!(choice.why, "no hints, and about 64 MB wait to be added to an empty UTXO set");
    let line = choice.line().unwrap();
    assert!(line.starts_with("Joining blocks 1 to 62 (about 64 MB): no hints"), "{line}");
    assert!(line.ends_with(". --method=order syncs in order instead."), "{line}");
    node.options_mut().method = Some(Method::InOrder);
    assert_in_order(&node, "--method=order asks for it");
}

#[test]
fn few_bytes_next_to_large_tables_go_in_order() {
    let bytes = FIGURES.join_bytes_min;
    assert_eq!(too_few(bytes, 0), None);
    assert_eq!(too_few(bytes, 4 * bytes), None);
    assert!(too_few(bytes, 4 * (bytes + 1)).is_some());
    let why = too_few(bytes, 800_000_000).unwrap();
    assert_eq!(why, "next to a UTXO set of 800 MB, a join is faster from 200 MB on");
    assert!(too_few(bytes - 1, 0).is_some());
}

#[test]
fn a_join_ends_at_its_depth_at_the_stop_height_and_before_a_gap() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), Some(Method::Join));
    for (stop, depth, last) in [
        (None, 144, TARGET),
        (Some(50), 144, 50),
        (Some(TARGET + 1), 144, TARGET),
        (None, 0, HEIGHT),
        (Some(HEIGHT + 1), 0, HEIGHT),
        (None, HEIGHT - 1, 1),
    ] {
        node.options_mut().stop_at_height = stop;
        node.options_mut().join.depth = depth;
        assert_joins(&node, 1, last);
    }
    node.options_mut().stop_at_height = None;
    node.options_mut().join.depth = HEIGHT;
    assert_in_order(&node, "206 blocks below the best header, which is at height 206");
    node.options_mut().join.depth = u32::MAX;
    assert_in_order(&node, "no block waits below that");
    node.options_mut().join.depth = 144;
    // Blocks above the gap are available, but cannot be connected.
    let missing = block(&node, 30);
    node.change_tree(|tree| tree.mark_missing(missing));
    assert_joins(&node, 1, 29);
}

#[test]
fn a_join_begins_at_the_tip_or_where_the_chains_part() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), Some(Method::Join));
    let at = |node: &Node, height| ActiveChain::to(node.tree(), block(node, height));
    node.ledger_mut().active = at(&node, 30);
    assert_joins(&node, 31, TARGET);
    node.ledger_mut().active = at(&node, TARGET - 1);
    assert_joins(&node, TARGET, TARGET);
    node.ledger_mut().active = at(&node, TARGET);
    let choice = assert_in_order(&node, "no block waits below that");
    let blocks = choice.blocks.unwrap();
    assert_eq!((blocks.first, blocks.last), (TARGET + 1, HEIGHT));
    node.options_mut().stop_at_height = Some(TARGET);
    assert_eq!(assert_in_order(&node, "no block waits").line(), None);
    node.options_mut().stop_at_height = None;
    node.ledger_mut().active = at(&node, HEIGHT);
    let choice = assert_in_order(&node, "no block waits");
    assert_eq!(choice.line(), None);
    assert!(choice.plan().stages.is_empty());
    assert_eq!(choice.method, Method::InOrder);
}

#[test]
fn without_room_it_goes_in_order_or_says_what_a_join_needs() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), None);
    // More bytes than any disk has.
    grow(&mut node, u32::MAX);
    let choice = assert_in_order(&node, "of temporary files");
    assert!(choice.why.contains("a join may need 2") && choice.why.contains("--spilldir"));
    node.options_mut().method = Some(Method::Join);
    let error = choose(&node, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disk);
    let text = error.to_string();
    for words in [
        "too small",
        "GB of temporary files",
        "GB of undo data",
        "GB of tables",
        "--spilldir",
        "--method=order",
        "Nothing was written",
    ] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    let spill = node.options().spill_path();
    assert!(text.contains(spill.to_str().unwrap()), "{text}");
    assert!(!spill.exists());
    // Room that an interrupted join has already taken for temporary files need not be free again.
    let needed = || {
        let joined = joined(&node).unwrap();
        space::lack_for_join(&node, &joined).unwrap().unwrap().needed
    };
    let before = needed();
    std::fs::create_dir(&spill).unwrap();
    std::fs::write(spill.join("some"), [0; 1000]).unwrap();
    std::fs::write(spill.join("more"), [0; 200]).unwrap();
    assert_eq!(before - needed(), 1200);
}

#[test]
fn a_pruned_directory_has_no_join() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), None);
    node.ledger_mut().pruning.is_pruned = true;
    assert_in_order(&node, "block files were pruned");
    node.options_mut().method = Some(Method::Join);
    let error = choose(&node, None).unwrap_err().to_string();
    assert!(
        error.contains("block files were pruned") && error.contains("--method=join"),
        "{error}"
    );
}

#[test]
fn hints_above_the_tip_decide_for_swiftsync() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("hints");
    let mut bytes = Vec::new();
    let encoder = encoder(Format::Bip456);
    encoder.put_head(100, &mut bytes);
    (0..100).for_each(|_| encoder.put_block(&[], 1, &mut bytes).unwrap());
    std::fs::write(&file, bytes).unwrap();
    let hints = Claim::Hints(HintsFile::open(&file).unwrap());
    let mut node = node(place.path(), None);
    node.options_mut().swiftsync.hints = Some(file.clone());
    for method in [None, Some(Method::SwiftSync)] {
        node.options_mut().method = method;
        let choice = choose(&node, Some(&hints)).unwrap();
        assert_eq!(choice.method, Method::SwiftSync);
        let line = choice.line().unwrap();
        assert!(line.starts_with("SwiftSync of blocks 1 to 100 ("), "{line}");
        assert!(line.contains(file.to_str().unwrap()), "{line}");
    }
    // Hints are not used once the tip has reached their height.
    node.ledger_mut().active = ActiveChain::to(node.tree(), block(&node, 100));
    let choice = choose(&node, Some(&hints)).unwrap();
    assert_eq!(
        (choice.method, &choice.why[..]),
        (Method::InOrder, "the tip is at the hints' height or above")
    );
    node.options_mut().method = None;
    node.options_mut().join.depth = 10;
    node.options_mut().assumevalid = AssumeValid::Nothing;
    grow(&mut node, 10_000);
    let choice = choose(&node, Some(&hints)).unwrap();
    assert_eq!(choice.target, Some(block(&node, HEIGHT - 10)));
    assert!(choice.why.starts_with("the hints end at height 100, and "), "{}", choice.why);
    assert!(choice.why.contains("added to a UTXO set of "), "{}", choice.why);
}

#[test]
fn contradicting_options_are_wrong_for_library_users_too() {
    let place = tempfile::tempdir().unwrap();
    let node = node(place.path(), Some(Method::SwiftSync));
    let error = choose(&node, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("--hints"), "{error}");
}

#[test]
fn the_plan_has_every_stage_and_grows_with_the_work() {
    let place = tempfile::tempdir().unwrap();
    let mut node = node(place.path(), Some(Method::Join));
    let phases = |node: &Node| {
        let choice = choose(node, None).unwrap();
        choice.plan().stages.iter().map(|stage| stage.phase).collect::<Vec<_>>()
    };
    let join = [Phase::JoinReading, Phase::JoinMatching, Phase::JoinChecking];
    let in_order = [Phase::Connecting, Phase::WritingCoins, Phase::Merging];
    assert_eq!(phases(&node), [join, in_order].concat(), "the last 144 blocks go in order");
    node.options_mut().join.depth = 0;
    assert_eq!(phases(&node), join);
    node.options_mut().method = Some(Method::InOrder);
    assert_eq!(phases(&node), in_order);
    node.options_mut().indexes = IndexKind::ALL.to_vec();
    let indexes = [Phase::ReadingForIndexes, Phase::WritingIndexes];
    assert_eq!(phases(&node), [&in_order[..], &indexes].concat());
    node.options_mut().indexes = vec![IndexKind::BlockFilterIndex];
    assert_eq!(phases(&node), [&in_order[..], &indexes[..1]].concat());
    node.options_mut().indexes.clear();
    let waiting = Waiting::of(&node).unwrap();
    let seconds =
        |node: &Node, method, waiting: &Waiting| stages(node, method, waiting, None).work();
    let twice = Waiting { bytes: 2 * waiting.bytes, ..waiting };
    let none = Waiting { with_scripts: 0, ..waiting };
    for method in [Method::InOrder, Method::Join] {
        let all = seconds(&node, method, &waiting);
        assert!(seconds(&node, method, &twice) > all && seconds(&node, method, &none) < all);
    }
    // SwiftSync checks every script or none.
    let without = seconds(&node, Method::SwiftSync, &waiting);
    node.options_mut().assumevalid = AssumeValid::Nothing;
    let with = seconds(&node, Method::SwiftSync, &none);
    assert!(with > without, "{with} {without}");
}
