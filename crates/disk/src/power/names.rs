use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::random::Random;

/// An open file, by its number in the list of contents; its name may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId(pub usize);

/// The file that each name stands for; `None` for no file.
type Map = BTreeMap<PathBuf, Option<FileId>>;

/// The names of files: as they are now, and as the disk certainly has them.
#[derive(Default)]
pub(super) struct Names {
    now: Map,
    synced: Map,
    /// The changes since, reduced to what is not durable yet, which may be nothing. The names of
    /// one change survive together.
    unsynced: Vec<Vec<(PathBuf, Option<FileId>)>>,
}

impl Names {
    /// Returns what `path` stands for; `None` if that was not [found](Names::found) yet.
    pub(super) fn get(&self, path: &Path) -> Option<Option<FileId>> {
        self.now.get(path).copied()
    }

    /// Notes what `path` stood for at the start.
    pub(super) fn found(&mut self, path: &Path, file: Option<FileId>) {
        self.now.insert(path.to_path_buf(), file);
        self.synced.insert(path.to_path_buf(), file);
    }

    /// Makes names stand for other files, in one step.
    pub(super) fn change(&mut self, change: Vec<(PathBuf, Option<FileId>)>) {
        for (path, file) in &change {
            self.now.insert(path.clone(), *file);
            self.synced.entry(path.clone()).or_insert(None);
        }
        self.unsynced.push(change);
    }

    pub(super) fn changes(&self) -> usize {
        self.unsynced.len()
    }

    /// Makes durable those of the first `changes` changes that are in `dir`. A file that moves to
    /// another directory is not lost if only the directory that it leaves is synced.
    pub(super) fn sync(&mut self, dir: &Path, changes: usize) {
        let is_in = |path: &Path| path.parent() == Some(dir);
        for change in &mut self.unsynced[..changes] {
            let leaves = change.iter().any(|(path, file)| file.is_none() && is_in(path));
            for (path, file) in change.extract_if(.., |(path, _)| leaves || is_in(path)) {
                self.synced.insert(path, file);
            }
        }
    }

    /// Returns what each name stands for after a power cut.
    pub(super) fn after_cut(&self, random: Option<&mut Random>) -> Map {
        let mut names = self.synced.clone();
        let Some(random) = random else { return names };
        // Keep all, none, those up to some moment, or any.
        let kind = random.below(4);
        let moment = random.below(self.unsynced.len() + 1);
        let mut lost = BTreeSet::new();
        for (at, change) in self.unsynced.iter().enumerate() {
            let is_kept = match kind {
                0 => true,
                1 => false,
                2 => at < moment,
                _ => random.below(2) == 0,
            };
            if is_kept && !change.iter().any(|(path, _)| lost.contains(path)) {
                names.extend(change.iter().cloned());
            } else {
                lost.extend(change.iter().map(|(path, _)| path));
            }
        }
        names
    }
}
