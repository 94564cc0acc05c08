//! Tests the structure of the code: crates depend only on lower ones, the files of a crate name
//! each other in one direction, and lines keep their length (ARCHITECTURE.md).

mod circles;
mod exceptions;
mod modules;
mod names;
mod quotes;
mod rule_list;
mod tokens;
mod unused;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use circles::Graph;
use exceptions::EXCEPTIONS;
use modules::Crate;
use tokens::{Token, end_of_group, without_tests};

/// The lines of a file from which on it is named. The aim is about 500.
const FILE_LINES_MAX: usize = 600;
/// The lines of a function from which on it is named.
const FUNCTION_LINES_MAX: usize = 75;
/// The most characters of a line.
const LINE_CHARS_MAX: usize = 100;

/// Files that contain `unsafe`, as paths from the workspace's root.
const UNSAFE_FILES: [&str; 15] = [
    // Vector instructions of the processor, for SHA-256 of many messages side by side.
    "crates/hash/src/sha256/x86.rs",
    "crates/hash/src/sha256/arm.rs",
    // Vector instructions of the processor, for RIPEMD-160 of many hashes side by side.
    "crates/hash/src/ripemd160/x86.rs",
    // Vector registers of the processor, for SipHash of many messages side by side.
    "crates/hash/src/siphash/x86.rs",
    // Vector instructions of the processor, for the MuHash of many elements side by side.
    "crates/hash/src/muhash/x86/mod.rs",
    // The processor's prefetch instruction and advice to use huge pages, for large tables.
    "crates/coins/src/memory.rs",
    // Memory maps of files that are not written to while they are mapped.
    "crates/disk/src/file.rs",
    // A memory map of a file without a name, which no other program can open.
    "crates/disk/src/file_vec.rs",
    // Options of the C library's allocator, where memory is short.
    "crates/node/src/memory/allocator.rs",
    // The attribute that replaces one function of the script engine's start.
    "crates/scripts/src/random_init.rs",
    // An allocator that refuses large requests, for fuzzing.
    "fuzz/src/limit.rs",
    // `wait4`, for the peak memory of a process that has ended.
    "bench/src/process.rs",
    // Vector instructions of the processor, for signatures side by side.
    "secp-lanes/src/vector/avx2.rs",
    "secp-lanes/src/vector/avx512.rs",
    "secp-lanes/src/vector/neon.rs",
];

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
    tokens: Vec<Token>,
}

/// Returns the Rust files below `root`.
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
            files.push(File { name, tokens: tokens::tokens(&text), text });
        }
    }
    files
}

fn workspace_files() -> Vec<File> {
    let members =
        ["apus", "crates", "testchain", "bench", "fuzz", "secp-lanes", "export", "python"];
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
fn files_of_a_crate_name_each_other_in_one_direction() {
    let mut wrong = Vec::new();
    let mut arrows = 0;
    let crates = ladder().into_iter().map(|name| (source_of(&name), name));
    for (root, name) in crates.chain([(workspace_root().join("apus/src"), "apus".to_string())]) {
        let graph = Graph::of(&Crate::read(&root));
        arrows += graph.arrow_count();
        let exceptions: Vec<_> = EXCEPTIONS.iter().filter(|except| except.of == name).collect();
        wrong.extend(
            graph.complaints(&exceptions).into_iter().map(|what| format!("{name}: {what}")),
        );
    }
    assert!(arrows >= 900, "paths are no longer resolved: {arrows}");
    assert!(
        wrong.is_empty(),
        "A file that names another's items, which names the first's, cannot be understood alone. \
         Move what both need into a file of its own, or one item to where it is used. \
         After `a.rs -> b.rs` stand the items of b.rs that a.rs names, each with its first line in \
         a.rs.\n\n{}",
        wrong.join("\n")
    );
}

#[test]
fn super_climbs_one_level() {
    let mut wrong = Vec::new();
    for file in workspace_files() {
        for three in file.tokens.windows(3) {
            if three[0].is("super") && three[1].is("::") && three[2].is("super") {
                wrong.push(format!("{}:{}", file.name, three[0].line));
            }
        }
    }
    assert!(wrong.is_empty(), "super::super; write crate::... instead:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_in_named_files_only() {
    let files = workspace_files();
    let mut found: Vec<&str> = files
        .iter()
        .filter(|file| file.tokens.iter().any(|token| token.is("unsafe")))
        .map(|file| &*file.name)
        .collect();
    found.sort_unstable();
    let mut expected = UNSAFE_FILES;
    expected.sort_unstable();
    assert_eq!(found, expected, "files with `unsafe`, and the list of those that may have it");
}

#[test]
fn only_node_and_the_layers_above_start_threads() {
    let mut wrong = Vec::new();
    for name in ladder() {
        if ["node", "peers", "sync", "tools"].contains(&&*name) {
            continue;
        }
        for file in rust_files(&source_of(&name)).iter().filter(|file| !is_test(&file.name)) {
            for three in without_tests(&file.tokens).windows(3) {
                let starts = ["spawn", "scope", "Builder"].iter().any(|name| three[2].is(name));
                if three[0].is("thread") && three[1].is("::") && starts {
                    wrong.push(format!("{}:{}", file.name, three[0].line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "threads below node:\n{}", wrong.join("\n"));
}

/// Returns whether a file holds tests alone.
fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// Long files and functions are named, and no more: a part of its own is better than a trick that
/// saves a line, and a long list is better than parts without a meaning.
#[test]
fn lines_keep_their_length_and_long_files_are_named() {
    let mut wrong = Vec::new();
    let mut long = Vec::new();
    for file in workspace_files() {
        let name = file.name;
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            long.push(format!("{name}: {lines} lines"));
        }
        for (number, line) in file.text.lines().enumerate() {
            let chars = line.chars().count();
            if chars > LINE_CHARS_MAX {
                wrong.push(format!("{name}:{}: a line of {chars} characters", number + 1));
            }
        }
        for (first, lines) in functions(&file.tokens) {
            if lines > FUNCTION_LINES_MAX {
                long.push(format!("{name}:{first}: a function of {lines} lines"));
            }
        }
    }
    for place in long {
        // Not `eprintln`, which tests that pass do not show.
        let _ = writeln!(std::io::stderr(), "warning: {place}");
    }
    assert!(wrong.is_empty(), "too long:\n{}", wrong.join("\n"));
}

/// Returns the first line and the number of lines of each function that has a body.
fn functions(tokens: &[Token]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if !token.is("fn") || !tokens.get(at + 1).is_some_and(Token::is_word) {
            continue;
        }
        let mut end = at + 1;
        while let Some(next) = tokens.get(end).filter(|next| !next.is(";")) {
            let is_body = next.is("{");
            let opens = is_body || next.is("(") || next.is("[");
            end = if opens { end_of_group(tokens, end) } else { end + 1 };
            if is_body {
                found.push((token.line, tokens[end - 1].line - token.line + 1));
                break;
            }
        }
    }
    found
}

#[test]
fn functions_are_measured_from_their_first_line_to_their_last() {
    let source = "fn a(\n b: [u8; 2],\n) {\n}\ntrait T { fn c();\n unsafe fn d() {} }\n";
    assert_eq!(functions(&tokens::tokens(source)), [(1, 4), (6, 1)]);
}
