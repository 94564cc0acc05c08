use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the linker has put [`random_init`] in the place of Core's `RandomInit`.
static RANDOM_INIT_REPLACED: AtomicBool = AtomicBool::new(false);

/// Does next to nothing, in the place of Core's `RandomInit`, for which the linker calls this in
/// programs (build.rs). A static variable of libbitcoinkernel calls it before `main`, and it
/// strengthens the seed of Core's random generator for 100 ms. Verifying scripts needs no
/// randomness; whatever else asks Core's generator for a number has it seeded in full then
/// (`ProcRand` calls `SeedStartup` first).
#[unsafe(export_name = "__wrap__Z10RandomInitv")]
pub extern "C" fn random_init() {
    RANDOM_INIT_REPLACED.store(true, Ordering::Relaxed);
}

/// Whether this process has started without seeding Core's random generator.
pub fn random_init_was_replaced() -> bool {
    RANDOM_INIT_REPLACED.load(Ordering::Relaxed)
}
