//! Sync from peers on this machine: honest ones, flawed ones and hostile ones.

mod flawed;
mod flood;
mod from_files;
mod hostile;
mod interrupted;
mod ways;
pub mod world;
