//! Hints files: made from a synced directory, converted, compressed, and proved against one. The
//! directory is locked and read, and never changed.

mod assemble;
pub(super) mod chain;
mod compress;
mod convert;
mod create;
mod number;
mod sorted;
pub(super) mod summary;
mod verify;
pub(super) mod workers;

pub use compress::compress_hints;
pub use convert::{conversion_needs_blocks, convert_hints};
pub use create::create_hints;
pub use summary::HintsSummary;
pub use verify::verify_hints;
