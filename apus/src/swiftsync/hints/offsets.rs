/// Blocks that share an absolute offset.
const GROUP: usize = 64;

/// Where each block of a file begins: 4 1/8 bytes of memory a block, 4 MB for 950,000.
#[derive(Default)]
pub struct Offsets {
    groups: Vec<u64>,
    within: Vec<u32>,
}

impl Offsets {
    /// Room for `blocks`, which the file's length bounds.
    pub fn with_capacity(blocks: usize) -> Self {
        let groups = Vec::with_capacity(blocks.div_ceil(GROUP));
        Self { groups, within: Vec::with_capacity(blocks) }
    }

    /// Adds the next block, at least as far into the file as the one before; false where it is so
    /// far that no file of hints can be meant.
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

    /// Where block `i` begins.
    pub fn get(&self, i: usize) -> Option<usize> {
        let within = u64::from(*self.within.get(i)?);
        usize::try_from(self.groups.get(i / GROUP)? + within).ok()
    }

    /// Blocks.
    pub fn len(&self) -> usize {
        self.within.len()
    }
}
