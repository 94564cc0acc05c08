use super::opcodes::{OP_PUSHDATA1, OP_PUSHDATA2, OP_PUSHDATA4, OP_RETURN};

/// Length in bytes of the longest script that can be executed (Core's `MAX_SCRIPT_SIZE`).
pub const MAX_SCRIPT_BYTES: usize = 10_000;

/// Returns whether an output with this script can never be spent: it starts with OP_RETURN or is
/// over 10,000 bytes long (Core's `CScript::IsUnspendable`). Such an output is not a coin.
#[inline]
pub fn is_unspendable(script: &[u8]) -> bool {
    script.first() == Some(&OP_RETURN) || script.len() > MAX_SCRIPT_BYTES
}

/// An opcode and the bytes that it pushes, which are empty for all opcodes above OP_PUSHDATA4.
#[derive(Clone, Copy)]
pub struct Op<'a> {
    /// The opcode.
    pub code: u8,
    /// The pushed bytes.
    pub data: &'a [u8],
}

/// An iterator over the opcodes of a script (Core's `GetScriptOp`). It ends, and sets `truncated`,
/// at a push that reaches beyond the end of the script.
pub struct Ops<'a> {
    rest: &'a [u8],
    /// Whether the script ended within a push.
    pub truncated: bool,
}

impl<'a> Ops<'a> {
    /// Returns an iterator over the opcodes of `script`.
    #[inline]
    pub fn new(script: &'a [u8]) -> Self {
        Self { rest: script, truncated: false }
    }

    #[inline]
    fn push(&mut self, code: u8, rest: &'a [u8]) -> Option<Op<'a>> {
        let length_bytes = match code {
            OP_PUSHDATA1 => 1,
            OP_PUSHDATA2 => 2,
            OP_PUSHDATA4 => 4,
            _ => 0,
        };
        let (length, rest) = rest.split_at_checked(length_bytes)?;
        let size = match *length {
            [a] => usize::from(a),
            [a, b] => usize::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => usize::from(code),
        };
        let (data, rest) = rest.split_at_checked(size)?;
        self.rest = rest;
        Some(Op { code, data })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Op<'a>;

    #[inline]
    fn next(&mut self) -> Option<Op<'a>> {
        let (&code, rest) = self.rest.split_first()?;
        if code > OP_PUSHDATA4 {
            self.rest = rest;
            return Some(Op { code, data: &[] });
        }
        let op = self.push(code, rest);
        if op.is_none() {
            self.truncated = true;
            self.rest = &[];
        }
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_return_first_or_too_long() {
        assert!(is_unspendable(&[0x6a]));
        assert!(!is_unspendable(&[0x51, 0x6a]));
        assert!(!is_unspendable(&[]));
        assert!(!is_unspendable(&[0x51; 10_000]));
        assert!(is_unspendable(&[0x51; 10_001]));
    }
}
