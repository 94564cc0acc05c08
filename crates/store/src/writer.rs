use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use apus_disk::{Disk, File, FileSystem, Result, StoreError};

use super::flat_file::{FILES_MAX, FlatFile, Kind, reservation};
use super::{
    BlockFilesOptions, FileChanges, FileInfo, FlatFilePos, Obfuscation, UNDOFILE_CHUNK_SIZE,
};

/// Number of free bytes that Core requires, in addition to what it reserves, before it writes
/// blocks.
pub const MIN_DISK_SPACE_BYTES: u64 = 50 << 20;
/// Maximum number of files kept open for appending: the blk and rev files of as many lanes as most
/// machines have threads.
const OPEN_MAX: usize = 20;

/// A sequence of blk files to which one caller appends, so that they hold only the blocks of that
/// caller. It starts with a new file, and [`super::BlockFiles::end_lane`] ends it.
#[derive(Debug, Default)]
pub struct Lane {
    /// Number of the file that the last block was appended to.
    file: Option<u32>,
}

/// Appends to the files. It knows how full each file is, and what is not durable yet.
pub(super) struct Writer {
    disk: Disk,
    directory: PathBuf,
    obfuscation: Obfuscation,
    options: BlockFilesOptions,
    /// The info of each file, by its number.
    infos: Vec<FileInfo>,
    /// Numbers of the files whose infos have changed since the last flush.
    dirty: BTreeSet<u32>,
    /// Files whose content or length has changed since the last flush.
    unsynced: BTreeSet<FlatFile>,
    /// Numbers of the files that lanes append to.
    lanes: BTreeSet<u32>,
    /// For each file that was growing when undo data was appended, the height of the highest block
    /// whose undo data was written (Core's `undo_height`).
    undo_heights: BTreeMap<u32, u32>,
    /// The files that were written to last, in that order; at most [`OPEN_MAX`].
    open: Vec<OpenFile>,
    /// The first failure of a write or a sync, after which every other write is refused with this
    /// message: of several writing threads, the one that saw the failure may not be the one whose
    /// error is reported.
    failure: Option<String>,
    /// Whether a sync has failed, so that data appended before it may be lost.
    lost: bool,
    /// Number of bytes of the disk to keep free whenever space is reserved.
    kept_free: u64,
}

