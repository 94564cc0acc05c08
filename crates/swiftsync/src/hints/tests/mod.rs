//! Writes and reads files of each format, and has helpers of the other test files.

mod btcd;
mod compressed;
mod damage;
mod reference;

use apus_testdata::Random;

use super::*;

/// A block: the indices of its unspent outputs, and the number of all outputs.
pub type Block = (Vec<u32>, u32);

/// Random blocks.
pub trait RandomBlocks {
    /// Returns a block of which each output is unspent with a probability of `density` in 2^16.
    fn block(&mut self, outputs: u32, density: u64) -> Block;

    /// Returns a block of up to `outputs_max` outputs, often few of them, with any density.
    fn any_block(&mut self, outputs_max: u32) -> Block;
}

impl RandomBlocks for Random {
    fn block(&mut self, outputs: u32, density: u64) -> Block {
        ((0..outputs).filter(|_| self.below(1 << 16) < density).collect(), outputs)
    }

    fn any_block(&mut self, outputs_max: u32) -> Block {
        let most = 1 << self.below(u64::from(outputs_max.ilog2()) + 2);
        let outputs = 1 + self.below(most.min(u64::from(outputs_max))) as u32;
        let density = match self.below(6) {
            0 => 0,
            1 => 1 << 16,
            _ => (1 << 16) >> self.below(14),
        };
        self.block(outputs, density)
    }
}

/// Returns a file of these blocks, from height 1.
pub fn file_of(format: Format, blocks: &[Block]) -> Vec<u8> {
    let encoder = encoder(format);
    let mut file = Vec::new();
    encoder.put_head(blocks.len() as u32, &mut file);
    let mut lengths = Vec::new();
    for (unspent, outputs) in blocks {
        let start = file.len();
        encoder.put_block(unspent, *outputs, &mut file).unwrap();
        lengths.push((file.len() - start) as u32);
    }
    encoder.put_tail(&mut file);
    if let Some(head) = encoder.final_head(&lengths) {
        file[..head.len()].copy_from_slice(&head);
    }
    file
}

pub fn check_file(file: &[u8], format: Format, blocks: &[Block]) {
    let hints = open(file.to_vec()).unwrap();
    assert_eq!((hints.format(), hints.height()), (format, blocks.len() as u32));
    // The contents of the vector must not matter.
    let mut unspent = vec![7; 100];
    for (height, (expected, outputs)) in (1..).zip(blocks) {
        hints.unspent(height, &mut unspent).unwrap();
        assert!(unspent == *expected, "{format:?}, block {height} of {outputs} outputs");
        let known = format.holds_counts().then_some(*outputs);
        assert_eq!(hints.output_count(height), known);
    }
    for height in [0, blocks.len() as u32 + 1, u32::MAX] {
        let error = hints.unspent(height, &mut unspent).unwrap_err();
        assert_eq!(error.height, Some(height), "{format:?}");
    }
}

/// Heights of a file that [`try_all`] reads; a damaged head may announce millions.
const HEIGHTS_TRIED: usize = 20_000;

