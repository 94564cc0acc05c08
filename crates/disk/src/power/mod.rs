//! A power failure on command, and its effect on the disk.

mod content;
mod names;
mod random;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use self::content::{Change, Content};
pub(super) use self::names::FileId;
use self::names::Names;
use self::random::Random;
use super::StoreError;

/// A power failure at the n-th change to the disk, for tests: that change is half done, every later
/// one is refused, and [`PowerCut::lose_unsynced`] then removes from the disk all or some of what
/// was not synced.
///
/// It holds the synced content of each file in memory, and everything written since, so it suits
/// small files only.
pub struct PowerCut {
    /// Number of the change at which the power fails, counted from 1.
    cut_at: u64,
    /// The seed that decides which unsynced changes survive; `None` if none does.
    seed: Option<u64>,
    state: Mutex<PowerState>,
}

/// The state of the power at a change to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Power {
    On,
    /// It fails during the change.
    Fails,
    Off,
}

#[derive(Default)]
struct PowerState {
    /// Number of changes attempted so far.
    steps: u64,
    files: Vec<Content>,
    names: Names,
}

impl PowerCut {
    /// Returns a power failure at the change with number `cut_at`, counted from 1, after which no
    /// unsynced change is left; with `u64::MAX` changes are only counted.
    pub fn at(cut_at: u64) -> Self {
        Self { cut_at, seed: None, state: Mutex::default() }
    }

