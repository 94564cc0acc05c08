use super::engine::Engine;
use super::state::{INITIAL_STATE, LANES, Midstate, Pieces, Sha256State};

/// Messages of at least this many blocks count as equally long when messages are sorted.
const SORTED_BLOCKS_MAX: usize = 256;

/// A message that is being hashed in one lane.
#[derive(Default)]
struct Lane {
    /// Index of the message.
    message: usize,
    /// The message, padded to whole blocks, followed by leftover blocks of earlier messages, if
    /// any.
    blocks: Vec<[u8; 64]>,
    /// Index of the next block to be compressed.
    at: usize,
    /// Number of blocks of the message.
    end: usize,
}

/// Like [`Midstate::hash_many`], with a given engine.
pub fn hash_many<'a>(
    engine: Engine,
    start: &Midstate,
    count: usize,
    message: impl Fn(usize) -> Pieces<'a>,
    mut each: impl FnMut(usize, &Sha256State),
) {
    let mut waiting = longest_first(count, |i| block_count(&message(i))).into_iter();
    let mut lanes: [Lane; LANES] = Default::default();
    let mut states = [INITIAL_STATE; LANES];
    let mut busy = 0;
    for number in waiting.by_ref().take(LANES) {
        lanes[busy].load(number, &message(number), start.bytes);
        states[busy] = start.state;
        busy += 1;
    }
    while busy > 0 {
        let step = lanes[..busy].iter().map(|lane| lane.end - lane.at).min().unwrap_or(0);
        let lists: [&[[u8; 64]]; LANES] = std::array::from_fn(|i| match lanes[..busy].get(i) {
            Some(lane) => &lane.blocks[lane.at..lane.at + step],
            None => &[],
        });
        engine.compress(&mut states[..busy], &lists[..busy]);
        for i in (0..busy).rev() {
            lanes[i].at += step;
            if lanes[i].at < lanes[i].end {
                continue;
            }
            each(lanes[i].message, &states[i]);
            if let Some(number) = waiting.next() {
                lanes[i].load(number, &message(number), start.bytes);
                states[i] = start.state;
            } else {
                busy -= 1;
                lanes.swap(i, busy);
                states.swap(i, busy);
            }
        }
    }
}

impl Lane {
    /// Loads the message with the index `number`, of which `before` bytes are already in the state.
    fn load(&mut self, number: usize, pieces: &Pieces, before: u64) {
        self.message = number;
        self.at = 0;
        self.end = block_count(pieces);
        if self.blocks.len() < self.end {
            self.blocks.resize(self.end, [0; 64]);
        }
        let bytes = self.blocks[..self.end].as_flattened_mut();
        let mut len = 0;
        for piece in pieces {
            bytes[len..len + piece.len()].copy_from_slice(piece);
            len += piece.len();
        }
        let length_at = bytes.len() - 8;
        bytes[len] = 0x80;
        bytes[len + 1..length_at].fill(0);
        bytes[length_at..].copy_from_slice(&(8 * (before + len as u64)).to_be_bytes());
    }
}

/// Returns the number of blocks of a message with its padding, which has a marker of one byte and a
/// length of eight bytes.
fn block_count(pieces: &Pieces) -> usize {
    (pieces.iter().map(|piece| piece.len()).sum::<usize>() + 9).div_ceil(64)
}

/// Returns the indices below `count`, longer messages first, so that parallel messages end at about
/// the same time, and no long one is left to be hashed alone.
fn longest_first(count: usize, blocks: impl Fn(usize) -> usize) -> Vec<usize> {
    let rank = |i| SORTED_BLOCKS_MAX - blocks(i).min(SORTED_BLOCKS_MAX);
    let mut ends = [0; SORTED_BLOCKS_MAX + 1];
    (0..count).for_each(|i| ends[rank(i)] += 1);
    let mut places = 0;
    for end in &mut ends {
        places += *end;
        *end = places;
    }
    let mut sorted = vec![0; count];
    for i in (0..count).rev() {
        let end = &mut ends[rank(i)];
        *end -= 1;
        sorted[*end] = i;
    }
    sorted
}
