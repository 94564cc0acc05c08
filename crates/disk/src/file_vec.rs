#![allow(unsafe_code, reason = "a file without a name is mapped into memory")]

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Result, StoreError};

/// The least number of bytes by which a file grows.
const GROWTH_BYTES_MIN: usize = 1 << 20;
/// The part of its bytes by which a file grows at least.
const GROWTH_SHARE: usize = 8;

/// A vector in memory or, after [`FileVec::keep_in_file`], in a mapped file that has no name: the
/// system can then take the memory of items that are not in use, without swap.
///
/// No operation fails: the bytes of the file are allocated before they are used, and where it
/// cannot be made or cannot grow, or where the file system does not keep what it allocates, the
/// items are in memory. [`FileVec::check_written`] tells whether the system could write all bytes.
pub struct FileVec<T>(Items<T>);

enum Items<T> {
    Memory(Vec<T>),
    File(MappedBytes),
}

impl<T: Copy + FromBytes + IntoBytes + Immutable> FileVec<T> {
    /// Returns an empty vector, in memory.
    pub const fn new() -> Self {
        Self(Items::Memory(Vec::new()))
    }

    /// Moves all items, and all items appended later, to a file in `directory`. If it has no
    /// space for them, they stay in memory.
    pub fn keep_in_file(&mut self, directory: &Arc<Path>) {
        if let Items::Memory(items) = &self.0
            && let Ok(bytes) = MappedBytes::new(directory, items.as_bytes())
        {
            self.0 = Items::File(bytes);
        }
    }

    /// Waits until the system has written the items to the file. One that it could not write may be
    /// an older one when it is read again.
    pub fn check_written(&self) -> Result<()> {
        let Items::File(MappedBytes { directory, file, .. }) = &self.0 else { return Ok(()) };
        let fail = |error| StoreError::io(directory, "write a temporary file", error);
        file.sync_data().map_err(fail)
    }

    /// Returns the directory of the file; `None` if the items are in memory.
    pub fn directory(&self) -> Option<&Arc<Path>> {
        match &self.0 {
            Items::Memory(_) => None,
            Items::File(bytes) => Some(&bytes.directory),
        }
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        if let Items::File(bytes) = &mut self.0
            && bytes.append(item.as_bytes()).is_err()
        {
            self.0 = Items::Memory(self.to_vec());
        }
        if let Items::Memory(items) = &mut self.0 {
            items.push(item);
        }
    }
}

impl<T: Copy + FromBytes + IntoBytes + Immutable> Default for FileVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy + FromBytes + IntoBytes + Immutable> Deref for FileVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Items::Memory(items) => items,
            Items::File(bytes) => {
                <[T]>::ref_from_bytes(bytes).expect("whole items, from a page on")
            }
        }
    }
}

impl<T: Copy + FromBytes + IntoBytes + Immutable> DerefMut for FileVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Items::Memory(items) => items,
            Items::File(bytes) => {
                <[T]>::mut_from_bytes(bytes).expect("whole items, from a page on")
            }
        }
    }
}

/// Bytes in a mapped file that has no name.
struct MappedBytes {
    directory: Arc<Path>,
    file: File,
    map: MmapMut,
    len: usize,
}

impl MappedBytes {
    fn new(directory: &Arc<Path>, bytes: &[u8]) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        if !keeps_allocations(fstatfs(&file)?.f_type as u32) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let map = map_first(&file, bytes.len() + GROWTH_BYTES_MIN)?;
        let mut mapped = Self { directory: Arc::clone(directory), file, map, len: 0 };
        mapped.append(bytes)?;
        Ok(mapped)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.len + bytes.len();
        if end > self.map.len() {
            let more = (self.map.len() / GROWTH_SHARE).max(GROWTH_BYTES_MIN);
            self.map = map_first(&self.file, end + more)?;
        }
        self.map[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
}

impl Deref for MappedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[..self.len]
    }
}

impl DerefMut for MappedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.len]
    }
}

