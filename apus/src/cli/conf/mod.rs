//! Settings that Bitcoin Core keeps in bitcoin.conf and settings.json, found and merged as Core
//! does it. Files are read through a function that the caller hands in, and nothing is written.

mod value;
mod parse;
mod merge;
mod network;
mod load;
mod config;
mod disk;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use disk::{check_directories, read_file};
pub use load::{Given, Which};
pub use merge::Found;
