//! Numbers on the stack (Core's `CScriptNum`): little endian, with the sign in the highest bit.

use super::Left;
use super::item::Item;

/// The largest size of an arithmetic operand, in bytes.
const OPERAND_BYTES: usize = 4;
/// The largest size of an operand of CHECKLOCKTIMEVERIFY and CHECKSEQUENCEVERIFY, in bytes.
const TIME_BYTES: usize = 5;

impl<'a> Item<'a> {
    /// Returns the element as an arithmetic operand. Consensus does not require the shortest form.
    pub fn number(&self) -> Result<i64, Left> {
        number(self.bytes(), OPERAND_BYTES)
    }

    /// Returns the element as an operand of CHECKLOCKTIMEVERIFY or CHECKSEQUENCEVERIFY.
    pub fn time(&self) -> Result<i64, Left> {
        number(self.bytes(), TIME_BYTES)
    }

    /// Returns a number in its shortest form.
    pub fn of_number(value: i64) -> Self {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&value.unsigned_abs().to_le_bytes());
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used == 0 {
            return Item::EMPTY;
        }
        // The sign needs a byte of its own if the highest bit is set.
        let len = used + usize::from(bytes[used - 1] & 0x80 != 0);
        if value < 0 {
            bytes[len - 1] |= 0x80;
        }
        Item::made(&bytes[..len])
    }
}

fn number(bytes: &[u8], bytes_max: usize) -> Result<i64, Left> {
    if bytes.len() > bytes_max {
        return Err(Left::Limit);
    }
    let Some((last, others)) = bytes.split_last() else { return Ok(0) };
    let high = i64::from(last & 0x7f) << (8 * others.len());
    let size = others.iter().rev().fold(0, |low, byte| low << 8 | i64::from(*byte)) | high;
    Ok(if last & 0x80 == 0 { size } else { -size })
}
