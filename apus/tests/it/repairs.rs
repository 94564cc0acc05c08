//! What of a data directory is damaged is repaired by the command that the message names.

mod blocks;
mod index;
mod remedies;
