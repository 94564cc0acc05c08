//! UTXO snapshots in the format of Core's `dumptxoutset` (version 2), described in a table in
//! docs/format.md: a head, then the coins of one transaction after another.
//!
//! Coins have no index and no lengths, so one thread walks over them to cut the file into
//! [pieces](SnapshotPieces), 20 ns for each coin, and all threads decode them.

mod coins;
mod error;
mod file;
mod groups;
mod head;
mod pieces;
mod stats;

pub use coins::SnapshotCoins;
pub use error::{SnapshotError, SnapshotReadError};
pub use file::SnapshotFile;
pub use groups::{GroupCoin, GroupCoins, SnapshotGroup};
pub use head::{SNAPSHOT_MAGIC, SnapshotHead};
pub use pieces::{SnapshotPiece, SnapshotPieces};
pub use stats::{SnapshotStats, snapshot_stats, snapshot_stats_sorted};
