use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::flat_file::{FILES_MAX, FlatFile, Kind, reservation};
use super::{
    BlockFilesOptions, FileChanges, FileInfo, FlatFilePos, Obfuscation, UNDOFILE_CHUNK_SIZE,
};
use crate::disk::{Disk, File, Result, StoreError};

/// Bytes of free space that Core demands, in addition to what it reserves, before it writes blocks.
pub const MIN_DISK_SPACE_BYTES: u64 = 50 << 20;

/// Appends to the files. It knows how full each file is, and what is not durable yet.
pub(super) struct Writer {
    disk: Disk,
    directory: PathBuf,
    obfuscation: Obfuscation,
    options: BlockFilesOptions,
    /// What each file holds, by its number.
    infos: Vec<FileInfo>,
    /// Numbers of the files whose infos changed since the last flush.
    dirty: BTreeSet<u32>,
    /// Files whose content or length changed since the last flush.
    unsynced: BTreeSet<FlatFile>,
    /// Height of the highest block in the last file whose undo data was written (Core's
    /// `undo_height`).
    undo_height: u32,
    /// The file of each kind that was written to last.
    open: [Option<OpenFile>; 2],
    /// Whether a write has failed, after which every other is refused.
    failed: bool,
}

/// A file that is open for appending.
struct OpenFile {
    number: u32,
    file: File,
}

impl Writer {
    pub fn new(
        disk: Disk,
        directory: PathBuf,
        obfuscation: Obfuscation,
        options: BlockFilesOptions,
        mut infos: Vec<FileInfo>,
    ) -> Self {
        if infos.is_empty() {
            infos.push(FileInfo::default());
        }
        Self {
            disk,
            directory,
            obfuscation,
            options,
            infos,
            dirty: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            undo_height: 0,
            open: [None, None],
            failed: false,
        }
    }

    pub fn infos(&self) -> &[FileInfo] {
        &self.infos
    }

    /// Number of the last file, to which the next block is appended if it fits (Core's
    /// `MaxBlockfileNum`).
    pub fn last_file(&self) -> u32 {
        self.infos.len() as u32 - 1
    }

    /// Appends the record of a block, and returns where it starts.
    pub fn append_block(
        &mut self,
        record: &mut [u8],
        height: u32,
        time: u32,
    ) -> Result<FlatFilePos> {
        self.guarded(|writer| {
            let len = writer.checked_len(record)?;
            let pos = writer.next_block_pos(len)?;
            let info = writer.info_mut(pos.file)?;
            info.add_block(height, time);
            info.size += len;
            writer.put(Kind::Block, pos, record)?;
            Ok(pos)
        })
    }

    /// Appends the record of undo data to the rev file `number`, and returns where it starts.
    pub fn append_undo(&mut self, record: &mut [u8], number: u32, height: u32) -> Result<u32> {
        self.guarded(|writer| {
            let path = Kind::Undo.path(&writer.directory, number);
            let info = writer.info_mut(number)?;
            let pos = info.undo_size;
            let end = u32::try_from(record.len()).ok().and_then(|len| pos.checked_add(len));
            let end = end.ok_or_else(|| {
                StoreError::new(path, "the file would hold over 4 GiB of undo data")
            })?;
            info.undo_size = end;
            let is_last_of_file = height == info.height_last;
            writer.put(Kind::Undo, FlatFilePos { file: number, pos }, record)?;
            if number < writer.last_file() && is_last_of_file {
                writer.truncate(Kind::Undo, number)?;
            } else if number == writer.last_file() && height > writer.undo_height {
                writer.undo_height = height;
            }
            Ok(pos)
        })
    }

    /// Counts a block that is in a file already (Core's `UpdateBlockInfo`).
    pub fn note_block(&mut self, pos: FlatFilePos, len: u32, height: u32, time: u32) -> Result<()> {
        self.note_used(pos.file, pos.pos.saturating_add(len))?;
        self.infos[pos.file as usize].add_block(height, time);
        Ok(())
    }

    /// Reserves a file up to its byte `end`: nothing is appended before.
    pub fn note_used(&mut self, file: u32, end: u32) -> Result<()> {
        if file >= FILES_MAX {
            let path = Kind::Block.path(&self.directory, file);
            return Err(StoreError::new(
                path,
                format!("no chain needs {FILES_MAX} block files, which is the limit"),
            ));
        }
        let count = file as usize + 1;
        if self.infos.len() < count {
            self.infos.resize(count, FileInfo::default());
            self.undo_height = 0;
        }
        let info = &mut self.infos[file as usize];
        info.size = info.size.max(end);
        self.dirty.insert(file);
        Ok(())
    }

    /// Clears the info of files that are to be deleted (Core's `PruneOneBlockFile`).
    #[cfg_attr(not(feature = "internals"), allow(dead_code, reason = "for pruning"))]
    pub fn prune(&mut self, number: u32) -> Result<()> {
        assert!(number < self.last_file(), "the last file is still written to");
        *self.info_mut(number)? = FileInfo::default();
        for kind in [Kind::Block, Kind::Undo] {
            self.unsynced.remove(&FlatFile { kind, number });
            self.open[kind as usize].take_if(|open| open.number == number);
        }
        Ok(())
    }

