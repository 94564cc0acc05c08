//! Everything below a directory, for comparison.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files by path with their bytes, and directories without.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Returns `root` and all below it. The files of locks are empty, and are not opened: to close one
/// releases the locks that this process has on it.
pub fn tree(root: &Path) -> Tree {
    let mut all = Tree::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let content = if path.is_dir() {
            open.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            None
        } else if path.ends_with(".lock") || path.ends_with("LOCK") {
            Some(Vec::new())
        } else {
            Some(std::fs::read(&path).unwrap())
        };
        all.insert(path, content);
    }
    all
}
