//! SwiftSync as a whole: the same result as in order whatever the order of blocks and the number
//! of workers, nothing committed of what is wrong, and an end after any interruption.

mod branches;
mod continuing;
mod hints_files;
mod interrupted;
mod last_blocks;
mod refusals;
mod reports;
mod same_results;
mod siblings;
mod stop;
mod wrong_blocks;
mod wrong_hints;
mod wrong_undo;
