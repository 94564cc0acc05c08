//! Random numbers.

/// A random number.
///
/// # Panics
/// The system gives none.
pub(super) fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
