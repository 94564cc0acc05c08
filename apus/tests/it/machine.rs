//! `apus init` and `apus doctor`: what they print, and that they change nothing.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use apus_wire::Chain;

use crate::support::commands::{self, Does};
use crate::support::program::{assert_ends, program, stderr, stdout};
use crate::support::tree::tree;
use crate::support::{Place, data};

/// A command that looks at a system below `root`, without the local network.
fn looking(command: &str, root: &Path) -> Command {
    let mut looking = program();
    looking.arg(command).arg("--root").arg(root).env("HOME", root);
    if command == "init" {
        looking.arg("--lan=0");
    }
    looking
}

#[test]
fn init_says_in_ten_lines_what_it_would_do() {
    let place = Place::new(Chain::Main);
    let output = looking("init", place.root()).output().unwrap();
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 10, "{text}");
    for label in ["processor", "memory", "free space", "directories", "running", "plan", "needs"] {
        assert!(lines.iter().any(|line| line.starts_with(label)), "{label} is not in: {text}");
    }
    // Without a command it is the same, on this machine.
    let alone = program().env("HOME", place.root()).output().unwrap();
    assert_ends(&alone, 0, &[]);
    assert!(stdout(&alone).starts_with("processor"), "{}", stdout(&alone));
    let quiet = looking("init", place.root()).arg("--quiet").output().unwrap();
    assert!(stdout(&quiet).lines().count() <= 1, "{}", stdout(&quiet));
}

#[test]
fn directories_of_boxes_are_read_and_not_changed() {
    let place = Place::new(Chain::Main);
    let umbrel = place.root().join("home/umbrel/umbrel/app-data/bitcoin/data/bitcoin");
    std::fs::create_dir_all(umbrel.parent().unwrap()).unwrap();
    let synced = program()
        .args(["sync", "--quiet", "--from"])
        .arg(data("mainnet-0-14131.dat"))
        .arg("--datadir")
        .arg(&umbrel)
        .output()
        .unwrap();
    assert_ends(&synced, 0, &[]);
    let before = tree(&umbrel);
    let output = looking("init", place.root()).output().unwrap();
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    assert!(text.contains("/bitcoin/data/bitcoin of Umbrel, height 14,131"), "{text}");
    // The plan is for the box's directory, unless the user names another.
    let is_planned = |text: &str| {
        let plan = text.lines().find(|line| line.starts_with("plan")).unwrap();
        plan.contains(" /home/umbrel/umbrel/app-data/bitcoin/data/bitcoin")
    };
    assert!(is_planned(&text), "{text}");
    let named = looking("init", place.root()).args(["--datadir", "new"]).output().unwrap();
    assert!(!is_planned(&stdout(&named)), "{}", stdout(&named));
    let doctor = looking("doctor", place.root()).arg("--datadir").arg(&umbrel).output().unwrap();
    assert_ends(&doctor, 0, &[]);
    assert!(tree(&umbrel) == before);
}

#[test]
fn a_relative_directory_is_found_and_a_missing_disk_is_named() {
    let place = Place::new(Chain::Main);
    let ran = |command: &str, arguments: &[&str]| {
        let mut ran = program();
        ran.arg(command).args(arguments).current_dir(place.root()).env("HOME", place.root());
        let output = ran.output().unwrap();
        assert_ends(&output, 0, &[]);
        stdout(&output)
    };
    let blocks = data("mainnet-0-14131.dat");
    ran("sync", &["--quiet", "--datadir=here", "--from", blocks.to_str().unwrap()]);
    let text = ran("init", &["--lan=0", "--datadir=here"]);
    assert!(text.contains("/here of Bitcoin Core or Knots, height 14,131"), "{text}");
    let text = ran("doctor", &["--read-only", "--datadir=here"]);
    assert!(text.contains("/here is at height 14,131"), "{text}");
    // On node boxes ~/.bitcoin is a link to a disk, which may not be mounted.
    let link = place.root().join(".bitcoin");
    std::os::unix::fs::symlink(place.root().join("unmounted"), link).unwrap();
    for command in ["init", "doctor"] {
        let arguments = if command == "init" { "--lan=0" } else { "--read-only" };
        let text = ran(command, &[arguments]);
        assert!(text.contains(".bitcoin is a link to "), "{text}");
    }
}

/// A directory that cannot be read gets a remedy, and nothing is rebuilt for it.
#[test]
fn what_cannot_be_read_is_not_rebuilt() {
    let place = Place::new(Chain::Regtest);
    let synced = place.root().join("synced");
    let mut sync = program();
    sync.args(["sync", "--quiet", "--regtest", "--connect=0", "--from"]);
    sync.arg(data("regtest-1-206.dat")).arg("--datadir").arg(&synced);
    assert_ends(&sync.output().unwrap(), 0, &[]);
    let part = place.root().join("part");
    std::fs::create_dir_all(part.join("regtest/blocks")).unwrap();
    for (name, to) in [("blk00000.dat", "blk00001.dat"), ("xor.dat", "xor.dat")] {
        let from = synced.join("regtest/blocks").join(name);
        std::fs::copy(from, part.join("regtest/blocks").join(to)).unwrap();
    }
    let chainstate = synced.join("regtest/chainstate");
    std::fs::remove_dir_all(&chainstate).unwrap();
    std::os::unix::fs::symlink(place.root().join("unmounted"), chainstate).unwrap();
    for (directory, words) in [
        (part, "blk00000.dat is missing (deleted by pruning, or lost); put it back"),
        (synced, "(mount its disk, or correct it)"),
    ] {
        for (command, quick) in [("init", "--lan=0"), ("doctor", "--read-only")] {
            let mut looked = program();
            looked.args([command, quick, "--regtest", "--datadir"]).arg(&directory);
            let output = looked.env("HOME", place.root()).output().unwrap();
            assert_ends(&output, 0, &[]);
            let text = stdout(&output);
            assert!(text.contains(words) && !text.contains("reindex"), "{command}: {text}");
        }
    }
}

