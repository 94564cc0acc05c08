//! Compares the verdicts of the crate with libsecp256k1 and published vectors.

mod common;
mod differential;
mod exceptional;
mod shape;
mod vectors;

use secp_lanes::Kernel;

/// The kernels with lanes that this processor has, in the machine code that the program has. The
/// unit tests run the same tests with the others.
fn kernels() -> Vec<Kernel> {
    let all = Kernel::ALL.into_iter().filter(|kernel| *kernel != Kernel::Library);
    all.filter(|kernel| kernel.is_supported()).collect()
}
