//! Sync from peers on this machine: honest ones, flawed ones and hostile ones.

mod flawed;
mod from_files;
mod hostile;
mod interrupted;
mod ways;
pub mod world;
