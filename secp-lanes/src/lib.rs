//! x
mod affine;
mod batch;
mod comb;
mod equation;
mod field;
mod glv;
mod kernel;
mod known;
mod ladder;
mod library;
mod parse;
mod point;
mod scalar;
mod scalars;
mod vector;
mod words;
mod work;

pub use batch::{Batch, CHUNK, Options, Verdict};
pub use kernel::{Kernel, Unusable};
