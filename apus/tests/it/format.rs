//! docs/format.md against the code: its constants, the bytes of its examples, the files it names,
//! and a data directory that was written when the format was first described.

mod constants;
mod document;
mod examples;
mod files;
mod golden;
mod reader;

use std::collections::BTreeMap;
use std::fmt::Debug;

/// Panics with every difference between what the document says and what the code does.
fn assert_same<T: PartialEq + Debug>(
    kind: &str,
    document: &BTreeMap<String, T>,
    code: &BTreeMap<String, T>,
) {
    let mut wrong = Vec::new();
    for (name, value) in document {
        match code.get(name) {
            None => wrong.push(format!("{name}: the code does not know this {kind}")),
            Some(real) if real != value => {
                wrong.push(format!("{name}: the document has\n  {value:?}, the code\n  {real:?}"));
            }
            Some(_) => {}
        }
    }
    for (name, real) in code.iter().filter(|(name, _)| !document.contains_key(*name)) {
        wrong.push(format!("{name}: docs/format.md lacks this {kind}; the code has\n  {real:?}"));
    }
    assert!(wrong.is_empty(), "docs/format.md and the code differ:\n{}", wrong.join("\n"));
}
