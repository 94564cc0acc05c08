//! Who checks scripts: the fast engine, Core's engine, or both come to the same in each way of
//! syncing, and the fast engine is kept from blocks that are not buried.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_node::ScriptOptions;
use apus_node::{Options, ScriptEngine};
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress, ScriptCounts};
use apus_sync as sync;
use apus_testchain::{Break, Chain, Mix, Spec};
use apus_tools as tools;
use apus_tools::UtxoHash;
use apus_wire::Chain as Network;

use crate::broken_rules::assert_refused_for;
use crate::support::chains::small;
use crate::support::outcome::Outcome;
use crate::support::program::{apus, assert_ends, stderr, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::swift::{Mode, World, small_chain, try_sync_with};
use crate::support::{Place, hash_of, scripts_by, with_genesis};

/// A chain of which most inputs have signatures.
fn signed() -> &'static Chain {
    static SIGNED: LazyLock<Chain> =
        LazyLock::new(|| Chain::new(Spec { busy_bytes: 10_000, ..Spec::small(3) }));
    &SIGNED
}

const ENGINES: [ScriptEngine; 3] = [ScriptEngine::Core, ScriptEngine::Fast, ScriptEngine::Both];

/// Options under which an engine checks every block.
fn with(engine: ScriptEngine, options: Options) -> Options {
    Options { scripts: scripts_by(engine), ..options }
}

/// Options for a join or a SwiftSync to the tip by the fast engine, with progress saved all the
/// time.
fn fast_and_saved_often(world: &World, place: &Place, method: Method) -> Options {
    let mut options = with(ScriptEngine::Fast, place.join());
    options.method = Some(method);
    options.save_every = Duration::from_millis(2);
    match method {
        Method::SwiftSync => options.with_hints(world.write_hints(place, world.height())),
        _ => options,
    }
}

/// The counts of each engine for `n` inputs.
fn assert_counts(engine: ScriptEngine, counts: ScriptCounts, inputs: u64, what: &str) {
    let ScriptCounts { fast, core, rechecked, signatures, kernel } = counts;
    assert_eq!(fast + core, inputs, "{what}: {counts:?}");
    match engine {
        ScriptEngine::Core => assert_eq!((fast, signatures, kernel), (0, 0, None), "{what}"),
        ScriptEngine::Fast => {
            assert!(fast * 10 > inputs * 7 && signatures > fast / 2, "{what}: {counts:?}");
            assert!(rechecked < fast / 100 && kernel.is_some(), "{what}: {counts:?}");
        }
        ScriptEngine::Both => assert_eq!(fast, rechecked, "{what}: {counts:?}"),
    }
}

#[test]
fn each_engine_comes_to_the_same_in_each_way() {
    let world = World::of(signed());
    let mut first: Option<Outcome> = None;
    for engine in ENGINES {
        for method in Method::ALL {
            let place = world.place();
            let mut options = with(engine, Options { method: Some(method), ..place.join() });
            let sources = world.sources(&place, Mode::Full, &world.file_order());
            if method == Method::SwiftSync {
                options.swiftsync.hints = Some(world.write_hints(&place, world.height()));
            }
            let outcome = Outcome::of_sync(&place, &options, &sources);
            let what = format!("{engine:?}, {method:?}");
            let inputs = outcome.summary.counts.scripts;
            assert!(inputs > 2_000, "{what}: {inputs} inputs");
            assert_counts(engine, outcome.summary.scripts, inputs, &what);
            match &first {
                Some(first) => outcome.assert_same(first, &what),
                None => first = Some(outcome),
            }
        }
    }
}

#[test]
fn the_engines_agree_on_the_chains_that_other_tests_check_by_the_fast_one() {
    let shared = [5, 6, 96, 206].map(|seed| World::of(small(seed)));
    let varied = [(203, 50, 9_000), (205, 120, 6_000), (51, 40, 6_000)];
    let varied = varied.map(|(seed, blocks, bytes)| World::of(&small_chain(seed, blocks, bytes)));
    for world in shared.into_iter().chain(varied) {
        let place = world.place();
        let options = with(ScriptEngine::Both, place.in_order());
        let source = place.write("chain", &world.blocks);
        let summary = try_sync_with(&options, &[source]).unwrap();
        assert_eq!(summary.best_block, world.tip());
        assert_counts(ScriptEngine::Both, summary.scripts, summary.counts.inputs, "in order");
    }
}

