#![allow(unsafe_code, reason = "the linker finds a function by its exported name")]

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether [`random_init`] has run in place of Core's `RandomInit`.
static RANDOM_INIT_REPLACED: AtomicBool = AtomicBool::new(false);

/// A stand-in for Core's `RandomInit`, which the linker puts in its place in programs (build.rs).
///
/// A static variable of libbitcoinkernel calls `RandomInit` before `main`, which spends 100 ms on
/// strengthening the seed of Core's random generator. Verifying scripts needs no randomness, and
/// code that asks Core's generator for a number still gets one from a full seed: `ProcRand` calls
/// `SeedStartup` first.
#[unsafe(export_name = "__wrap__Z10RandomInitv")]
pub extern "C" fn random_init() {
    RANDOM_INIT_REPLACED.store(true, Ordering::Relaxed);
}

/// Returns whether this process has started without seeding Core's random generator.
pub fn random_init_was_replaced() -> bool {
    RANDOM_INIT_REPLACED.load(Ordering::Relaxed)
}
