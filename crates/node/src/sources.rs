//! The files given with --from, and where each block is in them.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apus_chain::BlockId;
use apus_disk::{FileVec, StoreError};
use apus_hash::Hash;
use apus_store::{BlockSource, FlatFilePos, SourceFile};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use apus_progress::outcome::Refusal;

/// The bytes of a block, which are passed between threads.
pub type BlockBytes = Vec<u8>;

/// Where a block's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockOrigin {
    /// In the data directory's own block files.
    Stored(FlatFilePos),
    /// In a source: a file given with --from.
    Source(SourcePlace),
    /// With peers, which send it on request.
    Peers,
}

/// A block in a source. Packed, since there is one for each block of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed(4))]
pub struct SourcePlace {
    /// Index of the file among all files of all sources.
    pub file: u32,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub len: u32,
}

impl SourcePlace {
    /// No place: no block is without bytes.
    const NONE: Self = Self { file: 0, offset: 0, len: 0 };
}

/// A directory whose blocks build on an unknown block: that of a pruned node, or one that has lost
/// files.
#[derive(Clone, Debug)]
pub struct Gap {
    /// The directory that the user named.
    pub path: PathBuf,
    /// The hash of the first of these blocks.
    pub first: Hash,
    /// The height that this block states in its coinbase, if it does.
    pub height: Option<u32>,
    /// The gap before the file with this block, if that is known.
    pub lost: Option<String>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no blocks below ", self.path.display())?;
        match self.height {
            Some(height) => write!(f, "height {height}")?,
            None => write!(f, "block {}", self.first)?,
        }
        self.lost.iter().try_for_each(|lost| write!(f, ": {lost}"))
    }
}

/// The files given with --from, and where each block is in them.
#[derive(Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    /// Where the last frame found in each file ends.
    ends: Vec<u64>,
    /// The first copy found of each block that is not stored, by [`BlockId::index`];
    /// [`SourcePlace::NONE`] if there is none.
    places: FileVec<SourcePlace>,
    /// The further copies of blocks that have several, by [`BlockId::index`].
    further: HashMap<usize, Vec<SourcePlace>>,
    /// The copies found of each block that is stored without undo data, by [`BlockId::index`]: the
    /// rev file next to one of them may have the undo data.
    stored: HashMap<usize, Vec<SourcePlace>>,
    /// The copies found of blocks that are stored with undo data, in the order found. They are
    /// needed only if a stored block turns out to be damaged, and so are packed: 24 bytes each.
    spare: Vec<(BlockId, SourcePlace)>,
    /// The directory with the longest branch of blocks that build on an unknown block, if there is
    /// one.
    pub gap: Option<Gap>,
    /// The latest time of a block that was refused since this computer's clock is further behind it
    /// than the rules allow.
    pub from_future: Option<u32>,
}

impl Sources {
    /// Keeps the places of blocks in a file in `directory` that has no name, if it can be made
    /// there, so that the system can take their memory.
    pub fn keep_in_file(&mut self, directory: &Arc<Path>) {
        self.places.keep_in_file(directory);
    }

    /// Adds the files of a source, and returns the index of the first.
    pub fn add(&mut self, source: &BlockSource) -> u32 {
        let first = self.files.len() as u32;
        self.files.extend_from_slice(source.files());
        self.ends.resize(self.files.len(), 0);
        first
    }

    /// Returns the files of all sources, in the order of [`SourcePlace::file`].
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Notes that a file has a frame, of any block, at this place.
    pub fn note_end(&mut self, place: SourcePlace) {
        let end = &mut self.ends[place.file as usize];
        *end = (*end).max(place.offset + u64::from(place.len));
    }

    /// Returns where the last frame found in each file ends, in the order of [`SourcePlace::file`];
    /// 0 if the file has none.
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// Notes a copy of a block that is not stored.
    pub fn note(&mut self, id: BlockId, place: SourcePlace) {
        while self.places.len() <= id.index() {
            self.places.push(SourcePlace::NONE);
        }
        let first = &mut self.places[id.index()];
        if *first == SourcePlace::NONE {
            *first = place
        } else {
            self.further.entry(id.index()).or_default().push(place)
        }
    }

    /// Notes a copy of a block that is stored without its undo data.
    pub fn note_stored(&mut self, id: BlockId, place: SourcePlace) {
        self.stored.entry(id.index()).or_default().push(place);
    }

    /// Notes a copy of a block that is stored with its undo data.
    pub fn note_spare(&mut self, id: BlockId, place: SourcePlace) {
        self.spare.push((id, place));
    }

    /// Returns every copy of a block that is not known to be bad, whether or not the block is
    /// stored. Walks the list of all spare copies.
    pub fn all_copies(&self, id: BlockId) -> Vec<SourcePlace> {
        let spare = self.spare.iter().filter(|(of, _)| *of == id).map(|(_, place)| *place);
        self.copies(id).chain(spare).collect()
    }

    /// Returns the copies of a block that is not stored with undo data; the rev file next to one of
    /// them may have the undo data.
    pub fn copies(&self, id: BlockId) -> impl Iterator<Item = SourcePlace> + '_ {
        let others = [&self.further, &self.stored].map(|copies| copies.get(&id.index()));
        self.place(id).into_iter().chain(others.into_iter().flatten().flatten().copied())
    }

    /// Returns the first copy of a block that is not stored.
    pub fn place(&self, id: BlockId) -> Option<SourcePlace> {
        self.places.get(id.index()).filter(|place| **place != SourcePlace::NONE).copied()
    }

    /// Forgets a copy that turned out bad, and returns the next one if there is one.
    pub fn forget(&mut self, id: BlockId, place: SourcePlace) -> Option<SourcePlace> {
        let mut further = self.further.remove(&id.index()).unwrap_or_default();
        further.retain(|known| *known != place);
        if let Some(first) = self.places.get_mut(id.index()).filter(|first| **first == place) {
            *first = SourcePlace::NONE;
            if !further.is_empty() {
                *first = further.remove(0);
            }
        }
        if !further.is_empty() {
            self.further.insert(id.index(), further);
        }
        self.place(id)
    }

    /// Returns the blocks of `ids` that have a copy, in the order of their first copies.
    pub fn in_order(&self, ids: impl Iterator<Item = BlockId>) -> Vec<BlockId> {
        let mut order: Vec<_> = ids.filter_map(|id| Some((self.place(id)?, id))).collect();
        order.sort_unstable_by_key(|(place, _)| (place.file, place.offset));
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// Reads the bytes at a place.
    pub fn read(&self, place: SourcePlace) -> Result<BlockBytes, StoreError> {
        self.files[place.file as usize].read(place.offset, place.len)
    }

    pub fn refusal(&self, place: SourcePlace, reason: impl Into<String>) -> Refusal {
        let file = &self.files[place.file as usize];
        Refusal {
            path: Some(file.path.to_path_buf()),
            offset: Some(place.offset),
            block: None,
            reason: reason.into(),
        }
    }
}
