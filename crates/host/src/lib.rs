//! The machine that Apus runs on: threads, memory, limits, temporary directories.
//!
//! The crate knows nothing of Bitcoin. What it tells is of this process and its system.
//!
//! | module | contents |
//! |---|---|
//! | [`threads`] | the pool for loops over much data, and threads of their own for pipelines |
//! | [`memory`] | the memory that this process may use, and whether the system runs short of it |
//! | [`resources`] | processor time, memory and open files of this process |
//! | [`temporary`] | directories for files that are not needed after the work |
//! | [`root`] | the root of the file system in which `/proc` and `/sys` are read |

pub mod memory;
pub mod resources;
pub mod root;
pub mod temporary;
pub mod threads;

pub use resources::{MemoryInUse, memory_in_use};
pub use temporary::remove_temporary_directories;
pub use threads::spawn_free;
