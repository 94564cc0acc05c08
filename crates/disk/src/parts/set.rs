use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::{Caching, Disk, SpillFile, StoreError, lock};

use super::buffer::{Gathered, PartBuffer};
use super::extent::PAGE_BYTES;
use super::part::Part;
use super::room::ForgottenRoom;
use super::saved::SavedParts;

/// The largest share of the memory that a part may have: lengths in the file have 32 bits.
const PART_BYTES_MAX: usize = 1 << 30;

/// Bytes that any number of threads append to numbered parts, held in memory while they fit and
/// written to one file in large pieces otherwise.
pub struct Parts {
    /// The number of bytes of memory for each part, a multiple of the page size.
    part_bytes: usize,
    parts: Vec<Mutex<Part>>,
    /// The file for the bytes that do not fit in memory.
    out: SpillFile,
    forgotten: Mutex<ForgottenRoom>,
}

impl Parts {
    /// Returns `parts` empty parts. Each may hold `part_bytes` in memory, rounded down to whole
    /// pages, at least one page and at most 1 GiB. The file at `path` and its directory are created
    /// when they are first needed; a file that exists by then is truncated.
    pub fn new(
        disk: &Disk,
        path: PathBuf,
        parts: usize,
        part_bytes: usize,
        caching: Caching,
    ) -> Self {
        let parts = (0..parts).map(|_| Mutex::default()).collect();
        let out = SpillFile::resumable(disk, path, caching);
        Self::of(parts, part_bytes, out, ForgottenRoom::default())
    }

    /// Returns the parts that an earlier process saved with [`Parts::save`]. Anything that it wrote
    /// to the file later is cut off.
    ///
    /// # Errors
    /// The file is missing, or shorter than it was.
    pub fn resume(
        disk: &Disk,
        path: PathBuf,
        part_bytes: usize,
        saved: &SavedParts,
        caching: Caching,
    ) -> Result<Self, StoreError> {
        let out = SpillFile::resume(disk, path, saved.file_bytes, caching)?;
        let mut extents = saved.extents.as_slice();
        let part = |count: &u32| {
            let (of_part, rest) = extents.split_at(*count as usize);
            extents = rest;
            Mutex::new(Part::in_file(of_part.to_vec()))
        };
        let parts = saved.counts.iter().map(part).collect();
        let file_pages = saved.file_bytes / PAGE_BYTES as u64;
        let file_pages = u32::try_from(file_pages).unwrap_or(u32::MAX);
        let forgotten = ForgottenRoom::between(&saved.extents, file_pages);
        Ok(Self::of(parts, part_bytes, out, forgotten))
    }

    fn of(parts: Vec<Mutex<Part>>, bytes: usize, out: SpillFile, forgotten: ForgottenRoom) -> Self {
        let part_bytes = (bytes / PAGE_BYTES * PAGE_BYTES).clamp(PAGE_BYTES, PART_BYTES_MAX);
        Self { part_bytes, parts, out, forgotten: Mutex::new(forgotten) }
    }

    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the path at which the file is or will be created.
    pub fn path(&self) -> &Path {
        self.out.path()
    }

    /// Appends `bytes` to a part as one piece, which is never split.
    ///
    /// # Panics
    /// `bytes` is longer than 1 GiB, or there is no such part.
    pub fn append(&self, part: usize, bytes: &[u8]) -> Result<(), StoreError> {
        assert!(bytes.len() <= PART_BYTES_MAX, "a piece has at most {PART_BYTES_MAX} bytes");
        lock(&self.parts[part]).append(bytes, self.part_bytes, &self.out)
    }

    /// Returns the number of bytes of a part, in memory and in the file.
    pub fn bytes(&self, part: usize) -> u64 {
        lock(&self.parts[part]).bytes()
    }

    /// Returns the number of bytes written to the file so far, earlier processes and padding
    /// included.
    pub fn bytes_written(&self) -> u64 {
        self.out.bytes_written()
    }

