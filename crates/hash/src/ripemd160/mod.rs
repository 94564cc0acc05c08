//! RIPEMD-160 of one message, and of many hashes at once.

#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86;

use bitcoin::hashes::{Hash as _, ripemd160 as one};

use super::Hash;
use x86::{Avx512, LANES};

/// The smallest number of messages for which using all lanes is faster than hashing one by one.
const LANES_USED_MIN: usize = 2;

/// Returns the RIPEMD-160 of a message.
pub fn ripemd160(bytes: &[u8]) -> [u8; 20] {
    one::Hash::hash(bytes).to_byte_array()
}

/// Returns the RIPEMD-160 of each message, in order.
pub(super) fn ripemd160_many(messages: &[Hash]) -> Vec<[u8; 20]> {
    with_lanes(Avx512::detect(), messages)
}

fn with_lanes(lanes: Option<Avx512>, messages: &[Hash]) -> Vec<[u8; 20]> {
    let mut digests = Vec::with_capacity(messages.len());
    for messages in messages.chunks(LANES) {
        match lanes {
            Some(lanes) if messages.len() >= LANES_USED_MIN => {
                let mut all = [Hash::ZERO; LANES];
                all[..messages.len()].copy_from_slice(messages);
                digests.extend_from_slice(&lanes.hash(&all)[..messages.len()]);
            }
            _ => digests.extend(messages.iter().map(|message| ripemd160(&message.0))),
        }
    }
    digests
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RIPEMD-160's authors.
    #[test]
    fn known_hashes() {
        for (message, hash) in [
            ("", "9c1185a5c5e9fc54612808977ee8f548b2258d31"),
            ("abc", "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc"),
        ] {
            assert_eq!(ripemd160(message.as_bytes()).to_vec(), apus_testdata::from_hex(hash));
        }
    }

    /// Compares each lane with a message hashed alone, for every number of used lanes.
    #[test]
    fn side_by_side_they_are_the_same() {
        let mut random = apus_testdata::Random(1);
        for count in (0..=2 * LANES + 1).chain([1000]) {
            let messages: Vec<Hash> =
                (0..count).map(|_| Hash(random.bytes(32).try_into().unwrap())).collect();
            let expected: Vec<[u8; 20]> =
                messages.iter().map(|message| ripemd160(&message.0)).collect();
            assert_eq!(ripemd160_many(&messages), expected);
            assert_eq!(with_lanes(None, &messages), expected);
        }
    }

    #[test]
    fn edges_of_words() {
        let words = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX];
        let messages: Vec<Hash> = words
            .iter()
            .flat_map(|a| words.map(|b| [*a, b]))
            .map(|[a, b]| {
                let mut message = Hash::ZERO;
                for (i, word) in message.0.as_chunks_mut().0.iter_mut().enumerate() {
                    *word = if i % 2 == 0 { a } else { b }.to_le_bytes();
                }
                message
            })
            .collect();
        let expected: Vec<[u8; 20]> =
            messages.iter().map(|message| ripemd160(&message.0)).collect();
        assert_eq!(ripemd160_many(&messages), expected);
    }
}
