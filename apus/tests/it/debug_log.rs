//! debug.log: Core's line for every tip, rotation, and trouble that ends no sync.

use std::path::Path;
use std::process::{Child, Stdio};

use apus_wire::Chain;
use rustix::process::Signal;

use crate::support::chains::small;
use crate::support::commands::{self, Does};
use crate::support::mounts::run_with_mounts;
use crate::support::program::{apus, assert_ends, program, program_on, signal, stderr, stdout};
use crate::support::swift::{World, small_chain};
use crate::support::waiting::wait_until;
use crate::support::{Place, data, hash_of, with_genesis};

/// What a line about a tip says that does not depend on the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TipLine {
    pub height: u32,
    /// From `best=` on to the date.
    pub facts: String,
}

/// The lines about tips in a log, as they follow each other.
///
/// # Panics
/// One does not have Core's form.
pub fn tips(log: &str) -> Vec<TipLine> {
    log.lines().filter(|line| line.contains(" UpdateTip: ")).map(tip).collect()
}

fn tip(line: &str) -> TipLine {
    let (time, rest) = line.split_once(" UpdateTip: new ").expect(line);
    assert!(time.len() == 20 && time.ends_with('Z'), "{line}");
    let (facts, others) = rest.split_once(" progress=").expect(line);
    let shape = |text: &str| -> String {
        let digit = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let digits: Vec<char> = text.chars().map(digit).collect();
        let mut shape: String = digits.iter().collect();
        while shape.contains("00") {
            shape = shape.replace("00", "0");
        }
        shape
    };
    assert_eq!(shape(others), "0.0 cache=0.0MiB(0txo)", "{line}");
    assert_eq!(others.split_once(' ').unwrap().0.len(), 8, "{line}");
    let height = facts.split_once(" height=").expect(line).1.split(' ').next().unwrap();
    TipLine { height: height.parse().unwrap(), facts: facts.to_string() }
}

fn world() -> World {
    World::of(&small_chain(45, 60, 20_000))
}

fn log_of(place: &Place) -> String {
    std::fs::read_to_string(place.network_dir().join("debug.log")).unwrap_or_default()
}

fn heights(log: &str) -> Vec<u32> {
    tips(log).iter().map(|tip| tip.height).collect()
}

#[test]
fn every_tip_has_cores_line() {
    let world = world();
    let place = world.place();
    let blocks = place.write("blocks", &world.blocks);
    let blocks = blocks.to_str().unwrap();
    let up: Vec<u32> = (1..=world.height()).collect();
    let synced = apus(&place, &["sync", "--method=order", "--quiet", "--from", blocks]);
    assert_ends(&synced, 0, &[]);
    let log = log_of(&place);
    assert_eq!(heights(&log), up);
    let mut transactions = 1;
    for (block, tip) in world.blocks[1..].iter().zip(tips(&log)) {
        let parsed: bitcoin::Block = bitcoin::consensus::deserialize(block).unwrap();
        transactions += parsed.txdata.len();
        let start = format!("best={} height={} version=0x", hash_of(block), tip.height);
        assert!(tip.facts.starts_with(&start), "{}", tip.facts);
        // Blocks of regtest take two hashes each.
        let work = (2.0 * f64::from(tip.height + 1)).log2();
        let middle = format!(
            "{:08x} log2_work={work:.6} tx={transactions} date='",
            parsed.header.version.to_consensus()
        );
        assert_eq!(tip.facts[start.len()..].split_at(middle.len()).0, middle);
    }
    let first = log.lines().next().unwrap();
    assert!(first[21..].starts_with("Apus ") && log.contains("Data directory "), "{first}");
    assert!(log.trim_end().lines().last().unwrap()[21..].starts_with("Done: height"), "{log}");
    // The next runs append: down, up again, and a rebuild.
    let down = (world.height() - 3).to_string();
    assert_ends(&apus(&place, &["rewind", "--height", &down]), 0, &[]);
    let mut expected = up.clone();
    expected.extend((world.height() - 3..world.height()).rev());
    assert_eq!(heights(&log_of(&place)), expected);
    assert_ends(&apus(&place, &["sync", "--connect=0"]), 0, &[]);
    expected.extend(world.height() - 2..=world.height());
    assert_eq!(heights(&log_of(&place)), expected);
    assert_ends(&apus(&place, &["reindex", "--method=join"]), 0, &[]);
    // What a join brings comes at once, and what is left in order.
    let rest = &heights(&log_of(&place))[expected.len()..];
    assert!(rest.len() < 150 && rest.last() == Some(&world.height()), "{rest:?}");
    // On its way up and down, and in whatever run, the same block has the same line.
    let tips = tips(&log_of(&place));
    for tip in &tips {
        assert_eq!(Some(tip), tips.iter().find(|first| first.height == tip.height));
    }
}

