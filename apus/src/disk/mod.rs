//! The seam under everything durable: files, and a disk that loses power on command.
//!
//! `leveldb` and `store` write through [`Disk`] and nothing else, so that every
//! durable promise can be tested by cutting power after the n-th write, for every n
//! ([`PowerCut`]). It does not know what the bytes mean.

mod error;
mod file;
mod lock;
mod power;
mod replace;
mod share;
mod spill;

pub use error::{Result, StoreError};
pub use file::{Disk, File};
pub use lock::FileLock;
pub use power::PowerCut;
pub use share::{OnShare, Share};
pub use spill::SpillFile;
