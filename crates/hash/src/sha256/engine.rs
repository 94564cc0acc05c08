use sha2::compress256;
use sha2::digest::generic_array::GenericArray;

#[cfg(target_arch = "aarch64")]
use super::arm::Armv8 as Two;
#[cfg(not(target_arch = "x86_64"))]
use super::none::Sixteen;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
use super::none::Two;
use super::state::{K, LANES, Sha256State};
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx512 as Sixteen, ShaNi as Two};

/// Number of lanes up to which hashing pair by pair is faster than sixteen lanes at once.
const PAIRED_LANES_MAX: usize = 8;

/// The processor instructions that SHA-256 can use.
#[derive(Clone, Copy)]
pub struct Engine {
    sixteen: Option<Sixteen>,
    pair: Option<Two>,
}

impl Engine {
    /// Returns the fastest engine that this processor runs.
    #[inline]
    pub fn best() -> Self {
        Self { sixteen: Sixteen::detect(), pair: Two::detect() }
    }

    /// Returns every engine that this processor runs, including the one without special
    /// instructions.
    #[cfg(test)]
    pub fn all() -> Vec<Self> {
        let best = Self::best();
        vec![
            best,
            Self { pair: None, ..best },
            Self { sixteen: None, ..best },
            Self { sixteen: None, pair: None },
        ]
    }

    /// Compresses into each state the blocks of its list. There are at most [`LANES`] lists, all of
    /// the same length.
    pub fn compress(self, states: &mut [Sha256State], blocks: &[&[[u8; 64]]]) {
        debug_assert!(states.len() == blocks.len() && states.len() <= LANES);
        if let Some(sixteen) = self.sixteen
            && states.len() > PAIRED_LANES_MAX
        {
            let mut lists = [blocks[0]; LANES];
            lists[..blocks.len()].copy_from_slice(blocks);
            return on_all_lanes(states, |states| sixteen.compress(states, &lists));
        }
        let (pairs, last) = states.as_chunks_mut::<2>();
        let (paired, unpaired) = blocks.as_chunks::<2>();
        for (states, blocks) in pairs.iter_mut().zip(paired) {
            match self.pair {
                Some(pair) => pair.compress(states, *blocks),
                None => states.iter_mut().zip(blocks).for_each(|(s, blocks)| one(s, blocks)),
            }
        }
        last.iter_mut().zip(unpaired).for_each(|(state, blocks)| one(state, blocks));
    }

    /// Compresses one block into every state; there are at most [`LANES`] states.
    pub fn compress_constant(self, states: &mut [Sha256State], constant: &Constant) {
        match self.sixteen {
            Some(sixteen) if states.len() > PAIRED_LANES_MAX => {
                on_all_lanes(states, |all| sixteen.compress_constant(all, &constant.schedule));
            }
            _ => {
                let lists = [std::slice::from_ref(&constant.block); LANES];
                self.compress(states, &lists[..states.len()]);
            }
        }
    }
}

/// Calls `compress` with the states of all lanes, which are copied only if some lanes are unused.
#[inline]
fn on_all_lanes(states: &mut [Sha256State], compress: impl FnOnce(&mut [Sha256State; LANES])) {
    if let Ok(all) = <&mut [Sha256State; LANES]>::try_from(&mut *states) {
        return compress(all);
    }
    let mut all = [[0; 8]; LANES];
    all[..states.len()].copy_from_slice(states);
    compress(&mut all);
    states.copy_from_slice(&all[..states.len()]);
}

/// Compresses blocks into one state without the special instructions of this module.
fn one(state: &mut Sha256State, blocks: &[[u8; 64]]) {
    for block in blocks {
        compress256(state, std::slice::from_ref(GenericArray::from_slice(block)));
    }
}

/// A block known at compile time, with its message schedule.
pub struct Constant {
    block: [u8; 64],
    /// The sum of the word and the constant of each round.
    schedule: [u32; 64],
}

impl Constant {
    /// The padding of a message of 64 bytes.
    pub const PADDING_OF_64_BYTES: Self = {
        let mut block = [0; 64];
        block[0] = 0x80;
        block[62] = 0x02; // 512 bits
        Self::new(block)
    };

    const fn new(block: [u8; 64]) -> Self {
        let mut words = [0; 64];
        let mut i = 0;
        while i < 16 {
            let at = 4 * i;
            words[i] = u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
            i += 1;
        }
        while i < 64 {
            let x: u32 = words[i - 15];
            let y: u32 = words[i - 2];
            let near = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
            let far = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
            words[i] = far.wrapping_add(near).wrapping_add(words[i - 7]);
            words[i] = words[i].wrapping_add(words[i - 16]);
            i += 1;
        }
        i = 0;
        while i < 64 {
            words[i] = words[i].wrapping_add(K[i]);
            i += 1;
        }
        Self { block, schedule: words }
    }
}
