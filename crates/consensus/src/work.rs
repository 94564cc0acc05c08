use std::fmt;

use apus_hash::Hash;
use apus_wire::Network;

use super::arith::U256;

/// The expected number of hashes that it took to make a block or a chain (Core's `nChainWork`),
/// modulo 2^256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Work(U256);

impl Work {
    /// No work.
    pub const ZERO: Self = Self(U256::ZERO);

    /// Returns the work given as a 256-bit number in the form of a hash, as in
    /// [`Network::minimum_chain_work`].
    pub fn from_hash(number: &Hash) -> Self {
        Self(U256::from_le_bytes(&number.0))
    }

    /// Returns the work as its lower and upper 64 bits, or the largest such number if it is more,
    /// which no miner can reach.
    pub fn to_halves(self) -> [u64; 2] {
        self.0.to_halves().unwrap_or([u64::MAX; 2])
    }

    /// Restores the work from [`Work::to_halves`].
    pub fn from_halves(halves: [u64; 2]) -> Self {
        Self(U256::from_halves(halves))
    }

    /// Returns the work as 32 bytes, big endian, so that they sort as the work does.
    pub fn to_be_bytes(self) -> [u8; 32] {
        self.0.to_be_bytes()
    }

    /// Returns the base-2 logarithm of the work, as in Core's log.
    pub fn log2(self) -> f64 {
        let [low, high] = self.to_halves();
        let words = [low & 0xffff_ffff, low >> 32, high & 0xffff_ffff, high >> 32];
        let mut sum = 0.0;
        let mut factor = 1.0;
        for word in words {
            sum += factor * word as f64;
            factor *= 4_294_967_296.0;
        }
        f64::ln(sum) / f64::ln(2.0)
    }

    /// Returns the sum of both works.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Returns the work minus that of `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the work of one block with this compact target: 2^256 / (target + 1), zero if the target
/// is negative, too large or zero (Core's `GetBlockProof`).
pub fn block_work(bits: u32) -> Work {
    let target = U256::from_compact(bits);
    if target.negative || target.overflow || target.value == U256::ZERO {
        return Work::ZERO;
    }
    // 2^256 itself does not fit: 2^256 / (t + 1) = (2^256 - t - 1) / (t + 1) + 1.
    let hashes = target.value.not().checked_div(target.value.wrapping_add(U256::ONE));
    Work(hashes.unwrap_or(U256::ZERO).wrapping_add(U256::ONE))
}

/// Returns the seconds that it takes to do the work from `from` to `to` at the difficulty of
/// `tip_bits`, negative if `to` has less work (Core's `GetBlockProofEquivalentTime`). Scripts below
/// assumevalid are skipped only if this is more than two weeks from the block to the best header.
pub fn equivalent_time(to: Work, from: Work, tip_bits: u32, network: &Network) -> i64 {
    let (difference, sign) = if to > from { (to.minus(from), 1) } else { (from.minus(to), -1) };
    let seconds = difference.0.wrapping_mul(network.pow_target_spacing);
    match seconds.checked_div(block_work(tip_bits).0) {
        Some(seconds) if seconds.bits() <= 63 => sign * seconds.low_u64() as i64,
        _ => sign * i64::MAX,
    }
}
