//! Files that are cut short, too long or damaged. They are refused, without a panic or an
//! allocation larger than the file's length allows.

use apus_testdata::Random;

use super::{Block, RandomBlocks as _, file_of, try_all};
use crate::hints::elias_fano::{BitOrder, decode};
use crate::hints::*;

/// The length of the code of the last of these blocks.
const LAST_CODE_BYTES: usize = 3;

fn blocks() -> Vec<Block> {
    let mut random = Random(5);
    let mut blocks = vec![(vec![3, 7, 12], 13), (vec![], 1), (vec![300], 301), (vec![], 9)];
    blocks.extend((0..80).map(|_| random.any_block(300)));
    blocks.push((vec![0], 1));
    blocks
}

#[test]
fn every_truncation_and_every_longer_file_is_refused() {
    for format in Format::WRITTEN {
        let file = file_of(format, &blocks());
        assert_eq!(try_all(file.clone()), Ok(()));
        for length in 0..file.len() {
            // Without the last code, a file looks like one without a code for block 0.
            let lacks_one = format == Format::Bip456 && length == file.len() - LAST_CODE_BYTES;
            let found = open(file[..length].to_vec()).map(|hints| hints.format());
            let expected = lacks_one.then_some(Format::Hintsfile01);
            assert_eq!(found.ok(), expected, "{format:?}, {length} bytes");
        }
        for byte in 0..=255 {
            let longer = [&file[..], &[byte]].concat();
            assert!(open(longer).is_err(), "{format:?}, {byte} after it");
        }
        assert!(open([&file[..], &file[..]].concat()).is_err());
    }
}

#[test]
fn damage_never_panics() {
    let mut random = Random(6);
    for format in Format::WRITTEN {
        let file = file_of(format, &blocks());
        for at in 0..file.len() {
            for _ in 0..12 {
                let mut damaged = file.clone();
                damaged[at] = random.next() as u8;
                let _ = try_all(damaged);
            }
        }
        for _ in 0..3_000 {
            let mut damaged = file.clone();
            for _ in 0..1 + random.below(9) {
                let at = random.below(file.len() as u64) as usize;
                damaged[at] = random.next() as u8;
            }
            damaged.truncate(file.len() - random.below(3) as usize);
            let _ = try_all(damaged);
        }
    }
}