    /// The files to be synced, and the changes that may be written to the block index once they
    /// are. This forgets both; if a sync fails, the caller calls [`Writer::fail`].
    pub fn take_changes(&mut self) -> (BTreeSet<FlatFile>, FileChanges) {
        let dirty = std::mem::take(&mut self.dirty);
        let infos = dirty.into_iter().map(|number| (number, self.infos[number as usize]));
        let changes = FileChanges { infos: infos.collect(), last_file: self.last_file() };
        (std::mem::take(&mut self.unsynced), changes)
    }

    /// Makes every later write an error.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Does `write`, unless an earlier one failed: after that the content of the files is unknown.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            let what = "an earlier write to the block files failed: start the program again, which \
                checks what was written";
            return Err(StoreError::new(&self.directory, what));
        }
        let result = write(self);
        self.failed = result.is_err();
        result
    }

    /// The length of the record of a block, which must fit into a file.
    fn checked_len(&self, record: &[u8]) -> Result<u32> {
        let max = if self.options.fast_prune { u32::MAX / 2 } else { self.options.max_file_size() };
        let len = u32::try_from(record.len()).ok().filter(|len| *len < max);
        len.ok_or_else(|| {
            let what = format!(
                "a block of {} bytes does not fit into a file of {max} bytes",
                record.len()
            );
            StoreError::new(&self.directory, what)
        })
    }

    /// The position of the next `len` bytes: in the last file or, if that is full, in a new one.
    fn next_block_pos(&mut self, len: u32) -> Result<FlatFilePos> {
        // With -fastprune a block may be larger than a file, which then has that block alone.
        let max = self.options.max_file_size().max(len.saturating_add(1));
        let last = self.last_file();
        let info = self.infos[last as usize];
        if info.size.saturating_add(len) < max {
            return Ok(FlatFilePos { file: last, pos: info.size });
        }
        self.truncate(Kind::Block, last)?;
        if info.height_last == self.undo_height && info.undo_size > 0 {
            self.truncate(Kind::Undo, last)?;
        }
        self.infos.push(FileInfo::default());
        self.undo_height = 0;
        Ok(FlatFilePos { file: last + 1, pos: 0 })
    }

    /// Reserves space if needed, obfuscates the record and writes it.
    fn put(&mut self, kind: Kind, pos: FlatFilePos, record: &mut [u8]) -> Result<()> {
        self.obfuscation.apply(record, u64::from(pos.pos));
        let chunk = match kind {
            Kind::Block => self.options.chunk_size(),
            Kind::Undo => UNDOFILE_CHUNK_SIZE,
        };
        let file = self.opened(kind, pos.file)?;
        let offset = u64::from(pos.pos);
        if let Some(end) = reservation(pos.pos, record.len() as u32, chunk) {
            check_space(file.path(), end - offset)?;
            file.allocate(offset, end - offset)?;
        }
        file.write_all_at(record, offset)?;
        self.unsynced.insert(FlatFile { kind, number: pos.file });
        Ok(())
    }

    /// Releases the space that was reserved in a file and not used. Durable after the next sync.
    fn truncate(&mut self, kind: Kind, number: u32) -> Result<()> {
        let info = self.infos[number as usize];
        let len = match kind {
            Kind::Block => info.size,
            Kind::Undo => info.undo_size,
        };
        self.opened(kind, number)?.set_len(u64::from(len))?;
        self.unsynced.insert(FlatFile { kind, number });
        Ok(())
    }

    /// The file, open for appending.
    fn opened(&mut self, kind: Kind, number: u32) -> Result<&File> {
        let slot = &mut self.open[kind as usize];
        let open = match slot.take().filter(|open| open.number == number) {
            Some(open) => open,
            None => OpenFile { number, file: self.disk.open(kind.path(&self.directory, number))? },
        };
        Ok(&slot.insert(open).file)
    }

    /// What a file holds, to be changed.
    ///
    /// # Errors
    /// The block index does not know the file.
    fn info_mut(&mut self, number: u32) -> Result<&mut FileInfo> {
        let path = Kind::Block.path(&self.directory, number);
        self.dirty.insert(number);
        self.infos.get_mut(number as usize).ok_or_else(|| {
            StoreError::new(
                path,
                "an entry of the block index names this file, of which the index holds no info",
            )
        })
    }
}

/// Checks that the disk has as much free space as Core demands before it reserves `wanted` bytes.
fn check_space(path: &Path, wanted: u64) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    let fail = |e: rustix::io::Errno| StoreError::io(directory, "ask for free space", e.into());
    let disk = rustix::fs::statvfs(directory).map_err(fail)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let least = wanted.saturating_add(MIN_DISK_SPACE_BYTES);
    if free < least {
        let what = format!(
            "disk space is too low: {} MiB free, at least {} MiB needed to go on",
            free >> 20,
            least.div_ceil(1 << 20)
        );
        return Err(StoreError::full(directory, what));
    }
    Ok(())
}
