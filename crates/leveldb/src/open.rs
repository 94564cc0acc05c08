use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, RwLock};

use apus_disk::{Disk, Result, StoreError};

use super::format::{FileName, parse_name};
use super::inner::{Inner, Manifest};
use super::options::Options;
use super::recover::recover_logs;
use super::state::{
    DbState, NUMBER_MAX, current_manifest, new_manifest, number_after, open_tables, read_manifest,
    remove_obsolete,
};
use super::version::Version;

/// Opens or creates the database in the directory `dir`; see [`super::Db::open`].
pub(super) fn open(disk: Disk, dir: &Path, options: Options) -> Result<Inner> {
    if options.create_if_missing && !options.read_only {
        disk.create_dir_all(dir)?;
    }
    let lock_path = dir.join("LOCK");
    let lock = match (options.read_only, options.lock) {
        (true, true) => disk.lock_shared(lock_path)?,
        (true, false) => None,
        (false, _) => Some(disk.lock(lock_path)?),
    };
    let names = disk.list(dir)?;
    let mut state = match current_manifest(&disk, dir)? {
        Some(path) => read_manifest(&disk, &path)?,
        None => fresh(dir, &names, &options)?,
    };
    // The number of a file that a crash left behind, or that is to be kept, is not used again.
    let kept = options.keep.iter().max().map_or(0, |number| (*number).min(NUMBER_MAX) + 1);
    state.next_file = state.next_file.max(number_after(&names)).max(kept);
    let mut tables = open_tables(&disk, dir, &names, &state)?;
    tables.extend(recover_logs(&disk, dir, &names, &options, &mut state)?);
    let version = Version::new(dir, tables)?;
    let manifest = if options.read_only {
        Manifest { file: None, offset: 0, last_sequence: state.last_sequence }
    } else {
        let manifest = new_manifest(&disk, dir, &mut state, &version)?;
        remove_obsolete(&disk, dir, &version, &manifest, &options.keep)?;
        manifest
    };
    Ok(Inner {
        disk,
        dir: dir.to_path_buf(),
        options,
        current: RwLock::new(Arc::new(version)),
        manifest: Mutex::new(manifest),
        next_file: AtomicU64::new(state.next_file),
        writing: Mutex::new(false),
        written: Condvar::new(),
        merging: Mutex::new(()),
        _lock: lock,
    })
}

/// Removes the database in the directory `dir`; see [`super::Db::destroy`].
pub(super) fn destroy(disk: &Disk, dir: &Path) -> Result<()> {
    let names = disk.list(dir)?;
    if !names.iter().any(|name| parse_name(name).is_some()) {
        return Ok(());
    }
    let lock = disk.lock(dir.join("LOCK"))?;
    // An empty database replaces it first, so that no table is ever missing.
    let mut state = DbState { next_file: number_after(&names), ..DbState::default() };
    let empty = Version::default();
    let manifest = new_manifest(disk, dir, &mut state, &empty)?;
    remove_obsolete(disk, dir, &empty, &manifest, &[])?;
    disk.sync_dir(dir)?;
    disk.remove(dir.join("CURRENT"))?;
    disk.sync_dir(dir)?;
    for name in disk.list(dir)? {
        match parse_name(&name) {
            Some(FileName::Lock) | None => {}
            Some(_) => disk.remove(dir.join(&name))?,
        }
    }
    disk.remove(dir.join("LOCK"))?;
    drop(lock);
    disk.sync_dir(dir)
}

/// Returns the state of a new database.
///
/// # Errors
/// The directory already holds tables or logs, or no database may be created.
fn fresh(dir: &Path, names: &[String], options: &Options) -> Result<DbState> {
    let data =
        |name: &String| matches!(parse_name(name), Some(FileName::Table(_) | FileName::Log(_)));
    if names.iter().any(data) {
        return Err(StoreError::new(
            dir,
            "the directory holds tables or logs, but no file CURRENT that names their manifest",
        ));
    }
    if options.read_only || !options.create_if_missing {
        return Err(StoreError::new(dir, "there is no database in this directory"));
    }
    Ok(DbState { next_file: 1, ..DbState::default() })
}
