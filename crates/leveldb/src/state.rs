//! The files of a database: reads its manifest and writes it anew, opens its tables, and removes
//! files that are no longer needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apus_disk::{Disk, File, Result, StoreError};

use super::format::{FileName, SEQUENCE_MAX, compare_internal, parse_name, table_path};
use super::inner::Manifest;
use super::log::{self, LogReader};
use super::manifest::{DeletedFile, Edit, NewFile};
use super::table::Table;
use super::version::{LevelTable, Version};

/// The highest file number that is accepted; higher ones indicate damage.
pub(super) const NUMBER_MAX: u64 = 1 << 62;

/// The state of a database, as its manifest describes it.
#[derive(Default)]
pub(super) struct DbState {
    /// The number below which logs are no longer needed.
    pub log_number: u64,
    /// The number of an earlier log that is still needed; 0 for none.
    pub prev_log_number: u64,
    /// The number of the next file.
    pub next_file: u64,
    /// The last sequence number used.
    pub last_sequence: u64,
    /// All tables, by their numbers.
    pub files: BTreeMap<u64, NewFile>,
}

/// Returns the lowest number above those of all files in the directory of a database, whether the
/// database knows them or not.
pub(super) fn number_after(names: &[String]) -> u64 {
    let numbers = names.iter().filter_map(|name| match parse_name(name)? {
        FileName::Manifest(n) | FileName::Log(n) | FileName::Table(n) => Some(n),
        _ => None,
    });
    numbers.max().unwrap_or(0).min(NUMBER_MAX) + 1
}

/// Returns the path of the manifest that the file CURRENT names; `None` if there is no file
/// CURRENT.
pub(super) fn current_manifest(disk: &Disk, dir: &Path) -> Result<Option<PathBuf>> {
    let path = dir.join("CURRENT");
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let name = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
    match name.map(|name| (name, parse_name(name))) {
        Some((name, Some(FileName::Manifest(_)))) => Ok(Some(dir.join(name))),
        _ => Err(StoreError::corrupt(
            path,
            0,
            "the file does not name a manifest (MANIFEST- and a number)",
        )),
    }
}

/// Reads all records of the manifest at `path`.
pub(super) fn read_manifest(disk: &Disk, path: &Path) -> Result<DbState> {
    let bytes = disk.read(path)?;
    let bytes = bytes.ok_or_else(|| {
        StoreError::new(path, "the manifest is missing, although the file CURRENT names it")
    })?;
    let mut reader = LogReader::new(path, &bytes);
    let mut state = DbState::default();
    let mut seen = Edit::default();
    loop {
        let offset = reader.offset();
        let Some(record) = reader.next_record()? else { break };
        let edit = Edit::decode(record, path, offset)?;
        for DeletedFile { level, number } in edit.deleted {
            if state.files.get(&number).is_some_and(|file| file.level == level) {
                state.files.remove(&number);
            }
        }
        for file in edit.new {
            let number = file.number;
            if compare_internal(&file.keys.smallest, &file.keys.largest).is_gt() {
                return Err(StoreError::corrupt(
                    path,
                    offset,
                    format!("table {number:06}.ldb has a first key above its last key"),
                ));
            }
            if state.files.insert(number, file).is_some() || number > NUMBER_MAX {
                return Err(StoreError::corrupt(
                    path,
                    offset,
                    format!("table {number:06}.ldb is added twice, or its number is too high"),
                ));
            }
        }
        seen.log_number = edit.log_number.or(seen.log_number);
        seen.prev_log_number = edit.prev_log_number.or(seen.prev_log_number);
        seen.next_file = edit.next_file.or(seen.next_file);
        seen.last_sequence = edit.last_sequence.or(seen.last_sequence);
    }
    let (Some(log_number), Some(next_file), Some(last_sequence)) =
        (seen.log_number, seen.next_file, seen.last_sequence)
    else {
        let what = "the manifest lacks the number of the next file, of the log, or of the last \
            sequence";
        return Err(StoreError::corrupt(path, reader.offset(), what));
    };
    state.log_number = log_number;
    state.prev_log_number = seen.prev_log_number.unwrap_or(0);
    state.last_sequence = last_sequence;
    state.next_file = next_file.max(log_number.saturating_add(1));
    if state.next_file > NUMBER_MAX || last_sequence > SEQUENCE_MAX {
        let what = format!(
            "numbers in the manifest are too high: next file {}, last sequence {}",
            state.next_file, state.last_sequence
        );
        return Err(StoreError::corrupt(path, reader.offset(), what));
    }
    Ok(state)
}