    /// Returns a power failure like [`PowerCut::at`], after which any part of the unsynced changes
    /// may be left, as POSIX allows and ext4 does: of unsynced writes any sectors of 512 bytes, in
    /// any order; of lengths any that the file has had since; of names created, replaced or removed
    /// in a directory that was not synced since, any, but never the later of two changes to one
    /// name without the earlier. `seed` decides.
    pub fn torn(cut_at: u64, seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::at(cut_at) }
    }

    /// Returns power failures at the change `cut_at`: one after which no unsynced change is left,
    /// and then `torn` after which some may be.
    pub fn kinds(cut_at: u64, torn: u64) -> impl Iterator<Item = Arc<Self>> {
        let torn = (0..torn).map(move |seed| Self::torn(cut_at, seed));
        std::iter::once(Self::at(cut_at)).chain(torn).map(Arc::new)
    }

    /// Returns whether some unsynced changes may be left.
    pub fn is_torn(&self) -> bool {
        self.seed.is_some()
    }

    /// Returns the number of the change at which the power fails.
    pub fn cut_at(&self) -> u64 {
        self.cut_at
    }

    /// Returns the number of changes attempted so far.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    pub fn is_off(&self) -> bool {
        self.steps() >= self.cut_at
    }

    /// Brings every file to the state that the disk keeps without power. It must be called after
    /// the power has failed, when no file is open.
    pub fn lose_unsynced(&self) -> std::io::Result<()> {
        let state = self.lock();
        let mut random = self.seed.map(|seed| Random::new(seed ^ self.cut_at.rotate_left(32)));
        let names = state.names.after_cut(random.as_mut());
        let contents: Vec<Option<Vec<u8>>> =
            state.files.iter().map(|file| file.after_cut(random.as_mut())).collect();
        for (path, file) in names {
            match file.map(|FileId(file)| &contents[file]) {
                Some(Some(bytes)) => {
                    // The directory of the file may have been removed.
                    path.parent().map_or(Ok(()), fs::create_dir_all)?;
                    fs::write(path, bytes)?;
                }
                // The file was only read.
                Some(None) => {}
                None if path.is_file() => fs::remove_file(path)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Counts a change to the disk.
    pub(super) fn step(&self) -> Power {
        let mut state = self.lock();
        let before = state.steps;
        state.steps += 1;
        match (before >= self.cut_at, state.steps >= self.cut_at) {
            (true, _) => Power::Off,
            (false, true) => Power::Fails,
            (false, false) => Power::On,
        }
    }

    /// Returns the number of the file that was opened as `path`; `created` says whether it is new.
    pub(super) fn opened(&self, path: &Path, created: bool) -> FileId {
        let mut state = self.lock();
        match state.file_at(path).filter(|_| !created) {
            Some(file) => file,
            None => state.create(path),
        }
    }

    /// Remembers which file the name `path` stands for, and the content of that file, before one of
    /// them changes. Returns whether a file of this name exists.
    pub(super) fn before_change(&self, path: &Path) -> bool {
        let mut state = self.lock();
        let file = state.file_at(path);
        if let Some(FileId(file)) = file {
            state.files[file].load(path);
        }
        file.is_some()
    }

    /// Like [`PowerCut::before_change`], for an open file that was opened by the name `path`.
    pub(super) fn before_write(&self, FileId(file): FileId, path: &Path) {
        self.lock().files[file].load(path);
    }

    /// Notes that bytes of a file were written.
    pub(super) fn written(&self, file: FileId, offset: u64, bytes: &[u8]) {
        self.changed(file, Change::Write { offset, bytes: bytes.to_vec() });
    }

    /// Notes that a file was truncated or extended to `len` bytes.
    pub(super) fn len_set(&self, file: FileId, len: u64) {
        self.changed(file, Change::SetLen(len));
    }

    /// Notes that a file was extended with zeros to `end` bytes, unless it was as long or longer.
    pub(super) fn allocated(&self, file: FileId, end: u64) {
        self.changed(file, Change::Extend(end));
    }

    /// Notes that a range of a file was zeroed without changing its length. If no other unsynced
    /// change survives, this one survives at every second cut: either can happen, and the next cut
    /// tests the other.
    pub(super) fn hole_punched(&self, file: FileId, offset: u64, len: u64) {
        let is_kept = self.cut_at.abs_diff(self.steps()).is_multiple_of(2);
        match self.seed {
            Some(_) => self.changed(file, Change::Hole { offset, len }),
            None if is_kept => self.lock().files[file.0].punch_synced(offset, len),
            None => {}
        }
    }

    /// Returns the number of changes to a file so far: all of them are durable once a sync that
    /// begins now has succeeded.
    pub(super) fn changes(&self, FileId(file): FileId) -> usize {
        self.lock().files[file].changes()
    }

    /// Notes that the first `changes` changes to a file are durable.
    pub(super) fn file_synced(&self, FileId(file): FileId, changes: usize) {
        self.lock().files[file].sync(changes);
    }

    /// Notes that a sync of the first `changes` changes to a file failed: the disk has only some of
    /// them, and a later sync that succeeds says nothing about them.
    pub(super) fn sync_failed(&self, FileId(file): FileId, changes: usize) {
        self.lock().files[file].lose(changes);
    }

    pub(super) fn renamed(&self, from: &Path, to: &Path) {
        let mut state = self.lock();
        let file = state.file_at(from);
        state.names.change(vec![(to.to_path_buf(), file), (from.to_path_buf(), None)]);
    }

    pub(super) fn removed(&self, path: &Path) {
        self.lock().names.change(vec![(path.to_path_buf(), None)]);
    }

    /// Returns the number of changes to names so far, as [`PowerCut::changes`] does for a file.
    pub(super) fn name_changes(&self) -> usize {
        self.lock().names.changes()
    }

    /// Notes that those of the first `changes` changes to names that are in the directory `dir` are
    /// durable.
    pub(super) fn dir_synced(&self, dir: &Path, changes: usize) {
        self.lock().names.sync(dir, changes);
    }

    fn changed(&self, FileId(file): FileId, change: Change) {
        self.lock().files[file].change(change);
    }

    fn lock(&self) -> MutexGuard<'_, PowerState> {
        self.state.lock().expect("a test thread panicked")
    }
}

impl fmt::Debug for PowerCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "power cut at {} of {} changes, ", self.cut_at, self.steps())?;
        match self.seed {
            None => f.write_str("no unsynced change is left"),
            Some(seed) => write!(f, "torn with seed {seed}"),
        }
    }
}

impl Power {
    /// Refuses a change to `path` that is not made in full.
    ///
    /// # Errors
    /// The power is off, or fails at this change.
    pub(super) fn whole(self, path: &Path) -> Result<(), StoreError> {
        match self {
            Power::On => Ok(()),
            Power::Fails | Power::Off => {
                Err(StoreError::new(path, "the power is off (this is a test)"))
            }
        }
    }
}

impl PowerState {
    /// Returns the file that `path` names; `None` if there is none.
    fn file_at(&mut self, path: &Path) -> Option<FileId> {
        if let Some(known) = self.names.get(path) {
            return known;
        }
        let file = path.is_file().then(|| self.new_file(Content::unread()));
        self.names.found(path, file);
        file
    }

    /// Creates a file with the name `path`.
    fn create(&mut self, path: &Path) -> FileId {
        let file = self.new_file(Content::default());
        self.names.change(vec![(path.to_path_buf(), Some(file))]);
        file
    }

    fn new_file(&mut self, content: Content) -> FileId {
        self.files.push(content);
        FileId(self.files.len() - 1)
    }
}
