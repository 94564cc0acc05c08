//! The report of a run: what was not checked, which undo data exists, what is saved.

use std::process::Command;

use apus_node::RuleGroup;

use super::stop::StopSoon;
use crate::support::judge::Judge;
use crate::support::swift::{MODES, Mode, World, small_chain};
use apus_progress::Watch;
use apus_sync::SavedSync;

#[test]
fn it_says_what_was_not_checked_and_which_undo_data_is_missing() {
    let world = World::of(&small_chain(191, 300, 1_500));
    let height = world.height();
    let in_order = world.in_order();
    let first_recent = height - 287;
    for mode in MODES {
        let (place, hints, sources) = world.prepared(mode, &world.file_order());
        let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
        let not_checked: Vec<_> = summary.checked.not_checked().to_vec();
        if mode == Mode::Full {
            assert!(not_checked.is_empty(), "{not_checked:?}");
            assert_eq!(summary.undo_from, 1);
            continue;
        }
        let ranges: Vec<_> = not_checked.iter().map(|b| (b.first, b.last, b.rules)).collect();
        let due =
            [(1, first_recent - 1, RuleGroup::ALL), (first_recent, height, RuleGroup::SCRIPTS)];
        assert_eq!(ranges, due);
        assert_eq!(summary.undo_from, first_recent);
        // The repair that the report names makes it whole.
        let summary = place.try_reindex().unwrap();
        assert!(summary.checked.not_checked().is_empty());
        assert_eq!((summary.undo_from, summary.best_block), (1, world.tip()));
        assert_eq!(place.undo(), in_order.undo());
        assert_eq!(place.undo().len() as u32, height);
        let judge = Judge::open(&place).expect("the engine opens it");
        let spent: usize =
            world.model.blocks.iter().flat_map(|deeds| &deeds.undo).map(Vec::len).sum();
        assert_eq!(judge.read_everything().0, spent as u64);
    }
}

#[test]
fn the_program_says_it_in_text_and_as_json() {
    let world = World::of(&small_chain(192, 300, 1_500));
    let place = world.place();
    let hints = world.write_hints(&place, world.height());
    let source = place.write("blocks", &world.blocks);
    let run = |directory: &str, json: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apus"));
        command.args(["sync", "-regtest", "--minimumchainwork", "0", "--hints"]).arg(&hints);
        command.arg("--from").arg(&source);
        command.arg("--datadir").arg(place.root().join(directory));
        command.arg(format!("--assumevalid={}", world.tip()));
        if json {
            command.arg("--json");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let first_recent = world.height() - 287;
    let text = run("text", false);
    for words in [
        format!("taken as valid in blocks 1 to {}: scripts, amounts", first_recent - 1),
        "coinbase claims, the order of spends, maturity of coinbases".to_string(),
        "relative lock times (BIP68), P2SH signature operations".to_string(),
        format!("taken as valid in blocks {first_recent} to {}: scripts\n", world.height()),
        format!("complete from height {first_recent} on"),
        "`apus reindex` writes it".to_string(),
    ] {
        assert!(text.contains(&words), "'{words}' is not in: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&run("json", true)).unwrap();
    assert_eq!(json["checked"]["everything"], false);
    let ranges = json["checked"]["not_checked"].as_array().unwrap();
    assert_eq!(ranges.len(), 2);
    assert_eq!(ranges[0]["rules"].as_array().unwrap().len(), RuleGroup::ALL.len());
    assert_eq!(ranges[1]["first_height"], first_recent);
    assert_eq!(ranges[1]["last_height"], world.height());
    assert_eq!(ranges[1]["rules"], serde_json::json!(["scripts"]));
    assert_eq!(json["undo_from"], first_recent);
    assert!(json["swiftsync_saved"].is_null());
}

#[test]
fn interrupted_it_says_what_is_saved() {
    let world = World::of(&small_chain(193, 60, 5_000));
    for mode in MODES {
        let interrupted = (0..30).find_map(|_| {
            let (place, hints, sources) = world.prepared(mode, &world.file_order());
            let options = world.options(&place, mode, &hints);
            let summary = StopSoon::new(1).run(&options, &sources).unwrap();
            // On a busy machine all blocks may be done before the request is seen.
            let is_whole = summary
                .saved
                .and_then(SavedSync::swiftsync)
                .is_some_and(|saved| saved.done == saved.total);
            (summary.interrupted && !is_whole).then_some((place, options, sources, summary))
        });
        let (_place, options, sources, summary) = interrupted.expect("it can be asked to stop");
        let saved = summary.saved.and_then(SavedSync::swiftsync).expect("it says what is saved");
        assert_eq!(saved.total, world.height(), "{mode:?}");
        assert!(saved.done > 0, "{mode:?}: {saved:?}");
        // A run that is asked to stop before it has begun reports the same.
        let stop = std::sync::atomic::AtomicBool::new(true);
        let again =
            apus_sync::sync(&options, &sources, Watch::new(&apus_progress::Unobserved, &stop))
                .unwrap();
        assert!(again.interrupted, "{mode:?}");
        assert_eq!(again.saved.and_then(SavedSync::swiftsync), Some(saved), "{mode:?}");
        let whole = StopSoon::new(usize::MAX).run(&options, &sources).unwrap();
        assert_eq!((whole.best_block, whole.saved), (world.tip(), None), "{mode:?}");
    }
}
