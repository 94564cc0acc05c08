//! Compares our code with the crate `hintsfile`: version 0.2.1, and 0.1.1, in which bit 7 of a byte
//! is first.

use std::io::Cursor;

use apus_testdata::Random;

use super::{Block, RandomBlocks as _, check_file, edge_blocks, file_of};
use crate::hints::elias_fano::{BitOrder, decode, encode};
use crate::hints::*;

fn encoded(unspent: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(unspent, &mut bytes).unwrap();
    bytes
}

/// Returns the crate's code of the indices, in both orders.
fn reference(unspent: &[u32]) -> [(BitOrder, Vec<u8>); 2] {
    let mut lsb = Vec::new();
    let mut msb = Vec::new();
    hintsfile::EliasFano::compress(unspent).write(&mut lsb).unwrap();
    hintsfile_msb::EliasFano::compress(unspent).write(&mut msb).unwrap();
    [(BitOrder::Lsb, lsb), (BitOrder::Msb, msb)]
}

fn check_block_both_ways(unspent: &[u32]) {
    let ours = encoded(unspent);
    let what = || format!("{} indices up to {:?}", unspent.len(), unspent.last());
    let theirs = hintsfile::EliasFano::from_reader(&mut Cursor::new(&ours)).unwrap();
    assert!(theirs.decompress() == unspent, "theirs of ours: {}", what());
    let mut decoded = vec![9; 3];
    for (order, mut bytes) in reference(unspent) {
        assert!(order == BitOrder::Msb || bytes == ours, "{}", what());
        let length = bytes.len();
        // Bytes after the code do not matter.
        bytes.extend([0xff; 3]);
        assert_eq!(decode(&bytes, order, &mut decoded), Ok(length), "{order:?}: {}", what());
        assert!(decoded == unspent, "{order:?}: {}", what());
        decoded.push(1);
    }
}

/// Returns the files that both versions of the crate write.
fn reference_files(blocks: &[Block]) -> [Vec<u8>; 2] {
    let mut lsb = Vec::new();
    let mut msb = Vec::new();
    let height = blocks.len() as u32;
    let mut builder = hintsfile::HintsfileBuilder::new(&mut lsb).initialize(height).unwrap();
    for (unspent, _) in blocks {
        builder.append(hintsfile::EliasFano::compress(unspent)).unwrap();
    }
    builder.finish().unwrap();
    let mut builder = hintsfile_msb::HintsfileBuilder::new(&mut msb).initialize(height).unwrap();
    for (unspent, _) in blocks {
        builder.append(hintsfile_msb::EliasFano::compress(unspent)).unwrap();
    }
    builder.finish().unwrap();
    [lsb, msb]
}

fn check_files(blocks: &[Block]) {
    let ours = file_of(Format::Bip456, blocks);
    let [lsb, msb] = reference_files(blocks);
    assert!(ours == lsb);
    check_file(&lsb, Format::Bip456, blocks);
    check_file(&msb, Format::Bip456, blocks);
    let mut theirs = hintsfile::Hintsfile::from_reader(&mut Cursor::new(&ours)).unwrap();
    for (height, (unspent, _)) in (1..).zip(blocks) {
        assert!(theirs.take_indices(height).as_ref() == Some(unspent), "block {height}");
    }
}

#[test]
fn the_example_of_both_orders() {
    assert_eq!(encoded(&[3, 7, 12]), [0x03, 0x0c, 0x0f, 0x25]);
    let mut decoded = Vec::new();
    assert_eq!(decode(&[0x03, 0x0c, 0xf0, 0xa4], BitOrder::Msb, &mut decoded), Ok(4));
    assert_eq!(decoded, [3, 7, 12]);
    assert!(decode(&[0x03, 0x0c, 0xf0, 0xa4], BitOrder::Lsb, &mut decoded).is_err());
    assert_eq!(encoded(&[]), [0]);
    assert_eq!(decode(&[0], BitOrder::Lsb, &mut decoded), Ok(1));
    assert!(decoded.is_empty());
}

#[test]
fn codes_are_the_crates_and_read_by_it() {
    for (unspent, _) in edge_blocks() {
        check_block_both_ways(&unspent);
    }
    for last in (0..OUTPUTS_MAX).step_by(997).chain([OUTPUTS_MAX - 1]) {
        check_block_both_ways(&[last]);
        check_block_both_ways(&[0, last + 1].map(|index| index.min(OUTPUTS_MAX - 1)));
    }
    check_block_both_ways(&(0..OUTPUTS_MAX).collect::<Vec<_>>());
    let mut random = Random(3);
    for _ in 0..3_000 {
        check_block_both_ways(&random.any_block(3_000).0);
    }
    for _ in 0..60 {
        check_block_both_ways(&random.any_block(70_000).0);
    }
    // Every number of low bits, with every number of indices left over from groups of eight.
    for low_bits in 0..=16 {
        for count in 1..=24u32 {
            let last = ((count << low_bits) + (count - 1)).min(OUTPUTS_MAX - 1);
            let mut unspent: Vec<_> =
                (1..count).map(|_| random.below(u64::from(last)) as u32).collect();
            unspent.push(last);
            unspent.sort_unstable();
            unspent.dedup();
            check_block_both_ways(&unspent);
        }
    }
}

#[test]
fn files_are_the_crates_and_read_by_it() {
    check_files(&[]);
    check_files(&edge_blocks());
    let mut random = Random(4);
    for _ in 0..40 {
        let blocks: Vec<_> = (0..random.below(400)).map(|_| random.any_block(3_000)).collect();
        check_files(&blocks);
    }
}

#[test]
fn the_bit_order_is_found_by_any_one_block() {
    // Blocks whose bytes are the same in both orders, then one that is not.
    let same: Vec<Block> = (0..70).map(|_| (vec![0, 1, 3, 4], 5)).collect();
    let order = |file: &Vec<u8>| Bip456::open(file).map(|hints| hints.bit_order());
    let [lsb, msb] = reference_files(&same);
    assert_eq!((order(&lsb), order(&msb)), (Ok(BitOrder::Lsb), Ok(BitOrder::Lsb)));
    check_file(&msb, Format::Bip456, &same);
    for at in [0, 30, 70] {
        let mut blocks = same.clone();
        blocks.insert(at, (vec![3, 7, 12], 13));
        let [lsb, msb] = reference_files(&blocks);
        assert_eq!((order(&lsb), order(&msb)), (Ok(BitOrder::Lsb), Ok(BitOrder::Msb)));
        check_file(&lsb, Format::Bip456, &blocks);
        check_file(&msb, Format::Bip456, &blocks);
    }
    // One block of each order.
    let two = [(vec![3, 7, 12], 13), (vec![3, 7, 12], 13)];
    let [lsb, msb] = reference_files(&two);
    let at = 9 + 4;
    let mixed = [&lsb[..at], &msb[at..]].concat();
    assert_eq!(order(&mixed).unwrap_err().height, Some(2));
}
