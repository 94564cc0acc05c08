//! Numbers on the stack (Core's `CScriptNum`): little endian, with the sign in the highest bit.

use super::Left;
use super::item::Item;

/// The most bytes that an operand of arithmetic has.
const OPERAND_BYTES: usize = 4;
/// The most bytes that an operand of CHECKLOCKTIMEVERIFY and CHECKSEQUENCEVERIFY has.
const TIME_BYTES: usize = 5;

impl<'a> Item<'a> {
    /// The element as an operand of arithmetic. Consensus does not demand the shortest form.
    pub fn number(&self) -> Result<i64, Left> {
        number(self.bytes(), OPERAND_BYTES)
    }

    /// The element as a time.
    pub fn time(&self) -> Result<i64, Left> {
        number(self.bytes(), TIME_BYTES)
    }

    /// A number in its shortest form.
    pub fn of_number(value: i64) -> Self {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&value.unsigned_abs().to_le_bytes());
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used == 0 {
            return Item::EMPTY;
        }
        // The sign takes a byte of its own if the highest bit is taken.
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
