//! The command line's conduct: readers that go away, a full or closed standard output, exit
//! statuses, `--quiet`, `--json`, time stamps and the version.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use apus_wire::Chain;

use crate::support::commands::{self, Does};
use crate::support::program::{apus, assert_ends, program, stderr, stdout};
use crate::support::{Place, data};

const MAINNET_MUHASH: &str = "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975";
const MAINNET_BEST: &str = "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c";
/// The number of times that the same blocks are read, so that a run takes some seconds and shows
/// progress.
const OFTEN: usize = 150;

/// `apus sync` of mainnet's first blocks, read `times` times.
fn sync(place: &Place, times: usize) -> Command {
    let mut command = program();
    command.arg("sync").arg("--datadir").arg(place.datadir()).arg("--assumevalid=0").arg("--from");
    command.args(std::iter::repeat_n(data("mainnet-0-14131.dat"), times));
    command
}

fn txoutset_info(place: &Place, more: &[&str]) -> Output {
    let mut command = program();
    command.args(["txoutset", "info", "--hash=muhash", "--datadir"]).arg(place.datadir());
    command.args(more).output().unwrap()
}

/// Runs the command with its output wired up by a shell: `wiring` follows the command.
fn wired(command: &Command, wiring: &str) -> Output {
    let script = format!("set -o pipefail; \"$0\" \"$@\" {wiring}");
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    shell.output().unwrap()
}

#[track_caller]
fn assert_synced(place: &Place) {
    assert_eq!(place.muhash().0, MAINNET_MUHASH);
}

/// The output of a command whose standard error is a pipe that nobody reads.
fn without_a_reader(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    child.wait_with_output().unwrap()
}

#[test]
fn a_reader_of_standard_error_that_goes_away_ends_no_sync() {
    let place = Place::new(Chain::Main);
    let output = without_a_reader(sync(&place, OFTEN));
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("height 14131"));
    assert_synced(&place);
    // The same with the log of --debug, and with a list of refused blocks.
    let place = Place::new(Chain::Main);
    let mut command = sync(&place, 1);
    command.arg("--debug");
    assert_eq!(without_a_reader(command).status.code(), Some(0));
    assert_synced(&place);
    let junk = place.root().join("cut");
    let blocks = std::fs::read(data("mainnet-0-14131.dat")).unwrap();
    std::fs::write(&junk, &blocks[..100_000]).unwrap();
    let mut command = program();
    command.args(["sync", "--datadir"]).arg(place.datadir()).arg("--from").arg(&junk);
    assert_eq!(without_a_reader(command).status.code(), Some(3));
}

#[test]
fn a_full_standard_output_is_an_error_and_the_work_is_kept() {
    let place = Place::new(Chain::Main);
    let output = wired(&sync(&place, 1), ">/dev/full");
    assert_ends(&output, 1, &["standard output", "No space left", "was saved"]);
    assert_synced(&place);
    for args in [&["--version"][..], &["--help"], &["sync", "--help"], &["txoutset", "info"]] {
        let mut command = program();
        command.args(args);
        if args[0] == "txoutset" {
            command.arg("--datadir").arg(place.datadir());
        }
        assert_ends(&wired(&command, ">/dev/full"), 1, &["standard output", "No space left"]);
    }
}

#[test]
fn a_reader_of_standard_output_that_goes_away_is_no_panic() {
    let place = Place::new(Chain::Main);
    for json in [None, Some("--json")] {
        let mut command = sync(&place, 1);
        command.args(json);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        // The program is as quiet as one that SIGPIPE ends.
        assert_ends(&output, 1, &[]);
        assert!(!stderr(&output).contains("Error"), "{}", stderr(&output));
    }
    assert_synced(&place);
}

