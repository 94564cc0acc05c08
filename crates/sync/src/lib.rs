//! The methods of syncing: in order, join and SwiftSync. Each builds a UTXO set from blocks.
//!
//! This crate is responsible for [`sync`] and [`reindex`], for the choice of a method, for the
//! threads and queues of each method, and for what an interrupted run saves. It does not know
//! argument parsing or terminals, what makes a block valid (`apus-consensus`), how a single block
//! is read, checked and committed (`apus-node`), or how to talk to peers (`apus-peers`).
//!
//! | module | contents |
//! |---|---|
//! | [`run`], `reindex` | the entry points, and what all methods have in common |
//! | `plan` | what a sync will do with the UTXO set, as a value |
//! | `ending` | what is known at the end of a failed sync, for its error |
//! | [`method`], [`stages`] | which method is chosen, why, and how long it will take |
//! | [`connect_all`] | runs the chosen method, and connects the blocks after it in order |
//! | [`in_order`] | the method in order: blocks by height, coins from the cache and the tables |
//! | [`join`] | the join: blocks in any order, three passes, one commit |
//! | [`swift`] | SwiftSync: blocks in any order, one pass, by a claim and an aggregate |
//! | [`claim`], [`hints_file`] | the claim, and a hints file that is opened for it |
//! | [`unspent`] | unspent outputs, sorted by the blocks that created them |
//! | [`indexing`] | Core's optional indexes at the end of a sync, and at each new tip |
//! | [`index_files`] | rebuilds the block index from the block files |
//! | [`loadtxoutset`] | loads a snapshot, unproved, as a UTXO set for bitcoind |
//! | [`start_check`] | checks the last blocks before work continues on a UTXO set |
//! | [`verify`] | checks blocks, undo data and UTXO set against each other (`verifychain`) |
//! | [`saving`] | the loop of work that is saved now and then |
//! | [`saved_work`] | how much work is saved |
//! | [`unfinished`] | keeps the saved work of interrupted runs from other work |
//! | [`summary`], [`above_tip`] | the summary of a run, and the blocks that it left unconnected |
//! | `first_pruning` | refuses to begin to prune a full directory unless that is allowed |
//! | [`shrink`] | refuses a rebuilt UTXO set that is lower than the one it replaces |
//!
//! # A block in a join
//!
//! 1. [`sync`] finds the headers (`apus_peers::find_headers`), [`method::choose`] chooses the join,
//!    and [`join::build::build`] plans the blocks and runs the three passes.
//! 2. Read: a worker goes through a span (`Reader::read`). `Shared::checked` waits until a
//!    peer has sent the block (`BlockPeers::fetch`), and checks all rules that need no coins.
//!    `Reader::meet` matches spends with outputs in the window. Other spends (`put_late`), and
//!    outputs that leave the window unspent (`put_left`), become records of a partition. The coins
//!    found, and notes on the block, go to its bucket (`put_block_coins`), and the block to a blk
//!    file (`Reader::store`).
//! 3. Match: a worker takes partitions (`Pairer::pair`). A spent coin goes to the bucket of the
//!    block that spends it (`put_late_coin`), an unspent one to tables (`Pairer::write_left`).
//! 4. Check: a worker takes the block and its bucket (`BlockQueue::take`). It checks the rules on
//!    spends by the notes (`check_noted`), or reads the block again if its scripts are checked too
//!    (`Checking::read_again`). `Sequencer::finish` appends undo data in order of height.
//! 5. Commit: `join::commit::commit` writes the block index; then tables and best block count, in
//!    one step (`Bulk::commit`). If a pass refuses a block, the join is committed below it, and
//!    [`in_order::activate::activate`] connects that block or refuses it.
//!
//! # A block in order
//!
//! 1. Found: `scan_into_node` reads its header, and `opened::step` says where its bytes are.
//! 2. Prepared: a worker reads and checks it (`Shared::prepare`), and loads the coins that it
//!    spends (`prefetch`).
//! 3. Connected: the connector stores it (`Connector::store`) and sends it through the sections of
//!    the cache (`Sections::send`).
//! 4. Checked: workers check rules and scripts, and encode the undo data (`Validation::work`).
//! 5. Retired: `Ledger::retire` appends the undo data to a rev file, and changes the block's record
//!    in memory. The block is the tip now.
//! 6. Committed: `Ledger::begin_commit` takes what has changed, and `CommitJob::write` makes it
//!    durable: block and undo files, block index, number of coins, then coins and best block.
//!
//! # A coin in order
//!
//! 1. Created: a worker lists the coins that a block creates (`Prepared::new`). The connector sends
//!    the block through the sections of the cache (`Sections::send`), where workers add them
//!    (`CoinsCache::connect_section`).
//! 2. Committed: once `Ledger::wants_commit` returns true and all connected blocks are checked, the
//!    connector takes the changed coins (`Ledger::begin_commit`), and a thread writes them to
//!    tables (`CommitJob::write`). They are then clean, and may be dropped
//!    (`CoinsCache::shrink_to`).
//! 3. Looked up: a worker prepares the block that spends the coin. It announces the spend
//!    (`CoinsCache::want`), and reads a coin that the cache lacks from the tables
//!    (`Chainstate::get_many`, `CoinsCache::fill_batch`).
//! 4. Spent: a worker takes the coin in its section (`CoinsCache::connect_section`). Once the block
//!    has passed all sections, workers check rules and scripts with its coins (`Validation::work`),
//!    `Ledger::retire` writes them to the undo data, and the next commit deletes them from the
//!    tables.

pub mod above_tip;
pub mod claim;
pub mod first_pruning;
pub mod hints_file;
pub mod in_order;
pub mod index_files;
pub mod indexing;
pub mod join;
pub mod loadtxoutset;
pub mod method;
mod plan;
mod reindex;
pub mod run;
pub mod saved_work;
pub mod saving;
pub mod shrink;
pub mod stages;
pub mod start_check;
pub mod summary;
pub mod swift;
pub mod unfinished;
pub mod unspent;
pub mod verify;
pub mod connect_all;
mod ending;

pub use above_tip::AboveTip;
pub use first_pruning::{FirstPruning, first_pruning};
pub use hints_file::HintsFile;
pub use join::rewrite_join_progress;
pub use method::ChosenMethod;
pub use reindex::{reindex, reindex_files, reindex_files_on, reindex_on};
pub use run::{sync, sync_on};
pub use saved_work::{JoinPass, SavedBlocks, SavedJoin, SavedSync};
pub use summary::Summary;
pub use swift::directory::DIRECTORY as SWIFTSYNC_DIRECTORY;
pub use verify::{Damage, DamageList, Incomplete, LevelReport, Verified, Verify};
