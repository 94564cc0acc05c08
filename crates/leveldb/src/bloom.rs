use super::format::get_u32;

/// Binary logarithm of the window size in bytes. One filter covers the blocks that start in one
/// window.
pub const WINDOW_LOG2: u8 = 11;
/// Number of bits of the shortest filter; a shorter one would rule out too few keys.
pub const BITS_MIN: usize = 64;
/// Largest number of probes. Larger numbers are reserved for other encodings, so a filter with more
/// probes rules out no key.
pub const PROBES_MAX: u8 = 30;

/// Returns the hash of a user key for LevelDB's bloom filter (`BloomHash`).
#[inline]
pub(super) fn hash(key: &[u8]) -> u32 {
    const FACTOR: u32 = 0xc6a4_a793;
    let mut h = 0xbc9f_1d34 ^ (key.len() as u32).wrapping_mul(FACTOR);
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        h = h.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        h = h.wrapping_mul(FACTOR);
        h ^= h >> 16;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            h = h.wrapping_add(u32::from(*byte) << (8 * i));
        }
        h = h.wrapping_mul(FACTOR);
        h ^= h >> 24;
    }
    h
}

/// Builds the filter block of a table: one bloom filter for each window of the file.
pub(super) struct FilterBuilder {
    bits_per_key: usize,
    hashes: Vec<u32>,
    filters: Vec<u8>,
    offsets: Vec<u32>,
}

impl FilterBuilder {
    /// Returns a builder of filters with this many bits for each key.
    pub(super) fn new(bits_per_key: usize) -> Self {
        Self { bits_per_key, hashes: Vec::new(), filters: Vec::new(), offsets: Vec::new() }
    }

    /// Adds a key of the current data block, by its [`hash`].
    #[inline]
    pub(super) fn add(&mut self, hash: u32) {
        self.hashes.push(hash);
    }

    /// Ends the current data block; the next one starts at `offset`.
    pub(super) fn block_starts(&mut self, offset: u64) {
        let window = (offset >> WINDOW_LOG2) as usize;
        while self.offsets.len() < window {
            self.end_filter();
        }
    }

    /// Returns the approximate size of the filter block so far, used to limit the size of a table.
    pub(super) fn bytes(&self) -> usize {
        self.filters.len() + 4 * self.offsets.len()
    }

    /// Ends the last filter, and returns the filter block.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if !self.hashes.is_empty() {
            self.end_filter();
        }
        let end = self.filters.len() as u32;
        for offset in &self.offsets {
            self.filters.extend_from_slice(&offset.to_le_bytes());
        }
        self.filters.extend_from_slice(&end.to_le_bytes());
        self.filters.push(WINDOW_LOG2);
        self.filters
    }

    fn end_filter(&mut self) {
        self.offsets.push(self.filters.len() as u32);
        if self.hashes.is_empty() {
            return;
        }
        // 0.69 is about ln 2, which gives the fewest false positives for a number of bits.
        let probes = (self.bits_per_key * 69 / 100).clamp(1, PROBES_MAX.into());
        let bytes = (self.hashes.len() * self.bits_per_key).max(BITS_MIN).div_ceil(8);
        let start = self.filters.len();
        self.filters.resize(start + bytes, 0);
        let filter = &mut self.filters[start..];
        let bits = (bytes * 8) as u64;
        // h % bits by two multiplications, exact for 32 bits (Lemire, Kaser, Kurz 2019).
        let inverse = u64::MAX / bits + 1;
        for hash in self.hashes.drain(..) {
            let mut h = hash;
            for _ in 0..probes {
                let fraction = inverse.wrapping_mul(h.into());
                let bit = ((u128::from(fraction) * u128::from(bits)) >> 64) as usize;
                filter[bit / 8] |= 1 << (bit % 8);
                h = h.wrapping_add(hash.rotate_right(17));
            }
        }
        self.filters.push(probes as u8);
    }
}

/// The filter block of an open table, by its offsets, so that it borrows nothing from the table.
#[derive(Clone, Copy)]
pub(super) struct Filter {
    /// Length of the filters, after which the array of offsets begins.
    filters_end: usize,
    windows: usize,
    window_log2: u8,
}

impl Filter {
    /// Reads the end of the filter block; `None` if it is invalid.
    pub(super) fn open(block: &[u8]) -> Option<Self> {
        let end = block.len().checked_sub(5)?;
        let filters_end = get_u32(block, end)? as usize;
        let window_log2 = block[end + 4];
        (filters_end <= end && window_log2 < 64).then(|| Self {
            filters_end,
            windows: (end - filters_end) / 4,
            window_log2,
        })
    }

    /// Returns the filter of the data block at `offset`, for [`may_hold`]; `None` if it cannot be
    /// read, so that a filter in a wrong format hides no key.
    #[inline]
    pub(super) fn of<'a>(&self, block: &'a [u8], offset: u64) -> Option<&'a [u8]> {
        let window = offset >> self.window_log2;
        if window >= self.windows as u64 {
            return None;
        }
        let at = self.filters_end + 4 * window as usize;
        let start = get_u32(block, at)? as usize;
        let end = get_u32(block, at + 4)? as usize;
        if start > end || end > self.filters_end { None } else { Some(&block[start..end]) }
    }
}

/// Returns whether a data block with this filter may hold the key with this [`hash`].
#[inline]
pub(super) fn may_hold(filter: &[u8], hash: u32) -> bool {
    let Some((&probes, bits)) = filter.split_last().filter(|(_, bits)| !bits.is_empty()) else {
        return false;
    };
    if probes > PROBES_MAX {
        return true;
    }
    let count = (bits.len() * 8) as u32;
    let mut h = hash;
    for _ in 0..probes {
        let bit = (h % count) as usize;
        if bits[bit / 8] & 1 << (bit % 8) == 0 {
            return false;
        }
        h = h.wrapping_add(hash.rotate_right(17));
    }
    true
}
