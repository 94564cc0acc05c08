//! Batch verification of secp256k1 signatures, ECDSA and BIP340, in vector lanes.
//!
//! Signatures go into a [`Batch`], which returns a [`Verdict`] for each. Eight of them are verified
//! side by side, in the lanes of vectors (AVX-512 IFMA, AVX-IFMA, AVX2 or NEON). The verdict is
//! [`Verdict::Valid`] only for signatures that libsecp256k1 accepts, as Bitcoin's consensus uses
//! it; exceptional cases are [`Verdict::Undecided`]. Nothing here takes constant time: keys,
//! messages and signatures are public.
//!
//! ```
//! use secp_lanes::{Batch, Verdict};
//!
//! let mut batch = Batch::default();
//! batch.push_schnorr(&[0x11; 32], &[0x22; 64], b"a message");
//! assert_ne!(batch.verify(), [Verdict::Valid]);
//! ```
//!
//! The modules:
//! - `vector`: eight numbers side by side, and the instructions for them
//! - `words`: numbers of 256 bits, one at a time
//! - `field`, `scalar`: numbers modulo p and modulo n, eight at a time; `inverse`, `chain`: their
//!   inverses
//! - `group`: several vectors in memory, and steps for all of them
//! - `point`, `glv`: formulas for points, and digits of factors
//! - `doubles`: numbers modulo p in double precision, and a ladder with them
//! - `comb`: the table for multiples of G
//! - `work`: the memory of a batch
//! - `scalars`, `affine`, `ladder`, `equation`: the stages that a batch goes through
//! - `parse`, `library`: the parts of signatures; libsecp256k1
//! - `batch`, `known`, `kernel`: the interface, and which instructions are used

#![warn(missing_docs)]
// On other processors, tests alone use some of the vectors' operations, or all of them.
#![cfg_attr(not(any(target_arch = "x86_64", test, feature = "testing")), allow(dead_code))]

mod affine;
mod batch;
mod chain;
mod comb;
#[cfg(any(target_arch = "x86_64", test))]
mod doubles;
mod equation;
mod field;
mod glv;
mod group;
mod inverse;
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

// Tests of verdicts are compiled outside the crate, too.
#[cfg(test)]
extern crate self as secp_lanes;
#[cfg(test)]
mod tests;
