//! Undo data that is replaced in a directory's own rev files, and undo data as old versions of
//! Bitcoin Core wrote it.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use apus_coins::Coin;
use apus_store::Obfuscation;
use apus_wire::{put_compact_size, varint_len};
use bitcoin::Txid;

use super::Place;
use super::swift::{World, frame_undo};

/// Undo data without the heights of some coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OldUndo {
    /// Only the last output of a transaction to be spent has its height, as Bitcoin Core before
    /// 0.15 wrote it.
    LastOnly,
    /// No coin has its height.
    Nothing,
}

/// Returns the undo data of each block from height 1 on in an old form.
pub fn old_undo(world: &World, form: OldUndo) -> Vec<(u32, Vec<u8>)> {
    let mut unspent: HashMap<Txid, usize> = HashMap::new();
    let mut records = Vec::new();
    for (height, bytes) in (0u32..).zip(&world.blocks).skip(1) {
        let block: bitcoin::Block = bitcoin::consensus::deserialize(bytes).unwrap();
        let spent = &world.model.blocks[height as usize].undo;
        let mut record = Vec::new();
        put_compact_size(&mut record, spent.len() as u64);
        for (index, tx) in block.txdata.iter().enumerate() {
            if let Some(coins) = index.checked_sub(1).map(|index| &spent[index]) {
                put_compact_size(&mut record, coins.len() as u64);
                for (input, coin) in tx.input.iter().zip(coins) {
                    let left = unspent.get_mut(&input.previous_output.txid).unwrap();
                    *left -= 1;
                    put_old_coin(&mut record, coin, *left == 0 && form == OldUndo::LastOnly);
                }
            }
            let scripts = tx.output.iter().map(|output| output.script_pubkey.as_bytes());
            let coins = scripts.filter(|script| script.first() != Some(&0x6a));
            unspent.insert(tx.compute_txid(), coins.count());
        }
        records.push((height, record));
    }
    records
}

/// Appends a coin with the version of its transaction, as old versions wrote it, or without height.
fn put_old_coin(record: &mut Vec<u8>, coin: &Coin, has_height: bool) {
    let start = record.len();
    if has_height {
        coin.encode_undo(record);
        let code = u64::from(coin.height) << 1 | u64::from(coin.is_coinbase);
        record[start + varint_len(code)] = 1;
    } else {
        Coin { height: 0, is_coinbase: false, ..coin.clone() }.encode_undo(record);
    }
}

/// Replaces undo data in the directory's own rev file by other data, which must not be longer, with
/// the right checksum.
pub fn overwrite_undo(place: &Place, world: &World, height: u32, payload: &[u8]) {
    overwrite_record(place, world, height, payload, |_| {});
}

/// Does the same as [`overwrite_undo`], with a change to the whole record.
pub fn overwrite_record(
    place: &Place,
    world: &World,
    height: u32,
    payload: &[u8],
    change: impl FnOnce(&mut Vec<u8>),
) {
    let (index, files) = place.blocks();
    let hash = world.hash(height);
    let entry = index.entries.iter().find(|entry| entry.hash == hash).unwrap();
    let pos = entry.undo_pos().unwrap();
    let before = files.read_undo(pos, &entry.header.prev).map_or(usize::MAX, |undo| undo.len());
    assert!(payload.len() <= before, "it would overwrite the next record");
    let blocks = place.network_dir().join("blocks");
    let key: [u8; 8] = std::fs::read(blocks.join("xor.dat")).unwrap().try_into().unwrap();
    let mut record = frame_undo(&place.network.magic, &entry.header.prev, payload);
    change(&mut record);
    let at = u64::from(pos.pos) - 8;
    Obfuscation::new(key).apply(&mut record, at);
    let path = files.undo_path(pos.file);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&record, at).unwrap();
}

/// Rewrites the undo data of blocks in the directory's own rev file in an old form.
pub fn make_old(place: &Place, world: &World, form: OldUndo, heights: Range<u32>) {
    for (height, record) in old_undo(world, form) {
        if heights.contains(&height) && record.len() > 1 {
            overwrite_undo(place, world, height, &record);
        }
    }
}
