//! Parts: bytes that any number of threads append to numbered parts, in any order, and that are
//! later read part by part. What does not fit in memory goes to one file, in large pieces.
//!
//! - Each part has a lock and a share of the memory of its own. The memory is mapped when the first
//!   byte comes, and taken from the system page by page as it is touched.
//! - A full share is written to the file at once, as whole pages, past the page cache or not: the
//!   larger the shares, the fewer and larger the reads. A share of 64 KiB makes 5 million extents
//!   of 300 GB, which take 12 bytes each.
//! - Each piece in the file has a CRC-32C, so that a disk that returns other bytes than it was
//!   given is blamed for it.

mod buffer;
mod extent;
mod output;
mod part;
mod room;
mod saved;
mod set;
#[cfg(test)]
mod tests;

pub use buffer::PartBuffer;
pub use room::ForgottenRoom;
pub use saved::SavedParts;
pub use set::Parts;
