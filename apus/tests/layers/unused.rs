//! Finds public items that no program uses. The compiler finds what is unused inside a crate, but
//! takes what a crate offers to others for used.

use std::collections::BTreeMap;

use crate::tokens::{Token, end_of_group, without_tests};
use crate::{is_test, rust_files, workspace_root};

/// Items for the tests, benchmarks and fuzzing of other crates.
const FOR_TESTS: [&str; 14] = [
    // Bits of the block index that Apus only keeps.
    "BLOCK_STATUS_RESERVED",
    "BLOCK_VALID_CHAIN",
    "BLOCK_VALID_RESERVED",
    "BLOCK_VALID_UNKNOWN",
    // What tests of hints try every format with.
    "WRITTEN",
    "bit_order",
    // What tests of the tables count, and the statistics that they compare with.
    "additions",
    "compute",
    // Power cuts.
    "lose_unsynced",
    "with_power_cut",
    // Options that are read from random arguments.
    "options_of_sync",
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
        let programs = files.iter().filter(|file| {
            let is_for_tests = ["crates/testdata/", "crates/testpeer/"];
            let is_for_tests = is_for_tests.iter().any(|crates| file.name.starts_with(crates));
            !is_for_tests && !is_test(&file.name)
        });
        for file in programs {
            let tokens = without_imports(&without_tests(&file.tokens));
            for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is_word()) {
                *named.entry(token.text.clone()).or_default() += 1;
                if let Some(name) = public_item(&tokens[at..]) {
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

/// Returns the name of the item that is defined at the first token, if that token is `pub`.
fn public_item(tokens: &[Token]) -> Option<String> {
    let (first, rest) = tokens.split_first()?;
    let is_keyword = |token: &Token| KEYWORDS.iter().any(|keyword| token.is(keyword));
    let at = rest.iter().position(|token| !is_keyword(token)).filter(|keywords| *keywords > 0)?;
    (first.is("pub") && rest[at].is_word()).then(|| rest[at].text.clone())
}

/// Returns the tokens without `use` declarations: importing or re-exporting a name does not use it.
fn without_imports(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if !token.is("use") || tokens.get(at + 1).is_some_and(|next| next.is("<")) {
            kept.push(token.clone());
            at += 1;
            continue;
        }
        while tokens.get(at).is_some_and(|token| !token.is(";")) {
            at = if tokens[at].is("{") { end_of_group(tokens, at) } else { at + 1 };
        }
    }
    kept
}
