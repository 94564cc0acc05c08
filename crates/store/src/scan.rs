use std::fmt;
use std::num::NonZeroU64;
use std::path::Path;

use apus_disk::{Disk, File, Result};
use apus_leveldb::crc32c;
use apus_wire::{BlockView, HEADER_BYTES};
use rustix::fs::{Advice, fadvise};

use super::Obfuscation;
use super::magic::{FRAME_BYTES, find_frame, is_frame};

/// Size in bytes of the window of the file that is held in memory. Small blocks are copied out of
/// it; the part of a large block beyond it is read directly into the memory of the block, so that
/// nothing large is copied twice.
const WINDOW_BYTES: usize = 64 << 10;
/// Size in bytes of the window in a scan for headers.
const HEADERS_WINDOW_BYTES: usize = 4 << 10;
/// Size in bytes of the window in space that was never written.
const PADDING_WINDOW_BYTES: usize = 1 << 20;
/// Number of bytes that the kernel is asked to read ahead, so that the disk sees large sequential
/// reads.
const READ_AHEAD_BYTES: u64 = 16 << 20;
/// Number of bytes of junk or padding after which a warning is given, so that the caller can stop a
/// pointless search.
const JUNK_STEP_BYTES: u64 = 64 << 20;
/// Length in bytes of magic, length and header of a block.
const HEAD_BYTES: usize = FRAME_BYTES as usize + HEADER_BYTES;

/// An item found by a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scanned {
    /// A block, or only its header in a scan for headers.
    Block {
        /// Offset of the block in the file, after magic and length.
        offset: u64,
        /// Length of the block in bytes.
        len: u32,
        /// The bytes of the block; in a scan for headers, only the first 80.
        bytes: Vec<u8>,
    },
    /// Bytes that are not a block, after which the scan continues.
    Warning(ScanWarning),
}