#[test]
fn closed_descriptors_are_not_taken_for_data_files() {
    for wiring in [">&- 2>&-", "<&- >&- 2>&-", "--json <&- >&-", "--debug 2>&-"] {
        let place = Place::new(Chain::Main);
        assert_ends(&wired(&sync(&place, 1), wiring), 0, &[]);
        assert_synced(&place);
        let blocks = std::fs::read(place.network_dir().join("blocks/blk00000.dat")).unwrap();
        assert!(!blocks.windows(6).any(|bytes| bytes == b"Done: "), "{wiring}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_not_made_unasked() {
    let place = Place::new(Chain::Regtest);
    let run = |datadir: &Path| {
        program().args(["sync", "--regtest", "--lan=0", "--datadir"]).arg(datadir).output().unwrap()
    };
    assert_ends(&run(&place.datadir()), 1, &["no blocks", "--from"]);
    assert!(!place.datadir().exists());
    std::fs::create_dir(place.datadir()).unwrap();
    assert_ends(&run(&place.datadir()), 1, &["no blocks", "--from"]);
    assert_eq!(std::fs::read_dir(place.datadir()).unwrap().count(), 0);
    // A directory that holds only the genesis block has no blocks to sync either.
    drop(place.blocks());
    assert_ends(&run(&place.datadir()), 1, &["no blocks", "--from"]);
    let chain = crate::support::regtest_chain();
    place.sync(&[place.write("chain", &chain)]);
    assert_ends(&run(&place.datadir()), 0, &[]);
}

#[test]
fn wrong_options_exit_with_2_and_say_what_to_do() {
    let place = Place::new(Chain::Regtest);
    for (args, words) in [
        (&["sync", "--chain=mainnet"][..], &["'mainnet'", "use main"][..]),
        (&["sync", "--regtest", "--signet"], &["more than one network", "keep one"]),
        (&["sync", "--regtest", "--signetchallenge=51"], &["--chain=signet"]),
        (&["sync", "--signet", "--signetchallenge=5"], &["--signetchallenge", "'5'", "hex"]),
        (&["reindex", "--assumevalid=xyz"], &["--assumevalid", "64 hex digits", "or 0"]),
        (&["sync", "--minimumchainwork=zz"], &["--minimumchainwork", "64 hex digits"]),
        (&["sync", "--method=auto"], &["'auto'", "order, join, swiftsync"]),
        (
            &["sync", "--method=join", "--hints=h"],
            &["--hints", "--method=join", "leave one of them"],
        ),
        (&["reindex", "--method=order", "--hints=h"], &["--hints", "--method=order"]),
        (&["reindex", "--method=swiftsync"], &["--method=swiftsync", "name one with --hints"]),
        (&["sync", "--method=order", "--spilldir=/"], &["--spilldir", "leave it out"]),
        (&["sync", "--hints=h", "--spilldir=/"], &["--spilldir", "SwiftSync makes none"]),
        (&["reindex", "--spilldir=/no/such"], &["'/no/such'", "--spilldir", "mount or create it"]),
        (&["txoutset", "info", "--chain=x"], &["use main"]),
        (&["hints", "create", "-o", "-"], &["standard output", "name a file"]),
        (&["hints", "convert", "x", "-o", "-"], &["standard output", "name a file"]),
        (&["hints", "compress", "x", "--output=-"], &["standard output", "name a file"]),
    ] {
        let mut command = program();
        command.args(args);
        if args[0] != "hints" {
            command.arg("--datadir").arg(place.datadir());
        }
        assert_ends(&command.output().unwrap(), 2, words);
    }
    assert!(!place.datadir().exists());
}

#[test]
fn a_height_below_the_hints_is_a_wrong_option() {
    let place = Place::new(Chain::Main);
    place.sync(&[data("mainnet-0-14131.dat")]);
    let hints = place.root().join("hints");
    let datadir = place.datadir();
    let mut create = program();
    create.args(["hints", "create", "-o"]).arg(&hints).arg("--datadir").arg(&datadir);
    assert_ends(&create.output().unwrap(), 0, &[]);
    let mut reindex = program();
    reindex.args(["reindex", "--stopatheight=9", "--assumevalid=0", "--hints"]).arg(&hints);
    let output = reindex.arg("--datadir").arg(&datadir).output().unwrap();
    assert_ends(&output, 2, &["--stopatheight", "14131", "without --hints"]);
}

#[test]
fn packed_files_are_refused_with_the_command_that_unpacks_them() {
    let place = Place::new(Chain::Main);
    // Hints of btcd are gzip files, so that one is unpacked, and refused if it is damaged.
    for (head, name, words, of_hints) in [
        (&[0x1f, 0x8b, 8, 0][..], "blocks.dat.gz", ["gzip", "gunzip -k"], ["gzip", "damaged"]),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "blocks.dat", ["xz", "unxz -k"], ["xz", "unxz -k"]),
        (&[0x28, 0xb5, 0x2f, 0xfd], "x.zst", ["zstd", "unzstd"], ["zstd", "unzstd"]),
    ] {
        let path = place.root().join(name);
        std::fs::write(&path, [head, &[1; 1000]].concat()).unwrap();
        let mut sync = program();
        sync.args(["sync", "--datadir"]).arg(place.datadir()).arg("--from").arg(&path);
        let path = path.to_str().unwrap();
        assert_ends(&sync.output().unwrap(), 1, &[path, words[0], words[1]]);
        let info = program().args(["hints", "info", path]).output().unwrap();
        assert_ends(&info, 1, &[path, of_hints[0], of_hints[1]]);
        sync.arg("--hints").arg(path);
        assert_ends(&sync.output().unwrap(), 1, &[path, of_hints[0], of_hints[1]]);
    }
    assert!(!place.datadir().exists(), "a directory was made for blocks that cannot be read");
}

#[test]
fn quiet_says_nothing_but_errors_and_what_was_asked_for() {
    let place = Place::new(Chain::Main);
    let mut command = sync(&place, OFTEN);
    let output = command.arg("--quiet").output().unwrap();
    assert_ends(&output, 0, &[]);
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
    let output = txoutset_info(&place, &["--quiet"]);
    assert!(stdout(&output).contains(MAINNET_MUHASH));
    assert_eq!(stderr(&output), "");
    let hints = place.root().join("hints");
    for args in [&["create", "-o"][..], &["verify"]] {
        let mut command = program();
        command.args(["--quiet", "hints"]).args(args).arg(&hints).arg("--datadir");
        let output = command.arg(place.datadir()).output().unwrap();
        assert_ends(&output, 0, &[]);
        assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
    }
    let output = program().args(["hints", "info", "--quiet", "nowhere"]).output().unwrap();
    assert_ends(&output, 1, &["Error: ", "nowhere"]);
}

/// Whether a line begins with `2026-11-21T23:29:32Z `.
fn has_time_stamp(line: &str) -> bool {
    let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
    line.chars().map(shape).collect::<String>().starts_with("0000-00-00T00:00:00Z ")
}

#[test]
fn lines_in_a_file_have_time_stamps() {
    let place = Place::new(Chain::Main);
    let output = sync(&place, OFTEN).output().unwrap();
    assert_ends(&output, 0, &["Reading headers", " %"]);
    assert!(stderr(&output).lines().all(has_time_stamp), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("Done: "), "{}", stdout(&output));
    let output = program().args(["hints", "info", "nowhere"]).output().unwrap();
    assert!(has_time_stamp(&stderr(&output)), "{}", stderr(&output));
}

#[test]
fn errors_are_json_too() {
    let place = Place::new(Chain::Regtest);
    let datadir = format!("--datadir={}", place.datadir().display());
    for (args, code, kind) in [
        (&["txoutset", "info", "--json", &datadir][..], 1, "input"),
        (&["sync", "--json", "--connect=0", &datadir], 1, "input"),
        (&["reindex", "--json", "--chain=x", &datadir], 2, "usage"),
        (&["sync", "--json", "--frmo", "x"], 2, "usage"),
        (&["sync", "--json", "--from", "nowhere", "--regtest", &datadir], 1, "disk"),
        (&["hints", "info", "--json", "nowhere"], 1, "disk"),
        (&["hints", "info", "--json", "/dev/null"], 1, "hints"),
    ] {
        let output = program().args(args).output().unwrap();
        assert_ends(&output, code, &[]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["kind"], kind, "{args:?}");
        let error = json["error"].as_str().unwrap();
        assert!(stderr(&output).contains(error.lines().next().unwrap()), "{json}");
    }
}

#[test]
fn txoutset_info_prints_cores_object_whatever_else_it_is_asked() {
    let place = Place::new(Chain::Main);
    place.sync(&[data("mainnet-0-14131.dat")]);
    let plain = txoutset_info(&place, &[]);
    assert_ends(&plain, 0, &[]);
    let stats = place.stats(apus_tools::UtxoHash::MuHash);
    let (_, muhash) = stats.hash.unwrap();
    let expected = format!(
        "{{\n  \"height\": 14131,\n  \"bestblock\": \"{}\",\n  \"txouts\": {},\n  \
         \"bogosize\": {},\n  \"muhash\": \"{muhash}\",\n  \"total_amount\": {},\n  \
         \"transactions\": {},\n  \"disk_size\": {}\n}}\n",
        stats.best_block,
        stats.txouts,
        stats.bogosize,
        stats.total_amount_btc(),
        stats.transactions,
        stats.disk_size,
    );
    assert_eq!(stdout(&plain), expected);
    assert_eq!(stdout(&txoutset_info(&place, &["--json"])), expected);
}

#[test]
fn a_directory_with_a_bootstrap_dat_is_a_source() {
    let blocks = std::fs::read(data("regtest-1-206.dat")).unwrap();
    for has_block_files in [false, true] {
        let place = Place::new(Chain::Regtest);
        let source = place.root().join("source");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("bootstrap.dat"), &blocks).unwrap();
        if has_block_files {
            let half = crate::support::regtest_chain();
            let half = crate::support::framed(&place.network, &half[..100]);
            std::fs::write(source.join("blk00000.dat"), half).unwrap();
        }
        assert_eq!(place.sync(&[source]).height, 206, "{has_block_files}");
    }
}

