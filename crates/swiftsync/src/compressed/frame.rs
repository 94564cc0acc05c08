//! A frame: consecutive blocks that are decoded together, independently of all others.
//!
//! Its numbers are, for each block, the count of indices and the first index, on lane 0; then all
//! gaps between indices, which are divided into four lanes of equal length. The lanes take turns,
//! one gap each; the gaps left over follow on the last lane. Each lane has its own state and
//! history, so that a core can work on four numbers at once.

use super::DecodeError;
use super::OUTPUTS_MAX;
use super::model::{Census, Decoder, History, Kind, Model};
use super::rans::{self, STATE_START, Share, Words};
use super::token::{self, TOKENS};

/// The largest number of indices in a frame: 512 KiB, which are decoded in 1 ms. A block has at
/// most 111,111.
pub const FRAME_INDICES_MAX: usize = 1 << 17;
/// The largest number of blocks in a frame.
pub const FRAME_BLOCKS_MAX: usize = 1 << 12;
/// The number of numbers that are decoded at once.
pub const LANES: usize = 4;
const STATES_BYTES: usize = 4 * LANES;
/// The length of the field that gives the length of the bits, in bytes.
const BITS_HEAD_BYTES: usize = 4;

/// The indices of consecutive blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The end of each block's indices in `indices`.
    ends: Vec<u32>,
    indices: Vec<u32>,
}

impl Frame {
    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    pub fn indices(&self) -> usize {
        self.indices.len()
    }

    /// Returns the indices of block `i` of the frame.
    pub fn block(&self, i: usize) -> Option<&[u32]> {
        let end = *self.ends.get(i)? as usize;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.indices.get(start..end)
    }

    /// Returns whether a block with this many indices does not fit into the frame.
    pub fn is_full(&self, indices: usize) -> bool {
        self.blocks() == FRAME_BLOCKS_MAX || self.indices.len() + indices > FRAME_INDICES_MAX
    }

    /// Adds a block, whose indices must ascend.
    pub fn push(&mut self, indices: &[u32]) {
        self.indices.extend_from_slice(indices);
        self.ends.push(self.indices.len() as u32);
    }

    pub fn clear(&mut self) {
        self.ends.clear();
        self.indices.clear();
    }

    /// Calls `each` with all numbers of the frame, in the order in which they are decoded.
    fn for_each_number(&self, mut each: impl FnMut(Numbered)) {
        let mut counts = History::NEW;
        let mut firsts = History::NEW;
        let mut gaps = Vec::with_capacity(self.indices.len());
        for block in (0..self.blocks()).filter_map(|i| self.block(i)) {
            let count = block.len() as u32;
            each(Numbered { lane: 0, context: counts.context(Kind::Count), number: count });
            push(&mut counts, count);
            let Some(first) = block.first() else { continue };
            let context = firsts.after(token::token(count)).context(Kind::First);
            each(Numbered { lane: 0, context, number: *first });
            push(&mut firsts, *first);
            gaps.extend(block.windows(2).map(|pair| pair[1] - pair[0] - 1));
        }
        let mut lanes = [History::NEW; LANES];
        for GapPlace { lane, index } in gap_order(gaps.len()) {
            let context = lanes[lane].context(Kind::Gap);
            let number = gaps[index];
            each(Numbered { lane, context, number });
            push(&mut lanes[lane], number);
        }
    }

    /// Counts the tokens of all numbers in `census`.
    pub fn count(&self, census: &mut Census) {
        self.for_each_number(|Numbered { context, number, .. }| {
            census.count(context, token::token(number));
        });
    }