/// Opens a file and reads its blocks. Whatever its bytes are, no list may be longer than in the
/// largest block or frame.
pub fn try_all(file: Vec<u8>) -> Result<(), HintsError> {
    let len = file.len() as u64;
    let hints = open(file)?;
    // Only compressed blocks may take less than a byte.
    assert!(u64::from(hints.height()) <= len || hints.format() == Format::Compressed);
    let mut unspent = Vec::new();
    let mut result = Ok(());
    for height in (1..=hints.height()).take(HEIGHTS_TRIED) {
        match hints.unspent(height, &mut unspent) {
            Ok(()) => {
                assert!(unspent.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(unspent.last().is_none_or(|last| *last < OUTPUTS_MAX));
            }
            Err(error) => result = result.and(Err(error)),
        }
        assert!(unspent.capacity() <= 4 * OUTPUTS_MAX as usize);
    }
    result
}

/// Returns blocks of sizes and densities at which the length of their codes changes.
pub fn edge_blocks() -> Vec<Block> {
    let mut blocks = vec![
        (vec![], 1),
        (vec![0], 1),
        (vec![0], 2),
        (vec![1], 2),
        (vec![0, 1], 2),
        (vec![3, 7, 12], 13),
        (vec![252], 253),
        (vec![253], 254),
        (vec![65_534], 65_535),
        (vec![0, 65_534], 65_535),
        ((0..65_535).collect(), 65_535),
        ((0..65_535).step_by(2).collect(), 65_535),
    ];
    for outputs in [7, 8, 9, 63, 64, 65, 127, 128, 129, 252, 253, 254, 4_096] {
        blocks.push((vec![outputs - 1], outputs));
        blocks.push(((0..outputs).collect(), outputs));
        blocks.push(((0..outputs).rev().step_by(7).collect::<Vec<_>>(), outputs));
        blocks.last_mut().unwrap().0.reverse();
    }
    blocks
}

#[test]
fn every_format_gives_back_what_was_written() {
    let mut random = Random(1);
    for format in Format::WRITTEN {
        let empty = file_of(format, &[]);
        // Without blocks, files that begin with block 1 are the same.
        let is_bare = matches!(format, Format::Bitset | Format::Hintsfile01);
        check_file(&empty, if is_bare { Format::Hintsfile02 } else { format }, &[]);
        let edges = edge_blocks();
        check_file(&file_of(format, &edges), format, &edges);
        for _ in 0..40 {
            let more = (0..random.below(300)).map(|_| random.any_block(5_000));
            let blocks: Vec<_> = [(vec![0], 1)].into_iter().chain(more).collect();
            check_file(&file_of(format, &blocks), format, &blocks);
        }
    }
}

#[test]
fn blocks_of_up_to_the_most_outputs() {
    let mut random = Random(2);
    let mut blocks: Vec<_> = (0..40).map(|_| random.any_block(70_000)).collect();
    blocks.push((vec![OUTPUTS_MAX - 1], OUTPUTS_MAX));
    blocks.push((vec![0, OUTPUTS_MAX - 1], OUTPUTS_MAX));
    blocks.push(((0..OUTPUTS_MAX).collect(), OUTPUTS_MAX));
    for format in [Format::Bip456, Format::Hintsfile02, Format::Bitset] {
        check_file(&file_of(format, &blocks), format, &blocks);
    }
}

#[test]
fn the_bytes_of_each_format() {
    let blocks = [(vec![3, 7, 12], 13), (vec![], 1)];
    let mut head = vec![0x55, 0x54, 0x58, 0x4f, 0, 2, 0, 0, 0];
    let lsb = [3, 0x0c, 0x0f, 0x25, 0];
    let msb = [3, 0x0c, 0xf0, 0xa4, 0];
    for (format, genesis, codes) in [
        (Format::Bip456, &[0][..], msb),
        (Format::Bip456Lsb, &[0], lsb),
        (Format::Hintsfile01, &[], msb),
        (Format::Hintsfile02, &[], lsb),
    ] {
        assert_eq!(file_of(format, &blocks), [&head[..], genesis, &codes].concat());
    }

    let gaps = [b"UTXO\x01\x02\0\0\0", &[3, 3, 3, 4, 0][..]].concat();
    assert_eq!(file_of(Format::Btcd, &blocks), gaps);

    // As IBD Booster's generator would write it: the genesis block, 13 outputs, 1 output, the end.
    let booster = [1, 0, 0, 13, 0, 0x88, 0x10, 1, 0, 0, 0, 0];
    assert_eq!(file_of(Format::Booster, &blocks), booster);

    head.extend([1, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0]);
    head.extend([2, 0, 0, 0, 39, 0, 0, 0, 0, 0, 0, 0]);
    let bitset = [&head[..], &[13, 0, 0, 0, 0x88, 0x10], &[1, 0, 0, 0, 0]].concat();
    assert_eq!(file_of(Format::Bitset, &blocks), bitset);
}

#[test]
fn blocks_that_a_format_cannot_hold_are_refused() {
    let mut out = Vec::new();
    let mut refused = |format, unspent: &[u32], outputs| {
        encoder(format).put_block(unspent, outputs, &mut out).unwrap_err().to_string()
    };
    for format in Format::WRITTEN {
        refused(format, &[5], 5);
        refused(format, &[5, 5], 9);
        refused(format, &[5, 4, 6], 9);
        refused(format, &[], OUTPUTS_MAX + 1);
        refused(format, &[OUTPUTS_MAX], OUTPUTS_MAX + 1);
    }
    assert!(refused(Format::Booster, &[], 65_536).contains("65,535"));
    refused(Format::Booster, &[], 0);
    refused(Format::Compressed, &[], 1);
    assert!(out.is_empty());
}

#[test]
fn the_bound_is_what_counting_gives() {
    // Pascal's triangle.
    let mut row = vec![1u128];
    for n in 0..=120u32 {
        for (k, ways) in row.iter().enumerate() {
            let exact = (*ways as f64).log2();
            let bound = log2_choose(n, k as u32);
            assert!((bound - exact).abs() <= 1e-11 * exact.max(1.0), "C({n}, {k}): {bound}");
        }
        let next = row.windows(2).map(|pair| pair[0] + pair[1]);
        row = [1].into_iter().chain(next).chain([1]).collect();
    }
    // Larger numbers are compared with sums of logarithms.
    for (n, k) in [(100_000u32, 3u32), (100_000, 5_000), (111_111, 55_555), (7, 8)] {
        let exact: f64 =
            (0..k.min(n)).map(|i| f64::from(n - i) / f64::from(k - i)).map(f64::log2).sum();
        let exact = if k > n { 0.0 } else { exact };
        assert!((log2_choose(n, k) - exact).abs() <= 1e-8 * exact.max(1.0), "C({n}, {k})");
    }
}

#[test]
fn statistics_of_a_file() {
    let blocks = [(vec![0, 1], 4), (vec![], 9), (vec![2], 3), (vec![1, 4], 7)];
    for format in Format::WRITTEN {
        let file = file_of(format, &blocks);
        let hints = open(file.clone()).unwrap();
        let found = statistics(hints.as_ref(), file.len() as u64).unwrap();
        assert_eq!((found.height, found.blocks, found.unspent), (4, 3, 5));
        assert_eq!(found.bits_per_output, file.len() as f64 * 8.0 / 5.0);
        // There are 6 choices from 4 outputs, 3 from 3 and 21 from 7; or 1, 1 and 4 if the last
        // index is known.
        let ways: f64 = if format.holds_counts() { 6.0 * 3.0 * 21.0 } else { 4.0 };
        assert!((found.bound_bits - ways.log2()).abs() < 1e-9, "{format:?}: {found:?}");
    }
    let empty = open(file_of(Format::Bip456, &[])).unwrap();
    assert_eq!(statistics(empty.as_ref(), 9).unwrap().bits_per_output, 0.0);
}
