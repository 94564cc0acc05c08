//! Range asymmetric numeral systems (rANS, J. Duda 2013): a symbol that has the share p of a table
//! takes log2(1 / p) bits. States of 32 bits, which give up and take up 16 bits at a time; no
//! symbol needs more than one such word, since no table has more than 2^16 slots.

/// Slots of a table: a symbol's share is a number of them.
pub const SLOT_BITS: u32 = 11;
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Where a state begins when encoding, and so has to end when decoding: the least there is.
pub const STATE_START: u32 = 1 << 16;

/// The slots that a symbol has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub start: u16,
    /// At most [`SLOTS`]; 0 for a symbol that cannot be coded.
    pub slots: u16,
}

/// Shares of the slots in proportion to `counts`, at least one for every count above 0; none where
/// all are 0.
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
    // Rounding made them too many or too few: changed where that costs the least bits.
    while sum != SLOTS {
        let add = sum < SLOTS;
        let cost = |(count, share): (&u32, &u16)| {
            let (share, step) = (f64::from(*share), if add { 1.0 } else { -1.0 });
            f64::from(*count) * (share / (share + step)).log2()
        };
        let may = |i: &usize| shares[*i] > if add { 0 } else { 1 };
        let costs = |i: usize| cost((&counts[i], &shares[i]));
        let best = (0..shares.len()).filter(may).min_by(|a, b| costs(*a).total_cmp(&costs(*b)));
        // There are fewer symbols than slots, so some share can always change.
        let Some(best) = best else { break };
        match add {
            true => (shares[best], sum) = (shares[best] + 1, sum + 1),
            false => (shares[best], sum) = (shares[best] - 1, sum - 1),
        }
    }
    shares
}

/// Puts a symbol with this share, which is not 0, into `state`. Symbols come out in the reverse
/// order, and so do words.
pub fn put(state: &mut u32, share: Share, words: &mut Vec<u16>) {
    let (start, slots) = (u32::from(share.start), u32::from(share.slots));
    if u64::from(*state) >= u64::from(slots) << (32 - SLOT_BITS) {
        words.push(*state as u16);
        *state >>= 16;
    }
    *state = ((*state / slots) << SLOT_BITS) + *state % slots + start;
}

/// What stands behind a symbol that was taken from `state`, which was one of `slots` at `within`
/// (the slot's number, less the share's start).
#[inline(always)]
pub fn take(state: u32, slots: u32, within: u32) -> u32 {
    // For a table that was checked this cannot go beyond 32 bits.
    slots.wrapping_mul(state >> SLOT_BITS).wrapping_add(within)
}

/// The words that states take up when they get too small. Beyond their end there are zeros, and
/// [`Words::is_used_up`] is false.
pub struct Words<'a> {
    words: &'a [[u8; 2]],
    next: usize,
}

impl<'a> Words<'a> {
    pub fn new(words: &'a [[u8; 2]]) -> Self {
        Self { words, next: 0 }
    }

    /// The state as it is when it is large enough again.
    #[inline(always)]
    pub fn refill(&mut self, state: u32) -> u32 {
        let word = self.words.get(self.next).map_or(0, |word| u16::from_le_bytes(*word));
        let is_small = state < STATE_START;
        self.next += usize::from(is_small);
        if is_small { state << 16 | u32::from(word) } else { state }
    }

    /// Whether all words were taken, and none that is not there.
    pub fn is_used_up(&self) -> bool {
        self.next == self.words.len()
    }
}
