//! Blocks, and the coins that they spend, that have arrived and that no thread has taken: in memory
//! and, beyond that, in a file without a name, which is gone with the process.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use apus_chain::BlockId;
use apus_disk::{FileSystem, SpillFile, StoreError};
use apus_host::memory::pressure::Squeeze;
use apus_net::PeerId;
use apus_node::sources::BlockBytes;
use apus_node::space::MIN_DISK_SPACE_BYTES;

/// The most bytes that are written to one file: holes are not freed on each file system, and not by
/// the byte.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A part of a block that peers send by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Block,
    /// The coins that it spends.
    Coins,
}

/// Blocks that have arrived.
pub(super) struct EarlyBlocks {
    blocks: HashMap<(BlockId, Part), (PeerId, EarlyBlock)>,
    memory: u64,
    /// The most bytes that are kept in memory, and how far less while memory is short.
    memory_max: u64,
    squeeze: Arc<Squeeze>,
    file: Arc<SpillFile>,
    path: PathBuf,
    /// The bytes of the disk that the file must leave free, for the coins of the last commit.
    kept_free: u64,
    /// Whether the file could not be written, so that all later blocks stay in memory.
    has_failed: bool,
}

/// Where a block is.
pub(super) enum EarlyBlock {
    Memory(BlockBytes),
    File { file: Arc<SpillFile>, offset: u64, len: usize },
}

impl EarlyBlocks {
    /// Returns no blocks. The file is made next to `path` once it is needed.
    pub fn new(path: PathBuf, memory_max: u64, squeeze: Arc<Squeeze>) -> Self {
        let file = Arc::new(SpillFile::unlinked(&path, ".tmp"));
        Self {
            blocks: HashMap::new(),
            memory: 0,
            memory_max,
            squeeze,
            file,
            path,
            kept_free: MIN_DISK_SPACE_BYTES,
            has_failed: false,
        }
    }

    /// Keeps at least `bytes` of the disk free from now on, and never fewer than Core does.
    pub fn keep_free(&mut self, bytes: u64) {
        self.kept_free = bytes.max(MIN_DISK_SPACE_BYTES);
    }

    /// Drops all blocks, and the file.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.memory = 0;
        self.begin_file();
    }

    /// Drops all coins.
    pub fn drop_coins(&mut self) {
        let is_coins = |(_, part): &&(BlockId, Part)| *part == Part::Coins;
        let coins: Vec<_> = self.blocks.keys().filter(is_coins).copied().collect();
        coins.into_iter().for_each(|part| drop(self.remove(part)));
    }

    /// Begins another file. The one before is gone once its blocks are taken.
    fn begin_file(&mut self) {
        self.file = Arc::new(SpillFile::unlinked(&self.path, ".tmp"));
    }

    /// Returns whether the file could not be written.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns the most bytes of blocks that memory holds now.
    pub fn memory_max(&self) -> u64 {
        self.squeeze.of(self.memory_max as usize) as u64
    }

    /// Returns the file to write a block of `len` bytes to; `None` if memory has room for it or the
    /// disk has none.
    pub fn file_for(&mut self, len: usize) -> Option<Arc<SpillFile>> {
        let is_full = self.memory + len as u64 > self.memory_max();
        if is_full && !self.has_failed && !self.has_room(len) {
            tracing::warn!(
                "too little space to keep blocks that arrive early in {}: they stay in memory",
                self.path.display()
            );
            self.has_failed = true;
        }
        if is_full && self.file.bytes_written() >= FILE_BYTES_MAX {
            self.begin_file();
        }
        (is_full && !self.has_failed).then(|| Arc::clone(&self.file))
    }

    /// Returns whether the disk has room for `n` bytes beside the reserve.
    fn has_room(&self, len: usize) -> bool {
        let directory = self.path.parent().unwrap_or(&self.path);
        let least = self.kept_free.saturating_add(len as u64);
        FileSystem::of(directory).is_ok_and(|disk| disk.free >= least)
    }

    /// Adds a part of a block. `written` says whether the file took it, and at which offset.
    pub fn insert(
        &mut self,
        part: (BlockId, Part),
        from: PeerId,
        bytes: BlockBytes,
        written: Option<(Arc<SpillFile>, Result<u64, StoreError>)>,
    ) {
        let held = match written {
            Some((file, Ok(offset))) => EarlyBlock::File { file, offset, len: bytes.len() },
            None => EarlyBlock::Memory(bytes),
            Some((file, Err(error))) => {
                tracing::warn!(
                    "cannot keep blocks that arrive early in {}: {error}",
                    file.path().display()
                );
                self.has_failed = true;
                EarlyBlock::Memory(bytes)
            }
        };
        if let EarlyBlock::Memory(bytes) = &held {
            self.memory += bytes.len() as u64;
        }
        if let Some((_, replaced)) = self.blocks.insert(part, (from, held)) {
            self.forget(&replaced);
        }
    }

    /// Takes a part of a block.
    pub fn remove(&mut self, part: (BlockId, Part)) -> Option<(PeerId, EarlyBlock)> {
        let (from, held) = self.blocks.remove(&part)?;
        self.forget(&held);
        Some((from, held))
    }

    /// Returns whether a part of a block is here.
    pub fn has(&self, part: (BlockId, Part)) -> bool {
        self.blocks.contains_key(&part)
    }

    /// Takes any block.
    pub fn pop(&mut self) -> Option<(BlockId, PeerId, EarlyBlock)> {
        let (id, part) = *self.blocks.keys().find(|(_, part)| *part == Part::Block)?;
        self.remove((id, part)).map(|(from, held)| (id, from, held))
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn forget(&mut self, held: &EarlyBlock) {
        if let EarlyBlock::Memory(bytes) = held {
            self.memory -= bytes.len() as u64;
        }
    }
}

