//! Shared by the formats: the limits of a block, the checks of its indices, and its place in a
//! file of consecutive blocks.

use super::error::HintsError;
use super::offsets::Offsets;

/// The largest number of outputs of a block: an output weighs at least 36 (9 bytes without
/// witness), and a block at most 4,000,000.
pub const OUTPUTS_MAX: u32 = 4_000_000 / 36;

/// A description of what is wrong with a block's hints, for the user.
pub type Wrong = &'static str;

pub(super) const CUT_SHORT: Wrong = "the hints file ends inside its hints";
pub(super) const NOT_ASCENDING: Wrong = "its indices do not ascend";
pub(super) const INDEX_TOO_LARGE: Wrong =
    "an index is larger than the number of outputs that a block can have";

/// Refuses indices that no block of this many outputs can have.
pub(super) fn check_block(unspent: &[u32], outputs: u32) -> Result<(), HintsError> {
    if outputs > OUTPUTS_MAX || unspent.last().is_some_and(|last| *last >= outputs) {
        return Err(HintsError::new(INDEX_TOO_LARGE));
    }
    if !ascends(unspent) {
        return Err(HintsError::new(NOT_ASCENDING));
    }
    Ok(())
}

/// Returns whether each index is larger than the one before. All are compared, without an early
/// end, so that the compiler can compare many at a time.
pub(super) fn ascends(indices: &[u32]) -> bool {
    let next = indices.iter().skip(1);
    indices.iter().zip(next).fold(true, |so_far, (a, b)| so_far & (a < b))
}

/// Returns the bytes of the block at `height` in a file whose first block is the one at
/// `first_height`.
pub(super) fn block_of<'a>(
    bytes: &'a [u8],
    offsets: &Offsets,
    height: u32,
    first_height: u32,
) -> Result<&'a [u8], HintsError> {
    let blocks = offsets.len().saturating_sub(1) as u32;
    let i = match height.checked_sub(first_height) {
        Some(i) if i < blocks && height > 0 => i as usize,
        _ => return Err(no_such_height(height, (blocks + first_height).saturating_sub(1))),
    };
    let start = offsets.get(i);
    let end = offsets.get(i + 1);
    let range = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
    range.ok_or_else(|| HintsError::at(height, CUT_SHORT))
}

pub(super) fn no_such_height(height: u32, last: u32) -> HintsError {
    HintsError::at(height, format!("the hints file has hints only up to block {last}"))
}

/// Refuses a file with bytes after `end`, the end of its last part.
pub(super) fn check_end(bytes: &[u8], end: u64) -> Result<(), HintsError> {
    match bytes.len() as u64 - end {
        0 => Ok(()),
        more => Err(HintsError::new(format!("the hints file has {more} bytes after its end"))),
    }
}
