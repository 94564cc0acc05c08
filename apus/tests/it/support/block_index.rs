use std::collections::{BTreeMap, BTreeSet};

use apus_disk::Disk;
use apus_hash::Hash;
use apus_store::{BlockStatus, DataDir, DataDirOptions};

use super::Place;
use super::swift::Indexed;

/// What a check of the block index finds in it.
#[derive(PartialEq, Eq, Debug)]
pub struct CheckedIndex {
    /// The lowest height from which every block is stored.
    pub from: u32,
    /// The numbers of the blk files that the index names.
    pub files: BTreeSet<u32>,
    pub blocks: BTreeMap<Hash, Indexed>,
}

/// Panics unless the block index is consistent, as Core's `CheckBlockIndex` demands, and every
/// block and all undo data that it names can be read and lie where the infos of files say that
/// there is something.
#[track_caller]
pub fn check_block_index(place: &Place) -> CheckedIndex {
    let options = DataDirOptions { read_only: true, prune: true, ..DataDirOptions::default() };
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, options).unwrap();
    let (_, index, blocks) = dir.open_blocks().unwrap();
    let by_hash: BTreeMap<Hash, _> = index.entries.iter().map(|e| (e.hash, e)).collect();
    let infos = blocks.infos();
    let mut from = 1;
    for entry in &index.entries {
        let status = entry.record.status;
        let height = entry.height;
        let level = status.0 & BlockStatus::BLOCK_VALID_MASK;
        let data = entry.block_pos();
        let undo = entry.undo_pos();
        assert!(level >= BlockStatus::BLOCK_VALID_TREE, "{height}");
        assert!(data.is_some() || undo.is_none(), "{height}: undo data without its block");
        let is_known = level >= BlockStatus::BLOCK_VALID_TRANSACTIONS;
        assert_eq!(entry.record.tx_count > 0, is_known, "{height}");
        assert!(data.is_none() || entry.record.tx_count > 0, "{height}");
        assert!(index.pruned || data.is_some() == (entry.record.tx_count > 0), "{height}");
        if let Some(parent) = by_hash.get(&entry.header.prev) {
            let of_parent = parent.record.status;
            assert_eq!(height, parent.height + 1);
            assert!(status.is_failed() || !of_parent.is_failed(), "{height}: of a failed parent");
            let parents = of_parent.0 & BlockStatus::BLOCK_VALID_MASK;
            let is_below = level < BlockStatus::BLOCK_VALID_CHAIN || parents >= level;
            assert!(is_below || parent.height == 0, "{height}: level {level} after {parents}");
        } else {
            assert_eq!(height, 0, "its parent is not in the index");
        }
        match data {
            Some(pos) => {
                let info = infos[pos.file as usize];
                let block = blocks.read_block(pos).unwrap();
                assert!(pos.pos as usize + block.len() <= info.size as usize, "{height}");
                assert!((info.height_first..=info.height_last).contains(&height), "{height}");
            }
            None => from = from.max(height + 1),
        }
        if let Some(pos) = undo {
            let undo = blocks.read_undo(pos, &entry.header.prev).unwrap();
            let end = pos.pos as usize + undo.len() + 32;
            assert!(end <= infos[pos.file as usize].undo_size as usize, "{height}");
        }
    }
    let files = index.entries.iter().filter_map(|entry| entry.block_pos()).map(|pos| pos.file);
    let blocks = index.entries.iter().map(|e| {
        let record = e.record;
        (e.hash, (e.height, record.status, record.tx_count))
    });
    CheckedIndex { from, files: files.collect(), blocks: blocks.collect() }
}
