//! Makes hints files from a synced directory or a snapshot, converts them to other formats and
//! compresses them. The directory is locked and read, and never changed.

mod assemble;
mod compress;
mod convert;
mod create;
mod summary;

pub use compress::compress_hints;
pub use convert::{conversion_needs_blocks, convert_hints};
pub use create::{create_hints, create_hints_of_snapshot};
pub use summary::HintsSummary;
