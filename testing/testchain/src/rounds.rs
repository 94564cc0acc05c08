//! How long randomised tests run: briefly in `make test`, and longer with the environment variable
//! `APUS_TEST_ROUNDS`.

/// Returns the number of rounds of a test: `default` times `APUS_TEST_ROUNDS`.
pub fn rounds(default: u64) -> u64 {
    default.saturating_mul(factor())
}

/// Returns the distance between the cases that a test tries, among all that it could try: `default`
/// divided by `APUS_TEST_ROUNDS`, and at least 1.
pub fn every(default: u64) -> usize {
    (default / factor()).max(1) as usize
}

fn factor() -> u64 {
    let Ok(text) = std::env::var("APUS_TEST_ROUNDS") else { return 1 };
    let factor = text.parse().unwrap_or(0);
    assert!(factor > 0, "APUS_TEST_ROUNDS is '{text}': give a whole number from 1");
    factor
}