#[test]
fn a_directory_of_another_network_is_named() {
    let place = Place::new(Chain::Regtest);
    place.sync(&[data("regtest-1-206.dat")]);
    for command in commands::that(&[Does::Reads, Does::Serves]) {
        let mut main = program();
        main.args(command).arg("--datadir").arg(place.datadir()).current_dir(place.root());
        assert_ends(&main.output().unwrap(), 1, &["no UTXO set of main", "--chain=regtest"]);
    }
}

#[test]
fn a_demo_that_fails_names_no_directories() {
    let place = Place::new(Chain::Main);
    std::fs::create_dir_all(place.root().join("demo/join")).unwrap();
    let mut demo = program();
    demo.arg("demo").arg("--keep").arg(place.root().join("demo"));
    let output = demo.output().unwrap();
    assert_ends(&output, 1, &["demo/join exists already"]);
    assert!(!stdout(&output).contains("data directories"), "{}", stdout(&output));
}

#[test]
fn all_commands_have_the_same_names_for_height_and_best_block() {
    let place = Place::new(Chain::Main);
    let blocks = data("mainnet-0-14131.dat");
    let blocks = blocks.to_str().unwrap();
    let file = |name: &str| place.root().join(name);
    let hints = file("hints");
    let copy = file("copy");
    let hints = hints.to_str().unwrap();
    let copy = copy.to_str().unwrap();
    let table = file("coins.csv");
    let table = table.to_str().unwrap();
    for args in [
        &["sync", "--from", blocks][..],
        &["sync", "--connect=0"],
        &["reindex"],
        &["status"],
        &["verify"],
        &["txoutset", "info"],
        &["hints", "create", "-o", hints],
        &["hints", "convert", hints, "--format", "booster", "-o", copy],
        &["hints", "verify", hints],
        &["export", "coins", "-o", table],
        &["rewind", "--height", "14131"],
        &["index", "txindex", "coinstatsindex"],
    ] {
        let output = apus(&place, &[args, &["--json"]].concat());
        assert_ends(&output, 0, &[]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["bestblock"], MAINNET_BEST, "{args:?}: {json}");
        let height = if args[0] == "export" { "stop_height" } else { "height" };
        assert_eq!(json[height], 14_131, "{args:?}: {json}");
    }
}

