//! The data of SwiftSync: hints say which outputs are unspent at a height, and the aggregate proves
//! that all others were spent, exactly once (draft BIPs 455 to 457). This crate does not know files
//! or the order of blocks: the sum is the same however blocks are distributed over workers.

#![warn(missing_docs)]

mod aggregate;
pub mod hints;

pub use aggregate::{Aggregate, AggregateKind, Salt};
pub use hints::{Format, Hints, HintsEncoder, HintsError, Numbering, open};
