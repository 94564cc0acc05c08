//! A table as one Parquet file for each range of heights, each with a note on what it holds: many
//! machines write them, new blocks change the last one alone, and each can be proved by itself.
//!
//! ```text
//! OUT/inputs/start_height=800000/inputs.parquet
//! OUT/inputs/start_height=800000/_range.json
//! ```
//!
//! Readers of directories take `start_height` for a column, and skip files whose names begin with
//! `_`.

use std::fs::Metadata;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_export::{Format, Forms, Target};
use apus_hash::{Hash, hex};
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::remedy;
use apus_node::workers::check_stop;
use apus_progress::Watch;
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::columns::ExportTable;
use super::output::{FileStream, Output};
use super::part::Part;
use super::run::Run;
use crate::reader::open_chain;
use apus_claims::stored::StoredChain;

/// The name of a file's note.
const NOTE: &str = "_range.json";

/// A table in ranges.
#[derive(Clone, Copy, Debug)]
pub struct Ranges<'a> {
    /// The directory of the table's own directory.
    pub directory: &'a Path,
    /// The table; not that of coins, which every block changes.
    pub table: ExportTable,
    /// The forms of hashes, scripts and witnesses.
    pub forms: Forms,
    /// The number of blocks of each range but the last.
    pub blocks: u32,
    /// The number of the only range to work on, from 0; `None` for all.
    pub only: Option<u32>,
}

/// The work done on ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangesDone {
    /// Files that were written, or proved.
    pub files: u32,
    /// Files that were right before.
    pub kept: u32,
    /// Rows of all these files.
    pub rows: u64,
    /// Bytes of all these files.
    pub bytes: u64,
}

/// A note on the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    table: String,
    chain: String,
    start_height: u32,
    stop_height: u32,
    /// The parent of the first block; zeros for genesis.
    previous_block: String,
    first_block: String,
    last_block: String,
    forms: String,
    rows: u64,
    bytes: u64,
    sha256: String,
}

/// Writes each file that is missing, or does not hold what it should: blocks were added to its
/// range, or were replaced by others in a reorganisation. Removes those above the tip.
///
/// # Errors
/// The range is not in the chain; the directory has ranges of another number of blocks; as for
/// [`export`](super::export); or a file cannot be replaced.
pub fn export_ranges(
    options: &Options,
    asked: &Ranges,
    watch: Watch,
) -> Result<RangesDone, SyncError> {
    remedy::naming(options, || {
        let work = Work::open(options, asked, watch)?;
        let others = work.others()?;
        if let Some((_, other)) =
            others.iter().find(|(start, _)| !start.is_multiple_of(asked.blocks))
        {
            return Err(work.is_no_range(other).into());
        }
        let mut done = RangesDone::default();
        for number in work.numbers()? {
            check_stop(watch.stop)?;
            let note = match work.kept(number)? {
                Some(known) => {
                    done.kept += 1;
                    known
                }
                None => {
                    done.files += 1;
                    work.write(number)?
                }
            };
            done.rows += note.rows;
            done.bytes += note.bytes;
        }
        if asked.only.is_none() {
            for (_, above_tip) in others {
                work.remove(&above_tip)?;
            }
        }
        Ok(done)
    })
}

/// Returns the numbers of the ranges that [`export_ranges`] would write.
///
/// # Errors
/// As for [`export_ranges`].
pub fn ranges_to_write(
    options: &Options,
    asked: &Ranges,
    watch: Watch,
) -> Result<Vec<u32>, SyncError> {
    remedy::naming(options, || {
        let work = Work::open(options, asked, watch)?;
        let mut missing = Vec::new();
        for number in work.numbers()? {
            if work.kept(number)?.is_none() {
                missing.push(number);
            }
        }
        Ok(missing)
    })
}