    /// Appends the code of the frame. `model` must be made from a census that includes the frame.
    pub fn encode(&self, model: &Model, shares: &[[Share; TOKENS]], out: &mut Vec<u8>) {
        let mut symbols: Vec<(usize, Share)> = Vec::with_capacity(self.indices.len() * 2);
        let mut bits = BitWriter::default();
        self.for_each_number(|Numbered { lane, context, number }| {
            let token = token::token(number);
            let (least, len) = token::range(token);
            symbols.push((lane, shares[usize::from(model.map()[context])][token]));
            bits.put(number - least, len);
        });
        let mut states = [STATE_START; LANES];
        let mut words = Vec::with_capacity(symbols.len());
        for (lane, share) in symbols.into_iter().rev() {
            rans::put(&mut states[lane], share, &mut words);
        }
        let bits = bits.finish();
        out.extend_from_slice(&(bits.len() as u32).to_le_bytes());
        out.extend_from_slice(&bits);
        states.iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
        words.iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// Decodes a frame of this many blocks into the memory of `old`.
    ///
    /// # Errors
    /// The code is not that of a frame of this many blocks.
    pub fn decode(
        old: Self,
        bytes: &[u8],
        blocks: usize,
        decoder: &Decoder,
    ) -> Result<Self, DecodeError> {
        let damaged = || DecodeError::new("the hints file is damaged");
        let mut input = Input::new(bytes, decoder).ok_or_else(damaged)?;
        let frame = input.frame(old, blocks).filter(|_| input.is_used_up());
        frame.ok_or_else(damaged)
    }
}

/// A number of a frame, and what its code depends on.
struct Numbered {
    lane: usize,
    context: usize,
    number: u32,
}

/// A gap's lane, and its index among all gaps of the frame.
struct GapPlace {
    lane: usize,
    index: usize,
}

/// A decoded number, with the weight and the class of its token.
struct Decoded {
    number: u32,
    weight: u32,
    class: u32,
}

fn push(history: &mut History, number: u32) {
    let token = token::token(number);
    history.push(token::weight(token), token::class(token));
}

/// Returns the lanes and indices of this many gaps, in the order in which they are decoded.
fn gap_order(gaps: usize) -> impl Iterator<Item = GapPlace> {
    let lane_gaps = gaps / LANES;
    let together = (0..lane_gaps).flat_map(move |i| {
        (0..LANES).map(move |lane| GapPlace { lane, index: lane * lane_gaps + i })
    });
    together.chain((lane_gaps * LANES..gaps).map(|index| GapPlace { lane: LANES - 1, index }))
}

/// Writes bits one after the other, bit 0 of a byte first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    held: u64,
    len: u32,
}

impl BitWriter {
    fn put(&mut self, value: u32, len: u32) {
        self.held |= u64::from(value) << self.len;
        self.len += len;
        while self.len >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.len -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.len > 0 {
            self.bytes.push(self.held as u8);
        }
        self.bytes
    }
}

/// Reads a frame's code.
struct Input<'a> {
    decoder: &'a Decoder,
    /// The bits and the states after them, so that eight bytes can be read from any byte of the
    /// bits.
    bits: &'a [u8],
    /// The number of bits.
    bits_len: usize,
    /// The number of bits that have been read.
    bits_at: usize,
    states: [u32; LANES],
    words: Words<'a>,
}

