//! The shape of the code, held by a test: imports run down one ladder and never in a circle,
//! and nothing has outgrown its size (ARCHITECTURE.md).

mod circles;
mod exceptions;
mod modules;
mod names;
mod quotes;
mod rule_list;
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};

use circles::Graph;
use exceptions::EXCEPTIONS;
use modules::{Crate, use_tree};
use tokens::{Token, end_of_group, without_tests};

/// Lines that a file may have; about 500 is the aim, and the rest is for tests at its end.
const FILE_LINES_MAX: usize = 600;
/// Lines that a function may have.
const FUNCTION_LINES_MAX: usize = 75;
/// Characters that a line may have.
const LINE_CHARS_MAX: usize = 100;

/// Files that contain `unsafe`, below the workspace's root.
const UNSAFE_FILES: [&str; 10] = [
    // Vector instructions of the processor, for SHA-256 of many messages side by side.
    "apus/src/hash/sha256/x86.rs",
    // Vector instructions of the processor, for RIPEMD-160 of many hashes side by side.
    "apus/src/hash/ripemd160/x86.rs",
    // Vector instructions of the processor, for the MuHash of many elements side by side.
    "apus/src/hash/muhash/x86/mod.rs",
    // The processor's prefetch instruction and advice to use huge pages, for large tables.
    "apus/src/coins/memory.rs",
    // Memory maps of files that nobody writes to while they are mapped.
    "apus/src/disk/file.rs",
    // The attribute that replaces one function of the script engine's start.
    "apus/src/rules/random_init.rs",
    // An allocator that refuses what is too large, for fuzzing.
    "fuzz/src/limit.rs",
    // `wait4`, for the peak memory of a process that has ended.
    "bench/src/process.rs",
    // Vector instructions of the processor, for signatures side by side.
    "secp-lanes/src/vector/avx2.rs",
    "secp-lanes/src/vector/avx512.rs",
];

/// The modules as `lib.rs` lists them, low to high.
fn ladder() -> Vec<String> {
    let map = fs::read_to_string(source_root().join("lib.rs")).unwrap();
    let modules: Vec<String> = map
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_string)
        .collect();
    assert!(modules.len() >= 9, "lib.rs no longer lists one module per line: {modules:?}");
    modules
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// A Rust file with its path as messages show it.
struct File {
    name: String,
    text: String,
    tokens: Vec<Token>,
}

/// The Rust files below `root`.
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

/// The Rust files of a top-level module, which is a folder or one file.
fn files_of(module: &str) -> Vec<File> {
    let file = source_root().join(module).with_extension("rs");
    assert!(!file.exists(), "{}: a top-level module is a folder", file.display());
    rust_files(&source_root().join(module))
}

fn workspace_files() -> Vec<File> {
    let members = ["apus", "testchain", "bench", "fuzz", "secp-lanes", "export"];
    members.iter().flat_map(|member| rust_files(&workspace_root().join(member))).collect()
}

#[test]
fn a_module_names_only_modules_below_it() {
    let ladder = ladder();
    let mut wrong = Vec::new();
    for (rung, module) in ladder.iter().enumerate() {
        for file in files_of(module) {
            for (named, line) in crate_modules(&file.tokens) {
                if ladder[rung + 1..].contains(&named) {
                    wrong.push(format!("{}:{line}: crate::{named}", file.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "a module names one above it:\n{}", wrong.join("\n"));
}

/// Each `name` that the tokens have as `crate::name`, alone or in a list, with its line.
fn crate_modules(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let follows = tokens.get(at + 1).is_some_and(|next| next.is("::"));
        if token.is("crate") && follows {
            let mut imports = Vec::new();
            let is_list = tokens.get(at + 2).is_some_and(|next| next.is("{"));
            let end = if is_list { end_of_group(tokens, at + 2) } else { at + 3 };
            use_tree(&tokens[..end], at, &[], &mut imports);
            let names = imports.into_iter().filter_map(|import| import.path.into_iter().nth(1));
            found.extend(names.map(|name| (name, token.line)));
        }
    }
    found
}

#[test]
fn modules_are_found_alone_and_in_lists() {
    let source = "use crate::{a::{b, c}, d}; fn f(_: crate::e::F) -> Result<crate::g::H, I> {}";
    let found: Vec<String> =
        crate_modules(&tokens::tokens(source)).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, ["a", "a", "d", "e", "g"]);
}

#[test]
fn files_of_a_module_name_each_other_in_one_direction() {
    let graph = Graph::of(&Crate::read(&source_root()));
    assert!(graph.arrow_count() >= 100, "paths are no longer resolved: {}", graph.arrow_count());
    let wrong = graph.complaints(EXCEPTIONS);
    assert!(
        wrong.is_empty(),
        "A file that names another's items, which names the first's, cannot be understood alone. \
         Move what both need into a file of its own, or one item to where it is used. \
         Paths are below apus/src; after `a.rs -> b.rs` stand the items of b.rs that a.rs names, \
         each with its first line in a.rs.\n\n{}",
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
    for module in ladder() {
        if ["node", "peers", "sync", "tools"].contains(&&*module) {
            continue;
        }
        for file in files_of(&module).iter().filter(|file| !is_test(&file.name)) {
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

/// Whether a file holds tests alone.
fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

#[test]
fn files_functions_and_lines_keep_their_size() {
    let mut wrong = Vec::new();
    for file in workspace_files() {
        let name = file.name;
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            wrong.push(format!("{name}: {lines} lines, of at most {FILE_LINES_MAX}"));
        }
        for (number, line) in file.text.lines().enumerate() {
            let chars = line.chars().count();
            if chars > LINE_CHARS_MAX {
                wrong.push(format!("{name}:{}: a line of {chars} characters", number + 1));
            }
        }
        for (first, lines) in functions(&file.tokens) {
            if lines > FUNCTION_LINES_MAX {
                wrong.push(format!(
                    "{name}:{first}: a function of {lines} lines, of at most {FUNCTION_LINES_MAX}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "outgrown:\n{}", wrong.join("\n"));
}

/// The first line and the number of lines of each function that has a body.
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