/// Proves that the files hold what the blocks of the directory yield, row by row: makes each once
/// more, and compares. The blocks are those of the headers, by their hashes and merkle roots.
///
/// # Errors
/// A file is missing or holds something else; there are others, unless one range is asked for; as
/// for [`export`](super::export).
pub fn verify_ranges(
    options: &Options,
    asked: &Ranges,
    watch: Watch,
) -> Result<RangesDone, SyncError> {
    remedy::naming(options, || {
        let work = Work::open(options, asked, watch)?;
        if asked.only.is_none()
            && let Some((_, other)) = work.others()?.first()
        {
            return Err(work.is_no_range(other).into());
        }
        let mut done = RangesDone::default();
        for number in work.numbers()? {
            check_stop(watch.stop)?;
            let path = work.file(number);
            let due = work.due(number);
            let wrong = |what: &str| StoreError::new(&path, what);
            let note = work.note(number)?.ok_or_else(|| wrong("this file is missing"))?;
            if !note.is_of(&due) {
                let is_other_form = note.is_of(&Note { forms: note.forms.clone(), ..due });
                let what = if is_other_form {
                    "this file was written with other options for its columns: give the same ones"
                } else {
                    "the chain has other blocks at these heights: `apus shard export` writes this \
                     file again"
                };
                return Err(wrong(what).into());
            }
            let made = work.make(due, &mut io::sink(), &Output::new(&path))?;
            if made != note {
                return Err(wrong("its note is not that of these blocks").into());
            }
            if hash_of(&path)? != made.sha256 {
                return Err(wrong(
                    "this file does not hold what its blocks yield: remove it, and run `apus shard \
                     export` again",
                )
                .into());
            }
            done.files += 1;
            done.rows += note.rows;
            done.bytes += note.bytes;
        }
        Ok(done)
    })
}

/// The chain, and what is asked of it.
struct Work<'a> {
    options: &'a Options,
    asked: &'a Ranges<'a>,
    disk: Disk,
    chain: StoredChain,
    pool: ThreadPool,
    watch: Watch<'a>,
}

impl<'a> Work<'a> {
    fn open(
        options: &'a Options,
        asked: &'a Ranges<'a>,
        watch: Watch<'a>,
    ) -> Result<Self, SyncError> {
        if asked.table == ExportTable::Coins {
            return Err(SyncError::WrongOptions(
                "coins change with every block, so they have no ranges: use `apus export coins`"
                    .to_string(),
            ));
        }
        let pool = threads::pool(options.threads)?;
        let chain = open_chain(options, &pool, watch.observer)?;
        let work = Self { options, asked, disk: Disk::new(), chain, pool, watch };
        work.check_chain()?;
        Ok(work)
    }

    fn numbers(&self) -> Result<std::ops::Range<u32>, SyncError> {
        let count = self.chain.height() / self.asked.blocks + 1;
        match self.asked.only {
            None => Ok(0..count),
            Some(only) if only < count => Ok(only..only + 1),
            Some(only) => Err(SyncError::WrongOptions(format!(
                "--range {only}: the chain has {count} ranges, numbered from 0"
            ))),
        }
    }

    fn table_directory(&self) -> PathBuf {
        self.asked.directory.join(self.asked.table.name())
    }

    fn directory(&self, number: u32) -> PathBuf {
        self.table_directory().join(format!("start_height={}", number * self.asked.blocks))
    }

    fn file(&self, number: u32) -> PathBuf {
        self.directory(number).join(format!("{}.parquet", self.asked.table.name()))
    }

    /// Returns the note of a range that is there; `None` too if it cannot be parsed.
    fn note(&self, number: u32) -> Result<Option<Note>, StoreError> {
        self.note_in(&self.directory(number))
    }

    fn note_in(&self, directory: &Path) -> Result<Option<Note>, StoreError> {
        let note = self.disk.read(directory.join(NOTE))?;
        Ok(note.and_then(|note| serde_json::from_slice(&note).ok()))
    }

    /// Refuses a directory with tables of another chain, which would be replaced or removed.
    fn check_chain(&self) -> Result<(), StoreError> {
        for (_, path) in self.found()? {
            if let Some(note) = self.note_in(&path)?
                && note.chain != self.options.network.chain.name()
            {
                let what = format!("this is a table of {}: name another directory", note.chain);
                return Err(StoreError::new(path, what));
            }
        }
        Ok(())
    }

    /// Returns the note of a range whose file is there, in its length, and is of the blocks of the
    /// chain.
    fn kept(&self, number: u32) -> Result<Option<Note>, StoreError> {
        let len =
            self.file(number).metadata().ok().filter(Metadata::is_file).map(|file| file.len());
        let is_right = |note: &Note| note.is_of(&self.due(number)) && len == Some(note.bytes);
        Ok(self.note(number)?.filter(is_right))
    }

    /// Returns the note that a range must have, but for its file.
    fn due(&self, number: u32) -> Note {
        let start = number * self.asked.blocks;
        let blocks = &self.chain.blocks;
        let stop = (start + (self.asked.blocks - 1)).min(self.chain.height());
        let hash = |height: u32| blocks[height as usize].hash.to_string();
        Note {
            table: self.asked.table.name().to_string(),
            chain: self.options.network.chain.name().to_string(),
            start_height: start,
            stop_height: stop,
            previous_block: start.checked_sub(1).map_or(Hash::ZERO.to_string(), hash),
            first_block: hash(start),
            last_block: hash(stop),
            forms: format!("{:?}", self.asked.forms),
            rows: 0,
            bytes: 0,
            sha256: String::new(),
        }
    }