    /// Calls `with` with all bytes of a part: a buffer, and the ranges of it that hold whole
    /// pieces, in order of arrival; the rest is padding. If all bytes are in memory, they are not
    /// copied, and changes to them are kept; otherwise they are read into `buffer`.
    ///
    /// The part is locked until `with` returns; other parts are not.
    pub fn with_part<T>(
        &self,
        part: usize,
        buffer: &mut PartBuffer,
        with: impl FnOnce(&mut [u8], &[Range<usize>]) -> T,
    ) -> Result<T, StoreError> {
        let mut part = lock(&self.parts[part]);
        if part.extents().is_empty() {
            let held = part.held_mut();
            let piece = 0..held.len();
            return Ok(with(
                held,
                if held.is_empty() { &[] } else { std::slice::from_ref(&piece) },
            ));
        }
        let Gathered { bytes, pieces } = part.gather(buffer, &self.out)?;
        Ok(with(bytes, pieces))
    }

    /// Calls `each` with the bytes of a part, some whole pieces at a time, in order of arrival.
    /// Each call gets the bytes of one write, and only these are in memory. The part is locked
    /// until this returns.
    pub fn for_each_piece<E: From<StoreError>>(
        &self,
        part: usize,
        buffer: &mut PartBuffer,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let pieces = self.pieces(part);
        (0..pieces.count()).try_for_each(|index| each(pieces.read(index, buffer)?))
    }

    /// Returns the bytes of a part for threads that read them side by side. The part is locked
    /// until the result is dropped.
    pub fn pieces(&self, part: usize) -> Pieces<'_> {
        Pieces { part: lock(&self.parts[part]), out: &self.out }
    }

    /// Forgets the bytes of a part. Their memory is reused at once, their disk space is freed by
    /// [`Parts::release`].
    pub fn forget(&self, part: usize) {
        let part = std::mem::take(&mut *lock(&self.parts[part]));
        lock(&self.forgotten).add(part.extents());
    }

    /// Takes the space of all bytes forgotten so far and, in the first call after
    /// [`Parts::resume`], of those that an earlier process forgot. It must be called before
    /// [`Parts::save`], or before the finished parts are noted, so that other threads may go on
    /// forgetting: a durable record may still name bytes that are forgotten later.
    pub fn take_forgotten(&self) -> ForgottenRoom {
        std::mem::take(&mut *lock(&self.forgotten))
    }

    /// Gives `room` back to the file system, if that supports it. It must be called only when
    /// nothing durable names those bytes: when a record saved after [`Parts::take_forgotten`] has
    /// replaced the previous one.
    pub fn release(&self, room: ForgottenRoom) -> Result<(), StoreError> {
        let page = |number: u32| u64::from(number) * PAGE_BYTES as u64;
        let mut ranges = room.into_ranges().into_iter();
        ranges.try_for_each(|r| self.out.punch_hole(page(r.start), page(r.end) - page(r.start)))
    }

    /// Writes all bytes to the file and makes it durable. Returns the locations for
    /// [`Parts::resume`]. No thread may append before this returns.
    pub fn save(&self) -> Result<SavedParts, StoreError> {
        let mut counts = Vec::with_capacity(self.parts.len());
        let mut total = 0;
        for part in &self.parts {
            let mut part = lock(part);
            part.move_to_file(&self.out)?;
            total += part.extents().len();
        }
        let mut extents = Vec::with_capacity(total);
        for part in &self.parts {
            let part = lock(part);
            counts.push(part.extents().len() as u32);
            extents.extend_from_slice(part.extents());
        }
        Ok(SavedParts { file_bytes: self.out.sync()?, counts, extents })
    }

    /// Deletes the file, if there is one.
    pub fn destroy(self) -> Result<(), StoreError> {
        drop(self.parts);
        self.out.destroy()
    }
}

/// The bytes of a part, in the order of their arrival: those of each write to the file, and those
/// in memory.
pub struct Pieces<'a> {
    part: MutexGuard<'a, Part>,
    out: &'a SpillFile,
}

impl Pieces<'_> {
    /// Returns the number of writes, and one for the bytes in memory if there are any.
    pub fn count(&self) -> usize {
        self.part.extents().len() + usize::from(!self.part.held().is_empty())
    }

    /// Returns the whole pieces of a write, read into `buffer`, or those in memory.
    ///
    /// # Errors
    /// The file cannot be read or is damaged, or the system has no memory.
    pub fn read<'b>(
        &'b self,
        index: usize,
        buffer: &'b mut PartBuffer,
    ) -> Result<&'b [u8], StoreError> {
        match self.part.extents().get(index) {
            Some(extent) => buffer.read(extent, self.out),
            None => Ok(self.part.held()),
        }
    }
}
