//! Verdicts of the crate against libsecp256k1 and published vectors.

mod common;
mod differential;
mod exceptional;
mod shape;
mod vectors;
