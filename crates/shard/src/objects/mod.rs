//! Named objects, each of which is either complete or absent, even if a process ends while it
//! writes one, or several write the same. This module does not know what the bytes mean.
//!
//! A [`Pack`] is two objects: one has the bytes of numbered parts, the other, whose name ends with
//! `.done`, the length and CRC-32C of each. The second is written last, so that where it exists the
//! first is complete. Both name their owner, so that files of different owners never mix.

#[cfg(feature = "cloud")]
mod cloud;
mod compared;
mod directory;
mod pack;
mod url;

pub use pack::{Pack, PackWriter};
pub use url::Objects;

use std::ops::Range;

use apus_disk::Result;

/// A place for objects.
trait Store: Send + Sync {
    /// Reads a whole object; `None` if there is none of this name.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Reads a range of bytes of an object.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>>;
    /// Begins an object, which replaces any other of this name when it is finished.
    fn begin(&self, name: &str) -> Result<Box<dyn Upload>>;
    fn names(&self) -> Result<Vec<String>>;
}

/// An object that is being written. It becomes visible when it is finished.
trait Upload {
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    fn finish(self: Box<Self>) -> Result<()>;
}
