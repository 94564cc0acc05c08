//! Headers of a peer whose chain is not known to have enough work (Core's `HeadersSyncState`).
//!
//! Headers are cheap to make where the difficulty is low, so they are not kept until their chain is
//! known to have the minimum work. They are downloaded twice: the first time, one bit is kept of
//! each header at some secret heights; the second time, headers are released once enough of the
//! bits after them match. So a peer cannot send one chain the first time and a cheaper one the
//! second time.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

use apus_consensus::{FUTURE_SECONDS_MAX, Work, block_work, permitted_difficulty_transition};
use apus_hash::Hash;
use apus_wire::{Chain, Header, Network};

/// The most blocks for each second of a chain's time: the median time past must grow by a second
/// every six blocks.
const BLOCKS_PER_SECOND_MAX: i64 = 6;

/// How much is kept of headers (Core's `HeadersSyncParams`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PresyncParams {
    /// Number of headers from one bit that is kept to the next.
    pub commitment_period: u32,
    /// Number of headers that are held back the second time: a header is released once this many
    /// headers after it were seen.
    pub redownload_buffer_size: usize,
}

impl PresyncParams {
    /// Returns Core's parameters of a network.
    pub fn of(network: &Network) -> Self {
        let (commitment_period, redownload_buffer_size) = match network.chain {
            Chain::Main => (641, 15_218),
            Chain::Test => (673, 14_460),
            Chain::Testnet4 => (606, 16_092),
            Chain::Signet => (620, 15_724),
            Chain::Regtest => (275, 7_017),
        };
        Self { commitment_period, redownload_buffer_size }
    }
}

/// The known block that a peer's headers build on.
#[derive(Clone, Copy, Debug)]
pub struct PresyncStart {
    /// Its hash.
    pub hash: Hash,
    /// Its height.
    pub height: u32,
    /// Its compact target.
    pub bits: u32,
    /// The work of its chain.
    pub work: Work,
    /// Its median time past.
    pub median_time_past: u32,
}

/// The outcome of a message of headers.
#[derive(Debug, PartialEq, Eq)]
pub enum Presynced {
    /// More headers must be requested, after [`Presync::last`]. The headers given here are on a
    /// chain with enough work, and must be checked and kept.
    More(Vec<Header>),
    /// The last headers of a chain with enough work, which must be checked and kept.
    Complete(Vec<Header>),
    /// The download has failed for the given reason, and no headers are to be kept.
    Ended(&'static str),
}

/// A header without the hash of its parent.
struct Compressed {
    merkle_root: Hash,
    version: i32,
    time: u32,
    bits: u32,
    nonce: u32,
}

impl Compressed {
    fn of(header: &Header) -> Self {
        let Header { merkle_root, version, time, bits, nonce, .. } = *header;
        Self { merkle_root, version, time, bits, nonce }
    }

    fn header(&self, prev: Hash) -> Header {
        let Self { merkle_root, version, time, bits, nonce } = *self;
        Header { version, prev, merkle_root, time, bits, nonce }
    }
}

/// A queue of bits.
#[derive(Default)]
struct Bits {
    words: Vec<u64>,
    /// Number of bits put in.
    len: usize,
    /// Number of bits taken out.
    taken: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.words[self.len / 64] |= u64::from(bit) << (self.len % 64);
        self.len += 1;
    }

    fn take(&mut self) -> Option<bool> {
        let at = self.taken;
        self.taken += usize::from(at < self.len);
        (at < self.len).then(|| self.words[at / 64] >> (at % 64) & 1 == 1)
    }
}

/// The headers of one peer, while its chain is not known to have enough work.
pub struct Presync {
    network: Network,
    params: PresyncParams,
    start: PresyncStart,
    minimum: Work,
    /// A bit is kept of a header if its height, modulo the commitment period, is this.
    offset: u32,
    pub(super) secret: [u8; 16],
    bits: Bits,
    bits_max: usize,
    /// The last header seen in the current pass.
    last: Hash,
    last_bits: u32,
    height: u32,
    work: Work,
    second: Option<Second>,
}

/// The second pass.
struct Second {
    buffer: VecDeque<Compressed>,
    /// The parent of the first header of the buffer.
    prev: Hash,
    /// Whether the minimum work is reached again, so that all may be released.
    has_work: bool,
}

