//! Checks the shape of the code: `unsafe` only in its files, and nothing exceeds its size.

use std::fs;
use std::path::Path;

/// Lines that a file may have.
const FILE_LINES_MAX: usize = 600;
/// Characters that a line may have.
const LINE_CHARS_MAX: usize = 100;

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn files_and_lines_keep_their_size() {
    let mut found = Vec::new();
    for folder in ["src", "tests", "examples"] {
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    assert!(found.len() > 20);
    for (name, text) in &found {
        assert!(text.lines().count() <= FILE_LINES_MAX, "{name}");
        for (number, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= LINE_CHARS_MAX, "{name}:{}", number + 1);
        }
    }
}

#[test]
fn unsafe_stands_in_its_file_only() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    for (name, text) in &found {
        let vectors = ["avx2.rs", "avx512.rs", "fma.rs", "ifma.rs", "neon.rs"];
        let vectors = vectors.map(|file| format!("vector/{file}"));
        let is_allowed = vectors.iter().any(|file| name.ends_with(file));
        assert_eq!(text.contains("unsafe "), is_allowed, "{name}");
    }
}
