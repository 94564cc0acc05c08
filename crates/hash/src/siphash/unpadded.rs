//! SipHash-1-3 of one block of 32 bytes, without padding.

use super::key::SipKey;

/// What is combined with the state before the last rounds: "unpadded" as a little-endian number, in
/// place of SipHash's 0xff.
const FINALIZER: u64 = u64::from_le_bytes(*b"unpadded");

impl SipKey {
    /// Returns the hash of 32 bytes, which are a hash themselves (Core's `SipHasher13UJ`): one
    /// round takes all of them, and three rounds end it.
    pub fn hash_unpadded(self, message: &[u8; 32]) -> u64 {
        let Self(k0, k1) = self;
        let word = |i: usize| {
            u64::from_le_bytes(*message[8 * i..].first_chunk().expect("there are 32 bytes"))
        };
        let words = [word(0), word(1), word(2), word(3)];
        let mut state = [
            u64::from_be_bytes(*b"somepseu") ^ k0,
            u64::from_be_bytes(*b"dorandom") ^ k1,
            u64::from_be_bytes(*b"lygenera") ^ k0,
            u64::from_be_bytes(*b"tedbytes") ^ k1,
        ];
        for (i, value) in state.iter_mut().enumerate() {
            *value ^= words[(i + 1) % 4];
        }
        round(&mut state);
        for (value, word) in state.iter_mut().zip(words) {
            *value ^= word;
        }
        state[2] ^= FINALIZER;
        for _ in 0..3 {
            round(&mut state);
        }
        state.into_iter().fold(0, |all, value| all ^ value)
    }
}

/// SipHash's round.
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value comes from another implementation; indexes that bitcoind wrote are compared in
    /// the tests with a real bitcoind.
    #[test]
    fn the_hash_of_ascending_bytes() {
        let key = SipKey(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let message: [u8; 32] = std::array::from_fn(|i| i as u8);
        assert_eq!(key.hash_unpadded(&message), 0xc67d_87b0_8ca4_b5c6);
    }
}