/// Returns whether a file system of this type keeps the space that it has allocated to a file, so
/// that a write to a map never finds the disk full, which would kill the process. Others need new
/// space to change a block (btrfs, ZFS, F2FS), allocate nothing (ZFS), or cannot promise it, since
/// it is another one that decides (NFS, CIFS, FUSE, overlays).
fn keeps_allocations(kind: u32) -> bool {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const TMPFS: u32 = 0x0102_1994;
    matches!(kind, EXT | XFS | TMPFS)
}

/// Maps the first bytes of a file, and allocates the missing ones: a write to the map of
/// a file on a full disk would kill the process.
fn map_first(file: &File, bytes: usize) -> io::Result<MmapMut> {
    fallocate(file, FallocateFlags::empty(), 0, bytes as u64)?;
    // SAFETY: the file has no name, so that no other program truncates it; nothing else here
    // changes it while it is mapped, except through an older map that is no longer read.
    unsafe { memmap2::MmapOptions::new().len(bytes).map_mut(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_move_to_a_file_that_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path: Arc<Path> = directory.path().into();
        let mut items = FileVec::new();
        (0..1_000_u32).for_each(|n| items.push(n));
        assert_eq!(items.directory(), None);
        items.keep_in_file(&path);
        assert_eq!(items.directory(), Some(&path));
        // More than three times as long as the file was at first.
        (1_000..1_000_000).for_each(|n| items.push(n));
        items[7] = 8;
        assert_eq!(items.directory(), Some(&path));
        assert_eq!((items.len(), items[7], items[999_999]), (1_000_000, 8, 999_999));
        assert!(items.iter().zip(0..).all(|(item, n)| *item == n || n == 7));
        // No name is left if the process is killed.
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn files_are_made_where_space_stays_allocated() {
        for (kind, keeps) in [
            (0xef53, true),
            (0x5846_5342, true),
            (0x0102_1994, true),
            // btrfs, ZFS, F2FS, NFS, CIFS, FUSE and overlays.
            (0x9123_683e, false),
            (0x2fc1_2fc1, false),
            (0xf2f5_2010, false),
            (0x6969, false),
            (0xff53_4d42, false),
            (0x6573_5546, false),
            (0x794c_7630, false),
        ] {
            assert_eq!(keeps_allocations(kind), keeps, "{kind:x}");
        }
        // A file system that none of these is.
        let mut items = FileVec::new();
        items.push(1_u32);
        items.keep_in_file(&Path::new("/proc").into());
        assert_eq!(items.directory(), None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut items = FileVec::new();
        items.push(1_u64);
        items.check_written().unwrap();
        items.keep_in_file(&directory.path().into());
        items.check_written().unwrap();
        let Items::File(bytes) = &mut items.0 else { panic!("the file was not made") };
        // It cannot be synced.
        bytes.file = File::open("/proc/self/status").unwrap();
        let error = items.check_written().unwrap_err().to_string();
        assert!(error.contains(&directory.path().display().to_string()), "{error}");
    }

    #[test]
    fn items_stay_in_memory_where_no_file_can_be_made() {
        let mut items = FileVec::new();
        items.push(1_u32);
        items.keep_in_file(&Path::new("/nowhere").into());
        items.push(2);
        assert_eq!((items.directory(), &items[..]), (None, &[1, 2][..]));
    }

    #[test]
    fn items_are_in_memory_again_once_the_file_cannot_grow() {
        let directory = tempfile::tempdir().unwrap();
        let mut items = FileVec::new();
        items.keep_in_file(&directory.path().into());
        items.push(1_u64);
        let Items::File(bytes) = &mut items.0 else { panic!("the file was not made") };
        // It can be written to, and not allocated.
        bytes.file = File::open(directory.path()).unwrap();
        (2..=1_000_000).for_each(|n| items.push(n));
        assert_eq!(items.directory(), None);
        assert!(items.iter().zip(1..).all(|(item, n)| *item == n) && items.len() == 1_000_000);
    }
}
