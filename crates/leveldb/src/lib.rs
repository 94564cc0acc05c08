//! An engine for LevelDB's on-disk format, made for large sorted batches and parallel lookups.
//!
//! LevelDB takes small random writes: a log, a memtable, compactions. Here a batch arrives sorted
//! and becomes a *run* of tables directly; one manifest record, written after the tables are
//! synced, makes it visible and durable as a whole. Apus writes no log, but reads one that LevelDB
//! left. The result is a database that LevelDB, and so Bitcoin Core, opens as its own. This crate
//! knows byte strings and does not know Bitcoin.
//!
//! Invariants:
//! - A table never changes once it is written, so readers take no lock: they hold a [`Snapshot`],
//!   which keeps the files of its tables until it is dropped.
//! - Runs are ordered by age. Level 0 holds the newest, each with higher file numbers than the one
//!   before; each deeper level is one run, older than all above.
//! - All entries of a run have one sequence number, higher than those of every older run.
//! - The bytes of a block are returned only after its checksum has been verified.
//!
//! Sources: LevelDB's `doc/impl.md`, `doc/table_format.md` and `doc/log_format.md`.

#![warn(missing_docs)]

mod adopt;
mod block;
mod bloom;
mod cursor;
mod db;
mod fences;
mod format;
mod inner;
mod levels;
mod log;
mod manifest;
mod merge;
mod open;
mod options;
mod pending;
mod recover;
mod run;
mod state;
mod table;
mod table_writer;
mod verify;
mod version;

#[cfg(test)]
mod tests;

/// The numbers and names of the format that docs/format.md lists.
pub mod layout {
    pub use super::bloom::{
        BITS_MIN as FILTER_BITS_MIN, PROBES_MAX as FILTER_PROBES_MAX,
        WINDOW_LOG2 as FILTER_WINDOW_LOG2,
    };
    pub use super::format::{
        BLOCK_TRAILER_BYTES, COMPARATOR, FILTER_KEY, FOOTER_BYTES, LEVELS, MAGIC as TABLE_MAGIC,
        MASK_DELTA, SEQUENCE_MAX, TRAILER_BYTES,
    };
    pub use super::levels::LEVEL_0_RUNS_MAX;
    pub use super::log::{
        BLOCK_BYTES as LOG_BLOCK_BYTES, FIRST as LOG_FIRST, FULL as LOG_FULL,
        HEADER_BYTES as LOG_HEADER_BYTES, LAST as LOG_LAST, MIDDLE as LOG_MIDDLE,
    };
    pub use super::manifest::{
        TAG_COMPACT_POINTER, TAG_COMPARATOR, TAG_DELETED_FILE, TAG_LAST_SEQUENCE, TAG_LOG_NUMBER,
        TAG_NEW_FILE, TAG_NEXT_FILE, TAG_PREV_LOG_NUMBER,
    };
}

pub use format::{append_short, put_short};

/// The checksum (CRC-32C) of LevelDB's records, and of btcd's block files.
pub use crc32c::crc32c;

pub use cursor::{Cursor, Entries};
pub use db::{Db, LevelStats, Snapshot, Stats};
pub use options::Options;
pub use pending::PendingTable;
pub use run::{RunBuilder, RunKind, RunWriter};
