//! The files with the filters of blocks, `fltr00000.dat` and so on (Core's `FlatFileSeq`).

use std::path::PathBuf;

use apus_disk::{Disk, File, Result, StoreError};
use apus_hash::Hash;
use apus_store::FlatFilePos;
use apus_wire::{compact_size_len, put_compact_size};

/// The size in bytes that no file exceeds (Core's `MAX_FLTR_FILE_SIZE`).
pub const MAX_FLTR_FILE_SIZE: u32 = 16 << 20;
/// The files grow by this many bytes (Core's `FLTR_FILE_CHUNK_SIZE`).
pub const FLTR_FILE_CHUNK_SIZE: u32 = 1 << 20;

/// Appends filters to the files. Filters that no entry of the database names yet are overwritten by
/// the next run.
pub struct FilterFiles {
    disk: Disk,
    dir: PathBuf,
    /// Where the next filter goes.
    next: FlatFilePos,
    /// The file of that place, once it is open.
    file: Option<File>,
    /// Bytes still to be written to it, before `next`.
    waiting: Vec<u8>,
}

impl FilterFiles {
    /// Returns the files in `dir`, of which the next filter goes to `next`.
    pub fn new(disk: &Disk, dir: PathBuf, next: FlatFilePos) -> Self {
        Self { disk: disk.clone(), dir, next, file: None, waiting: Vec::new() }
    }

    /// Returns where the next filter goes.
    pub fn next(&self) -> FlatFilePos {
        self.next
    }

    /// Appends a block's hash and filter, and returns where they are.
    ///
    /// # Errors
    /// The disk fails, or a file is shorter than the database says.
    pub fn append(&mut self, block: &Hash, filter: &[u8]) -> Result<FlatFilePos> {
        let bytes = 32 + compact_size_len(filter.len() as u64) + filter.len();
        if u64::from(self.next.pos) + bytes as u64 > MAX_FLTR_FILE_SIZE.into() {
            self.end_file()?;
        }
        let at = self.next;
        self.waiting.extend_from_slice(&block.0);
        put_compact_size(&mut self.waiting, filter.len() as u64);
        self.waiting.extend_from_slice(filter);
        self.next.pos += bytes as u32;
        Ok(at)
    }

    /// Writes what waits.
    pub fn write(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let start = u64::from(self.next.pos) - self.waiting.len() as u64;
        if self.file.is_none() {
            self.file = Some(self.open(start)?);
        }
        let file = self.file.as_ref().expect("opened above");
        let room = u64::from(self.next.pos.next_multiple_of(FLTR_FILE_CHUNK_SIZE));
        if file.len()? < room {
            file.allocate(start, room - start)?;
        }
        file.write_all_at(&self.waiting, start)?;
        self.waiting.clear();
        Ok(())
    }

    /// Opens the present file, or creates it if nothing is in it.
    fn open(&self, start: u64) -> Result<File> {
        let path = self.dir.join(format!("fltr{:05}.dat", self.next.file));
        if start == 0 {
            return self.disk.create(path);
        }
        let found = self.disk.len(&path)?;
        if found < start {
            let what = format!(
                "the file has {found} bytes, but the database of the index says that {start} are \
                 used: remove the index, and build it again"
            );
            return Err(StoreError::new(path, what));
        }
        self.disk.open(path)
    }

    /// Ends the present file, and begins the next one.
    fn end_file(&mut self) -> Result<()> {
        self.write()?;
        let end = self.next.pos.into();
        let file = self.file.take().map_or_else(|| self.open(end), Ok)?;
        file.set_len(end)?;
        file.sync()?;
        self.next = FlatFilePos { file: self.next.file + 1, pos: 0 };
        Ok(())
    }

    /// Writes what waits, and makes all filters durable.
    pub fn sync(&mut self) -> Result<()> {
        self.write()?;
        if let Some(file) = &self.file {
            file.sync()?;
        }
        self.disk.sync_dir(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_cut_and_the_next_begins() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let at = |file, pos| FlatFilePos { file, pos };
        let mut files = FilterFiles::new(&disk, dir.path().to_path_buf(), at(0, 0));
        // 32 bytes of the hash, and a length of 5 bytes.
        let third = vec![7; (MAX_FLTR_FILE_SIZE / 3) as usize];
        let size = MAX_FLTR_FILE_SIZE / 3 + 37;
        let places: Vec<_> =
            (1..=4).map(|n| files.append(&Hash([n; 32]), &third).unwrap()).collect();
        assert_eq!(places, [at(0, 0), at(0, size), at(1, 0), at(1, size)]);
        files.sync().unwrap();
        let len = |number: u32| dir.path().join(format!("fltr{number:05}.dat")).metadata().unwrap();
        assert_eq!(len(0).len(), u64::from(2 * size), "cut");
        let room = (2 * size).next_multiple_of(FLTR_FILE_CHUNK_SIZE);
        assert_eq!(len(1).len(), room.into(), "filled with zeros");
        // It is continued, and what no entry names is overwritten.
        let mut files = FilterFiles::new(&disk, dir.path().to_path_buf(), at(1, size));
        assert_eq!(files.append(&Hash([9; 32]), &[1, 2]).unwrap(), at(1, size));
        files.sync().unwrap();
        let bytes = std::fs::read(dir.path().join("fltr00001.dat")).unwrap();
        assert_eq!(bytes[size as usize..][..35], [&[9; 32][..], &[2, 1, 2]].concat());
        let mut files = FilterFiles::new(&disk, dir.path().to_path_buf(), at(2, 5));
        let short = files.append(&Hash([9; 32]), &[]).and_then(|_| files.sync());
        assert!(short.is_err(), "there is no such file");
    }
}
