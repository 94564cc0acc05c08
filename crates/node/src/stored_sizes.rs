//! The sizes of stored blocks, from the block index: each block ends where the next one begins.

use apus_chain::BlockId;
use apus_store::{FileInfo, FlatFilePos, IndexRecord, MAX_BLOCK_BYTES, STORAGE_HEADER_BYTES};

/// The sizes of stored blocks.
#[derive(Default)]
pub struct StoredSizes {
    /// The sizes in bytes, by [`BlockId::index`]; 0 if the size is not known.
    bytes: Vec<u32>,
}

impl StoredSizes {
    /// Returns the sizes of the blocks in these records; `infos` say where the files end.
    pub fn of(records: &[IndexRecord], infos: &[FileInfo]) -> Self {
        let places = records.iter().enumerate();
        let places = places.filter_map(|(index, record)| Some((record.block_pos()?, index as u32)));
        let mut places: Vec<(FlatFilePos, u32)> = places.collect();
        places.sort_unstable();
        let mut bytes = vec![0; records.len()];
        for (at, (place, index)) in places.iter().enumerate() {
            let next = places.get(at + 1).filter(|(next, _)| next.file == place.file);
            let end = match next {
                Some((next, _)) => next.pos.saturating_sub(STORAGE_HEADER_BYTES),
                None => infos.get(place.file as usize).map_or(0, |info| info.size),
            };
            // A block cannot be as large: something else lies in between.
            let len = end.checked_sub(place.pos).filter(|len| *len <= MAX_BLOCK_BYTES);
            // Magic and length come before each block.
            let is_place = place.pos >= STORAGE_HEADER_BYTES;
            bytes[*index as usize] = len.filter(|_| is_place).unwrap_or(0);
        }
        Self { bytes }
    }

    /// Returns the size in bytes of a stored block; `None` if it is not known.
    pub fn get(&self, id: BlockId) -> Option<u64> {
        self.bytes.get(id.index()).filter(|bytes| **bytes > 0).map(|bytes| u64::from(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use apus_store::BlockStatus;

    use super::*;

    #[test]
    fn a_block_ends_where_the_next_one_or_its_file_ends() {
        let stored = |file, data_pos| {
            let status = BlockStatus(BlockStatus::BLOCK_HAVE_DATA);
            IndexRecord { file, data_pos, status, ..IndexRecord::default() }
        };
        let missing = IndexRecord::default();
        let far = 308 + 8 + MAX_BLOCK_BYTES + 1;
        // Blocks of two files, out of order, one that is not stored, and a gap that is no block.
        let records = [stored(0, 308), missing, stored(0, 8), stored(1, 8), stored(0, far)];
        let info = |size| FileInfo { size, ..FileInfo::default() };
        let sizes = StoredSizes::of(&records, &[info(far + 50), info(1_008)]);
        assert_eq!(sizes.bytes, [0, 0, 292, 1_000, 50]);
        assert_eq!(StoredSizes::of(&records[3..4], &[]).bytes, [0]);
    }
}
