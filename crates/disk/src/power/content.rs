use std::fs;
use std::path::Path;

use super::random::Random;

/// Number of bytes that the disk writes in one step.
const SECTOR_BYTES: usize = 512;

/// A change to the content of a file.
pub(super) enum Change {
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The length is set.
    SetLen(u64),
    /// The length is set, unless the file is longer.
    Extend(u64),
    /// A range is zeroed, up to the end of the file.
    Hole {
        offset: u64,
        len: u64,
    },
}

/// The content of a file: what the disk certainly has, and the changes since.
pub(super) struct Content {
    /// `None` if the content was not read or changed yet.
    synced: Option<Vec<u8>>,
    unsynced: Vec<Change>,
    /// Number of changes that are already in `synced`.
    before: usize,
}

impl Default for Content {
    fn default() -> Self {
        Self { synced: Some(Vec::new()), ..Self::unread() }
    }
}

impl Content {
    /// Returns the content of a file that is [read](Content::load) before it is changed.
    pub(super) fn unread() -> Self {
        Self { synced: None, unsynced: Vec::new(), before: 0 }
    }

    /// Reads the content of the file, whose name is `path`, unless it is known.
    pub(super) fn load(&mut self, path: &Path) {
        self.synced.get_or_insert_with(|| fs::read(path).unwrap_or_default());
    }

    pub(super) fn change(&mut self, change: Change) {
        self.unsynced.push(change);
    }

    pub(super) fn changes(&self) -> usize {
        self.before + self.unsynced.len()
    }

    /// Makes the first `changes` changes durable.
    pub(super) fn sync(&mut self, changes: usize) {
        let new = self.unsynced.drain(..changes.saturating_sub(self.before));
        for change in new {
            self.before += 1;
            let content = self.synced.get_or_insert_default();
            set_len(content, change.len_after(content.len()));
            change.apply(content, |_| true);
        }
    }

    /// Drops the writes among the first `changes` changes, so that no later sync makes them
    /// durable; lengths survive.
    pub(super) fn lose(&mut self, changes: usize) {
        let first = changes.saturating_sub(self.before);
        for change in &mut self.unsynced[..first] {
            if let Change::Write { offset, bytes } = change {
                *change = Change::Extend(offset.saturating_add(bytes.len() as u64));
            }
        }
    }

    /// Zeroes a range of the synced content.
    pub(super) fn punch_synced(&mut self, offset: u64, len: u64) {
        let content = self.synced.get_or_insert_default();
        Change::Hole { offset, len }.apply(content, |_| true);
    }

    /// Returns the content after a power cut; `None` if the file was never changed.
    pub(super) fn after_cut(&self, random: Option<&mut Random>) -> Option<Vec<u8>> {
        let mut content = self.synced.clone()?;
        if let Some(random) = random {
            self.keep_some(&mut content, random);
        }
        Some(content)
    }

    /// Applies a part of the unsynced changes to the synced content: each sector, and the length,
    /// is as it was after the sync or after one of these changes.
    fn keep_some(&self, content: &mut Vec<u8>, random: &mut Random) {
        let count = self.unsynced.len();
        let kind = random.below(3);
        let moment = |random: &mut Random| match (kind, random.below(4)) {
            (0, 0..=2) | (1, 0) => count,
            (1, 1..=2) | (0, 3) => 0,
            _ => random.below(count + 1),
        };
        let len_moment = moment(random);
        let mut len = content.len();
        let mut longest = content.len();
        let mut lens = vec![len];
        for change in &self.unsynced {
            len = change.len_after(len);
            longest = longest.max(len);
            lens.push(len);
        }
        // A write that extends the file may do so by whole sectors, one after another.
        let mut kept_len = lens[len_moment];
        if let Some(next) = lens.get(len_moment + 1).filter(|next| **next > kept_len) {
            let sectors = (next - kept_len) / SECTOR_BYTES;
            let more = random.below(sectors + 1);
            if more > 0 {
                kept_len = (kept_len + more * SECTOR_BYTES) / SECTOR_BYTES * SECTOR_BYTES;
            }
        }
        let sectors = longest.div_ceil(SECTOR_BYTES);
        let moments: Vec<usize> = (0..sectors).map(|_| moment(random)).collect();
        content.resize(longest, 0);
        len = lens[0];
        for (at, change) in self.unsynced.iter().enumerate() {
            let shorter = change.len_after(len);
            if shorter < len {
                // Bytes written after a truncation get new space on the disk, which the file has
                // only if the truncation survived.
                if at >= len_moment {
                    break;
                }
                content[shorter..].fill(0);
            }
            len = shorter;
            change.apply(content, |sector| at < moments[sector]);
        }
        set_len(content, kept_len);
    }
}

impl Change {
    fn len_after(&self, len: usize) -> usize {
        match self {
            Change::Write { bytes, .. } if bytes.is_empty() => len,
            Change::Write { offset, bytes } => len.max(within(*offset) + bytes.len()),
            Change::SetLen(new) => within(*new),
            Change::Extend(end) => len.max(within(*end)),
            Change::Hole { .. } => len,
        }
    }

    /// Writes the bytes of the change to those sectors for which `kept` is true.
    fn apply(&self, content: &mut [u8], kept: impl Fn(usize) -> bool) {
        let (start, end) = match self {
            Change::Write { offset, bytes } => (within(*offset), within(*offset) + bytes.len()),
            Change::Hole { offset, len } => (within(*offset), within(offset.saturating_add(*len))),
            Change::SetLen(_) | Change::Extend(_) => return,
        };
        let mut at = start;
        let end = end.min(content.len());
        while at < end {
            let sector = at / SECTOR_BYTES;
            let next = end.min((sector + 1) * SECTOR_BYTES);
            if kept(sector) {
                match self {
                    Change::Write { bytes, .. } => {
                        content[at..next].copy_from_slice(&bytes[at - start..next - start]);
                    }
                    _ => content[at..next].fill(0),
                }
            }
            at = next;
        }
    }
}

fn set_len(content: &mut Vec<u8>, len: usize) {
    content.resize(len, 0);
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