impl<'a> Input<'a> {
    fn new(bytes: &'a [u8], decoder: &'a Decoder) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk::<BITS_HEAD_BYTES>()?;
        let bits_bytes = u32::from_le_bytes(*len) as usize;
        let states_end = bits_bytes.checked_add(STATES_BYTES)?;
        let (bits, words) = rest.split_at_checked(states_end)?;
        let (words, odd) = words.as_chunks();
        let mut states = [0; LANES];
        for (state, bytes) in states.iter_mut().zip(bits[bits_bytes..].as_chunks().0) {
            *state = u32::from_le_bytes(*bytes);
        }
        let words = Words::new(words);
        let bits_len = bits_bytes * 8;
        odd.is_empty().then_some(Self { decoder, bits, bits_len, bits_at: 0, states, words })
    }

    /// Returns the next bits of the code, at least 57.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let bytes = self.bits.get(self.bits_at / 8..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)) >> (self.bits_at % 8)
    }

    /// Decodes the next number of a lane, and removes its low bits from `bits`.
    #[inline(always)]
    fn number(&mut self, lane: usize, context: usize, bits: &mut u64) -> Decoded {
        let state = self.states[lane];
        let entry = self.decoder.entry(context, state);
        self.states[lane] = self.words.refill(rans::take(state, entry.slots(), entry.within()));
        let len = entry.bits();
        let number = entry.least() + (*bits as u32 & ((1 << len) - 1));
        *bits >>= len;
        self.bits_at += len as usize;
        Decoded { number, weight: entry.weight(), class: entry.class() }
    }

    #[inline(always)]
    fn next(&mut self, lane: usize, kind: Kind, history: &mut History) -> u32 {
        let mut bits = self.peek();
        let Decoded { number, weight, class } = self.number(lane, history.context(kind), &mut bits);
        history.push(weight, class);
        number
    }

    fn frame(&mut self, old: Frame, blocks: usize) -> Option<Frame> {
        if blocks > FRAME_BLOCKS_MAX {
            return None;
        }
        let mut counts = History::NEW;
        let mut firsts = History::NEW;
        let Frame { mut ends, mut indices } = old;
        let mut first_of = Vec::with_capacity(blocks);
        ends.clear();
        let mut end = 0;
        let mut gaps = 0;
        for _ in 0..blocks {
            let count = self.next(0, Kind::Count, &mut counts);
            let mut first = 0;
            if count > 0 {
                let mut context = firsts.after(token::token(count));
                first = self.next(0, Kind::First, &mut context);
                push(&mut firsts, first);
                gaps += count as usize - 1;
            }
            end += count;
            if end as usize > FRAME_INDICES_MAX {
                return None;
            }
            ends.push(end);
            first_of.push(first);
        }
        // Gaps are decoded to the end of `indices`, so that indices have room before them.
        indices.resize(end as usize, 0);
        self.gaps(&mut indices[end as usize - gaps..]);
        add_up(&ends, &first_of, gaps, &mut indices).then_some(Frame { ends, indices })
    }

    fn gaps(&mut self, gaps: &mut [u32]) {
        let lane_gaps = gaps.len() / LANES;
        let (together, rest) = gaps.split_at_mut(lane_gaps * LANES);
        let (a, bcd) = together.split_at_mut(lane_gaps);
        let (b, cd) = bcd.split_at_mut(lane_gaps);
        let (c, d) = cd.split_at_mut(lane_gaps);
        let mut lanes = [History::NEW; LANES];
        for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
            // These are at least 57 bits, enough for four numbers, which have at most 14 each.
            let mut bits = self.peek();
            for (lane, gap) in [a, b, c, d].into_iter().enumerate() {
                let context = lanes[lane].context(Kind::Gap);
                let Decoded { number, weight, class } = self.number(lane, context, &mut bits);
                lanes[lane].push(weight, class);
                *gap = number;
            }
        }
        let last = &mut lanes[LANES - 1];
        rest.iter_mut().for_each(|gap| *gap = self.next(LANES - 1, Kind::Gap, last));
    }

    /// Returns whether the whole code has been read, and nothing after it.
    fn is_used_up(&self) -> bool {
        self.bits_at <= self.bits_len
            && self.bits_at + 8 > self.bits_len
            && self.words.is_used_up()
            && self.states == [STATE_START; LANES]
    }
}

/// Computes all indices from the first index of each block and the gaps, which are the last `gaps`
/// elements of `indices`. Returns false if an index is larger than a block can have. A gap is read
/// before its element is overwritten: the gaps are ahead by the number of first indices still to
/// come.
fn add_up(ends: &[u32], first_of: &[u32], gaps: usize, indices: &mut [u32]) -> bool {
    let mut ahead = indices.len() - gaps;
    let mut start = 0;
    let mut are_right = true;
    for (end, first) in ends.iter().zip(first_of) {
        let from = start;
        start = *end as usize;
        if from == start {
            continue;
        }
        indices[from] = *first;
        ahead -= 1;
        let mut index = *first;
        for at in from + 1..start {
            index = index.saturating_add(indices[at + ahead] + 1);
            indices[at] = index;
        }
        are_right &= index < OUTPUTS_MAX;
    }
    are_right
}
