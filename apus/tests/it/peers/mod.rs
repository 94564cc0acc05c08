//! Sync from peers on this machine: honest ones, flawed ones and hostile ones.

mod clock;
mod coins;
mod flawed;
mod flood;
mod from_files;
mod full;
mod held;
mod hostile;
mod interrupted;
mod limited;
mod missing;
mod panics;
mod reported;
mod stopped;
mod stripped;
mod unreachable;
mod useless;
mod ways;
mod withheld;
pub mod world;
