//! An opened data directory, and the work on a single block of it.
//!
//! The crate opens the headers, block files and coins of a data directory together; reads a block,
//! checks it with the coins that it spends, and encodes its undo data; and makes the work durable
//! in an order that survives a crash. All commands share its options, errors and remedies, and its
//! checks of disk space and memory.
//!
//! The crate does not know which method syncs the blocks, nor what a connection to a peer is: peers
//! are the trait [`block_peers::BlockPeers`].
//!
//! | module | contents |
//! |---|---|
//! | [`opened`] | [`opened::Node`]: an opened data directory, with its headers, files and coins |
//! | [`directory`] | the data directory that the options name, and its opening |
//! | [`options`] | the options of all work on a data directory |
//! | [`run`] | the options of a run, and the handles that it shares with its caller |
//! | [`block`] | one block: reading it, checking it with the coins that it spends, its undo data |
//! | [`block::scripts`] | checking scripts, with Core's engine, the fast engine, or both |
//! | [`shared`] | the parts of a node that all threads read, and how they get a checked block |
//! | [`block_peers`] | requests for blocks from peers, as a trait; `apus-peers` implements it |
//! | [`view`], [`served`] | what readers are shown of the directory, and peers are served |
//! | [`sources`], [`scan`] | the files given with `--from`, and the blocks found in them |
//! | [`block_records`] | the block index in memory |
//! | [`commit`], [`commit_job`] | the work done, and the order in which it becomes durable |
//! | [`cache_limit`] | how full the coins cache may be |
//! | [`publication`] | what readers are shown of each commit |
//! | [`coin_count`] | the file with the number of coins |
//! | [`coin_tables`], [`gathered`] | the coins of a whole UTXO set, written at once |
//! | [`rebuild`] | a new UTXO set, built inside `chainstate`, that replaces the old one |
//! | [`snapshot_chainstate`] | bitcoind's second UTXO set, loaded from a snapshot |
//! | [`snapshot_writing`], [`mod@snapshot_info`] | writes snapshot files, and describes them |
//! | [`mend`] | the replacement of damaged stored blocks by good copies |
//! | [`reconsider`] | blocks that the index calls invalid, and entries that are not Bitcoin's |
//! | [`remedy`] | the command that repairs each file |
//! | [`pruning`], [`block_file_deletion`] | which block files are pruned, and their deletion |
//! | [`waiting`], [`forecast`] | blocks to be connected, and what is expected of them |
//! | [`stored_sizes`], [`expected_sizes`] | the sizes of stored blocks, and of those to come |
//! | [`refusals`] | the blocks that were not taken |
//! | [`growth`], [`space`] | the disk space that blocks will take, and whether it is free |
//! | [`assumevalid`] | the blocks whose scripts need not be checked |
//! | [`mainnet_bytes`] | the bytes of mainnet's blocks, before they are known |
//! | [`next_command`] | the command to run on a directory after a run |
//! | [`tips`] | what Core logs about every new tip |
//! | [`fault`], `fault_error`, [`error`] | why work ended early, and what is to blame |
//! | [`context`] | what an error says besides what has failed |
//! | [`sealed`] | the file format of saved work |
//! | [`checked`], [`coin_differences`] | the results of the work, for reports |
//! | [`memory_share`] | what each method takes of the memory |
//! | [`workers`] | work spread over the threads of a pool |

pub mod assumevalid;
pub mod block;
pub mod block_peers;
pub mod block_records;
pub mod checked;
pub mod cache_limit;
pub mod coin_count;
pub mod commit;
pub mod commit_job;
pub mod coin_differences;
pub mod context;
pub mod directory;
pub mod error;
pub mod expected_sizes;
pub mod fault;
mod fault_error;
pub mod forecast;
pub mod gathered;
pub mod growth;
pub mod mainnet_bytes;
pub mod memory_share;
pub mod mend;
pub mod next_command;
pub mod opened;
pub mod options;
pub mod block_file_deletion;
pub mod pruning;
pub mod publication;
pub mod rebuild;
pub mod reconsider;
pub mod refusals;
pub mod remedy;
pub mod run;
pub mod scan;
pub mod sealed;
pub mod served;
pub mod shared;
pub mod snapshot_chainstate;
pub mod snapshot_info;
pub mod snapshot_writing;
pub mod sources;
pub mod space;
pub mod stored_sizes;
pub mod system_clock;
pub mod coin_tables;
pub mod tips;
mod unindexed;
pub mod view;
pub mod waiting;
pub mod workers;

pub use block::script_difference::ScriptDifference;
pub use checked::{Checked, NotChecked, RuleGroup};
pub use coin_count::FILE as COIN_COUNT_FILE;
pub use coin_differences::{CoinDifference, DifferenceKind, Differences};
pub use error::{ErrorKind, SyncError};
pub use mend::NOTE as DAMAGE_NOTE;
pub use options::{
    AssumeValid, CHECK_BLOCKS, CHECK_LEVEL, JoinOptions, Options, Prune, ScriptEngine,
    ScriptOptions, StartCheck, SwiftSyncOptions, UndoFaults,
};
pub use rebuild::{DIRECTORY as REBUILD_DIRECTORY, MARK as REBUILD_MARK};
pub use run::Run;
pub use snapshot_chainstate::{
    BASE_FILE as SNAPSHOT_BASE_FILE, DIRECTORY as SNAPSHOT_DIRECTORY,
    GIVEN_UP_FILE as SNAPSHOT_GIVEN_UP_FILE,
};
pub use snapshot_info::{SnapshotInfo, snapshot_info};
