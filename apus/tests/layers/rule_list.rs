//! Compares the list of rules in `crates/consensus/src/lib.rs` with the reasons that the code
//! can give, and with the blocks and tests that yield them.

use std::collections::BTreeSet;

use crate::{File, rust_files, workspace_root};

/// The reasons that the tree of headers gives for a header before any rule is checked.
const REASONS_OF_THE_TREE: [&str; 3] = ["prev-blk-not-found", "bad-prevblk", "duplicate-invalid"];

/// Reasons that no block can be refused for.
const UNREACHABLE: [&str; 1] = [
    // Inputs and outputs are in range and the inputs cover the outputs, so the fee is in range.
    "bad-txns-fee-outofrange",
];

#[test]
fn the_list_of_rules_has_each_reason_that_the_code_gives() {
    let files: Vec<File> = ["crates/consensus/src", "crates/scripts/src"]
        .iter()
        .flat_map(|folder| rust_files(&workspace_root().join(folder)))
        .collect();
    let listed = listed_reasons(&files);
    let given: BTreeSet<String> = files
        .iter()
        .filter(|file| !file.name.contains("/tests/"))
        .flat_map(|file| file.code().flat_map(|(_, line)| reasons_in(line)))
        .collect();
    let unlisted: Vec<_> = given.difference(&listed).collect();
    assert!(
        unlisted.is_empty(),
        "not in the list of rules in crates/consensus/src/lib.rs: {unlisted:?}"
    );
    let unknown: Vec<_> = listed.difference(&given).collect();
    assert!(unknown.is_empty(), "in the list of rules, but nothing gives it: {unknown:?}");
}

#[test]
fn the_tree_of_headers_gives_no_reason_of_a_rule() {
    let files = rust_files(&workspace_root().join("crates/chain/src"));
    let given: BTreeSet<String> =
        files.iter().flat_map(|file| file.code().flat_map(|(_, line)| reasons_in(line))).collect();
    assert_eq!(given, REASONS_OF_THE_TREE.map(str::to_string).into());
}

/// A reason is tested by a block of `testchain` that breaks the rule, which Bitcoin Core's engine
/// judges too, or, if no valid chain can lead to it, by a test next to the rules.
#[test]
fn each_reason_has_a_block_or_a_test_that_yields_it() {
    let root = workspace_root();
    let mut tested: BTreeSet<String> =
        ["testing/testchain/src/breaks", "crates/consensus/src/tests", "crates/scripts/src/tests"]
            .iter()
            .flat_map(|folder| rust_files(&root.join(folder)))
            .flat_map(|file| reasons_in(&file.text))
            .collect();
    for reason in UNREACHABLE {
        assert!(tested.insert(reason.to_string()), "{reason} is tested: it is not unreachable");
    }
    let listed = listed_reasons(&rust_files(&root.join("crates/consensus/src")));
    let untested: Vec<_> = listed.difference(&tested).collect();
    assert!(untested.is_empty(), "no block and no test yields {untested:?}");
}

/// A SwiftSync of assumed-valid blocks checks no rule on coins, and its report says so by groups of
/// rules. Where it cannot tell whether a block obeys BIP30, it ends with an error.
#[test]
fn each_rule_on_coins_is_in_a_group_of_those_that_a_report_calls_unchecked() {
    let read = |path: &str| std::fs::read_to_string(workspace_root().join(path)).unwrap();
    let list = read("crates/consensus/src/lib.rs");
    let (before, on_coins) = list.split_once("**`BlockSpends`**").expect("the rules on coins");
    let groups = read("crates/node/src/checked.rs");
    let groups = groups.split_once("pub enum RuleGroup {").expect("the groups").1;
    let groups = groups.split_once("\n}\n").expect("their end").0;
    let grouped: BTreeSet<&str> = groups.split('`').skip(1).step_by(2).collect();
    let rules_in = |table: &'_ str| -> BTreeSet<String> {
        let rows = table.lines().filter_map(|line| line.strip_prefix("//! |"));
        let cells = rows.filter_map(|row| row.split('|').nth(1)?.split('`').nth(1));
        cells.map(str::to_string).collect()
    };
    let mut on_coins = rules_in(on_coins);
    assert!(on_coins.len() > 8 && on_coins.remove("bip30_check"), "{on_coins:?}");
    for rule in &on_coins {
        assert!(grouped.contains(&rule[..]), "{rule} is in no group of crates/node/src/checked.rs");
    }
    let others = rules_in(before);
    for rule in grouped {
        assert!(on_coins.contains(rule) || others.contains(rule), "there is no rule {rule}");
    }
}

/// Returns the reasons in the table of rules, which is in the doc comment of
/// `crates/consensus/src/lib.rs`.
fn listed_reasons(files: &[File]) -> BTreeSet<String> {
    let list =
        files.iter().find(|file| file.name.ends_with("consensus/src/lib.rs")).expect("the list");
    let rows = list.text.lines().filter_map(|line| line.strip_prefix("//! |"));
    let listed: BTreeSet<String> = rows
        .filter(|row| row.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .map(|row| {
            let reason = row.split('|').nth(2).and_then(|cell| cell.split('`').nth(1));
            reason_of(reason.unwrap_or_else(|| panic!("a rule without a reason: {row}")))
        })
        .collect();
    // A change in the form of the table must not leave almost nothing to compare.
    assert!(listed.len() > 30, "the list of rules is not found in {}", list.name);
    listed
}

/// Returns the string literals that have the form of Core's reject reasons: words joined by
/// hyphens.
fn reasons_in(source: &str) -> Vec<String> {
    let strings = source.split('"').skip(1).step_by(2);
    strings.map(reason_of).filter(|text| is_reason(text)).collect()
}

/// Returns the part of a reason that is the same for all blocks: `bad-version` of
/// `bad-version(0x…)`, and what comes before Core's debug message.
fn reason_of(text: &str) -> String {
    text.split(['(', ',']).next().unwrap_or_default().to_string()
}

fn is_reason(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric());
    text.contains('-') && text.split('-').all(is_word)
}

#[test]
fn reasons_are_distinguished_from_other_strings() {
    let source = r#"
        f("bad-version(0x{v:08x})", "no reason", "non-final x", "high-hash, x");
        f("-x", "--y", 'a', "b")
    "#;
    assert_eq!(reasons_in(source), ["bad-version", "high-hash"]);
}
