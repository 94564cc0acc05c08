//! An opened data directory, and what is done to a single block of it, whichever way of syncing asks:
//! read, checked, stored, connected, committed. Does not know which way that is, nor where peers are.

pub mod assumevalid;
pub mod block;
pub mod block_peers;
pub mod checked;
pub mod clock;
pub mod coin_count;
pub mod commit;
pub mod commit_job;
pub mod differ;
pub mod error;
pub mod expected_sizes;
pub mod gathered;
pub mod growth;
pub mod mend;
pub mod opened;
pub mod options;
pub mod outcome;
pub mod progress;
pub mod pruner;
pub mod pruning;
pub mod rebuild;
pub mod remedy;
pub mod resources;
pub mod scan;
pub mod snapshot_chainstate;
pub mod sources;
pub mod space;
pub mod states;
pub mod stored_sizes;
pub mod tables;
pub mod temporary;
pub mod threads;
pub mod tips;
pub mod waiting;
pub mod words;

pub use block::difference::ScriptDifference;
pub use checked::{Checked, NotChecked, RuleGroup};
pub use clock::{STALLS, Waits};
pub use coin_count::FILE as COIN_COUNT_FILE;
pub use differ::{CoinDifference, DifferenceKind, Differences};
pub use error::{ErrorKind, SyncError};
pub use mend::NOTE as DAMAGE_NOTE;
pub use options::{
    AggregateKind, AssumeValid, CHECK_BLOCKS, CHECK_LEVEL, CacheSync, Method, Options, Prune,
    ScriptEngine,
};
pub use outcome::{Counts, Pruned, Refusal, ScriptCounts, ThreadStates};
pub use progress::{Download, Observer, Phase, Progress, Tip, Unobserved};
pub use rebuild::{DIRECTORY as REBUILD_DIRECTORY, MARK as REBUILD_MARK};
pub use resources::{MemoryInUse, memory_in_use};
pub use snapshot_chainstate::{
    BASE_FILE as SNAPSHOT_BASE_FILE, DIRECTORY as SNAPSHOT_DIRECTORY,
    GIVEN_UP_FILE as SNAPSHOT_GIVEN_UP_FILE,
};
#[cfg(feature = "cli")]
pub use temporary::remove_temporary_directories;
#[cfg(feature = "cli")]
pub use threads::spawn_free;
