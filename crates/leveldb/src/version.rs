use std::cmp::Reverse;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use apus_disk::{Result, StoreError};

use super::bloom;
use super::format::{LEVELS, compare_internal, first_from, user_key};
use super::manifest::{DeletedFile, NewFile};
use super::table::{BlockLocation, Lookup, Probe, Table, TableCursor};

/// Number of keys that are located before the value of the first is read: enough to keep a disk
/// busy, and little memory.
const BATCH_KEYS: usize = 512;

/// A key that [`Version::get_many`] looks up.
#[derive(Clone, Copy)]
struct OpenKey {
    /// The index of the key in the input, or [`DONE`] once it was found.
    index: usize,
    /// The bloom hash of the key.
    hash: u32,
}

/// The index that marks a key as found.
const DONE: usize = usize::MAX;

/// A table and its level.
#[derive(Clone)]
pub(super) struct LevelTable {
    pub level: usize,
    pub table: Arc<Table>,
}

/// Tables that do not overlap, in ascending key order.
#[derive(Clone)]
pub(super) struct SortedRun {
    pub level: usize,
    pub tables: Arc<[Arc<Table>]>,
}

/// The content of the database at one moment: its runs, from the newest to the oldest. A version
/// never changes, so that readers need no lock.
///
/// Each of the levels 1 to 6 is one run. Tables of level 0 may overlap; the one with the higher
/// number is newer. Neighbours in that order that do not overlap form one run, since it does not
/// matter which of them is newer.
#[derive(Default)]
pub(super) struct Version {
    pub runs: Vec<SortedRun>,
}

impl LevelTable {
    /// Returns the number of the table's file.
    pub(super) fn number(&self) -> u64 {
        self.table.number
    }

    /// Returns the part of a manifest record that removes the table.
    pub(super) fn deleted_file(&self) -> DeletedFile {
        DeletedFile { level: self.level, number: self.table.number }
    }

    /// Returns the part of a manifest record that adds the table.
    pub(super) fn file(&self) -> NewFile {
        let table = &self.table;
        NewFile {
            level: self.level,
            number: table.number,
            bytes: table.bytes,
            keys: table.keys.clone(),
        }
    }
}

impl SortedRun {
    /// Returns the size of all tables in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    pub(super) fn level_tables(&self) -> impl Iterator<Item = LevelTable> {
        self.tables.iter().map(|table| LevelTable { level: self.level, table: table.clone() })
    }

    /// Returns the index of the first table whose last user key is at least `key`.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        self.tables.partition_point(|table| table.last() < key)
    }
}

impl Version {
    /// Returns the version that consists of these tables, given in any order.
    ///
    /// # Errors
    /// Tables of a level other than 0 overlap.
    pub(super) fn new(dir: &Path, tables: Vec<LevelTable>) -> Result<Self> {
        let mut levels: [Vec<Arc<Table>>; LEVELS] = Default::default();
        for LevelTable { level, table } in tables {
            levels[level].push(table);
        }
        let mut runs = gather_level_0(std::mem::take(&mut levels[0]));
        for (level, mut tables) in levels.into_iter().enumerate() {
            if tables.is_empty() {
                continue;
            }
            tables.sort_by(|a, b| compare_internal(&a.keys.smallest, &b.keys.smallest));
            for pair in tables.windows(2) {
                if compare_internal(&pair[0].keys.largest, &pair[1].keys.smallest).is_ge() {
                    let a = pair[0].number;
                    let b = pair[1].number;
                    let what = format!(
                        "the tables {a:06}.ldb and {b:06}.ldb of level {level} overlap, as only \
                         tables of level 0 may"
                    );
                    return Err(StoreError::new(dir, what));
                }
            }
            runs.push(SortedRun { level, tables: tables.into() });
        }
        Ok(Self { runs })
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = LevelTable> {
        self.runs.iter().flat_map(SortedRun::level_tables)
    }

    /// Returns the part of a manifest record that adds all tables.
    pub(super) fn files(&self) -> Vec<NewFile> {
        self.tables().map(|table| table.file()).collect()
    }

    /// Returns the value of `key`, borrowed from its table.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let hash = bloom::hash(key);
        let mut probe = Probe::default();
        for run in &self.runs {
            let Some(table) = run.tables.get(run.find(key)).filter(|t| t.first() <= key) else {
                continue;
            };
            let Some(place) = table.locate(&mut probe, key, false)? else { continue };
            if table.filter(place)?.is_some_and(|filter| !bloom::may_hold(filter, hash)) {
                continue;
            }
            table.request(place)?;
            match table.read(place, key)? {
                Lookup::Absent => {}
                Lookup::Deleted => return Ok(None),
                Lookup::Value(value) => return Ok(Some(value)),
            }
        }
        Ok(None)
    }

