/// The error for bytes that cannot be parsed. Core throws `std::ios_base::failure` for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}")]
pub struct ParseError {
    /// Byte offset of the error, from the start of the bytes that were parsed.
    pub offset: usize,
    /// The fault at `offset`.
    pub what: &'static str,
}

/// The [`ParseError::what`] of data that is cut short.
pub const ENDS: &str = "the data ends too early";

/// Core's `MAX_SIZE`: the largest CompactSize that is accepted as a count or a length.
const MAX_SIZE: u64 = 0x0200_0000;

/// Reads Bitcoin's encodings from a byte string; every length is checked against the bytes left.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns a cursor at `offset` of `bytes`.
    pub fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, at: offset.min(bytes.len()) }
    }

    /// Returns the number of bytes before the cursor.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns an error at the position of this cursor.
    pub fn error(&self, what: &'static str) -> ParseError {
        ParseError { offset: self.at, what }
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], ParseError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..n)) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(self.error(ENDS)),
        }
    }

    /// Reads the next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, ParseError> {
        match self.bytes.get(self.at) {
            Some(byte) => {
                self.at += 1;
                Ok(*byte)
            }
            None => Err(self.error(ENDS)),
        }
    }

    /// Reads a two-byte little-endian number.
    pub fn u16(&mut self) -> Result<u16, ParseError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a four-byte little-endian number.
    pub fn u32(&mut self) -> Result<u32, ParseError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads an eight-byte little-endian number.
    pub fn u64(&mut self) -> Result<u64, ParseError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a CompactSize, which must be in its shortest form and at most 32 MiB (Core's
    /// `ReadCompactSize`).
    #[inline]
    pub fn compact_size(&mut self) -> Result<usize, ParseError> {
        let start = self.at;
        let value = self.compact_u64()?;
        if value > MAX_SIZE {
            return Err(ParseError { offset: start, what: "CompactSize over 32 MiB" });
        }
        Ok(value as usize)
    }

    /// Reads a CompactSize that is neither a count nor a length, which must be in its shortest form
    /// (Core's `ReadCompactSize` without `range_check`).
    #[inline]
    pub fn compact_u64(&mut self) -> Result<u64, ParseError> {
        let start = self.at;
        let first = self.u8()?;
        if first < 0xfd {
            return Ok(u64::from(first));
        }
        let (value, least) = match first {
            0xfd => (u64::from(self.u16()?), 0xfd),
            0xfe => (u64::from(self.u32()?), 0x1_0000),
            _ => (self.u64()?, 0x1_0000_0000),
        };
        if value < least {
            return Err(ParseError { offset: start, what: "CompactSize not in its shortest form" });
        }
        Ok(value)
    }

    /// Reads a CompactSize and the bytes that it counts.
    #[inline]
    pub fn compact_bytes(&mut self) -> Result<&'a [u8], ParseError> {
        let len = self.compact_size()?;
        self.take(len)
    }

    /// Reads a VARINT of Core's disk formats (`ReadVarInt`, unsigned): 7 bits in each byte, the
    /// most significant first. Every byte but the last adds 1, so that each value has only one
    /// form.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, ParseError> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    /// Reads a VARINT that has more than one byte or is cut short.
    #[inline]
    fn long_varint(&mut self) -> Result<u64, ParseError> {
        let start = self.at;
        let mut value: u64 = 0;
        loop {
            let byte = self.u8()?;
            if value > u64::MAX >> 7 {
                return Err(ParseError { offset: start, what: "VARINT over 64 bits" });
            }
            value = value << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value = value
                .checked_add(1)
                .ok_or(ParseError { offset: start, what: "VARINT over 64 bits" })?;
        }
    }
}

/// Appends `value` as a CompactSize.
pub fn put_compact_size(out: &mut Vec<u8>, value: u64) {
    let (bytes, len) = compact_size(value);
    out.extend_from_slice(&bytes[..len]);
}

/// Encodes `value` as a CompactSize; returns a buffer and the number of its bytes that are used.
#[inline]
pub fn compact_size(value: u64) -> ([u8; 9], usize) {
    let mut bytes = [0; 9];
    let len = compact_size_len(value);
    if len == 1 {
        bytes[0] = value as u8;
        return (bytes, len);
    }
    bytes[0] = match len {
        3 => 0xfd,
        5 => 0xfe,
        _ => 0xff,
    };
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    (bytes, len)
}

/// Returns the length of `value` as a CompactSize, in bytes.
pub fn compact_size_len(value: u64) -> usize {
    match value {
        0..=0xfc => 1,
        0xfd..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Appends `value` as a VARINT (Core's `WriteVarInt`).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let mut bytes = [0; VARINT_BYTES_MAX];
    let len = out.len() + put_varint_at(&mut bytes, value);
    // A copy of fixed size needs no call to memcpy.
    out.extend_from_slice(&bytes);
    out.truncate(len);
}

/// The maximum length of a VARINT in bytes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Writes `value` as a VARINT at the start of `out` and returns its length.
#[inline]
pub fn put_varint_at(out: &mut [u8], mut value: u64) -> usize {
    let len = varint_len(value);
    for (i, byte) in out[..len].iter_mut().enumerate().rev() {
        *byte = (value & 0x7f) as u8 | if i + 1 < len { 0x80 } else { 0 };
        value = (value >> 7).wrapping_sub(1);
    }
    len
}

/// Returns the length of `value` as a VARINT, in bytes.
#[inline]
pub fn varint_len(mut value: u64) -> usize {
    let mut len = 1;
    while value > 0x7f {
        value = (value >> 7) - 1;
        len += 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_core() {
        for (value, bytes) in [
            (0u64, &[0x00][..]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 0x00]),
            (0x1234, &[0xa3, 0x34]),
            (0xffff, &[0x82, 0xfe, 0x7f]),
            (0x123456, &[0xc7, 0xe7, 0x56]),
            (0x80123456, &[0x86, 0xff, 0xc7, 0xe7, 0x56]),
            (0xffffffff, &[0x8e, 0xfe, 0xfe, 0xfe, 0x7f]),
            (u64::MAX, &[0x80, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0x7f]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(varint_len(value), bytes.len());
            assert_eq!(Cursor::new(bytes).varint(), Ok(value));
        }
        assert!(Cursor::new(&[0xff; 12]).varint().is_err());
    }

    #[test]
    fn compact_sizes_only_in_their_shortest_form() {
        for value in [0u64, 0xfc, 0xfd, 0xffff, 0x1_0000, 0x0200_0000] {
            let mut out = Vec::new();
            put_compact_size(&mut out, value);
            assert_eq!(out.len(), compact_size_len(value));
            assert_eq!(Cursor::new(&out).compact_size(), Ok(value as usize));
        }
        for bytes in [&[0xfd, 0xfc, 0][..], &[0xfe, 0xff, 0xff, 0, 0], &[0xfe, 1, 0, 0, 2], &[0xfd]]
        {
            assert!(Cursor::new(bytes).compact_size().is_err(), "{bytes:02x?}");
        }
    }
}
