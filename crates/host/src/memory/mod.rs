//! The memory that this process may use. Everything that chooses a size by the memory of the
//! machine asks here: the commands, `apus init` and `apus doctor`.
//!
//! | module | contents |
//! |---|---|
//! | [`allocator`] | freed memory goes back to the system where there is little |
//! | `groups` | the control groups of this process |
//! | [`limit`] | the memory that this process may use |
//! | [`pressure`] | whether the system runs short of memory meanwhile, and what is given up then |

pub mod allocator;
mod groups;
pub mod limit;
pub mod pressure;
