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
    let doctor = looking("doctor", place.root()).arg("--datadir").arg(&umbrel).output().unwrap();
    assert_ends(&doctor, 0, &[]);
    assert_eq!(files(&umbrel), before);
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
