//! UTXO snapshots in the format of Core's `dumptxoutset` (version 2), of which docs/format.md has
//! a table: a head, and the coins of one transaction after the other.
//!
//! Coins have no index and lengths of their own, so that one thread walks over them to cut the
//! file into [pieces](SnapshotPieces), 20 ns for each, and all threads decode them.

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
pub use head::SnapshotHead;
pub use pieces::{SnapshotPiece, SnapshotPieces};
pub use stats::{SnapshotStats, snapshot_stats, snapshot_stats_sorted};