/// A sync in order of mainnet's first blocks, with its output discarded.
fn start_sync(place: &Place, args: &[&str]) -> Child {
    let mut command = program_on(place, &["sync", "--method=order", "--assumevalid=0"]);
    command.args(args).arg("--from").arg(data("mainnet-0-14131.dat"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until there is something in a file; returns false if the program ends before.
fn wait_for(child: &mut Child, path: &Path) -> bool {
    let mut is_there = false;
    wait_until("the program writes to a file or ends", || {
        is_there = path.metadata().is_ok_and(|found| found.len() > 0);
        is_there || child.try_wait().unwrap().is_some()
    });
    is_there
}

#[test]
fn a_rotated_log_loses_no_line() {
    let place = Place::new(Chain::Main);
    let path = place.network_dir().join("debug.log");
    let mut child = start_sync(&place, &[]);
    let mut whole = String::new();
    let mut rotated = 0;
    while wait_for(&mut child, &path) {
        let old = place.root().join(format!("debug.log.{rotated}"));
        std::fs::rename(&path, &old).unwrap();
        signal(&child, Signal::HUP);
        rotated += 1;
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for number in 0..rotated {
        let old = place.root().join(format!("debug.log.{number}"));
        whole += &std::fs::read_to_string(old).unwrap();
    }
    whole += &log_of(&place);
    assert!(rotated > 0, "the log was never rotated");
    assert_eq!(heights(&whole), (1..=14_131).collect::<Vec<u32>>(), "{rotated} rotations");
    // Without a log SIGHUP ends a sync, as it always did.
    let other = Place::new(Chain::Main);
    let mut child = start_sync(&other, &["--nodebuglogfile"]);
    assert!(wait_for(&mut child, &other.network_dir().join("blocks/blk00000.dat")));
    signal(&child, Signal::HUP);
    assert!(matches!(child.wait().unwrap().code(), Some(130 | 0)));
    assert!(!other.network_dir().join("debug.log").exists());
}

#[test]
fn commands_that_read_or_are_refused_make_no_log() {
    let world = world();
    let place = world.in_order();
    for args in commands::that(&[Does::Reads]) {
        let mut command = program_on(&place, &args);
        let output = command.arg("--debug").current_dir(place.root()).output().unwrap();
        assert_ends(&output, 0, &[]);
    }
    let hints = place.root().join("hints");
    assert_ends(&apus(&place, &["prove", hints.to_str().unwrap()]), 0, &[]);
    assert_ends(&apus(&place, &["rewind", "--height=5000"]), 1, &["above the tip"]);
    assert!(!place.network_dir().join("debug.log").exists());
}

#[test]
fn a_log_that_cannot_be_written_ends_no_sync() {
    let world = world();
    let place = world.place();
    let blocks = place.write("blocks", &world.blocks);
    let blocks = blocks.to_str().unwrap();
    // What can be known before the start is refused then.
    let nowhere = apus(&place, &["sync", "--from", blocks, "--debuglogfile=/no/such/x"]);
    assert_ends(&nowhere, 1, &["/no/such/x", "does not exist", "--nodebuglogfile"]);
    assert!(!place.datadir().exists());
    std::fs::create_dir_all(place.network_dir().join("debug.log")).unwrap();
    let directory = apus(&place, &["sync", "--from", blocks]);
    assert_ends(
        &directory,
        1,
        &["debug.log: cannot open the log file: ", "Name another with --debuglogfile"],
    );
    let json = apus(&place, &["sync", "--from", blocks, "--json"]);
    assert!(stdout(&json).contains(r#""kind":"disk""#), "{}", stdout(&json));
    assert!(!place.network_dir().join("blocks").exists());
    // A disk that is full is no reason to end.
    let full = apus(&place, &["sync", "--from", blocks, "--debuglogfile=/dev/full", "--json"]);
    assert_ends(&full, 0, &["Warning: cannot write the log file /dev/full", "No space left"]);
    assert_eq!(stderr(&full).matches("Warning").count(), 1, "{}", stderr(&full));
    assert!(stdout(&full).contains(&format!("\"height\":{}", world.height())));
    // Another name, by option and by bitcoin.conf, and none.
    for (set, args, name) in [
        ("", &["--debuglogfile=one.log"][..], Some("one.log")),
        ("debuglogfile=two.log\n", &[], Some("two.log")),
        ("debuglogfile=two.log\n", &["--debuglogfile=three.log"], Some("three.log")),
        ("nodebuglogfile=1\n", &[], None),
        ("debuglogfile=\n", &[], Some("debug.log")),
        ("debuglogfile=four.log\n", &["--nodebuglogfile"], None),
    ] {
        let place = world.place();
        std::fs::create_dir(place.datadir()).unwrap();
        std::fs::write(place.datadir().join("bitcoin.conf"), set).unwrap();
        let synced = apus(&place, &[&["sync", "--from", blocks], args].concat());
        let is_followed = args.is_empty() && !set.is_empty();
        let listed = if is_followed { format!("({})", set.trim_end()) } else { String::new() };
        assert_ends(&synced, 0, &[&listed]);
        let logs = place.network_dir().read_dir().unwrap();
        let logs = logs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let logs: Vec<String> = logs.filter(|name| name.ends_with(".log")).collect();
        assert_eq!(logs, name.into_iter().collect::<Vec<_>>(), "{set}");
    }
}

#[test]
fn without_a_log_file_a_read_only_disk_would_not_be_written_either() {
    let place = Place::new(Chain::Regtest);
    let script = "mkdir -p ro/regtest; touch ro/regtest/debug.log
        mount --bind ro ro; mount -o remount,ro,bind ro
        $apus sync --regtest --datadir ro --connect=0 --json";
    let Some(output) = run_with_mounts(place.root(), &[], script) else { return };
    assert_ends(&output, 1, &["debug.log: cannot open the log file: Read-only file system"]);
    let text = stderr(&output);
    assert!(!text.contains("debuglogfile") && text.matches("debug.log").count() == 1, "{text}");
    assert!(stdout(&output).contains(r#""kind":"disk""#), "{}", stdout(&output));
}

#[test]
fn categories_choose_what_is_logged() {
    let world = world();
    let place = world.place();
    let blocks = place.write("blocks", &world.blocks);
    let sync = ["sync", "--method=order", "--from", blocks.to_str().unwrap()];
    let run = |debug: &[&str]| apus(&place, &[&sync[..], debug].concat());
    let unknown = run(&["-debug=qt"]);
    assert_ends(&unknown, 2, &["Unsupported logging category -debug=qt", "bench"]);
    let some = run(&["--debug=bench", "-debug=coindb"]);
    let words =
        ["bench: stages, over all threads: ", "waited for blocks ", "writing changed coins"];
    assert_ends(&some, 0, &words);
    let log = log_of(&place);
    assert!(log.contains("Z [bench] stages, over all threads") && log.contains("Z [coindb] "));
    assert!(!log.contains("[blockstorage]") && !stderr(&some).contains("opened"), "{log}");
    let is_replaced = cfg!(target_os = "linux").to_string();
    assert_ends(&run(&["--debug"]), 0, &["opened", "random_init_replaced", &is_replaced]);
    assert!(log_of(&place).contains("[blockstorage] opened"), "{}", log_of(&place));
    let output = run(&["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["waits"]["connecting"].is_f64() && json["waits"]["blocks_ready"].is_f64());
}

#[test]
fn the_report_has_what_connecting_waited_for() {
    let place = Place::new(Chain::Main);
    let mut command = program();
    command.args(["sync", "--method=order", "--assumevalid=0", "--json", "--datadir"]);
    command.arg(place.datadir()).arg("--from").arg(data("mainnet-0-14131.dat"));
    let output = command.output().unwrap();
    assert_ends(&output, 0, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let time = |name: &str| json["waits"][name].as_f64().unwrap();
    let parts = ["blocks", "peers", "checks", "commits"].map(time);
    assert!(parts.iter().sum::<f64>() <= time("connecting") * 1.01, "{json}");
    assert!(time("connecting") > 0.0 && time("peers") == 0.0, "{json}");
    assert!((0.0..=32.0).contains(&time("blocks_ready")), "{json}");
    assert!((0.0..=16.0).contains(&time("blocks_in_checks")), "{json}");
    // A short run has shown too little for a bottleneck.
    let bottleneck = &json["bottleneck"];
    assert!(bottleneck.is_null() || bottleneck.is_string(), "{json}");
    assert!(json["waits_for_disk"].is_boolean(), "{json}");
}

#[test]
fn status_says_who_works_on_a_directory_and_how_far_by_its_log() {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(3)))]);
    let log = "2026-11-27T01:00:00Z Apus 1\n\
               2026-11-27T01:00:00Z Answering RPC and showing a page on http://127.0.0.1:1/\n\
               2026-11-27T01:01:00Z Progress: 38.4 %, 6–12 min left, Join 3/3: checking spends\n";
    std::fs::write(place.network_dir().join("debug.log"), log).unwrap();
    // Another process sees the lock of this one.
    let lock = apus_disk::Disk::new().lock(place.network_dir().join(".lock")).unwrap();
    let output = apus(&place, &["status"]);
    assert_ends(&output, 1, &[]);
    let process = std::process::id();
    let text = stdout(&output);
    for words in [
        format!("in use by   process {process}: "),
        "progress    38.4 %, 6–12 min left, Join 3/3: checking spends, at 2026-11-27T01:01:00Z\n"
            .to_string(),
        "page        http://127.0.0.1:1/\n".to_string(),
    ] {
        assert!(text.contains(&words), "'{words}' is not in: {text}");
    }
    let output = apus(&place, &["status", "--json"]);
    assert_ends(&output, 1, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["in_use"]["process"], process);
    assert_eq!(json["in_use"]["progress"]["time"], "2026-11-27T01:01:00Z");
    assert_eq!(json["kind"], "disk");
    let error = json["error"].as_str().unwrap();
    assert!(error.contains("cannot obtain a lock"), "{error}");
    assert!(stderr(&output).contains(&format!("Error: {error}")), "{}", stderr(&output));
    // Others name the process, too.
    assert_ends(&apus(&place, &["verify"]), 1, &[&format!("(process {process})")]);
    drop(lock);
    assert_ends(&apus(&place, &["status"]), 0, &[]);
}
