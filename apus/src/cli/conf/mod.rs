//! Finds, reads and merges the settings in bitcoin.conf and settings.json as Bitcoin Core does. The
//! caller passes the function that reads files, and nothing is written.

mod value;
mod names;
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
