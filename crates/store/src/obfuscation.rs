use std::fmt;

/// The key of the record in which a database stores its obfuscation key: a name, preceded by its
/// length. Only this record is not obfuscated.
pub const OBFUSCATION_KEY: &[u8] = b"\x0e\0obfuscate_key";

/// The exclusive or with a repeated key of 8 bytes, with which Core stores blocks, undo data and
/// coins, so that virus scanners find no signatures that someone put into transactions (Core's
/// `Obfuscation`).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Obfuscation {
    key: [u8; Self::KEY_SIZE],
}

impl Obfuscation {
    /// Length of a key in bytes.
    pub const KEY_SIZE: usize = 8;
    /// The zero key, which changes nothing.
    pub const NONE: Self = Self { key: [0; Self::KEY_SIZE] };

    /// Returns the obfuscation with a key in the byte order of `xor.dat`.
    pub fn new(key: [u8; Self::KEY_SIZE]) -> Self {
        Self { key }
    }

    /// Returns the obfuscation with the key in a database record, which starts with its length;
    /// `None` if the record is not a key of 8 bytes.
    pub fn from_record(record: &[u8]) -> Option<Self> {
        let (len, key) = record.split_first()?;
        let key = <[u8; Self::KEY_SIZE]>::try_from(key).ok()?;
        (usize::from(*len) == Self::KEY_SIZE).then_some(Self { key })
    }

    /// Returns the database record for this key.
    pub fn to_record(self) -> [u8; 1 + Self::KEY_SIZE] {
        let mut record = [Self::KEY_SIZE as u8; 1 + Self::KEY_SIZE];
        record[1..].copy_from_slice(&self.key);
        record
    }

    /// Returns the key.
    pub fn key(&self) -> [u8; Self::KEY_SIZE] {
        self.key
    }

    /// Returns whether the key is zero, so that nothing is obfuscated.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Obfuscates or reveals bytes that start at `offset` of their file.
    #[inline]
    pub fn apply(&self, bytes: &mut [u8], offset: u64) {
        if self.is_none() {
            return;
        }
        let key = u64::from_le_bytes(self.key).rotate_right(8 * (offset % 8) as u32);
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            word.copy_from_slice(&(u64::from_le_bytes(value) ^ key).to_le_bytes());
        }
        for (byte, key) in words.into_remainder().iter_mut().zip(key.to_le_bytes()) {
            *byte ^= key;
        }
    }

    /// Returns whether the revealed `bytes`, which start at `offset` of their file, are zeros in
    /// the file itself: space that was reserved and never written.
    pub fn is_unwritten(&self, bytes: &[u8], offset: u64) -> bool {
        let key = u64::from_le_bytes(self.key).rotate_right(8 * (offset % 8) as u32);
        let key = key.to_le_bytes();
        let words = bytes.chunks_exact(8);
        words.remainder().iter().zip(key).all(|(byte, key)| *byte == key)
            && words.into_iter().all(|word| word == key)
    }
}

impl fmt::Debug for Obfuscation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_position_in_the_file() {
        let obfuscation = Obfuscation::new([1, 2, 3, 4, 5, 6, 7, 8]);
        for offset in 0..20u64 {
            for len in 0..40usize {
                let plain: Vec<u8> = (0..len as u8).collect();
                let mut hidden = plain.clone();
                obfuscation.apply(&mut hidden, offset);
                for (i, byte) in hidden.iter().enumerate() {
                    let key = (offset as usize + i) % 8 + 1;
                    assert_eq!(*byte, plain[i] ^ key as u8);
                }
                obfuscation.apply(&mut hidden, offset);
                assert_eq!(hidden, plain);
                let mut nothing = vec![0; len];
                obfuscation.apply(&mut nothing, offset);
                assert!(obfuscation.is_unwritten(&nothing, offset));
            }
        }
        assert!(!obfuscation.is_unwritten(&[0], 0));
        let mut bytes = [9; 9];
        Obfuscation::NONE.apply(&mut bytes, 3);
        assert_eq!(bytes, [9; 9]);
    }
}
