use std::fs;

use super::*;
use crate::block::{Block, BlockCursor};
use crate::format::{FOOTER_BYTES, Handle, mask, read_footer};

fn data_blocks(table: &[u8]) -> Vec<std::ops::Range<usize>> {
    let range = |handle: Handle| handle.offset as usize..(handle.offset + handle.size) as usize;
    let footer = read_footer(&table[table.len() - FOOTER_BYTES..]).unwrap();
    let mut cursor = BlockCursor::default();
    cursor.reset(Block::open(table, range(footer.index)).unwrap());
    let mut blocks = Vec::new();
    while cursor.advance(table).unwrap() {
        blocks.push(range(Handle::get(&table[cursor.value()], &mut 0).unwrap()));
    }
    blocks
}

/// A merge of tables with changed keys and matching checksums gives an error or a readable
/// database, but no panic, although writing keys out of order panics.
#[test]
fn a_merge_of_keys_out_of_order_does_not_panic() {
    let mut random = Random(12);
    let made = tempfile::tempdir().unwrap();
    let db = open(made.path(), small_options());
    for _ in 0..5 {
        let changes = changes(&mut random, 300, 400);
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
    }
    drop(db);
    let files: Vec<(String, Vec<u8>)> = Disk::new()
        .list(made.path())
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), fs::read(made.path().join(name)).unwrap()))
        .collect();
    let mut refused = 0;
    for _ in 0..300 {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            let mut bytes = bytes.clone();
            if name.ends_with(".ldb") {
                for block in data_blocks(&bytes) {
                    if random.below(8) == 0 {
                        let at = block.start + random.below(block.len() as u64) as usize;
                        bytes[at] = random.next() as u8;
                        let crc = mask(crc32c::crc32c(&bytes[block.start..=block.end]));
                        bytes[block.end + 1..block.end + 5].copy_from_slice(&crc.to_le_bytes());
                    }
                }
            }
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        // With small tables, a merge has many parts.
        let Ok(db) = Db::open(Disk::new(), dir.path(), small_options()) else { continue };
        match db.merge_all() {
            Ok(()) => assert!(db.verify().is_ok(), "the merged entries are in order"),
            Err(error) => {
                assert!(error.path.starts_with(dir.path()), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 30, "{refused} of the databases were refused");
}