    /// Looks up many ascending keys: one run after another, in each the keys that were not found
    /// yet.
    ///
    /// Almost all of the time is spent waiting for memory. So a batch of keys goes through each
    /// step before any of them goes on to the next one: the processor and the disk then load the
    /// data of many keys at the same time.
    pub(super) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut found: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        debug_assert!(keys.is_sorted_by_key(|key| key.as_ref()), "keys must ascend");
        let hash = |(index, key): (usize, &K)| OpenKey { index, hash: bloom::hash(key.as_ref()) };
        let mut open: Vec<OpenKey> = keys.iter().enumerate().map(hash).collect();
        let mut places = Vec::with_capacity(BATCH_KEYS.min(keys.len()));
        for run in &self.runs {
            let mut cursor = RunProbe::default();
            for part in open.chunks_mut(BATCH_KEYS) {
                places.clear();
                for (slot, &OpenKey { index, .. }) in part.iter().enumerate() {
                    if let Some((table, place)) = cursor.locate(run, keys[index].as_ref())? {
                        places.push((slot, table, place));
                    }
                }
                keep_those_admitted(&mut places, part)?;
                for &(slot, table, place) in &places {
                    let index = part[slot].index;
                    match table.read(place, keys[index].as_ref())? {
                        Lookup::Absent => continue,
                        Lookup::Deleted => {}
                        Lookup::Value(value) => found(index, value),
                    }
                    part[slot].index = DONE;
                }
            }
            open.retain(|key| key.index != DONE);
        }
        Ok(())
    }
}

/// Keeps only the places whose filter admits the key, and starts to load their blocks. Each place
/// belongs to a key of `part`.
fn keep_those_admitted(
    places: &mut Vec<(usize, &Arc<Table>, BlockLocation)>,
    part: &[OpenKey],
) -> Result<()> {
    let filters = places.iter().map(|&(_, table, place)| table.filter(place));
    let filters: Vec<_> = filters.collect::<Result<_>>()?;
    // A filter usually spans two cache lines: that of its first and that of its last byte.
    let ends = |bytes: &&[u8]| Some(u32::from(*bytes.first()?) + u32::from(*bytes.last()?));
    black_box(filters.iter().flatten().filter_map(ends).fold(0, u32::wrapping_add));
    let mut filters = filters.iter();
    places.retain(|&(slot, ..)| {
        let filter = filters.next().copied().flatten();
        filter.is_none_or(|filter| bloom::may_hold(filter, part[slot].hash))
    });
    let request = |sum: u32, &(_, table, place): &(usize, &Arc<Table>, BlockLocation)| {
        Ok(sum.wrapping_add(table.request(place)?))
    };
    places.iter().try_fold(0, request).map(|sum| {
        black_box(sum);
    })
}

/// The position in a run during lookups of ascending keys.
#[derive(Default)]
struct RunProbe {
    at: usize,
    /// The table for which `probe` was last used.
    last: Option<usize>,
    probe: Probe,
}

impl RunProbe {
    /// Returns the table and its block that hold `key`, if the run does.
    #[inline]
    fn locate<'a>(
        &mut self,
        run: &'a SortedRun,
        key: &[u8],
    ) -> Result<Option<(&'a Arc<Table>, BlockLocation)>> {
        self.at = first_from(&run.tables, self.at, |table| table.last() < key);
        let Some(table) = run.tables.get(self.at).filter(|t| t.first() <= key) else {
            return Ok(None);
        };
        let carry_on = self.last.replace(self.at) == Some(self.at);
        let place = table.locate(&mut self.probe, key, carry_on)?;
        Ok(place.map(|place| (table, place)))
    }
}

fn gather_level_0(mut tables: Vec<Arc<Table>>) -> Vec<SortedRun> {
    tables.sort_by_key(|table| Reverse(table.number));
    let mut runs: Vec<Vec<Arc<Table>>> = Vec::new();
    for table in tables {
        if let Some(run) = runs.last_mut() {
            let at = run.partition_point(|other| other.last() < table.first());
            if run.get(at).is_none_or(|other| table.last() < other.first()) {
                run.insert(at, table);
                continue;
            }
        }
        runs.push(vec![table]);
    }
    runs.into_iter().map(|tables| SortedRun { level: 0, tables: tables.into() }).collect()
}

/// Returns at most `parts - 1` ascending user keys that split `runs` into parts of about equal
/// size.
pub(super) fn split(runs: &[SortedRun], parts: usize) -> Result<Vec<Vec<u8>>> {
    if parts < 2 {
        return Ok(Vec::new());
    }
    let tables: Vec<&Arc<Table>> = runs.iter().flat_map(|run| run.tables.iter()).collect();
    let mut keys: Vec<(Vec<u8>, u64)> = Vec::new();
    if tables.len() >= 8 * parts {
        keys.extend(tables.iter().map(|table| (table.last().to_vec(), table.bytes)));
    } else {
        for table in &tables {
            let mut cursor = TableCursor::default();
            let mut found = cursor.seek_first(table)?;
            while found {
                keys.push((user_key(cursor.index_key()).to_vec(), 1));
                found = cursor.advance_block(table)?;
            }
        }
    }
    keys.sort_unstable();
    let total: u64 = keys.iter().map(|(_, weight)| weight).sum();
    let mut seen = 0;
    let mut cuts = Vec::new();
    for (key, weight) in keys {
        seen += weight;
        let due = seen as u128 * parts as u128 / u128::from(total.max(1));
        if due > cuts.len() as u128 && cuts.len() + 1 < parts && cuts.last() != Some(&key) {
            cuts.push(key);
        }
    }
    Ok(cuts)
}
