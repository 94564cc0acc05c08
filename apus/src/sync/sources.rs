use std::collections::HashMap;

use super::outcome::Refusal;
use crate::chain::BlockId;
use crate::store::{BlockSource, FlatFilePos, SourceFile};

/// Bytes of a block that travels between threads.
pub(crate) type BlockBytes = Vec<u8>;

/// Where a block's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the data directory's own block files.
    Stored(FlatFilePos),
    /// In a source.
    Source(SourcePlace),
}

/// A block in a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SourcePlace {
    /// Index of the file among all files of all sources.
    pub file: u32,
    /// Where the block starts in it.
    pub offset: u64,
    /// Length of the block.
    pub len: u32,
}

/// The files that blocks are taken from, and which block is where.
#[derive(Default)]
pub(super) struct Sources {
    files: Vec<SourceFile>,
    /// By block, every copy found.
    places: Vec<Vec<SourcePlace>>,
    /// By index of a block that is stored without undo data, every copy found: undo data may lie
    /// beside it.
    beside: HashMap<usize, Vec<SourcePlace>>,
    /// Copies of blocks that are stored with undo data, in the order found: asked for only when a
    /// stored block turns out damaged, so they lie as close as they can, in 24 bytes each.
    spare: Vec<(BlockId, SourcePlace)>,
}

impl Sources {
    /// Adds the files of a source; the index of the first.
    pub fn add(&mut self, source: &BlockSource) -> u32 {
        let first = self.files.len() as u32;
        self.files.extend_from_slice(source.files());
        first
    }

    /// The files of all sources, in the order of [`SourcePlace::file`].
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Notes a copy of a block.
    pub fn note(&mut self, id: BlockId, place: SourcePlace) {
        if self.places.len() <= id.index() {
            self.places.resize_with(id.index() + 1, Vec::new);
        }
        self.places[id.index()].push(place);
    }

    /// Notes a copy of a block that is stored, without its undo data.
    pub fn note_stored(&mut self, id: BlockId, place: SourcePlace) {
        self.beside.entry(id.index()).or_default().push(place);
    }

    /// Notes a copy of a block that is stored with its undo data.
    pub fn note_spare(&mut self, id: BlockId, place: SourcePlace) {
        self.spare.push((id, place));
    }

    /// Every copy of a block that is not known to be bad, whether or not the block is stored. Looks
    /// at everything noted of stored blocks.
    pub fn all_copies(&self, id: BlockId) -> Vec<SourcePlace> {
        let spare = self.spare.iter().filter(|(of, _)| *of == id).map(|(_, place)| *place);
        self.copies(id).chain(spare).collect()
    }

    /// Every copy beside which a block's undo data may lie.
    pub fn copies(&self, id: BlockId) -> impl Iterator<Item = SourcePlace> + '_ {
        let places = self.places.get(id.index()).into_iter();
        places.chain(self.beside.get(&id.index())).flatten().copied()
    }

    /// The first good copy of a block.
    pub fn place(&self, id: BlockId) -> Option<SourcePlace> {
        self.places.get(id.index())?.first().copied()
    }

    /// Forgets a copy that turned out bad; the next one, if there is one.
    pub fn forget(&mut self, id: BlockId, place: SourcePlace) -> Option<SourcePlace> {
        if let Some(places) = self.places.get_mut(id.index()) {
            places.retain(|known| *known != place);
        }
        self.place(id)
    }

    /// Those of `ids` that have a good copy, in the order of their first ones.
    pub fn in_order(&self, ids: impl Iterator<Item = BlockId>) -> Vec<BlockId> {
        let mut order: Vec<_> = ids.filter_map(|id| Some((self.place(id)?, id))).collect();
        order.sort_unstable_by_key(|(place, _)| (place.file, place.offset));
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// The bytes at a place.
    pub fn read(&self, place: SourcePlace) -> Result<BlockBytes, crate::disk::StoreError> {
        self.files[place.file as usize].read(place.offset, place.len)
    }

    /// Says that what is at a place was not taken.
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
