//! Finds public items that no program uses. The compiler finds what is unused inside a crate, but
//! takes what a crate offers to others for used.

use std::collections::BTreeMap;

use crate::{File, rust_files, workspace_root};

/// Items for the tests, benchmarks and fuzzing of other crates.
const FOR_TESTS: [&str; 12] = [
    // Bits of the block index that Apus only keeps.
    "BLOCK_STATUS_RESERVED",
    "BLOCK_VALID_RESERVED",
    "BLOCK_VALID_UNKNOWN",
    // What tests of hints try every format with.
    "WRITTEN",
    // The statistics that tests of the tables compare with.
    "compute",
    // Power cuts.
    "lose_unsynced",
    "with_power_cut",
    // Options that are read from random arguments, and others for an opened directory.
    "options_of_sync",
    "options_mut",
    // Forged files.
    "rewrite_join_progress",
    "write_reindexing",
    // The old form of messages with addresses, which only other programs send.
    "to_v1",
];

/// The words that may stand between `pub` and the name of an item.
const KEYWORDS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "unsafe", "async"];

#[test]
fn what_a_crate_offers_is_used() {
    let mut defined = BTreeMap::new();
    let mut named = BTreeMap::<String, usize>::new();
    for folder in ["crates", "apus/src", "python/src"] {
        let files = rust_files(&workspace_root().join(folder));
        for file in &files {
            for line in without_imports(file) {
                for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                    *named.entry(word.to_string()).or_default() += 1;
                }
                if let Some(name) = public_item(line) {
                    let (_, count) = defined.entry(name).or_insert_with(|| (file.name.clone(), 0));
                    *count += 1;
                }
            }
        }
    }
    assert!(defined.len() > 1000, "public items are no longer found: {}", defined.len());
    let unused = defined.iter().filter(|(name, (_, count))| named[*name] <= *count);
    let unused: BTreeMap<&str, &str> =
        unused.map(|(name, (file, _))| (name.as_str(), file.as_str())).collect();
    let wrong: Vec<_> = unused.iter().filter(|(name, _)| !FOR_TESTS.contains(name)).collect();
    assert!(wrong.is_empty(), "public, and used by tests at most: {wrong:#?}");
    let stale: Vec<_> = FOR_TESTS.iter().filter(|name| !unused.contains_key(*name)).collect();
    assert!(stale.is_empty(), "these are used, or gone: {stale:?}");
}

fn public_item(line: &str) -> Option<String> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let mut words = item.split(' ').skip_while(|word| KEYWORDS.contains(word));
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    item.split(' ').next().filter(|word| KEYWORDS.contains(word)).map(|_| name.to_string())
}

/// Returns the lines of a program without `use` declarations: importing or re-exporting a name does
/// not use it.
fn without_imports(file: &File) -> impl Iterator<Item = &str> {
    let mut is_import = false;
    file.code().filter_map(move |(_, line)| {
        let start = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        let belongs = is_import || start.starts_with("use ");
        is_import = belongs && !line.trim_end().ends_with(';');
        (!belongs).then_some(line)
    })
}
