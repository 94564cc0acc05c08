//! The expected sizes of blocks that have not been downloaded yet.

/// The expected sizes of blocks.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Heights of some blocks of the best chain, in ascending order, and their sizes in bytes.
    known: Vec<(u32, u64)>,
}

impl Sizes {
    /// Returns the sizes to expect from those of some blocks of the best chain: height and bytes of
    /// each, in ascending order of height.
    pub fn new(known: Vec<(u32, u64)>) -> Self {
        Self { known }
    }

    /// Returns the expected size in bytes of the block at `height`, interpolated between the
    /// nearest known blocks; 0 if none is known.
    pub fn expected(&self, height: u32) -> u64 {
        let after = self.known.partition_point(|(known, _)| *known < height);
        match (after.checked_sub(1).map(|before| self.known[before]), self.known.get(after)) {
            (None, None) => 0,
            (Some((_, bytes)), None) | (None, Some(&(_, bytes))) => bytes,
            (Some((low, small)), Some(&(high, large))) => {
                let share = f64::from(height - low) / f64::from(high - low);
                (small as f64 + (large as f64 - small as f64) * share) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_between_those_of_the_nearest_blocks() {
        let sizes = Sizes::new(vec![(10, 100), (20, 300)]);
        for (height, expected) in [(0, 100), (10, 100), (15, 200), (20, 300), (99, 300)] {
            assert_eq!(sizes.expected(height), expected, "{height}");
        }
        assert_eq!(Sizes::default().expected(5), 0);
    }
}
