//! What the formats that hold one block after the other share.

use super::elias_fano::{self, CUT_SHORT, INDEX_TOO_LARGE, NOT_ASCENDING, OUTPUTS_MAX};
use super::error::HintsError;
use super::offsets::Offsets;

/// Refuses indices that no block of this many outputs can have.
pub(super) fn check_block(unspent: &[u32], outputs: u32) -> Result<(), HintsError> {
    if outputs > OUTPUTS_MAX || unspent.last().is_some_and(|last| *last >= outputs) {
        return Err(HintsError::new(INDEX_TOO_LARGE));
    }
    if !elias_fano::ascends(unspent) {
        return Err(HintsError::new(NOT_ASCENDING));
    }
    Ok(())
}

/// The bytes of the block at `height` in a file whose first block is the one at `first_height`.
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
    let (start, end) = (offsets.get(i), offsets.get(i + 1));
    let range = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
    range.ok_or_else(|| HintsError::at(height, CUT_SHORT))
}

pub(super) fn no_such_height(height: u32, last: u32) -> HintsError {
    HintsError::at(height, format!("the hints file has no hints for it, only up to block {last}"))
}

/// Refuses a file that goes on after `end`, the end of its last part.
pub(super) fn check_end(bytes: &[u8], end: u64) -> Result<(), HintsError> {
    match bytes.len() as u64 - end {
        0 => Ok(()),
        more => Err(HintsError::new(format!("the hints file has {more} bytes after its end"))),
    }
}
