//! The elements of the stack.

/// A stack element: bytes of the transaction or of the script that it spends, or a computed result
/// of at most 32 bytes.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Found(&'a [u8]),
    Made { bytes: [u8; 32], len: u8 },
}

impl<'a> Item<'a> {
    pub const EMPTY: Self = Item::Found(&[]);

    /// Creates an element from a result of at most 32 bytes.
    pub fn made(result: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes[..result.len()].copy_from_slice(result);
        Item::Made { bytes, len: result.len() as u8 }
    }

    /// Returns what an opcode pushes for true or false.
    pub fn of_bool(value: bool) -> Self {
        if value { Item::Found(&[1]) } else { Item::EMPTY }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Item::Found(bytes) => bytes,
            Item::Made { bytes, len } => &bytes[..usize::from(*len)],
        }
    }

    /// Returns the bytes, or `None` if they are a computed result.
    pub fn found(&self) -> Option<&'a [u8]> {
        match self {
            Item::Found(bytes) => Some(bytes),
            Item::Made { .. } => None,
        }
    }

    /// Returns whether the element counts as true: neither zero nor negative zero (Core's
    /// `CastToBool`).
    pub fn is_true(&self) -> bool {
        match self.bytes() {
            [] => false,
            [others @ .., last] => others.iter().any(|byte| *byte != 0) || last & 0x7f != 0,
        }
    }
}
