//! Compares our code with the draft's vectors and with the crate `hintsfile`: version 0.2.1, and
//! 0.1.1, in which bit 7 of a byte is first.

use std::io::Cursor;

use apus_testdata::Random;

use super::{Block, RandomBlocks as _, check_file, edge_blocks, file_of};
use crate::hints::elias_fano::{BitOrder, decode, encode};
use crate::hints::*;

fn encoded(unspent: &[u32], order: BitOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(unspent, order, &mut bytes).unwrap();
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
    let what = || format!("{} indices up to {:?}", unspent.len(), unspent.last());
    let mut decoded = vec![9; 3];
    for (order, mut bytes) in reference(unspent) {
        assert!(encoded(unspent, order) == bytes, "{order:?}: {}", what());
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
    let [lsb, msb] = reference_files(blocks);
    assert!(file_of(Format::Hintsfile02, blocks) == lsb);
    assert!(file_of(Format::Hintsfile01, blocks) == msb);
    check_file(&lsb, Format::Hintsfile02, blocks);
    check_file(&msb, Format::Hintsfile01, blocks);
    // The draft's file has one byte more: the code of block 0.
    let head = bip456::HEAD_BYTES;
    assert!(file_of(Format::Bip456, blocks) == [&msb[..head], &[0], &msb[head..]].concat());
    let mut theirs = hintsfile::Hintsfile::from_reader(&mut Cursor::new(&lsb)).unwrap();
    for (height, (unspent, _)) in (1..).zip(blocks) {
        assert!(theirs.take_indices(height).as_ref() == Some(unspent), "block {height}");
    }
}

#[test]
fn the_vectors_of_the_draft() {
    let every = |first: u32, last: u32, step| (first..=last).step_by(step).collect::<Vec<_>>();
    for (unspent, code) in [
        (every(13, 40, 3), "0a288d8d8016ad50"),
        (every(5, 117, 7), "11758d8d8d8d804a4949292524"),
        (every(17, 164, 3), "32a4aaaaaaaaaaaa800094a5294a5294a5294a5294a5294a5290"),
    ] {
        let ours = encoded(&unspent, BitOrder::Msb);
        let hex: String = ours.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, code);
        let file = file_of(Format::Bip456, &[(unspent, 200)]);
        assert_eq!(file[10..], ours);
    }
}

#[test]
fn the_example_of_both_orders() {
    assert_eq!(encoded(&[3, 7, 12], BitOrder::Lsb), [0x03, 0x0c, 0x0f, 0x25]);
    let mut decoded = Vec::new();
    assert_eq!(decode(&[0x03, 0x0c, 0xf0, 0xa4], BitOrder::Msb, &mut decoded), Ok(4));
    assert_eq!(decoded, [3, 7, 12]);
    assert!(decode(&[0x03, 0x0c, 0xf0, 0xa4], BitOrder::Lsb, &mut decoded).is_err());
    assert_eq!(encoded(&[], BitOrder::Msb), [0]);
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
    check_files(&edge_blocks());
    let mut random = Random(4);
    for _ in 0..40 {
        let more = (0..random.below(400)).map(|_| random.any_block(3_000));
        check_files(&[(vec![0], 1)].into_iter().chain(more).collect::<Vec<_>>());
    }
}

const FORMS: [Format; 4] =
    [Format::Bip456, Format::Bip456Lsb, Format::Hintsfile01, Format::Hintsfile02];

fn format_of(file: &[u8]) -> Result<Format, HintsError> {
    open(file.to_vec()).map(|hints| hints.format())
}

#[test]
fn the_form_is_found_by_any_one_block() {
    // Blocks whose bytes are the same in both orders, then one that is not. An empty first block
    // looks like block 0 until the file ends.
    for first in [vec![], vec![0, 1, 3, 4]] {
        let mut same: Vec<Block> = vec![(vec![0, 1, 3, 4], 5); 70];
        same.insert(0, (first, 5));
        for at in [1, 30, 71] {
            let mut blocks = same.clone();
            blocks.insert(at, (vec![3, 7, 12], 13));
            for form in FORMS {
                check_file(&file_of(form, &blocks), form, &blocks);
            }
        }
        // Without it, the order does not matter.
        for (form, found) in
            [(Format::Bip456Lsb, Format::Bip456), (Format::Hintsfile01, Format::Hintsfile02)]
        {
            check_file(&file_of(form, &same), found, &same);
        }
    }
    // One block of each order.
    let two = [(vec![3, 7, 12], 13), (vec![3, 7, 12], 13)];
    let [lsb, msb] = reference_files(&two);
    let at = 9 + 4;
    let mixed = [&lsb[..at], &msb[at..]].concat();
    assert_eq!(format_of(&mixed).unwrap_err().height, Some(2));
    // A block 0 with an unspent output.
    let file = file_of(Format::Hintsfile02, &two);
    let one_less = [&file[..5], &[1], &file[6..]].concat();
    assert!(format_of(&one_less).unwrap_err().what.contains("4 bytes after its end"));
}

#[test]
fn a_file_that_says_two_things_is_refused_unless_the_order_is_known() {
    // Bits 10101001: from the other end, 0, 2, 3 and 4.
    let unsure: Block = (vec![0, 1, 2, 4], 5);
    let even: Block = (vec![0, 1, 3, 4], 5);
    for form in FORMS {
        let blocks = [even.clone(), unsure.clone(), even.clone()];
        let file = file_of(form, &blocks);
        let error = format_of(&file).unwrap_err();
        assert_eq!(error.height, Some(2), "{form:?}");
        assert!(error.what.contains("apus hints compress --bit-order"), "{error}");
        let mut read = Vec::new();
        let mut found = Vec::new();
        for order in [BitOrder::Lsb, BitOrder::Msb] {
            let hints = open_with(file.clone(), Some(order)).unwrap();
            hints.unspent(2, &mut read).unwrap();
            found.push((hints.format() == form, read.clone()));
        }
        found.sort();
        assert_eq!(found, [(false, vec![0, 2, 3, 4]), (true, vec![0, 1, 2, 4])]);
        // Any other block decides, before it or after it.
        for at in [0, 3] {
            let mut blocks = blocks.to_vec();
            blocks.insert(at, (vec![0], 1));
            let file = file_of(form, &blocks);
            check_file(&file, form, &blocks);
            let other = |order| open_with(file.clone(), Some(order)).is_err();
            assert!(other(BitOrder::Lsb) != other(BitOrder::Msb));
        }
    }
}
