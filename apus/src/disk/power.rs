use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::StoreError;

/// A power failure at the n-th change to the disk, for tests: that change is half done, every later
/// one is refused, and [`PowerCut::lose_unsynced`] then takes from each file what was not synced.
///
/// It is meant for small files, since it holds the synced content of each in memory.
pub struct PowerCut {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of changes attempted so far.
    steps: u64,
    /// Number of the change at which the power fails.
    cut_at: u64,
    /// Whether the power was off before the last change that was attempted.
    off_before: bool,
    /// The content of each file as of its last sync, by its present name.
    synced: BTreeMap<PathBuf, Vec<u8>>,
    /// Names that were created, removed or replaced since their directory was synced, with the
    /// content that is durable under each.
    unsynced_names: BTreeMap<PathBuf, Option<Vec<u8>>>,
    /// Every file that was changed.
    touched: BTreeSet<PathBuf>,
}

impl PowerCut {
    /// A power failure at the change of number `cut_at`, counted from 1; with `u64::MAX` changes
    /// are only counted.
    pub fn at(cut_at: u64) -> Self {
        Self { state: Mutex::new(State { cut_at, ..State::default() }) }
    }

    /// Number of changes attempted so far.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        let state = self.lock();
        state.steps >= state.cut_at
    }

    /// Brings every file to what a disk keeps without power: its synced content, under the names as
    /// of the last sync of its directory. To be called after the power failed, when no file is
    /// open.
    pub fn lose_unsynced(&self) -> std::io::Result<()> {
        let state = self.lock();
        for path in &state.touched {
            let name_lost = state.unsynced_names.get(path);
            let content = match name_lost {
                Some(before) => before.clone(),
                None if path.exists() => Some(state.synced.get(path).cloned().unwrap_or_default()),
                None => None,
            };
            match content {
                Some(bytes) => {
                    // The directory of the file may have been removed.
                    path.parent().map_or(Ok(()), fs::create_dir_all)?;
                    fs::write(path, bytes)?;
                }
                None if path.is_file() => fs::remove_file(path)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Counts a change to `path` that writes so many bytes.
    ///
    /// # Errors
    /// The power is off, or fails at this change.
    pub(super) fn step(&self, path: &Path, bytes: usize) -> Result<usize, StoreError> {
        let mut state = self.lock();
        state.off_before = state.steps >= state.cut_at;
        state.steps += 1;
        if state.steps >= state.cut_at {
            return Err(StoreError::new(path, "the power is off (this is a test)"));
        }
        if !path.is_dir() {
            state.first_touch(path);
        }
        Ok(bytes)
    }

    pub(super) fn was_off_before_last_step(&self) -> bool {
        self.lock().off_before
    }

    pub(super) fn file_synced(&self, path: &Path) {
        let content = fs::read(path).unwrap_or_default();
        self.lock().synced.insert(path.to_path_buf(), content);
    }

    /// Zeroes a range of the synced content of `path`, or does not, since either can happen: with
    /// the power cut one change later, it is the other way round.
    pub(super) fn hole_punched(&self, path: &Path, offset: u64, len: u64) {
        let mut state = self.lock();
        if !state.cut_at.abs_diff(state.steps).is_multiple_of(2) {
            return;
        }
        if let Some(content) = state.synced.get_mut(path) {
            let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
            let (start, end) = (within(offset), within(offset.saturating_add(len)));
            content[start..end].fill(0);
        }
    }

    /// Remembers the content of `path` before it is renamed.
    pub(super) fn before_rename(&self, path: &Path) {
        self.lock().first_touch(path);
    }

    pub(super) fn renamed(&self, from: &Path, to: &Path) {
        let mut state = self.lock();
        state.first_touch(to);
        let content = state.synced.remove(from).unwrap_or_default();
        // Until the directory is synced, the old name may come back.
        state.unsynced_names.entry(from.to_path_buf()).or_insert(Some(content.clone()));
        let before = state.synced.insert(to.to_path_buf(), content);
        state.unsynced_names.entry(to.to_path_buf()).or_insert(before);
    }

    pub(super) fn removed(&self, path: &Path) {
        let mut state = self.lock();
        if let Some(content) = state.synced.remove(path) {
            state.unsynced_names.entry(path.to_path_buf()).or_insert(Some(content));
        }
    }

    pub(super) fn dir_synced(&self, dir: &Path) {
        let mut state = self.lock();
        state.unsynced_names.retain(|path, _| path.parent() != Some(dir));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("a test thread panicked")
    }
}

impl State {
    /// Remembers the content of `path` before the first change to it.
    fn first_touch(&mut self, path: &Path) {
        if !self.touched.insert(path.to_path_buf()) {
            return;
        }
        match fs::read(path) {
            Ok(content) => {
                self.synced.insert(path.to_path_buf(), content);
            }
            Err(_) => {
                self.unsynced_names.insert(path.to_path_buf(), None);
            }
        }
    }
}