#[test]
fn help_says_how_blocks_can_be_synced() {
    for command in ["sync", "reindex"] {
        for help in ["-h", "--help"] {
            let output = program().args([command, help]).output().unwrap();
            assert_ends(&output, 0, &[]);
            let text = stdout(&output);
            for option in ["--method <METHOD>", "--spilldir <DIR>"] {
                assert!(text.contains(option), "{option} is not in: {text}");
            }
            assert!(!text.contains("--testing"), "{text}");
        }
    }
}

#[test]
fn the_version_names_a_build_with_checks() {
    let output = program().arg("--version").output().unwrap();
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    // The program is built as its tests are.
    let overflow =
        std::panic::catch_unwind(|| std::hint::black_box(u8::MAX) + std::hint::black_box(1));
    let has = |words: &str| text.contains(words);
    assert_eq!(has("debug assertions"), cfg!(debug_assertions), "{text}");
    assert_eq!(has("overflow checks"), overflow.is_err(), "{text}");
    assert_eq!(has("--script-engine=both by default"), cfg!(debug_assertions), "{text}");
    assert_eq!(
        has("a slow build for tests"),
        cfg!(debug_assertions) || overflow.is_err(),
        "{text}"
    );
}

#[test]
fn the_version_names_commit_and_engine() {
    let output = program().arg("--version").output().unwrap();
    let text = stdout(&output);
    assert!(text.starts_with(concat!("apus ", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("Bitcoin Core v31.99 engine via bitcoinkernel 0.3"), "{text}");
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "ls-files", "--error-unmatch", "Cargo.toml"])
        .output();
    if git.is_ok_and(|output| output.status.success()) {
        let (_, commit) = text.split_once("(commit ").expect("a commit");
        assert!(commit.chars().take(7).all(|c| c.is_ascii_hexdigit()), "{text}");
    }
}
