//! SipHash-2-4 of one message, and of many at once; and SipHash-1-3 of hashes.

mod key;
mod lanes;
mod unpadded;
#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use key::SipKey;
use lanes::{LANES, Lanes};
use x86::Engine;

impl SipKey {
    /// Calls `each` with the index and the hash of `count` messages, in any order; `message`
    /// returns a message by its index. Eight messages of up to 47 bytes are hashed in parallel.
    #[inline]
    pub fn hash_many<'a>(
        self,
        count: usize,
        message: impl Fn(usize) -> &'a [u8],
        each: impl FnMut(usize, u64),
    ) {
        self.hash_with(Engine::best(), count, message, each);
    }

    fn hash_with<'a>(
        self,
        engine: Engine,
        count: usize,
        message: impl Fn(usize) -> &'a [u8],
        mut each: impl FnMut(usize, u64),
    ) {
        let mut lanes = Lanes::default();
        let mut indices = [0; LANES];
        let mut used = 0;
        for index in 0..count {
            let message = message(index);
            if !lanes.set(used, message) {
                each(index, self.hash(message));
                continue;
            }
            indices[used] = index;
            used += 1;
            if used == LANES {
                indices.into_iter().zip(engine.hash(self, &lanes)).for_each(|(i, h)| each(i, h));
                used = 0;
            }
        }
        let rest = indices[..used].iter().zip(engine.hash(self, &lanes));
        rest.for_each(|(index, hash)| each(*index, hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages 00, 00 01, 00 01 02 ... under the key 00 01 .. 0f, from the appendix of the
    /// paper of Aumasson and Bernstein.
    #[test]
    fn the_hash_of_the_paper() {
        let message: Vec<u8> = (0..15).collect();
        let key = SipKey(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(key.hash(&message), 0xa129_ca61_49be_45e5);
        key.hash_many(1, |_| &message, |_, hash| assert_eq!(hash, 0xa129_ca61_49be_45e5));
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let mut random = apus_testdata::Random(1);
        for count in 0..150 {
            let key = SipKey(random.next(), random.next());
            let messages: Vec<Vec<u8>> = (0..count).map(|i| random.bytes(i * 31 % 83)).collect();
            for engine in Engine::all() {
                let mut found = vec![None; count];
                let each = |index: usize, hash| {
                    assert_eq!(found[index].replace(hash), None, "each message once");
                };
                key.hash_with(engine, count, |i| &messages[i], each);
                let expected: Vec<_> = messages.iter().map(|m| Some(key.hash(m))).collect();
                assert_eq!(found, expected, "{count} messages");
            }
        }
    }
}
