//! The pipelines: three methods of making a UTXO set from blocks. This crate does not know
//! argument parsing.
//!
//! [`sync`] and [`reindex`] find the headers in all sources, choose the best chain, and have
//! [`ways`] connect all blocks by one of three methods. What is done to a single block is the same
//! for all ([`apus_node::block`]).
//!
//! | part | contents |
//! |---|---|
//! | [`run`] | the ways in, and what all three have in common |
//! | [`method`], [`ways`] | which method is chosen, and why; one method after another |
//! | [`in_order`] | blocks in order of height, each with its coins from the UTXO set |
//! | [`join`] | blocks in any order, three passes, one commit |
//! | [`swift`] | SwiftSync: blocks in any order, by hints or by a snapshot |
//! | [`claim`], [`hints_file`] | what says which outputs are unspent, until the blocks prove it |
//! | [`unspent`] | unspent outputs sorted by their blocks, for hints and for snapshots |
//! | [`index_files`] | the block index, made anew from the block files |
//! | [`loadtxoutset`] | a snapshot as the UTXO set that bitcoind works with, unproved |
//! | [`start_check`], [`verify`] | the last blocks and the UTXO set held against each other |
//! | [`saved_work`], [`sealed`], [`unfinished`] | what an interrupted sync has saved |
//! | [`summary`], [`above_tip`], [`shrink`] | how a sync ended |

pub mod above_tip;
pub mod claim;
pub mod hints_file;
pub mod in_order;
pub mod index_files;
pub mod join;
pub mod loadtxoutset;
pub mod method;
pub mod run;
pub mod saved_work;
pub mod sealed;
pub mod shrink;
pub mod start_check;
pub mod summary;
pub mod swift;
pub mod unfinished;
pub mod unspent;
pub mod verify;
pub mod ways;

pub use above_tip::AboveTip;
pub use hints_file::HintsFile;
pub use join::rewrite_join_progress;
pub use method::ChosenMethod;
pub use run::{reindex, reindex_files, reindex_files_on, reindex_on, sync, sync_on};
pub use saved_work::{JoinPass, SavedBlocks, SavedJoin};
pub use summary::Summary;
pub use swift::directory::DIRECTORY as SWIFTSYNC_DIRECTORY;
pub use verify::{Damage, DamageList, Incomplete, LevelReport, Verified, Verify};