#[test]
fn a_block_with_a_wrong_script_is_refused_on_the_fast_way() {
    let chain = signed();
    let base = Place::new(Network::Regtest);
    base.sync(&[base.write("chain", &with_genesis(chain))]);
    let mut scripts = 0;
    for rule in Break::ALL {
        let broken = chain.broken(*rule);
        scripts += u32::from(broken.reason.starts_with("block-script-verify-flag-failed"));
        let place = base.copy();
        let options = with(ScriptEngine::Fast, place.in_order());
        let source = place.write("broken", [&broken.block]);
        let summary = try_sync_with(&options, &[source]).unwrap();
        let [refusal] = &summary.refusals[..] else { panic!("{rule:?}: {:?}", summary.refusals) };
        assert_refused_for(*rule, broken.reason, &refusal.reason);
        assert_eq!(refusal.block, Some(hash_of(&broken.block)), "{rule:?}");
    }
    assert!(scripts > 5, "{scripts}");
}

#[test]
fn blocks_not_buried_for_two_weeks_are_left_to_cores_engine() {
    let spec = |empty_blocks_after| Spec {
        busy_blocks: 10,
        busy_bytes: 20_000,
        empty_blocks_after,
        mix: Mix::varied(),
        ..Spec::small(7)
    };
    // On regtest, where each block counts as ten minutes, two weeks are 2,016 blocks.
    for (empty, buried) in [(0, 0), (2_010, 4), (2_016, 10), (2_100, 10)] {
        let chain = Chain::new(spec(empty));
        let place = Place::new(Network::Regtest);
        let two_weeks = ScriptOptions::default().buried_seconds;
        let fast = with(ScriptEngine::Fast, place.in_order());
        let options = Options {
            scripts: ScriptOptions { buried_seconds: two_weeks, ..fast.scripts.clone() },
            ..fast
        };
        let source = place.write("chain", &with_genesis(&chain));
        let summary = try_sync_with(&options, &[source]).unwrap();
        let ScriptCounts { fast, core, .. } = summary.scripts;
        let all = summary.counts.scripts;
        assert_eq!(fast + core, all);
        match buried {
            0 => assert_eq!(fast, 0, "{empty} empty blocks"),
            10 => assert!(fast * 10 > all * 7, "{empty} empty blocks: {fast} of {all}"),
            _ => assert!(fast > 0 && fast * 10 < all * 6, "{empty} empty blocks: {fast} of {all}"),
        }
        // A best header without the minimum work may be of anyone.
        let place = Place::new(Network::Regtest);
        let mut options = with(ScriptEngine::Fast, place.in_order());
        options.network.minimum_chain_work.0[31] = 1;
        let source = place.write("chain", &with_genesis(&chain));
        let summary = try_sync_with(&options, &[source]).unwrap();
        assert_eq!(summary.scripts.fast, 0, "{empty} empty blocks");
    }
}

#[test]
fn progress_of_one_engine_is_not_carried_on_by_another() {
    let world = World::of(signed());
    let all = {
        let place = world.place();
        place.sync(&[place.write("blocks", &world.blocks)]).counts.scripts
    };
    for method in [Method::Join, Method::SwiftSync] {
        let place = world.place();
        let sources = world.sources(&place, Mode::Full, &world.file_order());
        let options = fast_and_saved_often(&world, &place, method);
        let stop = AtomicBool::new(false);
        let blocks_max = u64::from(world.height()) * 3 / 4;
        let observer = StopWhen(&stop, |seen: &Progress| match method {
            Method::Join => seen.phase == Phase::JoinChecking && seen.fraction > 0.5,
            _ => seen.blocks >= blocks_max,
        });
        let stopped = sync::sync(&options, &sources, Watch::new(&observer, &stop)).unwrap();
        assert!(stopped.saved.is_some(), "{method:?}");
        let copy = place.copy();
        let carried_on = try_sync_with(&options, &sources).unwrap();
        let checked = |counts: ScriptCounts| counts.fast + counts.core;
        let done = checked(carried_on.scripts);
        // None if the last block was checked before the stop counted.
        assert!(done < all, "{method:?}: {done} of {all}");
        // What the fast engine has checked is checked again.
        let mut others = with(ScriptEngine::Core, Options { datadir: copy.datadir(), ..options });
        others.save_every = Duration::from_secs(100);
        let again = try_sync_with(&others, &sources).unwrap();
        assert_eq!((checked(again.scripts), again.scripts.fast), (all, 0), "{method:?}");
        assert_eq!(place.utxo_hash(), copy.utxo_hash(), "{method:?}");
    }
}

