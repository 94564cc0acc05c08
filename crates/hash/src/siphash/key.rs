use bitcoin::hashes::siphash24;

/// The key of SipHash-2-4: its first and its second half, as little-endian numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SipKey(pub u64, pub u64);

impl SipKey {
    /// Returns the hash of a message.
    pub fn hash(self, message: &[u8]) -> u64 {
        siphash24::Hash::hash_to_u64_with_keys(self.0, self.1, message)
    }
}
