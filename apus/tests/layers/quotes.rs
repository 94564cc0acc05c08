//! Compares the documents with what they quote from the code: constants, the queues without a
//! bound, and the places of files.

use std::fs;

use crate::{rust_files, workspace_root};

/// A sentence of a document, with `{}` in the place of each constant of a file.
struct Quote {
    document: &'static str,
    words: &'static str,
    file: &'static str,
    /// The name of each constant, and the number that the document divides its value by.
    constants: &'static [(&'static str, u64)],
}

const COMMIT: &str = "crates/node/src/commit.rs";
const OPTIONS: &str = "crates/node/src/options.rs";

const QUOTES: [Quote; 9] = [
    Quote {
        document: "docs/design.md",
        words: "{} % of the cache (`--dbcache`) are used and {} % of its entries have changed",
        file: "crates/node/src/cache_limit.rs",
        constants: &[("BEGIN_PERCENT", 1), ("CHANGED_PERCENT", 1)],
    },
    Quote {
        document: "docs/design.md",
        words: "{} minutes after the last one (`COMMIT_EVERY`)",
        file: COMMIT,
        constants: &[("COMMIT_EVERY", 60)],
    },
    Quote {
        document: "docs/design.md",
        words: "every {} minutes (`Options::save_every`)",
        file: OPTIONS,
        constants: &[("SAVE_EVERY", 60)],
    },
    Quote {
        document: "docs/design.md",
        words: "{} blocks below the best header or lower",
        file: OPTIONS,
        constants: &[("JOIN_DEPTH", 1)],
    },
    Quote {
        document: "docs/design.md",
        words: "at most {} MiB (`WAITING_BYTES_MAX`)",
        file: "crates/peers/src/lib.rs",
        constants: &[("WAITING_BYTES_MAX", 1 << 20)],
    },
    Quote {
        document: "docs/guide/hints-and-swiftsync.md",
        words: "has to be there: after `--assumevalid HASH`, {} blocks",
        file: "crates/sync/src/swift/plan.rs",
        constants: &[("UNDO_BLOCKS_MIN", 1)],
    },
    Quote {
        document: "docs/guide/low-memory-and-pruning.md",
        words: "never one of the last {} blocks",
        file: "crates/store/src/pruning.rs",
        constants: &[("MIN_BLOCKS_TO_KEEP", 1)],
    },
    Quote {
        document: "docs/guide/first-sync.md",
        words: "At most about {} minutes of work",
        file: COMMIT,
        constants: &[("COMMIT_EVERY", 60)],
    },
    Quote {
        document: "docs/guide/first-sync.md",
        words: "(join and SwiftSync: {})",
        file: OPTIONS,
        constants: &[("SAVE_EVERY", 60)],
    },
];

/// Numbers as documents write them in words.
const WORDS: [&str; 11] =
    ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

fn read(name: &str) -> String {
    fs::read_to_string(workspace_root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns the text with each run of white space as one space.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the value of `const NAME: TYPE = …;`: a product or a shift of numbers, or a duration in
/// seconds.
fn constant(file: &str, name: &str) -> u64 {
    let source = read(file);
    let (_, rest) = source
        .split_once(&format!("const {name}: "))
        .unwrap_or_else(|| panic!("{file} has no constant {name}"));
    let expression = rest.split_once(" = ").unwrap().1.split_once(';').unwrap().0;
    let inner = expression.strip_prefix("Duration::from_secs(").map_or(expression, |inner| {
        inner.strip_suffix(')').unwrap_or_else(|| panic!("{name} = {expression}"))
    });
    let number = |text: &str| -> u64 {
        let digits = text.trim().replace('_', "");
        digits.parse().unwrap_or_else(|_| panic!("{name} = {expression}"))
    };
    inner
        .split('*')
        .map(|factor| match factor.split_once("<<") {
            Some((left, right)) => number(left) << number(right),
            None => number(factor),
        })
        .product()
}

#[test]
fn documents_quote_the_constants_of_the_code() {
    let mut wrong = Vec::new();
    for Quote { document, words, file, constants } in QUOTES {
        let filled = |in_words: bool| {
            constants.iter().fold(words.to_string(), |words, (name, unit)| {
                let value = constant(file, name) / unit;
                let word = WORDS.get(value as usize).filter(|_| in_words);
                words.replacen("{}", &word.map_or(value.to_string(), ToString::to_string), 1)
            })
        };
        let text = plain(&read(document));
        if ![true, false].into_iter().any(|in_words| text.contains(&filled(in_words))) {
            wrong.push(format!("{document} does not say: {}", filled(false)));
        }
    }
    assert!(wrong.is_empty(), "documents and code differ:\n{}", wrong.join("\n"));
}

#[test]
fn queues_without_a_bound_are_named_in_the_architecture() {
    let architecture = plain(&read("ARCHITECTURE.md"));
    let mut found = Vec::new();
    for file in rust_files(&workspace_root().join("crates")) {
        let (code, _) =
            file.text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&file.text, ""));
        if code.contains("= unbounded()") && !file.name.ends_with("/tests.rs") {
            found.push(file.name.strip_prefix("crates/").unwrap().replace("/src/", "/"));
        }
    }
    assert!(!found.is_empty(), "unbounded queues are no longer found");
    let (_, rest) = architecture.split_once("Every queue has a named bound, but for").unwrap();
    let (sentence, _) = rest.split_once(". ").unwrap();
    for name in &found {
        assert!(sentence.contains(&format!("`{name}`")), "{name} is not in: {sentence}");
    }
    assert_eq!(sentence.matches("`").count(), 2 * found.len(), "{found:?}: {sentence}");
}

/// A path in a document begins at the root of the workspace, or at a crate below `crates/`, and
/// then leaves out `src`: `sync/method.rs`.
#[test]
fn files_are_where_documents_place_them() {
    let root = workspace_root();
    let mut documents: Vec<_> = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_string).into();
    for folder in ["docs", "docs/decisions", "docs/guide"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let names =
            entries.filter_map(|path| Some(path.strip_prefix(root).ok()?.to_str()?.to_string()));
        documents.extend(names.filter(|name| name.ends_with(".md")));
    }
    let mut places = 0;
    let mut wrong = Vec::new();
    for document in documents {
        for name in read(&document).split('`').skip(1).step_by(2) {
            let Some((first, rest)) = name.split_once('/').filter(|_| name.ends_with(".rs")) else {
                continue;
            };
            places += 1;
            let of_crate = root.join("crates").join(first).join("src").join(rest);
            if !root.join(name).is_file() && !of_crate.is_file() {
                wrong.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(places > 40, "{places}");
    assert!(wrong.is_empty(), "there are no such files:\n{}", wrong.join("\n"));
}
