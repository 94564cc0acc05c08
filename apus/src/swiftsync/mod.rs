//! SwiftSync without its engine: hints say which outputs are unspent at a height, and the
//! aggregate proves that all others were spent, exactly once (draft BIPs 455 to 457). Does not
//! know the order of blocks, nor files: any split of heights over workers gives the same sum.

mod aggregate;
pub mod hints;

pub use aggregate::{Aggregate, Elements, MuHashAggregate, Salt, SumAggregate};
pub use hints::{Format, Hints, HintsEncoder, HintsError, Numbering, open};
