//! Compressed hints are read back unchanged, by any thread and in any order, and damage is an
//! error.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use apus_testchain::{every, rounds};
use apus_testdata::Random;

use super::{Block, RandomBlocks as _, edge_blocks, file_of, try_all};
use crate::hints::blocks::OUTPUTS_MAX;
use crate::hints::compressed::compress;
use crate::hints::compressed::layout::{
    COMPRESSED_ENTRY_BYTES, COMPRESSED_HEAD_BYTES, COMPRESSED_TAIL_BYTES, FRAME_BLOCKS_MAX,
    FRAME_INDICES_MAX,
};
use crate::hints::{Format, Hints, encoder, open, statistics};

fn compressed(blocks: &[Block]) -> Vec<u8> {
    let hints = open(file_of(Format::Bip456, blocks)).unwrap();
    compress(hints.as_ref()).unwrap()
}

fn expanded(hints: &dyn Hints) -> Vec<u8> {
    let encoder = encoder(Format::Bip456);
    let mut file = Vec::new();
    let mut unspent = Vec::new();
    encoder.put_head(hints.height(), &mut file);
    for height in 1..=hints.height() {
        hints.unspent(height, &mut unspent).unwrap();
        encoder.put_block(&unspent, OUTPUTS_MAX, &mut file).unwrap();
    }
    file
}

fn check(blocks: &[Block]) -> Vec<u8> {
    let file = compressed(blocks);
    let hints = open(file.clone()).unwrap();
    let height = blocks.len() as u32;
    assert_eq!((hints.format(), hints.height()), (Format::Compressed, height));
    assert_eq!(expanded(hints.as_ref()), file_of(Format::Bip456, blocks));
    let mut unspent = vec![7; 100];
    for height in [0, height + 1, u32::MAX] {
        assert_eq!(hints.unspent(height, &mut unspent).unwrap_err().height, Some(height));
        assert_eq!(hints.output_count(height), None);
    }
    // A compressed file can itself be compressed again.
    assert_eq!(compress(hints.as_ref()).unwrap(), file);
    file
}

#[test]
fn what_was_compressed_comes_back() {
    check(&[]);
    check(&[(vec![], 1)]);
    check(&[(vec![0], 1)]);
    check(&[(vec![OUTPUTS_MAX - 1], OUTPUTS_MAX)]);
    check(&vec![(vec![], 1); 3 * FRAME_BLOCKS_MAX + 1]);
    check(&vec![(vec![0], 1); FRAME_BLOCKS_MAX]);
    check(&edge_blocks());
    let mut random = Random(10);
    for most in [1, 2, 10, 300, 5_000, 70_000] {
        for _ in 0..12 {
            let count =
                1 + random.below(if most > 1_000 { 60 } else { 3 * FRAME_BLOCKS_MAX as u64 });
            check(&(0..count).map(|_| random.any_block(most)).collect::<Vec<_>>());
        }
    }
    for density in [0, 1, 60, 3_000, 30_000, 60_000, 65_500, 65_536] {
        check(&(0..50).map(|_| random.block(9_000, density)).collect::<Vec<_>>());
    }
}

#[test]
fn blocks_with_the_most_outputs_fill_frames() {
    let all = || ((0..OUTPUTS_MAX).collect(), OUTPUTS_MAX);
    check(&[all()]);
    let small = ((0..FRAME_INDICES_MAX as u32 - OUTPUTS_MAX).collect(), OUTPUTS_MAX);
    // The second block fills the frame exactly; the third one does not fit.
    check(&[all(), small, (vec![1], 2), all(), all(), (vec![], 1), all()]);
    let random = &mut Random(11);
    check(&(0..9).map(|_| random.block(OUTPUTS_MAX, 40_000)).collect::<Vec<_>>());
}

#[test]
fn clustered_outputs_take_fewer_bits_than_the_bound() {
    let mut random = Random(12);
    let mut block = |_| {
        let mut unspent = Vec::new();
        let mut at = 0;
        while at < 6_000 {
            let run = 1 + random.below(40) as u32;
            unspent.extend(at..at + run);
            at += run + random.below(400) as u32;
        }
        (unspent, 7_000)
    };
    let file = check(&(0..200).map(&mut block).collect::<Vec<_>>());
    let found = statistics(open(file.clone()).unwrap().as_ref(), file.len() as u64).unwrap();
    assert!(file.len() as f64 * 8.0 < 0.4 * found.bound_bits, "{} bytes, {found:?}", file.len());
}

#[test]
fn scattered_outputs_take_as_many_bits_as_the_bound() {
    let mut random = Random(13);
    let file = check(&(0..400).map(|_| random.block(6_000, 3_000)).collect::<Vec<_>>());
    let found = statistics(open(file.clone()).unwrap().as_ref(), file.len() as u64).unwrap();
    assert!(file.len() as f64 * 8.0 < 1.04 * found.bound_bits, "{} bytes, {found:?}", file.len());
}

