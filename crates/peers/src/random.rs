//! Random numbers.

/// Returns a random number.
///
/// # Panics
/// The system has no random numbers.
pub(super) fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
