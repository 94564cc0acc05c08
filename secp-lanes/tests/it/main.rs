//! Compares the verdicts of the crate with libsecp256k1 and published vectors.

mod common;
mod differential;
mod exceptional;
mod shape;
mod vectors;
