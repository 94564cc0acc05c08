/// The number of blocks that share an absolute offset.
const GROUP: usize = 64;

/// The offsets of a file's blocks, in 4 1/8 bytes of memory for each block: 4 MB for 950,000
/// blocks.
#[derive(Default)]
pub struct Offsets {
    groups: Vec<u64>,
    within: Vec<u32>,
}

impl Offsets {
    /// Creates an empty list with room for `blocks` offsets. `blocks` must not exceed the file's
    /// length.
    pub fn with_capacity(blocks: usize) -> Self {
        let groups = Vec::with_capacity(blocks.div_ceil(GROUP));
        Self { groups, within: Vec::with_capacity(blocks) }
    }

    /// Adds the offset of the next block, which must not be below that of the block before. Returns
    /// false if the two are farther apart than in any hints file.
    #[must_use]
    pub fn push(&mut self, offset: usize) -> bool {
        let offset = offset as u64;
        if self.within.len().is_multiple_of(GROUP) {
            self.groups.push(offset);
        }
        let group = self.groups.last().copied().unwrap_or_default();
        let Ok(within) = u32::try_from(offset - group) else { return false };
        self.within.push(within);
        true
    }

    /// Returns the offset of block `i`.
    pub fn get(&self, i: usize) -> Option<usize> {
        let within = u64::from(*self.within.get(i)?);
        usize::try_from(self.groups.get(i / GROUP)? + within).ok()
    }

    /// Returns the number of offsets.
    pub fn len(&self) -> usize {
        self.within.len()
    }
}
