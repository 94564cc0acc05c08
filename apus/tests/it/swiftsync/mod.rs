//! SwiftSync as a whole: for any order of blocks and any number of workers the same result as in
//! order, nothing committed if anything is wrong, and a right end after any interruption.

mod branches;
mod continuing;
mod damaged;
mod hints_files;
mod interrupted;
mod last_blocks;
pub mod pruned;
pub mod refusals;
mod reports;
mod same_results;
mod siblings;
mod stop;
mod wrong_blocks;
mod wrong_hints;
mod wrong_undo;
