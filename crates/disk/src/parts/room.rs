use std::ops::Range;

use super::extent::{Extent, PAGE_BYTES};

/// Space in the file whose bytes were forgotten: [`Parts::take_forgotten`] returns it for
/// [`Parts::release`].
///
/// [`Parts::take_forgotten`]: super::Parts::take_forgotten
/// [`Parts::release`]: super::Parts::release
#[derive(Debug, Default)]
#[must_use = "the space is freed by Parts::release"]
pub struct ForgottenRoom {
    /// Ranges of pages, in no particular order.
    pages: Vec<Range<u32>>,
}

impl ForgottenRoom {
    /// Returns the space in a file of `file_pages` pages that none of `extents` uses.
    pub(super) fn between(extents: &[Extent], file_pages: u32) -> Self {
        let mut taken: Vec<Range<u32>> = extents.iter().map(pages_of).collect();
        taken.sort_unstable_by_key(|pages| pages.start);
        taken.push(file_pages..file_pages);
        let mut room = Self::default();
        let mut start = 0;
        for pages in &taken {
            if start < pages.start {
                room.pages.push(start..pages.start);
            }
            start = start.max(pages.end);
        }
        room
    }

    /// Adds the space of `extents`.
    pub(super) fn add(&mut self, extents: &[Extent]) {
        self.pages.extend(extents.iter().map(pages_of));
    }

    /// Returns the space as the smallest possible number of page ranges.
    pub(super) fn into_ranges(self) -> Vec<Range<u32>> {
        let mut pages = self.pages;
        pages.sort_unstable_by_key(|pages| pages.start);
        pages.dedup_by(|next, last| {
            let is_adjacent = next.start <= last.end;
            if is_adjacent {
                last.end = last.end.max(next.end);
            }
            is_adjacent
        });
        pages
    }
}

fn pages_of(extent: &Extent) -> Range<u32> {
    let pages = extent.pages_bytes() / PAGE_BYTES;
    extent.page..extent.page.saturating_add(pages as u32)
}
