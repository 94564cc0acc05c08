//! How long the randomised tests run.

/// The number of rounds of a test that runs `default` rounds in `make test`: that many times the
/// environment variable `APUS_TEST_ROUNDS`, for a search that takes hours.
pub fn rounds(default: u64) -> u64 {
    default.saturating_mul(factor())
}

/// The distance between the moments that a test tries, of those that it could try: `default` in
/// `make test`, and divided by `APUS_TEST_ROUNDS`.
pub fn every(default: u64) -> usize {
    (default / factor()).max(1) as usize
}

fn factor() -> u64 {
    let Ok(text) = std::env::var("APUS_TEST_ROUNDS") else { return 1 };
    let factor = text.parse().unwrap_or(0);
    assert!(factor > 0, "APUS_TEST_ROUNDS is '{text}': give a number from 1");
    factor
}
