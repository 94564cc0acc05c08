//! btcd's files: vectors of its tests, gzip files of another program, and damaged ones.

use miniz_oxide::deflate::compress_to_vec;

use super::{Block, RandomBlocks as _, check_file, edge_blocks, file_of};
use crate::hints::{Format, HintsError, open};
use apus_testdata::Random;

/// The blocks of btcd's `TestDecodeHintsBlock` that a chain can have.
fn vectors() -> (Vec<Block>, Vec<u8>) {
    let unspent =
        [vec![], vec![0, 1, 2, 3], (13..=40).step_by(3).collect(), vec![300], vec![5, 500]];
    let blocks: Vec<Block> = unspent.into_iter().map(|unspent| (unspent, 501)).collect();
    let mut file = b"UTXO\x01\x05\0\0\0".to_vec();
    file.extend([0, 4, 0, 0, 0, 0, 10, 13, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    file.extend([3, 0xfd, 0x2c, 1, 4, 5, 0xfd, 0xee, 1]);
    (blocks, file)
}

/// The vectors, compressed by Python's `gzip` with a name in the head.
const OF_PYTHON: &str = "1f8b08080000000002ff737368696e74732e646174000b0d89f0676465000216\
                         10c1c5cb0403cc7f75185958ffbe6304006e973e4f23000000";

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The CRC-32 of gzip, a bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 * (crc & 1)))
    })
}

/// Returns a gzip file of these bytes, with the optional fields that `flags` ask for.
fn gzip(bytes: &[u8], flags: u8) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255];
    for (flag, field) in [(4, &[3, 0, 0, 7, 7][..]), (8, b"name\0"), (16, b"\0"), (2, &[9, 9])] {
        file.extend(if flags & flag != 0 { field } else { &[] });
    }
    file.extend(compress_to_vec(bytes, 6));
    file.extend(crc32(bytes).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

fn refusal(file: Vec<u8>) -> (Option<u32>, String) {
    let HintsError { height, what } = open(file).err().expect("it was opened");
    (height, what)
}

#[test]
fn the_vectors_are_read_packed_and_unpacked() {
    let (blocks, file) = vectors();
    assert_eq!(file_of(Format::Btcd, &blocks), file);
    check_file(&file, Format::Btcd, &blocks);
    check_file(&bytes_of(OF_PYTHON), Format::Btcd, &blocks);
    for flags in 0..32 {
        check_file(&gzip(&file, flags), Format::Btcd, &blocks);
    }
}

#[test]
fn any_blocks_come_back_from_a_gzip_file() {
    let mut random = Random(8);
    for _ in 0..20 {
        let blocks: Vec<_> = (0..random.below(300)).map(|_| random.any_block(5_000)).collect();
        check_file(&gzip(&file_of(Format::Btcd, &blocks), 0), Format::Btcd, &blocks);
    }
    check_file(&gzip(&file_of(Format::Btcd, &edge_blocks()), 0), Format::Btcd, &edge_blocks());
}

#[test]
fn a_damaged_gzip_file_is_refused() {
    let good = bytes_of(OF_PYTHON);
    for len in 2..good.len() {
        let (_, what) = refusal(good[..len].to_vec());
        let is_named = ["damaged", "ends inside"].iter().any(|word| what.contains(word));
        assert!(is_named, "{len} bytes: {what}");
    }
    // Name and time may be anything, and some bits have no meaning.
    let (blocks, _) = vectors();
    let mut accepted = 0;
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut file = good.clone();
            file[at] ^= 1 << bit;
            if open(file.clone()).is_ok() {
                check_file(&file, Format::Btcd, &blocks);
                accepted += usize::from(!(4..21).contains(&at));
            }
        }
    }
    assert!(accepted < 8, "{accepted} bits");
    let longer = [&good[..], &[0]].concat();
    assert!(refusal(longer).1.contains("bytes after its end"));
    assert!(refusal([&good[..], &good].concat()).1.contains("bytes after its end"));
}

#[test]
fn each_refusal_says_why() {
    let file = |height: u8, rest: &[u8]| [&b"UTXO\x01"[..], &[height, 0, 0, 0], rest].concat();
    for (unpacked, height, words) in [
        (b"UTXO\x01".to_vec(), None, "ends inside its head"),
        (file(2, &[0]), Some(2), "ends inside its hints"),
        (file(1, &[0, 0]), None, "after its end"),
        (file(1, &[5, 0xff]), Some(1), "ends inside its hints"),
        (file(1, &[1, 0xfd]), Some(1), "ends inside its hints"),
        (file(1, &[9, 0xff, 0, 0, 0, 0, 1, 0, 0, 0]), Some(1), "1, 3 or 5 bytes"),
        (file(1, &[5, 0xfe, 255, 255, 255, 255]), Some(1), "larger than the number"),
        (file(1, &[6, 0xfe, 0x06, 0xb2, 0x01, 0, 0]), Some(1), "larger than the number"),
        (file(1, &[0xfe, 255, 255, 255, 255]), Some(1), "longer than that of any block"),
    ] {
        for file in [unpacked.clone(), gzip(&unpacked, 0)] {
            // Without its version, a packed file is not known to be btcd's.
            let (found, what) = refusal(file);
            assert!(found == height && what.contains(words), "{unpacked:02x?}: {found:?}, {what}");
        }
    }
    // Other packed files are to be unpacked by hand.
    for content in [&b"UTXO\0\0\0\0\0"[..], b"another text"] {
        assert!(refusal(gzip(content, 0)).1.contains("gunzip"));
    }
}

#[test]
fn a_small_file_does_not_expand_to_more_than_its_limit() {
    let mut content = b"UTXO\x01\xff\xff\xff\xff".to_vec();
    content.resize(16 << 20, 0);
    let file = gzip(&content, 0);
    assert!(file.len() < 100_000, "{} bytes", file.len());
    let (height, what) = refusal(file);
    assert!(height.is_some() && what.contains("expands to more"), "{what}");
}
