//! Range asymmetric numeral systems (rANS, J. Duda 2013): a symbol with the share p of a table
//! takes log2(1 / p) bits. A state has 32 bits, of which 16 are moved at a time; no symbol moves
//! more than one such word, since no table has more than 2^16 slots.

/// The binary logarithm of the number of slots of a table.
pub const SLOT_BITS: u32 = 11;
/// The number of slots of a table, in which the shares of its symbols are counted.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// The state before encoding, and therefore the one after decoding: the smallest state.
pub const STATE_START: u32 = 1 << 16;

/// The slots of a symbol in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The first slot.
    pub start: u16,
    /// The number of slots, at most [`SLOTS`]; 0 for a symbol that cannot be encoded.
    pub slots: u16,
}

/// Distributes the slots of a table in proportion to `counts`. Each count above 0 gets at least one
/// slot; if all are 0, none gets any.
pub fn shares(counts: &[u32]) -> Vec<u16> {
    let total: u64 = counts.iter().copied().map(u64::from).sum();
    if total == 0 {
        return vec![0; counts.len()];
    }
    let share = |count: &u32| match count {
        0 => 0,
        _ => ((u64::from(*count) * SLOTS as u64 + total / 2) / total).max(1) as u16,
    };
    let mut shares: Vec<u16> = counts.iter().map(share).collect();
    let mut sum: usize = shares.iter().map(|share| usize::from(*share)).sum();
    // Rounding may have given too many or too few slots. Each change is made where it costs the
    // fewest bits.
    while sum != SLOTS {
        let add = sum < SLOTS;
        let cost = |(count, share): (&u32, &u16)| {
            let share = f64::from(*share);
            let step = if add { 1.0 } else { -1.0 };
            f64::from(*count) * (share / (share + step)).log2()
        };
        let may = |i: &usize| shares[*i] > if add { 0 } else { 1 };
        let costs = |i: usize| cost((&counts[i], &shares[i]));
        let best = (0..shares.len()).filter(may).min_by(|a, b| costs(*a).total_cmp(&costs(*b)));
        // There are fewer symbols than slots, so some share can always change.
        let Some(best) = best else { break };
        if add {
            shares[best] += 1;
            sum += 1;
        } else {
            shares[best] -= 1;
            sum -= 1;
        }
    }
    shares
}

/// Encodes a symbol with this share, which is not empty, into `state`. Both symbols and words are
/// decoded in reverse order.
pub fn put(state: &mut u32, share: Share, words: &mut Vec<u16>) {
    let start = u32::from(share.start);
    let slots = u32::from(share.slots);
    if u64::from(*state) >= u64::from(slots) << (32 - SLOT_BITS) {
        words.push(*state as u16);
        *state >>= 16;
    }
    *state = ((*state / slots) << SLOT_BITS) + *state % slots + start;
}

/// Returns the state after decoding a symbol from `state`. The symbol has this number of `slots`,
/// of which `state` is in the one at index `within`.
#[inline(always)]
pub fn take(state: u32, slots: u32, within: u32) -> u32 {
    // With the tables of a valid model, this cannot exceed 32 bits.
    slots.wrapping_mul(state >> SLOT_BITS).wrapping_add(within)
}

/// The words that refill states that have become too small. After the last word, zeros are read,
/// and [`Words::is_used_up`] returns false.
pub struct Words<'a> {
    words: &'a [[u8; 2]],
    next: usize,
}

impl<'a> Words<'a> {
    pub fn new(words: &'a [[u8; 2]]) -> Self {
        Self { words, next: 0 }
    }

    /// Refills a state, if it is too small, with the next word.
    #[inline(always)]
    pub fn refill(&mut self, state: u32) -> u32 {
        let word = self.words.get(self.next).map_or(0, |word| u16::from_le_bytes(*word));
        let is_small = state < STATE_START;
        self.next += usize::from(is_small);
        if is_small { state << 16 | u32::from(word) } else { state }
    }

    /// Returns whether all words have been read, and nothing after them.
    pub fn is_used_up(&self) -> bool {
        self.next == self.words.len()
    }
}
