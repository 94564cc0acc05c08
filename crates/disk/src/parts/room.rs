use std::ops::Range;

use super::extent::{Extent, PAGE_BYTES};

/// Room in the file whose bytes were forgotten, as [`Parts::take_forgotten`] returns it for
/// [`Parts::release`].
///
/// [`Parts::take_forgotten`]: super::Parts::take_forgotten
/// [`Parts::release`]: super::Parts::release
#[derive(Debug, Default)]
#[must_use = "the room is given back by Parts::release"]
pub struct ForgottenRoom {
    /// Pages, in no particular order.
    pages: Vec<Range<u32>>,
}

impl ForgottenRoom {
    /// The room in a file of `file_pages` pages that none of `extents` takes.
    pub(super) fn between(extents: &[Extent], file_pages: u32) -> Self {
        let mut taken: Vec<Range<u32>> = extents.iter().map(pages_of).collect();
        taken.sort_unstable_by_key(|pages| pages.start);
        taken.push(file_pages..file_pages);
        let (mut room, mut start) = (Self::default(), 0);
        for pages in &taken {
            if start < pages.start {
                room.pages.push(start..pages.start);
            }
            start = start.max(pages.end);
        }
        room
    }

    /// Adds the room of `extents`.
    pub(super) fn add(&mut self, extents: &[Extent]) {
        self.pages.extend(extents.iter().map(pages_of));
    }

    /// The room as ranges of pages, as few as possible.
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