/// A file opened for appending.
struct OpenFile {
    id: FlatFile,
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
            lanes: BTreeSet::new(),
            undo_heights: BTreeMap::new(),
            open: Vec::new(),
            failure: None,
            lost: false,
            kept_free: MIN_DISK_SPACE_BYTES,
        }
    }

    pub fn infos(&self) -> &[FileInfo] {
        &self.infos
    }

    /// Returns the number of the last file, to which the next block without a lane is appended if
    /// it fits and no lane uses the file (Core's `MaxBlockfileNum`).
    pub fn last_file(&self) -> u32 {
        self.infos.len() as u32 - 1
    }

    /// Appends the record of a block to the files of `lane`, or else to the last file, and returns
    /// its position.
    pub fn append_block(
        &mut self,
        lane: Option<&mut Lane>,
        record: &mut [u8],
        height: u32,
        time: u32,
    ) -> Result<FlatFilePos> {
        self.guarded(|writer| {
            let len = writer.checked_len(record)?;
            let pos = writer.next_block_pos(lane, len)?;
            // A record that could not be written does not count.
            writer.put(Kind::Block, pos, record)?;
            let info = writer.info_mut(pos.file)?;
            info.add_block(height, time);
            info.size += len;
            Ok(pos)
        })
    }

    /// Writes the record of a block again, at `pos`, where it was stored before.
    pub fn rewrite_block(&mut self, pos: FlatFilePos, record: &mut [u8]) -> Result<()> {
        self.guarded(|writer| {
            let offset = u64::from(pos.pos);
            writer.obfuscation.apply(record, offset);
            writer.opened(Kind::Block, pos.file)?.write_all_at(record, offset)?;
            writer.unsynced.insert(FlatFile { kind: Kind::Block, number: pos.file });
            Ok(())
        })
    }

    /// Appends an undo record to the rev file `number`, and returns its offset.
    pub fn append_undo(&mut self, record: &mut [u8], number: u32, height: u32) -> Result<u32> {
        self.guarded(|writer| {
            let path = Kind::Undo.path(&writer.directory, number);
            let info = writer.info_mut(number)?;
            let pos = info.undo_size;
            let end = u32::try_from(record.len()).ok().and_then(|len| pos.checked_add(len));
            let end = end.ok_or_else(|| {
                StoreError::new(path, "the file would hold over 4 GiB of undo data")
            })?;
            let is_last_of_file = height == info.height_last;
            writer.put(Kind::Undo, FlatFilePos { file: number, pos }, record)?;
            writer.info_mut(number)?.undo_size = end;
            if number == writer.last_file() || writer.lanes.contains(&number) {
                let highest = writer.undo_heights.entry(number).or_default();
                *highest = height.max(*highest);
            } else if is_last_of_file {
                writer.truncate(Kind::Undo, number)?;
            }
            Ok(pos)
        })
    }

    /// Truncates the rev file `number` to `end` bytes. Durable after the next sync.
    pub fn cut_undo(&mut self, number: u32, end: u32) -> Result<()> {
        self.guarded(|writer| {
            writer.info_mut(number)?.undo_size = end;
            writer.undo_heights.remove(&number);
            writer.truncate(Kind::Undo, number)
        })
    }

    /// Ends `lane`, and releases the space that its last file did not use.
    pub fn end_lane(&mut self, lane: Lane) -> Result<()> {
        let Some(number) = lane.file else { return Ok(()) };
        self.guarded(|writer| {
            writer.lanes.remove(&number);
            writer.end_file(number)
        })
    }

    /// Counts a block that is already in a file (Core's `UpdateBlockInfo`).
    pub fn note_block(&mut self, pos: FlatFilePos, len: u32, height: u32, time: u32) -> Result<()> {
        self.note_used(pos.file, pos.pos.saturating_add(len))?;
        self.infos[pos.file as usize].add_block(height, time);
        Ok(())
    }

    /// Marks a file as used up to its byte `end`: nothing is appended before it.
    pub fn note_used(&mut self, file: u32, end: u32) -> Result<()> {
        if file >= FILES_MAX {
            let path = Kind::Block.path(&self.directory, file);
            return Err(StoreError::new(
                path,
                format!("no chain has this many block files: the limit is {FILES_MAX}"),
            ));
        }
        let count = file as usize + 1;
        if self.infos.len() < count {
            self.infos.resize(count, FileInfo::default());
        }
        let info = &mut self.infos[file as usize];
        info.size = info.size.max(end);
        self.dirty.insert(file);
        Ok(())
    }

    /// Marks the rev file of a block file as used up to its byte `end`: nothing is appended before
    /// it. The block file has a block already.
    pub fn note_undo(&mut self, file: u32, end: u32) {
        let info = &mut self.infos[file as usize];
        info.undo_size = info.undo_size.max(end);
        self.dirty.insert(file);
    }

    /// Returns the info of each file, where files that lanes append to count as empty, so that they
    /// are kept.
    pub fn infos_but_lanes(&self) -> Vec<FileInfo> {
        let mut infos = self.infos.clone();
        for number in &self.lanes {
            infos[*number as usize] = FileInfo::default();
        }
        infos
    }

    /// Clears the info of a file that is to be deleted (Core's `PruneOneBlockFile`).
    pub fn prune(&mut self, number: u32) -> Result<()> {
        let is_growing = number >= self.last_file() || self.lanes.contains(&number);
        assert!(!is_growing, "the last file, and those of lanes, are still written to");
        *self.info_mut(number)? = FileInfo::default();
        for kind in [Kind::Block, Kind::Undo] {
            self.unsynced.remove(&FlatFile { kind, number });
        }
        self.open.retain(|open| open.id.number != number);
        self.undo_heights.remove(&number);
        Ok(())
    }

    /// Keeps at least `bytes` of the disk free from now on, and never fewer than Core does.
    pub fn keep_free(&mut self, bytes: u64) {
        self.kept_free = bytes.max(MIN_DISK_SPACE_BYTES);
    }

    /// Returns the files to sync, and the changes that may be written to the block index once they
    /// are synced. The writer forgets both; if a sync fails, the caller must call [`Writer::lose`].
    ///
    /// # Errors
    /// An earlier sync failed.
    pub fn take_changes(&mut self) -> Result<(BTreeSet<FlatFile>, FileChanges)> {
        if self.lost {
            return Err(self.refusal());
        }
        let dirty = std::mem::take(&mut self.dirty);
        let infos = dirty.into_iter().map(|number| (number, self.infos[number as usize]));
        let changes = FileChanges { infos: infos.collect(), last_file: self.last_file() };
        Ok((std::mem::take(&mut self.unsynced), changes))
    }

    /// Refuses every later write because of this error.
    pub fn fail(&mut self, error: &StoreError) {
        self.failure.get_or_insert_with(|| error.to_string());
    }

    /// Refuses every later write and sync because of this error.
    pub fn lose(&mut self, error: &StoreError) {
        self.fail(error);
        self.lost = true;
    }

    /// Runs `write`, unless an earlier one failed: after that the content of the files is unknown.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failure.is_some() {
            return Err(self.refusal());
        }
        let result = write(self);
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    fn refusal(&self) -> StoreError {
        let first = self.failure.as_deref().unwrap_or_default();
        let what = format!(
            "an earlier write to the block files failed ({first}): restart the program, which \
             checks what was written"
        );
        StoreError::new(&self.directory, what)
    }

    /// Returns the length of the record of a block, which must fit into a file.
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

    /// Returns the position of the next `len` bytes of `lane`, or else of the last file; in a new
    /// file if that one is full or belongs to another lane.
    fn next_block_pos(&mut self, lane: Option<&mut Lane>, len: u32) -> Result<FlatFilePos> {
        // With -fastprune a block may be larger than a file, which then holds only that block.
        let max = self.options.max_file_size().max(len.saturating_add(1));
        let last = Some(self.last_file()).filter(|last| !self.lanes.contains(last));
        let of_lane = lane.as_ref().and_then(|lane| lane.file);
        let size_of = |number: u32| self.infos[number as usize].size;
        let present = match (&lane, of_lane) {
            (None, _) => last,
            (Some(_), None) => last.filter(|last| size_of(*last) == 0),
            (Some(_), Some(number)) => Some(number),
        };
        let number = match present.filter(|number| size_of(*number).saturating_add(len) < max) {
            Some(number) => number,
            None => {
                // Once a file follows it, nothing more is appended to the last file either.
                for full in [of_lane, last].into_iter().flatten() {
                    self.end_file(full)?;
                }
                self.infos.push(FileInfo::default());
                self.last_file()
            }
        };
        if let Some(lane) = lane {
            of_lane.inspect(|before| _ = self.lanes.remove(before));
            self.lanes.insert(number);
            lane.file = Some(number);
        }
        Ok(FlatFilePos { file: number, pos: self.infos[number as usize].size })
    }

    /// Releases the unused space of a file to which no more blocks are appended; that of its rev
    /// file, too, if all of its undo data was written.
    fn end_file(&mut self, number: u32) -> Result<()> {
        let info = self.infos[number as usize];
        self.truncate(Kind::Block, number)?;
        let undo_height = self.undo_heights.remove(&number).unwrap_or_default();
        if info.height_last == undo_height && info.undo_size > 0 {
            self.truncate(Kind::Undo, number)?;
        }
        Ok(())
    }

    /// Reserves space if needed, obfuscates the record and writes it.
    fn put(&mut self, kind: Kind, pos: FlatFilePos, record: &mut [u8]) -> Result<()> {
        self.obfuscation.apply(record, u64::from(pos.pos));
        let chunk = match kind {
            Kind::Block => self.options.chunk_size(),
            Kind::Undo => UNDOFILE_CHUNK_SIZE,
        };
        let kept_free = self.kept_free;
        let file = self.opened(kind, pos.file)?;
        let offset = u64::from(pos.pos);
        if let Some(end) = reservation(pos.pos, record.len() as u32, chunk) {
            check_space(file.path(), end - offset, kept_free)?;
            file.allocate(offset, end - offset)?;
        }
        file.write_all_at(record, offset)?;
        self.unsynced.insert(FlatFile { kind, number: pos.file });
        Ok(())
    }

    /// Releases the unused reserved space of a file. Durable after the next sync.
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

    /// Returns the file, open for appending.
    fn opened(&mut self, kind: Kind, number: u32) -> Result<&File> {
        let id = FlatFile { kind, number };
        let open = match self.open.iter().position(|open| open.id == id) {
            Some(at) => self.open.remove(at),
            None => OpenFile { id, file: self.disk.open(id.path(&self.directory))? },
        };
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(open);
        Ok(&self.open[self.open.len() - 1].file)
    }

    /// Returns the info of a file, to be changed.
    ///
    /// # Errors
    /// The block index does not know the file.
    fn info_mut(&mut self, number: u32) -> Result<&mut FileInfo> {
        let path = Kind::Block.path(&self.directory, number);
        self.dirty.insert(number);
        self.infos.get_mut(number as usize).ok_or_else(|| {
            StoreError::new(
                path,
                "the block index names this file in an entry, but holds no info about it",
            )
        })
    }
}

/// Checks that the disk keeps `kept_free` bytes free once `wanted` bytes are reserved.
fn check_space(path: &Path, wanted: u64, kept_free: u64) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    let FileSystem { free, .. } = FileSystem::of(directory)?;
    let least = wanted.saturating_add(kept_free);
    if free < least {
        let what = format!(
            "disk space is too low: {} MiB free, at least {} MiB needed to continue",
            free >> 20,
            least.div_ceil(1 << 20)
        );
        return Err(StoreError::full(directory, what));
    }
    Ok(())
}
