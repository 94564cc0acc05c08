//! Tests the structure of the code: crates depend only on lower ones, only the upper ones start
//! threads, and lines keep their length (ARCHITECTURE.md).

mod names;
mod quotes;
mod rule_list;
mod unused;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The lines of a file from which on it is named. The aim is about 500.
const FILE_LINES_MAX: usize = 600;
/// The most characters of a line.
const LINE_CHARS_MAX: usize = 100;

/// Returns the crates below `crates/` in the order of the workspace's manifest, from low to high.
fn ladder() -> Vec<String> {
    let crates: Vec<String> = manifest("Cargo.toml")
        .lines()
        .filter_map(|line| line.strip_prefix("apus-")?.split_once(" = { path = \"crates/"))
        .map(|(name, _)| name.to_string())
        .collect();
    assert!(crates.len() >= 10, "Cargo.toml no longer lists one crate per line: {crates:?}");
    crates
}

fn manifest(path: &str) -> String {
    fs::read_to_string(workspace_root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn source_of(name: &str) -> PathBuf {
    workspace_root().join("crates").join(name).join("src")
}

/// A Rust file, with its path as messages show it.
struct File {
    name: String,
    text: String,
}

impl File {
    /// Returns the lines of the program: no comments, and no module of tests at the end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let text = if is_test(&self.name) { "" } else { &self.text };
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().enumerate().map(|(at, line)| (at + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn rust_files(root: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(root) else { return files };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(workspace_root()).unwrap().display().to_string();
            files.push(File { name, text });
        }
    }
    files
}

fn workspace_files() -> Vec<File> {
    let members = ["apus", "crates", "testing", "bench", "fuzz", "secp-lanes", "export", "python"];
    members.iter().flat_map(|member| rust_files(&workspace_root().join(member))).collect()
}

/// With `--nocapture`, this prints the crates and what each uses.
#[test]
fn a_crate_uses_only_crates_below_it() {
    let ladder = ladder();
    let mut wrong = Vec::new();
    for (rung, name) in ladder.iter().enumerate() {
        let text = manifest(&format!("crates/{name}/Cargo.toml"));
        let (_, used) = text.split_once("[dependencies]\n").expect("a list of dependencies");
        let used = used.split("\n[").next().unwrap_or_default();
        let used: Vec<&str> = used
            .lines()
            .filter_map(|line| line.strip_prefix("apus-")?.split(['.', ' ']).next())
            .collect();
        println!("{name}: {}", used.join(", "));
        let above = used.iter().filter(|used| !ladder[..rung].iter().any(|below| below == *used));
        wrong.extend(above.filter(|used| **used != "export").map(|used| format!("{name}: {used}")));
    }
    assert!(wrong.is_empty(), "a crate uses one that stands below it in Cargo.toml: {wrong:?}");
}

/// Bitcoin Core's C++ takes minutes to build, so only crates that run scripts may need it.
#[test]
fn bitcoin_core_is_reached_through_scripts_alone() {
    for name in ladder() {
        let text = manifest(&format!("crates/{name}/Cargo.toml"));
        let (_, used) = text.split_once("[dependencies]\n").expect("a list of dependencies");
        let used = used.split("\n[").next().unwrap_or_default();
        let uses_core = used.lines().any(|line| line.starts_with("bitcoinkernel"));
        assert_eq!(uses_core, name == "scripts", "crates/{name}/Cargo.toml");
    }
}

#[test]
fn super_climbs_one_level() {
    let climbs = concat!("super::", "super");
    let files = workspace_files();
    let wrong: Vec<_> = files.iter().filter(|file| file.text.contains(climbs)).collect();
    let wrong: Vec<_> = wrong.iter().map(|file| &file.name).collect();
    assert!(wrong.is_empty(), "{climbs}; write crate::... instead: {wrong:#?}");
}

#[test]
fn only_host_and_the_layers_above_start_threads() {
    let mut wrong = Vec::new();
    for name in ladder() {
        if ["host", "node", "peers", "sync", "tools"].contains(&&*name) {
            continue;
        }
        for file in rust_files(&source_of(&name)) {
            let starts = ["spawn", "scope", "Builder"].map(|name| format!("thread::{name}"));
            for (number, line) in file.code() {
                if starts.iter().any(|start| line.contains(start)) {
                    wrong.push(format!("{}:{number}", file.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "threads elsewhere:\n{}", wrong.join("\n"));
}

/// Returns whether a file holds tests alone.
fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// Long files are named, and no more: a part of its own is better than a trick that saves a line,
/// and a long list is better than parts without a meaning.
#[test]
fn lines_keep_their_length_and_long_files_are_named() {
    let mut wrong = Vec::new();
    for file in workspace_files() {
        let name = file.name;
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            // Not `eprintln`, which tests that pass do not show.
            let _ = writeln!(std::io::stderr(), "warning: {name}: {lines} lines");
        }
        for (number, line) in file.text.lines().enumerate() {
            let chars = line.chars().count();
            if chars > LINE_CHARS_MAX {
                wrong.push(format!("{name}:{}: a line of {chars} characters", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "too long:\n{}", wrong.join("\n"));
}
