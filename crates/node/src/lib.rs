//! An opened data directory, and what is done to a single block of it. This crate does not know
//! which way of syncing asks, nor what a connection to a peer is.
//!
//! | part | contents |
//! |---|---|
//! | [`opened`] | [`opened::Node`]: the directory, its headers, files and coins, opened together |
//! | [`options`] | the options of all work on a directory |
//! | [`block`] | one block: read, checked with the coins that it spends, its undo data |
//! | [`block::scripts`] | who checks a script: Core's engine, the fast way, or both |
//! | [`block_peers`] | what is wanted of peers, as a trait; `apus-peers` implements it |
//! | [`sources`], [`scan`] | the files given with `--from`, and the blocks found in them |
//! | [`commit`], [`commit_job`] | what was done, and the order in which it becomes durable |
//! | [`coin_count`] | the file that holds the number of coins |
//! | [`coin_tables`], [`gathered`] | the coins of a whole UTXO set, written at once |
//! | [`rebuild`] | a new UTXO set, grown inside `chainstate`, that takes the place of the old one |
//! | [`snapshot_chainstate`] | bitcoind's second UTXO set, loaded from a snapshot |
//! | [`mend`] | damaged blocks, replaced by good copies |
//! | [`remedy`] | which command repairs which file |
//! | [`pruning`], [`block_file_deletion`] | which block files are deleted, and the deletion |
//! | [`waiting`], [`stored_sizes`], [`expected_sizes`] | the blocks that wait, and their sizes |
//! | [`space`], [`growth`] | what blocks leave on the disk, and whether there is room for it |
//! | [`assumevalid`] | the blocks whose scripts need not be checked |
//! | [`progress`], [`tips`], [`words`] | what a user sees of the work |
//! | [`clock`], [`states`] | the time that stages take, and what threads wait for |
//! | [`fault`], `fault_error`, [`error`] | why work ends early, and who is to blame |
//! | [`outcome`], [`checked`], [`coin_differences`] | what came of the work |
//! | [`resources`], [`threads`], [`temporary`] | memory, threads, temporary directories |

pub mod assumevalid;
pub mod block;
pub mod block_peers;
pub mod checked;
pub mod clock;
pub mod coin_count;
pub mod commit;
pub mod commit_job;
pub mod coin_differences;
pub mod error;
pub mod expected_sizes;
pub mod fault;
mod fault_error;
pub mod gathered;
pub mod growth;
pub mod mend;
pub mod opened;
pub mod options;
pub mod outcome;
pub mod progress;
pub mod block_file_deletion;
pub mod pruning;
pub mod rebuild;
pub mod remedy;
pub mod resources;
pub mod scan;
pub mod shared;
pub mod snapshot_chainstate;
pub mod sources;
pub mod space;
pub mod states;
pub mod stored_sizes;
pub mod coin_tables;
pub mod temporary;
pub mod threads;
pub mod tips;
pub mod waiting;
pub mod words;

pub use block::script_difference::ScriptDifference;
pub use checked::{Checked, NotChecked, RuleGroup};
pub use clock::{STALLS, Waits};
pub use coin_count::FILE as COIN_COUNT_FILE;
pub use coin_differences::{CoinDifference, DifferenceKind, Differences};
pub use error::{ErrorKind, SyncError};
pub use mend::NOTE as DAMAGE_NOTE;
pub use options::{AssumeValid, CHECK_BLOCKS, CHECK_LEVEL, Method, Options, Prune, ScriptEngine};
pub use outcome::{Counts, Pruned, Refusal, ScriptCounts, ThreadStates};
pub use progress::{Download, Observer, Phase, Progress, Tip, Unobserved, Watch};
pub use rebuild::{DIRECTORY as REBUILD_DIRECTORY, MARK as REBUILD_MARK};
pub use resources::{MemoryInUse, memory_in_use};
pub use snapshot_chainstate::{
    BASE_FILE as SNAPSHOT_BASE_FILE, DIRECTORY as SNAPSHOT_DIRECTORY,
    GIVEN_UP_FILE as SNAPSHOT_GIVEN_UP_FILE,
};
pub use temporary::remove_temporary_directories;
pub use threads::spawn_free;