impl EarlyBlock {
    /// Returns the bytes of the block, and frees their place in the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(self) -> Result<BlockBytes, StoreError> {
        match self {
            Self::Memory(bytes) => Ok(bytes),
            Self::File { file, offset, len } => {
                let mut bytes = Vec::with_capacity(len);
                file.read(offset, len, &mut bytes)?;
                // Space that the file system cannot free is freed at the end.
                let _ = file.punch_hole(offset, len as u64);
                Ok(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apus_chain::Tree;
    use apus_wire::{Chain, Network};

    use super::*;

    /// Returns the id of a genesis block, as a tree gives it.
    fn id() -> BlockId {
        Tree::new(Network::new(Chain::Regtest)).genesis()
    }

    fn add(blocks: &mut EarlyBlocks, bytes: Vec<u8>) {
        let file = blocks.file_for(bytes.len());
        let written = file.map(|file| (Arc::clone(&file), file.append(&bytes)));
        blocks.insert((id(), Part::Block), PeerId(1), bytes, written);
    }

    #[test]
    fn what_memory_has_no_room_for_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut blocks = EarlyBlocks::new(dir.path().join("early"), 10, Arc::default());
        add(&mut blocks, vec![1; 8]);
        let (_, held) = blocks.remove((id(), Part::Block)).unwrap();
        assert!(matches!(held, EarlyBlock::Memory(_)));
        add(&mut blocks, vec![2; 11]);
        let (_, held) = blocks.remove((id(), Part::Block)).unwrap();
        assert!(matches!(held, EarlyBlock::File { .. }));
        assert_eq!(held.read().unwrap(), [2; 11]);
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "it has no name");
        // The same block again replaces the first.
        add(&mut blocks, vec![3; 9]);
        add(&mut blocks, vec![4; 9]);
        assert_eq!(blocks.pop().unwrap().2.read().unwrap(), [4; 9]);
        assert!(blocks.pop().is_none() && blocks.memory == 0);
    }

    /// The coins of the last commit must find their room.
    #[test]
    fn space_that_is_kept_free_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let mut blocks = EarlyBlocks::new(dir.path().join("early"), 10, Arc::default());
        let free = FileSystem::of(dir.path()).unwrap().free;
        blocks.keep_free(free / 2);
        assert!(blocks.file_for(11).is_some());
        blocks.keep_free(free.saturating_mul(2));
        assert!(blocks.file_for(9).is_none() && !blocks.has_failed(), "memory has room");
        add(&mut blocks, vec![1; 11]);
        assert!(blocks.has_failed());
        assert!(matches!(blocks.remove((id(), Part::Block)).unwrap().1, EarlyBlock::Memory(_)));
    }

    #[test]
    fn coins_count_like_blocks_and_are_not_taken_for_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut blocks = EarlyBlocks::new(dir.path().join("early"), 10, Arc::default());
        add(&mut blocks, vec![1; 6]);
        blocks.insert((id(), Part::Coins), PeerId(2), vec![2; 4], None);
        assert!(blocks.file_for(1).is_some(), "memory is full");
        assert_eq!(blocks.pop().unwrap().2.read().unwrap(), [1; 6]);
        assert!(blocks.pop().is_none() && blocks.has((id(), Part::Coins)));
        blocks.drop_coins();
        assert!(blocks.is_empty() && blocks.memory == 0);
    }

    #[test]
    fn where_no_file_can_be_written_blocks_stay_in_memory() {
        let mut blocks = EarlyBlocks::new(PathBuf::from("/proc/none/early"), 10, Arc::default());
        add(&mut blocks, vec![1; 20]);
        assert!(blocks.has_failed());
        assert_eq!(blocks.pop().unwrap().2.read().unwrap(), [1; 20]);
        assert!(blocks.file_for(20).is_none(), "it is not tried again");
    }
}
