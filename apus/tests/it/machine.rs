//! `apus init` and `apus doctor`: what they print, and that they change nothing.

use std::path::Path;
use std::process::Command;

use apus_wire::Chain;

use crate::support::program::{assert_ends, program, stderr, stdout};
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

/// The files below a directory, with their sizes.
fn files(root: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in directory.read_dir().unwrap().flatten() {
            let metadata = entry.metadata().unwrap();
            match metadata.is_dir() {
                true => waiting.push(entry.path()),
                false => found.push((entry.path().display().to_string(), metadata.len())),
            }
        }
    }
    found.sort();
    found
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
    let before = files(&umbrel);
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
    assert_eq!(files(&umbrel), before);
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
    assert!(found.iter().any(|f| f["about"] == "clock" && f["level"] == "slow"), "{json}");
    let measured = looking("doctor", place.root()).output().unwrap();
    assert_ends(&measured, 0, &[]);
    assert!(stdout(&measured).contains("random reads a second"), "{}", stdout(&measured));
    assert!(stdout(&measured).contains("remedy: "), "{}", stderr(&measured));
    let other =
        looking("doctor", place.root()).args(["--regtest", "--read-only"]).output().unwrap();
    assert!(!stdout(&other).contains("free space"), "{}", stdout(&other));
}
