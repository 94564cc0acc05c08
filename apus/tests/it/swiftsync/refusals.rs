//! What every refusal must be: an error of the right kind that says what to do, with nothing
//! committed, after which a sync in order succeeds in the same directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apus_hash::sha256d;
use apus_node::{REBUILD_DIRECTORY, REBUILD_MARK, SyncError};
use apus_progress::Watch;
use apus_sync::Summary;
use apus_tools::UtxoHash;

use crate::support::Place;
use crate::support::swift::World;

/// Who is to blame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    Hints,
    Block,
    Disk,
    User,
    Chain,
}

impl Blame {
    pub fn of(error: &SyncError) -> Self {
        match error {
            SyncError::Hints { .. } | SyncError::Snapshot { .. } | SyncError::Differs { .. } => {
                Self::Hints
            }
            SyncError::Refused(_) => Self::Block,
            SyncError::Store(_) => Self::Disk,
            SyncError::Input(_)
            | SyncError::WrongOptions(_)
            | SyncError::WouldShrink(_)
            | SyncError::Stopped => Self::User,
            SyncError::Unproved(_) => Self::Chain,
        }
    }
}

/// The refusal that is due: who is to blame, and words of the message.
#[derive(Clone, Copy, Debug)]
pub struct Due(pub Blame, pub &'static [&'static str]);

/// Panics unless the run failed as is due, and the message says what to do next.
#[track_caller]
pub fn assert_due(due: &Due, result: Result<Summary, SyncError>, what: &str) {
    let Err(error) = result else { panic!("{what}: it was taken") };
    let text = error.to_string();
    assert_eq!(Blame::of(&error), due.0, "{what}: {text}");
    for word in due.1 {
        assert!(text.contains(word), "{what}: '{word}' is not in: {text}");
    }
    if due.0 != Blame::Disk {
        assert!(text.contains("without --hints"), "{what}: it does not say what to do: {text}");
    }
}

/// Panics unless the directory has no coins and nothing of SwiftSync's work.
#[track_caller]
pub fn assert_nothing_committed(place: &Place, what: &str) {
    assert!(!place.swift_dir().exists(), "{what}: its directory, with the salt, was left behind");
    if !place.network_dir().join("chainstate").exists() {
        return;
    }
    let stats = apus_tools::txoutset_info(&place.options(), UtxoHash::None, Watch::default());
    if let Ok(Some(stats)) = stats {
        assert_eq!((stats.height, stats.txouts), (0, 0), "{what}: something was committed");
    }
}

/// Panics unless the chainstate of a directory is unchanged.
#[track_caller]
pub fn assert_unchanged(place: &Place, utxo_hash: &(String, u64), what: &str) {
    assert!(!place.swift_dir().exists(), "{what}: its directory, with the salt, was left behind");
    assert_eq!(&place.utxo_hash(), utxo_hash, "{what}");
    if place.network_dir().join(REBUILD_DIRECTORY).exists() {
        assert!(place.network_dir().join(REBUILD_MARK).exists(), "{what}: {REBUILD_DIRECTORY}");
    }
}

/// Panics unless the coins are right and the undo data is the chain's own.
#[track_caller]
pub fn assert_right(place: &Place, world: &World, utxo_hash: &(String, u64), what: &str) {
    assert_eq!(&place.utxo_hash(), utxo_hash, "{what}");
    let undo = place.undo();
    for height in 1..=world.height() {
        let of_block = undo.get(&world.hash(height));
        assert_eq!(of_block, Some(&world.model.undo(height)), "{what}: undo data of {height}");
    }
}

/// Panics unless a sync in order in the same directory ends with the right coins.
#[track_caller]
pub fn assert_in_order_succeeds(
    place: &Place,
    sources: &[PathBuf],
    utxo_hash: &(String, u64),
    what: &str,
) {
    let summary = place.try_sync(sources).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!summary.interrupted, "{what}");
    assert_eq!(&place.utxo_hash(), utxo_hash, "{what}: in order, afterwards");
}

/// All files below a directory with their content, except for the manifests that LevelDB writes
/// whenever it is opened.
pub fn contents(dir: &Path) -> BTreeMap<PathBuf, apus_hash::Hash> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = entry_name(&path);
        if name == "CURRENT" || name.starts_with("MANIFEST-") {
            continue;
        }
        if path.is_dir() {
            files.append(&mut contents(&path));
        } else {
            files.insert(path.clone(), sha256d(&std::fs::read(&path).unwrap()));
        }
    }
    files
}

/// The names of the files that differ.
pub fn differences(dir: &Path, before: &BTreeMap<PathBuf, apus_hash::Hash>) -> Vec<PathBuf> {
    let after = contents(dir);
    let names: std::collections::BTreeSet<&PathBuf> = after.keys().chain(before.keys()).collect();
    names.into_iter().filter(|name| after.get(*name) != before.get(*name)).cloned().collect()
}

fn entry_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
