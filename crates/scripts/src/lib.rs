//! Scripts, checked by two engines: Core's (`core_scripts`), and the fast one (`script`, `sighash`
//! and `fast_scripts`), which says *valid* or leaves an input to Core's. This crate does not know
//! where coins come from, nor any rule besides: apus-consensus has the list of all rules.

#![warn(missing_docs)]

pub mod script;
pub mod sighash;

mod core_scripts;
mod fast_scripts;
mod random_init;
#[cfg(test)]
mod tests;

pub use core_scripts::{PreparedTx, TxScripts, check_block, is_taproot};
pub use fast_scripts::{FastScripts, FastVerdict};
pub use random_init::random_init_was_replaced;