/// A description of bytes in a file that are not a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanWarning {
    /// The file ends inside the block whose magic is at `offset`.
    Truncated {
        /// Offset of the magic before the block.
        offset: u64,
        /// Number of bytes of the block that are missing.
        missing: u64,
    },
    /// The bytes after the magic and the length at `offset` cannot be deserialised, and no block
    /// follows them.
    Damaged {
        /// Offset of the magic.
        offset: u64,
    },
    /// Bytes that belong to no block.
    Junk {
        /// Offset of the first junk byte.
        offset: u64,
        /// Number of junk bytes.
        len: u64,
    },
    /// Space before a block that was reserved and never written: zeros in the file. Bitcoin Core
    /// has left such gaps.
    Padding {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

/// An iterator over the blocks of one file, in order, like Core's `LoadExternalBlockFile`: it looks
/// for the magic of the network and a length that a block can have, skips everything else, and
/// continues after a bad block. Space that was reserved and never written is not junk; at the end
/// of the file it is not mentioned.
///
/// It holds only one window of the file and the returned block in memory.
pub struct FileScan {
    file: File,
    len: u64,
    magic: [u8; 4],
    obfuscation: Obfuscation,
    headers_only: bool,
    /// Revealed bytes of the file from `window_start` on.
    window: Vec<u8>,
    window_start: u64,
    window_bytes: usize,
    /// Offset up to which the kernel was asked to read ahead.
    advised: u64,
    /// Offset at which the search continues.
    at: u64,
    /// Offset of the first junk byte before `at`, if there is one.
    junk_start: Option<u64>,
    /// Whether a bad block was reported, whose remaining bytes need no second warning.
    quiet: bool,
    done: bool,
}

impl FileScan {
    /// Returns a scan of the file `path` from its start.
    pub fn open(path: &Path, magic: [u8; 4], obfuscation: Obfuscation) -> Result<Self> {
        let file = Disk::new().open_read(path)?;
        let len = file.len()?;
        Ok(Self {
            file,
            len,
            magic,
            obfuscation,
            headers_only: false,
            window: Vec::new(),
            window_start: 0,
            window_bytes: WINDOW_BYTES,
            advised: 0,
            at: 0,
            junk_start: None,
            quiet: false,
            done: false,
        })
    }

    /// Returns the scan for headers: only the header of each block is read, which takes a few
    /// gigabytes of reading for the whole chain.
    pub fn headers_only(mut self) -> Self {
        self.headers_only = true;
        self.window_bytes = HEADERS_WINDOW_BYTES;
        let _ = fadvise(self.file.raw(), 0, None, Advice::Random);
        self
    }

    /// Returns the number of bytes of the file that were scanned.
    pub fn position(&self) -> u64 {
        self.at.min(self.len)
    }

    fn step(&mut self) -> Result<Option<Scanned>> {
        loop {
            self.fill(HEAD_BYTES)?;
            let head = self.ahead();
            if head.len() < HEAD_BYTES {
                return Ok(self.finish());
            }
            let is_frame = is_frame(head, self.magic);
            let is_padding = self.starts_unwritten();
            let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let ended = if is_frame || is_padding { self.end_junk() } else { self.skip_junk() };
            if ended.is_some() {
                return Ok(ended);
            }
            if is_frame {
                return self.block(len).map(Some);
            }
            if is_padding && let Some(padding) = self.skip_padding()? {
                return Ok(Some(padding));
            }
        }
    }

    /// Returns the block whose magic is at `at`, or a warning about it.
    fn block(&mut self, len: u32) -> Result<Scanned> {
        let start = self.at;
        let offset = start + 8;
        let end = offset + u64::from(len);
        if end > self.len {
            self.skip_bad();
            let missing = end - self.len;
            return Ok(Scanned::Warning(ScanWarning::Truncated { offset: start, missing }));
        }
        self.at = offset;
        let wanted = if self.headers_only { HEADER_BYTES } else { len as usize };
        let mut bytes = self.cut(wanted)?;
        self.at = end;
        let mut len = len;
        if !self.frame_follows()? {
            // The block is parsed only now: a frame after it would have shown that the length is
            // right.
            self.at = offset;
            let whole = if self.headers_only { &self.cut(len as usize)? } else { &bytes };
            let checksum = crc32c(&[&self.magic[..], &len.to_le_bytes(), whole].concat());
            let Ok(parsed) = BlockView::parse(whole).map(|view| view.len()) else {
                self.at = start;
                self.skip_bad();
                return Ok(Scanned::Warning(ScanWarning::Damaged { offset: start }));
            };
            // A block may be shorter than its frame says, and the next one start right after it.
            len = parsed as u32;
            bytes.truncate(parsed);
            self.at = offset + u64::from(len);
            self.skip_checksum(checksum)?;
        }
        self.quiet = false;
        Ok(Scanned::Block { offset, len, bytes })
    }

    /// Returns whether the file ends at `at`, or another block or unwritten space starts there.
    fn frame_follows(&mut self) -> Result<bool> {
        self.fill(HEAD_BYTES)?;
        let next = self.ahead();
        // Zeros of the length of a head count as unwritten space; blocks contain zeros too.
        let next = &next[..next.len().min(HEAD_BYTES)];
        let torn_magic = !next.is_empty() && self.magic.starts_with(next);
        Ok(next.starts_with(&self.magic)
            || torn_magic
            || self.obfuscation.is_unwritten(next, self.at))
    }

    /// Moves over the checksum of the record before `at`, which btcd's files have after each block.
    fn skip_checksum(&mut self, checksum: u32) -> Result<()> {
        self.fill(HEAD_BYTES)?;
        let checksum = checksum.to_be_bytes();
        if self.ahead().starts_with(&checksum) {
            self.at += checksum.len() as u64;
        }
        Ok(())
    }

    /// Moves one byte into a bad block, since good ones may start inside it.
    fn skip_bad(&mut self) {
        self.at += 1;
        self.quiet = true;
    }

    /// Moves to the next byte in the window that may start a magic or space that was never written.
    fn skip_junk(&mut self) -> Option<Scanned> {
        let start = *self.junk_start.get_or_insert(self.at);
        let magic = self.magic[0];
        let ahead = self.ahead();
        // The last bytes are left for the next window, so that no magic is split.
        let end = ahead.len().saturating_sub(HEAD_BYTES);
        let searched = ahead.get(1..=end).unwrap_or(&[]);
        let may_end = |(byte, at)| byte == magic || self.obfuscation.is_unwritten(&[byte], at);
        let found = searched.iter().copied().zip(self.at + 1..).position(may_end);
        self.at += 1 + found.unwrap_or(searched.len()) as u64;
        if self.at - start >= JUNK_STEP_BYTES { self.end_junk() } else { None }
    }

    /// Returns a warning about the junk before `at`, if there is any that was not reported.
    fn end_junk(&mut self) -> Option<Scanned> {
        let offset = self.junk_start.take().filter(|_| !self.quiet)?;
        Some(Scanned::Warning(ScanWarning::Junk { offset, len: self.at - offset }))
    }

    /// Ends the scan, with a warning if the last bytes, too few for a block, were written.
    fn finish(&mut self) -> Option<Scanned> {
        self.done = true;
        let start = self.at;
        let left = self.ahead().to_vec();
        let left = &left[..];
        self.at = self.len;
        if let Some(found) = find_frame(left, self.magic) {
            let stated = u32::from_le_bytes([0, 1, 2, 3].map(|i| left[found + 4 + i]));
            let offset = start + found as u64;
            let missing = (offset + 8 + u64::from(stated)).saturating_sub(self.len);
            return Some(Scanned::Warning(ScanWarning::Truncated { offset, missing }));
        }
        if !left.is_empty() && !self.obfuscation.is_unwritten(left, start) {
            self.junk_start.get_or_insert(start);
        }
        self.end_junk()
    }

    /// Returns whether space that was never written starts at `at`. Among other junk a few zeros do
    /// not count.
    fn starts_unwritten(&self) -> bool {
        let wanted = if self.junk_start.is_some() { HEAD_BYTES } else { 1 };
        let ahead = self.ahead();
        self.obfuscation.is_unwritten(&ahead[..ahead.len().min(wanted)], self.at)
    }

    /// Returns the number of bytes in the window from `at` on that were never written.
    fn zeros_ahead(&self) -> usize {
        let ahead = self.ahead();
        if self.obfuscation.is_unwritten(ahead, self.at) {
            return ahead.len();
        }
        let is_zero = |(byte, at)| self.obfuscation.is_unwritten(&[byte], at);
        ahead.iter().copied().zip(self.at..).take_while(|place| is_zero(*place)).count()
    }

    /// Moves over space that was never written. Returns it, unless it reaches to the end of the
    /// file.
    fn skip_padding(&mut self) -> Result<Option<Scanned>> {
        let offset = self.at;
        let window_bytes = std::mem::replace(&mut self.window_bytes, PADDING_WINDOW_BYTES);
        while self.at < self.len && self.at - offset < JUNK_STEP_BYTES {
            self.fill(1)?;
            let zeros = self.zeros_ahead();
            let ahead = self.ahead().len();
            self.at += zeros as u64;
            if zeros < ahead || ahead == 0 {
                break;
            }
        }
        self.window_bytes = window_bytes;
        if self.at >= self.len {
            return Ok(None);
        }
        // An obfuscated frame may begin with zeros.
        let end = self.at;
        self.at = end.saturating_sub(FRAME_BYTES).max(offset + 1);
        self.fill(HEAD_BYTES)?;
        let ahead = self.ahead();
        let back = (end - self.at) as usize;
        let frame =
            (0..back).find(|i| ahead.get(*i..).is_some_and(|from| is_frame(from, self.magic)));
        self.at += frame.unwrap_or(back) as u64;
        let len = self.at - offset;
        Ok(Some(Scanned::Warning(ScanWarning::Padding { offset, len })))
    }

    /// Copies or reads the `len` bytes at `at`; the file must have that many.
    fn cut(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        let ahead = self.ahead();
        bytes.extend_from_slice(&ahead[..ahead.len().min(len)]);
        let had = bytes.len();
        if had < len {
            let from = self.at + had as u64;
            self.advise(from);
            self.file.append_to(&mut bytes, len - had, from)?;
            self.obfuscation.apply(&mut bytes[had..], from);
        }
        Ok(bytes)
    }

    /// Returns the bytes of the window from `at` on.
    fn ahead(&self) -> &[u8] {
        let from = self.at.checked_sub(self.window_start).unwrap_or(u64::MAX);
        usize::try_from(from).ok().and_then(|from| self.window.get(from..)).unwrap_or(&[])
    }

    /// Fills the window with at least `wanted` bytes from `at` on, or up to the end of the file.
    fn fill(&mut self, wanted: usize) -> Result<()> {
        let left = self.len.saturating_sub(self.at);
        if self.ahead().len() as u64 >= left.min(wanted as u64) {
            return Ok(());
        }
        self.advise(self.at);
        self.window.clear();
        self.window_start = self.at;
        let len = left.min(self.window_bytes as u64) as usize;
        self.file.append_to(&mut self.window, len, self.at)?;
        self.obfuscation.apply(&mut self.window, self.at);
        Ok(())
    }

    /// Asks the kernel to read ahead from `at`, unless it was already asked.
    fn advise(&mut self, at: u64) {
        if self.headers_only || at + READ_AHEAD_BYTES / 2 < self.advised {
            return;
        }
        let from = self.advised.max(at);
        let until = at + READ_AHEAD_BYTES;
        // The kernel may refuse the advice, which affects only speed.
        let _ = fadvise(self.file.raw(), from, NonZeroU64::new(until - from), Advice::WillNeed);
        self.advised = until;
    }
}

impl Iterator for FileScan {
    type Item = Result<Scanned>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step();
        self.done |= step.is_err();
        step.transpose()
    }
}

impl ScanWarning {
    /// Returns the offset in the file that the warning is about.
    pub fn offset(&self) -> u64 {
        match *self {
            Self::Truncated { offset, .. }
            | Self::Damaged { offset }
            | Self::Junk { offset, .. }
            | Self::Padding { offset, .. } => offset,
        }
    }
}

/// Writes the warning in words, without file and offset.
impl fmt::Display for ScanWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing, .. } => {
                write!(f, "the file ends inside a block, {missing} bytes are missing")
            }
            Self::Damaged { .. } => f.write_str("this is not a block, and is skipped"),
            Self::Junk { len, .. } => write!(f, "{len} bytes belong to no block"),
            Self::Padding { len, .. } => write!(f, "{len} bytes were never written"),
        }
    }
}