/// Starts a process that holds the lock on a directory until its standard input is closed.
fn holder(directory: &Path) -> Child {
    let script = "import fcntl, sys\n\
                  f = open(sys.argv[1], 'r+')\n\
                  fcntl.lockf(f, fcntl.LOCK_EX)\n\
                  print('locked', flush=True)\n\
                  sys.stdin.read()";
    let mut holder = Command::new("python3");
    holder.args(["-c", script]).arg(directory.join(".lock"));
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    holder
}

#[test]
fn each_directory_in_use_is_of_its_own_process() {
    let place = Place::new(Chain::Regtest);
    let directories = ["one", "other"].map(|name| place.root().join(name));
    let looked = |command: &str, directory: &Path| {
        let mut looked = program();
        looked.arg(command).args(["--regtest", "--datadir"]).arg(directory);
        looked.arg(if command == "init" { "--lan=0" } else { "--read-only" });
        let output = looked.env("HOME", place.root()).output().unwrap();
        assert_ends(&output, 0, &[]);
        stdout(&output)
    };
    let mut holders: Vec<Child> = Vec::new();
    for directory in &directories {
        let mut synced = program();
        synced.args(["sync", "--quiet", "--regtest", "--connect=0", "--from"]);
        synced.arg(data("regtest-1-206.dat")).arg("--datadir").arg(directory);
        assert_ends(&synced.output().unwrap(), 0, &[]);
        for command in ["init", "doctor"] {
            let text = looked(command, directory);
            assert!(text.contains("height 206"), "{text}");
        }
        holders.push(holder(&directory.join("regtest")));
    }
    for (directory, holder) in directories.iter().zip(&holders) {
        let text = looked("doctor", directory).replace("\n             ", " ");
        assert!(text.contains(&format!("(process {})", holder.id())), "{text}");
        let text = looked("init", directory);
        let plan: String = text.lines().skip_while(|line| !line.starts_with("plan")).collect();
        assert!(plan.contains(&format!("(process {})", holder.id())), "{text}");
        assert!(plan.contains("has it open") && !plan.contains("prune"), "{text}");
    }
    for mut holder in holders {
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
}

/// A command that makes no directory says so before it does anything else.
#[test]
fn a_wrong_directory_is_named_by_every_command() {
    let place = Place::new(Chain::Main);
    std::fs::write(place.root().join("file"), "").unwrap();
    std::fs::create_dir(place.root().join("etc")).unwrap();
    let before = tree(place.root());
    for arguments in commands::that(&[Does::Reads, Does::Serves, Does::Changes]) {
        for (directory, words) in [
            ("missing", "missing: there is no such directory"),
            ("file", "file: this is not a directory"),
            ("etc", ""),
        ] {
            let mut command = program();
            command.args(&arguments).args(["--datadir", directory]);
            let output = command.current_dir(place.root()).env("HOME", place.root()).output();
            let output = output.unwrap();
            assert_ends(&output, 1, &[words]);
            let text = stderr(&output);
            assert!(directory == "etc" || !text.contains("Warning"), "{arguments:?}: {text}");
        }
    }
    let mut after = tree(place.root());
    after.remove(&place.root().join("etc/debug.log"));
    assert!(after == before);
    let mut command = program();
    command.args(["hints", "create", "--output=no/h", "--datadir", "etc"]);
    let output = command.current_dir(place.root()).output().unwrap();
    assert_ends(&output, 1, &["no: there is no such directory"]);
    assert!(!place.root().join("no").exists());
}

#[test]
fn doctor_names_each_flaw_with_its_remedy() {
    let place = Place::new(Chain::Main);
    let output = looking("doctor", place.root()).args(["--json", "--read-only"]).output().unwrap();
    assert_ends(&output, 0, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = json["findings"].as_array().unwrap();
    for about in ["disk", "file system", "free space", "memory", "swap", "clock", "processor"] {
        assert!(found.iter().any(|finding| finding["about"] == about), "{about}: {json}");
    }
    for finding in found {
        let is_good = finding["level"] == "good";
        assert_eq!(finding["remedy"].is_null(), is_good, "{finding}");
    }
    // No program keeps a clock below that directory.
    assert!(found.iter().any(|f| f["about"] == "clock" && f["level"] == "unsure"), "{json}");
    let measured = looking("doctor", place.root()).output().unwrap();
    assert_ends(&measured, 0, &[]);
    assert!(stdout(&measured).contains("random reads a second"), "{}", stdout(&measured));
    assert!(stdout(&measured).contains("remedy: "), "{}", stderr(&measured));
    let other =
        looking("doctor", place.root()).args(["--regtest", "--read-only"]).output().unwrap();
    assert!(!stdout(&other).contains("free space"), "{}", stdout(&other));
}