#[test]
fn a_saved_difference_leaves_all_scripts_to_cores_engine() {
    let chain = signed();
    let place = Place::new(Network::Regtest);
    let source = place.write("chain", &with_genesis(chain));
    let name = "script-difference-00ff-0.json";
    let path = place.network_dir().join(name);
    std::fs::create_dir_all(place.network_dir()).unwrap();
    std::fs::write(&path, "{}").unwrap();
    let sync = ["sync", "--from", source.to_str().unwrap()];
    let both = ["--assumevalid", "0", "--script-engine", "both", "--testing", "kernel=library"];
    let output = apus(&place, &[&sync[..], &both].concat());
    let remedy = "run `apus reindex`";
    assert_ends(&output, 0, &["Warning: ", path.to_str().unwrap(), remedy]);
    let first_line = stderr(&output).lines().next().unwrap().to_string();
    let words = format!("; Bitcoin Core's engine alone checks scripts, because of {name}");
    assert!(first_line.ends_with(&words), "{first_line}");
    let report = stdout(&output);
    assert!(report.contains(remedy) && !report.contains("inputs checked by Apus"), "{report}");
    let json = |args: &[&str]| -> serde_json::Value {
        let output = apus(&place, args);
        assert_ends(&output, 0, &[]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let reindex = [&["reindex", "--json"][..], &both].concat();
    let found = json(&reindex);
    let expected = serde_json::json!({"file": path, "unsaved": null});
    assert_eq!(found["script_difference"], expected);
    assert_eq!(found["script_checks"]["fast"], 0);
    let found = json(&["verify", "--level", "4", "--assumevalid", "0", "--json"]);
    assert_eq!(found["script_difference"], expected);
    std::fs::remove_file(&path).unwrap();
    let found = json(&reindex);
    assert!(found["script_difference"].is_null(), "{found}");
    assert!(found["script_checks"]["fast"].as_u64() > Some(1_000), "{found}");
}

/// Nothing of a part of a block is saved before all its signatures are verified.
#[test]
fn a_wrong_script_is_refused_by_a_run_that_carries_on() {
    let chain = signed();
    let rules = [Break::P2pkhSignature, Break::P2trKeySignature, Break::P2wshMultisigSignature];
    for (rule, method) in
        rules.into_iter().flat_map(|rule| [(rule, Method::Join), (rule, Method::SwiftSync)])
    {
        let mut blocks = with_genesis(chain);
        blocks.push(chain.broken(rule).block);
        let world = World::new(Network::Regtest, blocks);
        let place = world.place();
        // The wrong block is the first in its file, and so among the first that are checked.
        let mut order = world.file_order();
        order.rotate_right(1);
        let sources = world.sources(&place, Mode::Full, &order);
        let options = fast_and_saved_often(&world, &place, method);
        let mut refused = false;
        for part in 0..5 {
            let stop = AtomicBool::new(false);
            let until = StopWhen(&stop, |seen: &Progress| {
                matches!(seen.phase, Phase::JoinChecking | Phase::SwiftSync)
                    && seen.fraction > f64::from(part) / 4.0
            });
            let ended = match sync::sync(&options, &sources, Watch::new(&until, &stop)) {
                Ok(summary) => {
                    assert_ne!(summary.best_block, world.tip(), "{rule:?}, {method:?}");
                    format!("{:?}", summary.refusals)
                }
                Err(error) => error.to_string(),
            };
            refused |= ended.contains("block-script-verify-flag-failed");
        }
        assert!(refused, "{rule:?}, {method:?}");
        // A SwiftSync that failed has left no coins.
        let options = place.options();
        if let Ok(Some(coins)) = tools::txoutset_info(&options, UtxoHash::None, Watch::default()) {
            assert_ne!(coins.best_block, world.tip(), "{rule:?}, {method:?}");
        }
    }
}