#[test]
fn noise_after_a_good_head_never_panics() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let mut file = match random.below(4) {
            3 => vec![0x55, 0x54, 0x58, 0x4f, 1, 1 + random.below(3) as u8, 0, 0, 0],
            0 => vec![0x55, 0x54, 0x58, 0x4f, 0, 1 + random.below(3) as u8, 0, 0, 0],
            1 => vec![0x55, 0x54, 0x58, 0x4f, 0, 1, 0, 0, 0, 1, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0],
            _ => vec![1, 0, 0],
        };
        file.extend((0..random.below(60)).map(|_| random.next() as u8));
        let _ = try_all(file);
    }
    let mut unspent = Vec::new();
    for _ in 0..apus_testchain::rounds(50_000) {
        let mut bytes: Vec<_> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        if let [n, m, ..] = &mut bytes[..] {
            (*n, *m) = (*n % 60, *m % 252);
        }
        for order in [BitOrder::Lsb, BitOrder::Msb] {
            if decode(&bytes, order, &mut unspent).is_ok() {
                assert!(unspent.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}

fn refusal(file: Vec<u8>) -> (Option<u32>, String) {
    let error = open(file.clone()).err().unwrap_or_else(|| panic!("opened: {file:02x?}"));
    (error.height, error.what)
}

#[test]
fn each_refusal_says_why() {
    let head =
        |height: u8, rest: &[u8]| [&[0x55, 0x54, 0x58, 0x4f, 0, height, 0, 0, 0], rest].concat();
    let huge = [0xfe, 0xff, 0xff, 0xff, 0xff];
    let one = [3, 0x0c, 0x0f, 0x25];
    for (file, height, words) in [
        (vec![], None, "not a hints file"),
        (b"UTXP\0\0\0\0\0".to_vec(), None, "not a hints file"),
        (vec![0x55, 0x54, 0x58, 0x4f, 2, 0, 0, 0, 0], None, "version 2"),
        (vec![0x55, 0x54, 0x58, 0x4f, 0, 0, 0, 0], None, "inside its head"),
        (vec![0x55, 0x54, 0x58, 0x4f, 0, 255, 255, 255, 255], Some(1), "ends inside"),
        (head(0, &[1]), None, "1 bytes after"),
        (head(0, &[0, 0]), None, "1 bytes after"),
        (head(1, &[&one[..], &[0]].concat()), None, "1 bytes after"),
        (head(1, &[0, 0, 0]), None, "1 bytes after"),
        (head(2, &[&[0], &one[..]].concat()[..4]), Some(1), "ends inside"),
        (head(1, &[]), Some(1), "ends inside"),
        (head(2, &one), Some(2), "ends inside"),
        (head(1, &[3, 0x0c, 0x0f]), Some(1), "ends inside"),
        (head(1, &[3]), Some(1), "ends inside"),
        (head(1, &[0xfd, 3]), Some(1), "ends inside"),
        // n = m + 2, and with n far too large for m + 1 to be divided by it.
        (head(1, &[5, 3, 0xff]), Some(1), "more indices"),
        (head(1, &[&huge[..], &[3, 0xff]].concat()), Some(1), "more indices"),
        // m = 2^32 - 1, whose successor is 0, and other absurd ones.
        (head(1, &[&[1], &huge[..]].concat()), Some(1), "larger than the number"),
        (head(1, &[1, 0xfe, 0x07, 0xb2, 0x01, 0x00]), Some(1), "larger than the number"),
        (head(1, &[&huge[..], &huge].concat()), Some(1), "larger than the number"),
        (head(1, &[0xff, 1, 0, 0, 0, 0, 0, 0, 0]), Some(1), "1, 3 or 5 bytes"),
        // The code has one 1 too few, or a last index that is not m.
        (head(1, &[3, 0x0c, 0x0f, 0x24]), Some(1), "number of indices"),
        (head(1, &[3, 0x0c, 0x0f, 0x15]), Some(1), "last index"),
        (head(1, &[0, 3, 0x0c, 0x0f, 0x15]), Some(1), "last index"),
        (head(1, &[3, 0x0c, 0x1f, 0x25]), Some(1), "last index"),
        (vec![1, 0, 0, 1, 0, 2, 0, 0], Some(1), "after its last output"),
        (vec![1, 0, 0, 1, 0, 1, 0], Some(2), "ends inside"),
        (vec![1, 0, 0, 0, 0, 0], None, "1 bytes after"),
        (head(1, &[1, 0, 0, 0]), None, "inside its index"),
        (
            head(1, &[1, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]),
            Some(1),
            "different height or offset",
        ),
        (head(1, &[1, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]), Some(1), "more outputs"),
    ] {
        let (found, what) = refusal(file.clone());
        assert!(found == height && what.contains(words), "{file:02x?}: {found:?}, {what}");
    }
}

#[test]
fn a_mistake_that_only_decoding_finds_is_an_error_of_its_block() {
    // Two indices with the same high bits, the first with the larger low bits: 7, 4.
    // n = 2, m = 7: two low bits each; their high bits are 1 and 1.
    let good = [2, 7, 0b1100, 0b110];
    let bad = [2, 7, 0b1111, 0b110];
    let head = [0x55, 0x54, 0x58, 0x4f, 0, 2, 0, 0, 0];
    let hints = open([&head[..], &good, &bad].concat()).unwrap();
    let mut unspent = vec![1];
    hints.unspent(1, &mut unspent).unwrap();
    assert_eq!(unspent, [4, 7]);
    let error = hints.unspent(2, &mut unspent).unwrap_err();
    assert_eq!((error.height, unspent.len()), (Some(2), 0));
}

#[test]
fn overlong_numbers_are_read_as_the_crate_reads_them() {
    let code = [0xfd, 3, 0, 0xfe, 12, 0, 0, 0, 0x0f, 0x25];
    let theirs = hintsfile::EliasFano::from_reader(&mut &code[..]).unwrap().decompress();
    let mut ours = Vec::new();
    assert_eq!(decode(&code, BitOrder::Lsb, &mut ours), Ok(code.len()));
    assert_eq!((ours, theirs), (vec![3, 7, 12], vec![3, 7, 12]));
    assert_eq!(decode(&[0xfd, 0, 0], BitOrder::Lsb, &mut vec![]), Ok(3));
}
