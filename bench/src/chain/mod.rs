//! Generated chains, their blocks, and runs of programs on them, each in a process of its own.

pub mod blocks;
pub mod engine;
pub mod made;
pub mod runs;