    /// Writes the file of a range, and then its note.
    fn write(&self, number: u32) -> Result<Note, SyncError> {
        let directory = self.directory(number);
        let path = self.file(number);
        self.disk.create_dir_all(&directory)?;
        let note = self.disk.replace_with(&path, |file| {
            let output = Output::new(&path);
            self.make(self.due(number), &mut FileStream { file, output: &output }, &output)
        })?;
        let text = serde_json::to_string_pretty(&note).expect("plain data") + "\n";
        self.disk.write_atomically(directory.join(NOTE), text.as_bytes())?;
        Ok(note)
    }

    /// Makes the file of a range, and returns its note. A file does not depend on the number of
    /// threads and the tip. `output` has the errors of `stream`.
    fn make(
        &self,
        due: Note,
        stream: &mut (dyn Write + Send),
        output: &Output,
    ) -> Result<Note, SyncError> {
        let table = self.asked.table;
        let forms = self.asked.forms;
        let heights = (Some(due.start_height), Some(due.stop_height));
        let part = Part::new(&self.chain, &self.options.network, table, heights)?;
        let part = part.with_tip(due.stop_height);
        let lacking = part.without_fees();
        if lacking > 0 {
            return Err(SyncError::Input(format!(
                "{lacking} blocks from height {} to {} have no undo data here, so their fees are \
                 unknown, and other machines would write another file: let `apus reindex` write it",
                due.start_height, due.stop_height
            )));
        }
        let source = part.source(self.watch.stop)?;
        let run = Run {
            table: table.layout(),
            format: Format::Parquet,
            forms,
            facts: &part.facts(),
            source: source.as_ref(),
            pool: &self.pool,
            watch: self.watch,
        };
        let mut hasher = Sha256::new();
        let mut bytes = 0;
        let hashing = Hashing { stream, hasher: &mut hasher, bytes: &mut bytes };
        let rows = run.write(Target::Stream(Box::new(hashing)), output)?;
        Ok(Note { rows, bytes, sha256: hex(&hasher.finalize()), ..due })
    }

    /// Returns the directories of ranges that are none of this chain and of this number of blocks,
    /// with the heights at which they begin. Programs that read the table would read them, too.
    fn others(&self) -> Result<Vec<(u32, PathBuf)>, StoreError> {
        let mut others = self.found()?;
        others.retain(|(start, path)| {
            let is_one = start.is_multiple_of(self.asked.blocks) && *start <= self.chain.height();
            !is_one && path.join(NOTE).is_file()
        });
        Ok(others)
    }

    /// Returns the directories of all ranges of the table, with the heights at which they begin.
    fn found(&self) -> Result<Vec<(u32, PathBuf)>, StoreError> {
        let directory = self.table_directory();
        let names = self.disk.list(&directory)?;
        let ranges = names.into_iter().filter_map(|name| {
            let start = name.strip_prefix("start_height=")?.parse().ok()?;
            Some((start, directory.join(name)))
        });
        Ok(ranges.collect())
    }

    fn is_no_range(&self, directory: &Path) -> StoreError {
        let what = format!(
            "this is no range of {} blocks of the chain, and its rows would count twice or are not \
             in the chain: give the --blocks with which it was written, or another directory",
            self.asked.blocks
        );
        StoreError::new(directory, what)
    }

    /// Removes the directory of a range and all files in it.
    fn remove(&self, directory: &Path) -> Result<(), StoreError> {
        for name in self.disk.list(directory)? {
            self.disk.remove(directory.join(name))?;
        }
        self.disk.remove_empty_dir(directory)
    }
}

impl Note {
    /// Returns whether a file is of these blocks and in these forms.
    fn is_of(&self, due: &Self) -> bool {
        let Self { rows, bytes, .. } = *self;
        *self == Self { rows, bytes, sha256: self.sha256.clone(), ..due.clone() }
    }
}

/// A stream whose bytes are hashed and counted.
struct Hashing<'a> {
    stream: &'a mut (dyn Write + Send),
    hasher: &'a mut Sha256,
    bytes: &'a mut u64,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        *self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Returns the SHA-256 of a file's content, in hex.
fn hash_of(path: &Path) -> Result<String, StoreError> {
    let failed = |e| StoreError::io(path, "read", e);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut hasher).map_err(failed)?;
    Ok(hex(&hasher.finalize()))
}
