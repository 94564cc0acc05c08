//! The lower bound for the size of hints: choosing k of n outputs takes log2 C(n, k) bits if
//! nothing else is known about them.

use std::f64::consts::{LN_2, PI};

use super::error::HintsError;
use super::format::Hints;

/// Statistics of a hints file: the hints in it, and the space that they take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The height at which the outputs are unspent.
    pub height: u32,
    /// The number of blocks with at least one unspent output.
    pub blocks: u32,
    /// The number of unspent outputs.
    pub unspent: u64,
    /// The length of the file, in bytes.
    pub bytes: u64,
    /// Bits of the file for each unspent output; 0 if there is none.
    pub bits_per_output: f64,
    /// The information-theoretic lower bound, in bits, if it is known how many outputs each block
    /// has and how many of them are unspent. For formats without the number of outputs, the last
    /// index is taken as known instead.
    pub bound_bits: f64,
}

/// Decodes each block, and computes the statistics of a file of `bytes` bytes.
///
/// # Errors
/// A block's hints are invalid.
pub fn statistics(hints: &dyn Hints, bytes: u64) -> Result<Statistics, HintsError> {
    Ok(statistics_watched(hints, bytes, |_| true)?.expect("decoding never stops early"))
}

/// Like [`statistics`], but calls `goes_on` with the height of each block that is decoded, and
/// returns `None` if that returns false.
pub fn statistics_watched(
    hints: &dyn Hints,
    bytes: u64,
    goes_on: impl Fn(u32) -> bool,
) -> Result<Option<Statistics>, HintsError> {
    let height = hints.height();
    let mut blocks = 0;
    let mut unspent = 0;
    let mut bound_bits = 0.0;
    let mut indices = Vec::new();
    for height in 1..=height {
        hints.unspent(height, &mut indices)?;
        bound_bits += block_bound_bits(&indices, hints.output_count(height));
        blocks += u32::from(!indices.is_empty());
        unspent += indices.len() as u64;
        if !goes_on(height) {
            return Ok(None);
        }
    }
    let bits_per_output = if unspent == 0 { 0.0 } else { bytes as f64 * 8.0 / unspent as f64 };
    Ok(Some(Statistics { height, blocks, unspent, bytes, bits_per_output, bound_bits }))
}

/// Returns the lower bound for the hints of one block, in bits. `outputs` is the number of its
/// outputs, if it is known.
pub fn block_bound_bits(unspent: &[u32], outputs: Option<u32>) -> f64 {
    match (outputs, unspent.last()) {
        (_, None) => 0.0,
        (Some(outputs), _) => log2_choose(outputs, unspent.len() as u32),
        // The last index is taken as known; the others are below it.
        (None, Some(last)) => log2_choose(*last, unspent.len() as u32 - 1),
    }
}

/// Returns log2 C(n, k), or 0 if k > n.
pub fn log2_choose(n: u32, k: u32) -> f64 {
    if k >= n {
        return 0.0;
    }
    (ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)) / LN_2
}

/// Returns ln n! with 12 correct digits: computed directly up to 20!, and by Stirling's series from
/// there on.
fn ln_factorial(n: u32) -> f64 {
    if n <= 20 {
        return ((1..=u64::from(n)).product::<u64>() as f64).ln();
    }
    let n = f64::from(n);
    let inverse = 1.0 / n;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0)));
    n * n.ln() - n + 0.5 * (2.0 * PI * n).ln() + series
}
