//! The files of data directories, held against those that the document names.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use apus_claims::create_hints;
use apus_node::JoinOptions;
use apus_node::Options;
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::{Phase, Progress, Unobserved};
use apus_sync::{SWIFTSYNC_DIRECTORY, reindex};
use apus_tools::{IndexKind, index};
use apus_wire::Chain;

use super::document::Document;
use crate::support::listed::Listed;
use crate::support::program::{apus, assert_ends};
use crate::support::stop_when::StopWhen;
use crate::support::{Place, regtest_chain};

/// Paths of all files below `dir`.
pub fn files_below(dir: &Path) -> BTreeSet<String> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(dir, dir, &mut found);
    found
}

/// Whether `path` matches `pattern`, in which `N` stands for a digit.
fn fits(pattern: &str, path: &str) -> bool {
    pattern.len() == path.len()
        && pattern.bytes().zip(path.bytes()).all(|(pattern, byte)| match pattern {
            b'N' if byte.is_ascii_digit() => true,
            _ => pattern == byte,
        })
}

/// Panics unless the document names all files, and all files exist that it says exist at these
/// `times`.
fn assert_files(files: &BTreeSet<String>, times: &[&str]) {
    let document = Document::read();
    let named = || document.files.iter().filter(|(_, when)| times.contains(&when.as_str()));
    for path in files {
        assert!(named().any(|(pattern, _)| fits(pattern, path)), "nobody named {path}");
    }
    for (pattern, _) in named() {
        assert!(files.iter().any(|path| fits(pattern, path)), "{pattern} is not there");
    }
}

#[test]
fn the_document_names_the_files_of_a_second_utxo_set() {
    let listed = Listed::with_payments();
    let place = listed.world.place();
    place.sync_blocks("some", &listed.world.blocks[..21]);
    listed.load_into(&place);
    assert_files(&files_below(&place.network_dir()), &["always", "snapshot"]);
}

#[test]
fn the_document_names_the_files_of_indexes() {
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("blocks", &regtest_chain())]);
    index(&place.options(), &IndexKind::ALL, None, Watch::default()).unwrap();
    assert_files(&files_below(&place.network_dir()), &["always", "index"]);
}

#[test]
fn the_document_names_every_file() {
    for (pattern, when) in Document::read().files {
        let times = [
            "always",
            "rebuild",
            "damage",
            "log",
            "trace",
            "peers",
            "swiftsync",
            "join",
            "spilldir",
            "snapshot",
            "index",
        ];
        let is_known = when == "moment" || times.contains(&when.as_str());
        assert!(is_known, "{pattern} is there {when}");
    }
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("blocks", &regtest_chain()[..21])]);
    assert_files(&files_below(&place.network_dir()), &["always"]);

    let stopped =
        reindex(&place.options(), Watch::new(&Unobserved, &AtomicBool::new(true))).unwrap();
    assert!(stopped.interrupted);
    assert_files(&files_below(&place.network_dir()), &["always", "rebuild"]);

    place.try_reindex().unwrap();
    assert_files(&files_below(&place.network_dir()), &["always"]);

    let hints = place.root().join("hints");
    let options = place.options();
    let stop = AtomicBool::new(false);
    let format = apus_swiftsync::Format::Bip456;
    create_hints(&options, None, format, &hints, Watch::default()).unwrap();
    let options = options.with_hints(hints);
    let has_begun = |progress: &Progress| progress.phase == Phase::SwiftSync;
    let stopped = reindex(&options, Watch::new(&StopWhen(&stop, has_begun), &stop)).unwrap();
    assert!(stopped.interrupted);
    let times = ["always", "rebuild", "swiftsync"];
    assert_files(&files_below(&place.network_dir()), &times);
    let progress = place.network_dir().join(SWIFTSYNC_DIRECTORY).join("progress");
    assert_eq!(progress.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    assert!(!reindex(&options, Watch::default()).unwrap().interrupted);
    assert_files(&files_below(&place.network_dir()), &["always"]);

    let options = Options { method: Some(Method::Join), ..place.options() }.with_join_depth(0);
    let stop = AtomicBool::new(false);
    let has_read = |progress: &Progress| progress.phase == Phase::JoinReading;
    let stopped = reindex(&options, Watch::new(&StopWhen(&stop, has_read), &stop)).unwrap();
    assert!(stopped.interrupted);
    let times = ["always", "rebuild", "join"];
    assert_files(&files_below(&place.network_dir()), &times);
    let progress = options.spill_path().join("progress");
    assert_eq!(progress.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    assert!(!reindex(&options, Watch::default()).unwrap().interrupted);
    assert_files(&files_below(&place.network_dir()), &["always"]);

    let join = JoinOptions { spill_dir: Some(place.root().to_path_buf()), depth: 0 };
    let options = Options { join, ..options };
    let stop = AtomicBool::new(false);
    assert!(reindex(&options, Watch::new(&StopWhen(&stop, has_read), &stop)).unwrap().interrupted);
    let join: BTreeSet<String> = files_below(&place.network_dir().join("join"));
    assert_eq!(join, ["progress", "spill.place"].map(String::from).into());

    let place = Place::new(Chain::Regtest);
    let blocks = place.write("blocks", &regtest_chain()[..21]);
    let synced = apus(&place, &["sync", "--debug=trace", "--from", blocks.to_str().unwrap()]);
    assert_ends(&synced, 0, &[]);
    assert_files(&files_below(&place.network_dir()), &["always", "log", "trace"]);
}
