//! The work done on each block, by height, for a picture of a run. Nothing decides by these
//! marks; threads set them without waiting for those who look.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Heights of a page of marks.
const PAGE_HEIGHTS: usize = 1 << 16;
/// The number of pages: heights up to 16,777,215 have marks, which is enough for 300 years.
const PAGES: usize = 256;

/// The work done on a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Its outputs and spends were noted; they are matched later.
    Read = 1,
    /// Its rules were checked, and its scripts taken as valid.
    Assumed = 2,
    /// Hints or a snapshot were proved with it, without checking its scripts.
    Proved = 3,
    /// Its rules and its scripts were checked.
    Scripts = 4,
}

/// The marks of all heights.
pub struct Marks {
    pages: [OnceLock<Box<[AtomicU8]>>; PAGES],
}

impl Default for Marks {
    fn default() -> Self {
        Self { pages: [const { OnceLock::new() }; PAGES] }
    }
}

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Marks")
    }
}

impl Marks {
    /// Marks the block at a height, instead of any mark that is there.
    pub fn set(&self, height: u32, mark: Mark) {
        let (page, at) = place(height);
        let page = self.pages.get(page);
        if let Some(page) = page {
            let new = || (0..PAGE_HEIGHTS).map(|_| AtomicU8::new(0)).collect();
            page.get_or_init(new)[at].store(mark as u8, Relaxed);
        }
    }

    /// Returns the mark of the block at a height; `None` if it has none.
    pub fn get(&self, height: u32) -> Option<Mark> {
        let (page, at) = place(height);
        let mark = self.pages.get(page)?.get()?[at].load(Relaxed);
        [Mark::Read, Mark::Assumed, Mark::Proved, Mark::Scripts]
            .into_iter()
            .find(|known| *known as u8 == mark)
    }
}

fn place(height: u32) -> (usize, usize) {
    (height as usize / PAGE_HEIGHTS, height as usize % PAGE_HEIGHTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_height_has_a_mark_of_its_own() {
        let marks = Marks::default();
        let all = [
            (0, Mark::Read),
            (65_535, Mark::Assumed),
            (65_536, Mark::Proved),
            (900_000, Mark::Scripts),
            (16_777_215, Mark::Read),
        ];
        for (height, mark) in all {
            assert_eq!(marks.get(height), None);
            marks.set(height, mark);
        }
        for (height, mark) in all {
            assert_eq!(marks.get(height), Some(mark));
        }
        assert_eq!(marks.get(1), None);
        marks.set(0, Mark::Scripts);
        assert_eq!(marks.get(0), Some(Mark::Scripts));
        marks.set(u32::MAX, Mark::Read);
        assert_eq!(marks.get(u32::MAX), None);
    }
}
