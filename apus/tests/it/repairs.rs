//! Damage in a data directory, repaired by the command that the message names.

mod blocks;
mod index;
mod remedies;