/// Returns handles to all tables of `state`, whose files are among `names`.
///
/// # Errors
/// A table is missing, or its length is not the one in the manifest.
pub(super) fn open_tables(
    disk: &Disk,
    dir: &Path,
    names: &[String],
    state: &DbState,
) -> Result<Vec<LevelTable>> {
    let mut paths = BTreeMap::new();
    for name in names {
        if let Some(FileName::Table(number)) = parse_name(name) {
            paths.insert(number, dir.join(name));
        }
    }
    let mut tables = Vec::with_capacity(state.files.len());
    for file in state.files.values() {
        let Some(path) = paths.remove(&file.number) else {
            return Err(StoreError::new(
                table_path(dir, file.number),
                "the table is missing, although the manifest names it",
            ));
        };
        let bytes = disk.len(&path)?;
        if bytes != file.bytes {
            let what = format!("the table has {bytes} bytes, but the manifest says {}", file.bytes);
            return Err(StoreError::new(path, what));
        }
        let table = Table::new(disk.clone(), path, file.number, bytes, file.keys.clone());
        tables.push(LevelTable { level: file.level, table: Arc::new(table) });
    }
    Ok(tables)
}

/// Writes a manifest of one record that describes the whole database, and makes the file CURRENT
/// name it.
pub(super) fn new_manifest(
    disk: &Disk,
    dir: &Path,
    state: &mut DbState,
    version: &Version,
) -> Result<Manifest> {
    // Logs below this number are no longer needed. LevelDB requires it to be below the number of
    // the next file.
    let log_number = state.next_file;
    let number = state.next_file + 1;
    state.next_file += 2;
    let edit = Edit {
        comparator: true,
        log_number: Some(log_number),
        prev_log_number: Some(0),
        next_file: Some(state.next_file),
        last_sequence: Some(state.last_sequence),
        deleted: Vec::new(),
        new: version.files(),
    };
    let mut bytes = Vec::new();
    log::put_record(&mut bytes, 0, &edit.encode());
    let name = format!("MANIFEST-{number:06}");
    let file = disk.create(dir.join(&name))?;
    file.write_all_at(&bytes, 0)?;
    file.sync()?;
    disk.sync_dir(dir)?;
    let temporary = dir.join(format!("{number:06}.dbtmp"));
    let current = disk.create(&temporary)?;
    current.write_all_at(format!("{name}\n").as_bytes(), 0)?;
    current.sync()?;
    disk.rename(&temporary, dir.join("CURRENT"))?;
    disk.sync_dir(dir)?;
    let offset = bytes.len() as u64;
    let last_sequence = state.last_sequence;
    Ok(Manifest { file: Some(file), offset, last_sequence })
}

/// Removes files that are no longer needed: tables that are in no level and whose number is not in
/// `keep`, logs, and manifests other than `manifest`.
pub(super) fn remove_obsolete(
    disk: &Disk,
    dir: &Path,
    version: &Version,
    manifest: &Manifest,
    keep: &[u64],
) -> Result<()> {
    let current = manifest.file.as_ref().map(File::path);
    let live = version.tables().map(|table| table.number());
    let live: BTreeSet<u64> = live.chain(keep.iter().copied()).collect();
    for name in disk.list(dir)? {
        let path = dir.join(&name);
        let obsolete = match parse_name(&name) {
            Some(FileName::Table(number)) => !live.contains(&number),
            Some(FileName::Log(_) | FileName::Temporary(_)) => true,
            Some(FileName::Manifest(_)) => Some(path.as_path()) != current,
            Some(FileName::Current | FileName::Lock | FileName::InfoLog) | None => false,
        };
        if obsolete {
            disk.remove(path)?;
        }
    }
    Ok(())
}
