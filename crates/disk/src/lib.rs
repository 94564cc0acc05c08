//! Files, and a disk that loses power on command. This crate does not know what the bytes mean.
//!
//! Everything durable is written through [`Disk`], so that a test can cut the power at the n-th
//! change to the disk, for every n, and look at what is left ([`PowerCut`]), or make any call fail
//! or slow it down ([`Hook`]).

mod error;
mod file;
mod file_system;
mod file_vec;
mod hook;
mod lock;
mod mutex;
mod parts;
mod power;
mod replace;
mod share;
mod spill;

pub use error::{Result, StoreError};
pub use file::{Caching, Disk, File, release};
pub use file_system::FileSystem;
pub use file_vec::FileVec;
pub use hook::{Call, Hook};
pub use lock::{FileLock, lock_holder};
pub use mutex::lock;
pub use parts::{ForgottenRoom, PartBuffer, Parts, Pieces, SavedParts};
pub use power::PowerCut;
pub use share::{OnShare, Share, ShareWatch};
pub use spill::SpillFile;
