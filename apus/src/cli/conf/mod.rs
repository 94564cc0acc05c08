//! Finds, reads and merges the settings in bitcoin.conf and settings.json as Bitcoin Core does. The
//! caller passes the function that reads files, and nothing is written.

mod error;
mod value;
mod names;
mod parse;
mod merge;
mod command_line;
mod network;
mod load;
mod config;
mod disk;
#[cfg(test)]
mod tests;

pub use command_line::CommandLine;
pub use config::{Config, Named};
pub use disk::{check_directories, read_file};
pub use error::ConfError;
pub use load::{Given, Which};
pub use merge::Found;
#[cfg(test)]
pub use names::{NETWORK_ONLY, is_known};
pub use network::NETWORK_FLAGS;
pub use value::truth;
