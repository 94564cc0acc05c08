//! Parts: bytes that any number of threads append to numbered parts, in any order, and that are
//! later read part by part. What does not fit in memory goes to one file, in large pieces.
//!
//! - Each part has its own lock and its own share of the memory. The memory is mapped when the
//!   first bytes arrive, and the system allocates each page when it is first touched.
//! - A full share is written to the file at once, as whole pages, past the page cache or not: the
//!   larger the shares, the fewer and larger the reads. With shares of 64 KiB, 300 GB make 5
//!   million extents, which take 12 bytes each.
//! - Each piece in the file has a CRC-32C, so that a disk that returns other bytes than were
//!   written gets the blame.

mod buffer;
mod extent;
mod part;
mod room;
mod saved;
mod set;
#[cfg(test)]
mod tests;

pub use buffer::PartBuffer;
pub use room::ForgottenRoom;
pub use saved::SavedParts;
pub use set::{Parts, Pieces};