#[test]
fn any_order_from_many_threads() {
    let mut random = Random(14);
    let blocks: Vec<_> = (0..20_000).map(|_| random.any_block(600)).collect();
    let hints = open(compressed(&blocks)).unwrap();
    let last = blocks.len() as u64;
    let next = AtomicU32::new(1);
    let far = 3_000;
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let hints = hints.as_ref();
            let blocks = &blocks;
            let next = &next;
            scope.spawn(move || {
                let mut random = Random(seed);
                let mut unspent = Vec::new();
                let mut check = |height: u64| {
                    hints.unspent(height as u32, &mut unspent).unwrap();
                    assert!(unspent == blocks[height as usize - 1].0, "block {height}");
                };
                (0..300).for_each(|_| check(1 + random.below(last)));
                // Roughly in order, as blocks are in files.
                loop {
                    let height = u64::from(next.fetch_add(1, Relaxed));
                    if height > last {
                        break;
                    }
                    check(height);
                    check((height + random.below(far)).min(last));
                }
            });
        }
    });
}

fn small_file() -> Vec<u8> {
    let mut random = Random(15);
    compressed(&(0..40).map(|_| random.any_block(500)).collect::<Vec<_>>())
}

#[test]
fn what_is_cut_short_longer_or_damaged_is_refused() {
    let file = small_file();
    assert!(open(file.clone()).is_ok());
    for len in 0..file.len() {
        assert!(open(file[..len].to_vec()).is_err(), "{len} bytes");
        assert!(open(file[len..].to_vec()).is_err() || len == 0, "without {len} bytes");
    }
    for byte in 0..=255 {
        assert!(open([&file[..], &[byte]].concat()).is_err());
    }
    assert!(open([&file[..], &file[..]].concat()).is_err());
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            assert!(open(damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
}

/// Corrects all checksums of a damaged file.
fn with_checksums(mut file: Vec<u8>) -> Vec<u8> {
    let number = |file: &[u8], at: usize| -> Option<usize> {
        Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?) as usize)
    };
    let mut mend = || -> Option<()> {
        let end = file.len();
        let frames = number(&file, end - COMPRESSED_TAIL_BYTES)?;
        let index = (end - COMPRESSED_TAIL_BYTES)
            .checked_sub(frames.checked_mul(COMPRESSED_ENTRY_BYTES)?)?;
        let mut at = COMPRESSED_HEAD_BYTES;
        for i in 0..frames {
            let entry = index + i * COMPRESSED_ENTRY_BYTES;
            let len = number(&file, entry + 2)?;
            let crc = crc32c::crc32c(file.get(at..at.checked_add(len)?)?);
            file[entry + 6..entry + 10].copy_from_slice(&crc.to_le_bytes());
            at += len;
        }
        let crc = crc32c::crc32c(file.get(..COMPRESSED_HEAD_BYTES)?);
        let crc = crc32c::crc32c_append(crc, file.get(index..end - 4)?);
        file[end - 4..].copy_from_slice(&crc.to_le_bytes());
        Some(())
    };
    let _ = mend();
    file
}

#[test]
fn damage_with_right_checksums_never_panics() {
    let file = small_file();
    let mut random = Random(16);
    assert_eq!(with_checksums(file.clone()), file);
    let mut refused = 0;
    let mut tried = 0;
    for at in (0..file.len()).step_by(every(7)) {
        for _ in 0..6 {
            let mut damaged = file.clone();
            damaged[at] = random.next() as u8;
            tried += 1;
            refused += u32::from(try_all(with_checksums(damaged)).is_err());
        }
    }
    for _ in 0..rounds(400) {
        let mut damaged = file.clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(file.len() as u64) as usize;
            damaged[at] = random.next() as u8;
        }
        tried += 1;
        refused += u32::from(try_all(with_checksums(damaged)).is_err());
    }
    assert!(refused > tried / 10 * 9, "{refused} of {tried} refused");
}

#[test]
fn a_file_of_another_version_says_what_to_do() {
    let mut file = small_file();
    for (version, remedy) in [(0, "`apus hints create`"), (2, "update Apus"), (255, "update Apus")]
    {
        file[4] = version;
        let error = open(with_checksums(file.clone())).err().unwrap().to_string();
        assert!(
            error.contains(&format!("version {version}: ")) && error.contains(remedy),
            "{error}"
        );
    }
}

#[test]
fn hints_that_count_other_outputs_are_refused() {
    let blocks = [(vec![3, 7, 12], 13)];
    for format in [Format::Booster, Format::Bitset] {
        let hints = open(file_of(format, &blocks)).unwrap();
        assert!(compress(hints.as_ref()).unwrap_err().what.contains("bip456 first"));
    }
}
