//! The pipelines. Does not know argument parsing.
//!
//! In order ([`sync`], [`reindex`]): find the headers in all sources, choose the best chain,
//! connect it block by block (`in_order`), and commit now and then. With hints, SwiftSync (`swift`)
//! first goes to their height, in any order; without, a join (`join`) first goes through many
//! blocks in any order where that is faster (`method`). What is done to one block is the same for
//! all ([`node::block`](crate::node::block)).

pub mod above_tip;
pub mod claim;
pub mod hints_file;
pub mod in_order;
pub mod index_files;
pub mod join;
pub mod loadtxoutset;
pub mod method;
pub mod run;
pub mod sealed;
pub mod shrink;
pub mod start_check;
pub mod summary;
pub mod swift;
pub mod unfinished;
pub mod unspent;
pub mod verify;
pub mod ways;

pub use hints_file::HintsFile;
#[cfg(feature = "internals")]
pub use join::rewrite_join_progress;
pub use run::{reindex, reindex_files, reindex_files_on, reindex_on, sync, sync_on};
pub use summary::{AboveTip, ChosenMethod, JoinPass, SavedBlocks, SavedJoin, Summary};
pub use swift::directory::DIRECTORY as SWIFTSYNC_DIRECTORY;
pub use verify::{Damage, DamageList, Ended, LevelReport, Verified, Verify};