impl Presync {
    /// Starts with headers that build on `start` and whose chain must have `minimum` work. `now` is
    /// in seconds since 1970; `secret` is random.
    pub fn new(
        network: &Network,
        params: PresyncParams,
        start: PresyncStart,
        minimum: Work,
        now: i64,
        secret: [u8; 16],
    ) -> Self {
        let seconds = now.saturating_sub(i64::from(start.median_time_past)).max(0);
        let blocks_max = BLOCKS_PER_SECOND_MAX * seconds.saturating_add(FUTURE_SECONDS_MAX);
        let [a, b, c, d, ..] = secret;
        let PresyncStart { hash, height, bits, work, .. } = start;
        Self {
            network: network.clone(),
            params,
            start,
            minimum,
            offset: u32::from_le_bytes([a, b, c, d]) % params.commitment_period,
            secret,
            bits: Bits::default(),
            bits_max: (blocks_max / i64::from(params.commitment_period)) as usize,
            last: hash,
            last_bits: bits,
            height,
            work,
            second: None,
        }
    }

    /// Returns the header after which more must be requested.
    pub fn last(&self) -> Hash {
        self.last
    }

    /// Returns the known block that the headers build on.
    pub fn start(&self) -> Hash {
        self.start.hash
    }

    /// Returns the height of the last header, and whether headers are downloaded for the second
    /// time.
    pub fn progress(&self) -> (u32, bool) {
        (self.height, self.second.is_some())
    }

    /// Handles the next headers, each of which builds on the one before and has the proof of work
    /// that it claims. `is_full` says whether there are as many as a message can have.
    pub fn take(&mut self, headers: &[Header], is_full: bool) -> Presynced {
        if headers.first().is_none_or(|first| first.prev != self.last) {
            return Presynced::Ended("its headers do not follow those before");
        }
        let was_second = self.second.is_some();
        for header in headers {
            if let Err(why) = self.take_one(header) {
                return Presynced::Ended(why);
            }
        }
        if was_second {
            let headers = self.release();
            return match (self.second.as_ref().is_some_and(|s| s.has_work), is_full) {
                (true, _) => Presynced::Complete(headers),
                (false, true) => Presynced::More(headers),
                (false, false) => Presynced::Ended("its chain ended earlier the second time"),
            };
        }
        if self.work >= self.minimum {
            self.begin_second();
            return Presynced::More(Vec::new());
        }
        if is_full {
            Presynced::More(Vec::new())
        } else {
            Presynced::Ended("its chain has too little work")
        }
    }

    fn begin_second(&mut self) {
        let PresyncStart { hash, height, bits, work, .. } = self.start;
        (self.last, self.last_bits, self.height, self.work) = (hash, bits, height, work);
        self.second = Some(Second { buffer: VecDeque::new(), prev: hash, has_work: false });
    }

    fn take_one(&mut self, header: &Header) -> Result<(), &'static str> {
        let hash = header.hash();
        let height = self.height + 1;
        if header.prev != self.last {
            return Err("its headers do not follow those before");
        }
        if !permitted_difficulty_transition(&self.network, height, self.last_bits, header.bits) {
            return Err("its headers change the difficulty more than allowed");
        }
        self.work = self.work.plus(block_work(header.bits));
        (self.last, self.last_bits, self.height) = (hash, header.bits, height);
        let is_kept = height % self.params.commitment_period == self.offset;
        let bit = self.bit(&hash);
        let Some(second) = &mut self.second else {
            if is_kept {
                self.bits.push(bit);
            }
            return if self.bits.len > self.bits_max {
                Err("its chain is longer than its time allows")
            } else {
                Ok(())
            };
        };
        second.has_work |= self.work >= self.minimum;
        if is_kept && !second.has_work && self.bits.take() != Some(bit) {
            return Err("it sent another chain the second time");
        }
        second.buffer.push_back(Compressed::of(header));
        Ok(())
    }

    /// Returns the headers that need not be held back.
    fn release(&mut self) -> Vec<Header> {
        let Some(second) = &mut self.second else { return Vec::new() };
        let held = if second.has_work { 0 } else { self.params.redownload_buffer_size };
        let count = second.buffer.len().saturating_sub(held);
        let released = second.buffer.drain(..count).map(|compressed| {
            let header = compressed.header(second.prev);
            second.prev = header.hash();
            header
        });
        released.collect()
    }

    fn bit(&self, hash: &Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.secret);
        hasher.write(&hash.0);
        hasher.finish() & 1 == 1
    }
}
