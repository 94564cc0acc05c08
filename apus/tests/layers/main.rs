//! The shape of the code, held by a test: imports run down one ladder, and nothing has outgrown
//! its size (ARCHITECTURE.md).

use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file may have; about 500 is the aim, and the rest is for tests at its end.
const FILE_LINES_MAX: usize = 600;
/// Lines that a function may have.
const FUNCTION_LINES_MAX: usize = 75;
/// Characters that a line may have.
const LINE_CHARS_MAX: usize = 100;

/// The modules as `lib.rs` lists them, low to high.
fn ladder() -> Vec<String> {
    let map = fs::read_to_string(source_root().join("lib.rs")).unwrap();
    let modules: Vec<String> = map
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_string)
        .collect();
    assert!(modules.len() >= 9, "lib.rs no longer lists the modules one a line: {modules:?}");
    modules
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files
}

fn workspace_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    ["apus", "testchain", "bench"].iter().flat_map(|dir| rust_files(&root.join(dir))).collect()
}

#[test]
fn a_module_names_only_modules_below_it() {
    let ladder = ladder();
    let mut wrong = Vec::new();
    for (rung, module) in ladder.iter().enumerate() {
        for file in rust_files(&source_root().join(module)) {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for higher in &ladder[rung + 1..] {
                    if names_module(code, higher) {
                        wrong.push(format!("{}:{}: {higher}", file.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "a module names one above it:\n{}", wrong.join("\n"));
}

/// Whether `code` has `crate::module` as a path, alone or first in a brace list.
fn names_module(code: &str, module: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let path = format!("crate::{module}");
    if code.match_indices(&path).any(|(at, found)| ends(&code[at + found.len()..])) {
        return true;
    }
    let Some((_, list)) = code.split_once("use crate::{") else { return false };
    list.split([',', '}']).any(|item| item.trim().split("::").next() == Some(module))
}

#[test]
fn only_sync_starts_threads() {
    let mut wrong = Vec::new();
    for module in ladder() {
        if module == "sync" {
            continue;
        }
        for file in rust_files(&source_root().join(&module)) {
            let is_test = file
                .components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"));
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if !is_test
                && ["spawn", "scope", "Builder"]
                    .iter()
                    .any(|s| code.contains(&format!("thread::{s}")))
            {
                wrong.push(file.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "threads outside sync: {wrong:?}");
}

#[test]
fn files_functions_and_lines_keep_their_size() {
    let mut wrong = Vec::new();
    for file in workspace_files() {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.display();
        if text.lines().count() > FILE_LINES_MAX {
            wrong.push(format!("{name}: {} lines", text.lines().count()));
        }
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_CHARS_MAX {
                wrong.push(format!("{name}:{}: line too long", number + 1));
            }
        }
        for (first, length) in functions(&text) {
            if length > FUNCTION_LINES_MAX {
                wrong.push(format!("{name}:{first}: function of {length} lines"));
            }
        }
    }
    assert!(wrong.is_empty(), "outgrown:\n{}", wrong.join("\n"));
}

/// First line and length of every function, by rustfmt's indentation.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn "]
            .iter()
            .any(|head| code.starts_with(head));
        if !is_function || line.ends_with(';') {
            continue;
        }
        let indent = line.len() - code.len();
        let close = format!("{}}}", " ".repeat(indent));
        let end = lines[start..].iter().position(|l| l.starts_with(&close));
        if let Some(length) = end {
            found.push((start + 1, length + 1));
        }
    }
    found
}
