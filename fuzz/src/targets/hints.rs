//! Hints files of every format.

use std::io::Cursor;

use apus_swiftsync::hints::compressed::compress;
use apus_swiftsync::hints::compressed::layout::{
    COMPRESSED_ENTRY_BYTES, COMPRESSED_HEAD_BYTES, COMPRESSED_TAIL_BYTES,
};
use apus_swiftsync::hints::elias_fano::BitOrder;
use apus_swiftsync::hints::{OUTPUTS_MAX, elias_fano, encoder, open_with};
use apus_swiftsync::{Format, Hints, HintsError, Numbering, open};

use super::input::flags;

/// The largest number of blocks in a file that is compressed, so that it takes milliseconds.
const COMPRESSED_BLOCKS_MAX: u32 = 64;

/// The unspent outputs of a block, and its number of outputs if the format stores it.
#[derive(Debug, PartialEq)]
struct Block {
    unspent: Vec<u32>,
    outputs: Option<u32>,
}

/// Reads `data` as a file of BIP 456 or btcd (or another that is written block by block), and as
/// the code of one block, in both bit orders.
///
/// An accepted file has the same content after it is written again, and for the crate `hintsfile`.
pub fn bip456(data: &[u8]) {
    code(data);
    let known = [None, Some(BitOrder::Lsb), Some(BitOrder::Msb)];
    for order in known {
        file(data, order);
    }
}

/// Reads `data` as a file whose bit order is to be found out, or known.
fn file(data: &[u8], order: Option<BitOrder>) {
    let Ok(hints) = open_with(data.to_vec(), order) else { return };
    // These are not written block by block; `compressed` judges them.
    if hints.format() == Format::Compressed {
        return;
    }
    let Ok(blocks) = read(&*hints) else { return };
    let order = match hints.format() {
        Format::Bip456 | Format::Hintsfile01 => BitOrder::Msb,
        _ => BitOrder::Lsb,
    };
    let again = open_with(file_of(hints.format(), &blocks), Some(order));
    let again = again.expect("what was written is read");
    assert_eq!(read(&*again).as_ref(), Ok(&blocks));
    let counts_coins = hints.format().numbering() == Numbering::Spendable;
    if hints.height() <= COMPRESSED_BLOCKS_MAX && counts_coins {
        check_compression(&*hints, &blocks);
    }
    if hints.format() == Format::Hintsfile02 {
        let theirs = hintsfile::Hintsfile::from_reader(&mut Cursor::new(data));
        let theirs = theirs.expect("the reference reads it, too");
        assert_eq!(theirs.stop_height(), hints.height());
        for (height, block) in (1..).zip(&blocks) {
            assert_eq!(theirs.indices_at_height(height).as_ref(), Some(&block.unspent));
        }
    }
}

/// Reads the Elias-Fano code of one block, which other bytes may follow.
fn code(data: &[u8]) {
    let mut unspent = Vec::new();
    for order in [BitOrder::Lsb, BitOrder::Msb] {
        let Ok(len) = elias_fano::decode(data, order, &mut unspent) else { continue };
        check_list(&unspent);
        if order == BitOrder::Lsb {
            let theirs = hintsfile::EliasFano::from_reader(&mut Cursor::new(&data[..len]));
            assert_eq!(theirs.expect("the reference reads it, too").decompress(), unspent);
        }
        let mut again = Vec::new();
        let mut read = Vec::new();
        elias_fano::encode(&unspent, order, &mut again).expect("what was read is written");
        assert!(again.len() <= len);
        assert_eq!(elias_fano::decode(&again, order, &mut read), Ok(again.len()));
        assert_eq!(read, unspent);
    }
}

/// Reads `data` as a file of bitmaps (IBD Booster's, or that of Core PR 34004). Their encoding is
/// unique: an accepted file is the same, byte for byte, after it is written again.
pub fn bitmap(data: &[u8]) {
    let Ok(hints) = open(data.to_vec()) else { return };
    let blocks = read(&*hints);
    if hints.format().numbering() != Numbering::All {
        return;
    }
    let blocks = blocks.expect("a bitmap that was opened is read");
    assert_eq!(file_of(hints.format(), &blocks), data);
}

/// Reads `data` after its first byte as a compressed file. The lowest bit of that byte says whether
/// checksums are corrected. An accepted file has the same content after it is compressed again.
pub fn compressed(data: &[u8]) {
    let (flags, file) = flags(data);
    let mut file = file.to_vec();
    if flags & 1 != 0 {
        mend_checksums(&mut file);
    }
    let Ok(hints) = open(file) else { return };
    let Ok(blocks) = read(&*hints) else { return };
    if hints.height() <= COMPRESSED_BLOCKS_MAX && hints.format() == Format::Compressed {
        check_compression(&*hints, &blocks);
    }
}

/// Reads all blocks up to the first invalid one. No list may be longer than a block allows.
fn read(hints: &dyn Hints) -> Result<Vec<Block>, HintsError> {
    let mut blocks = Vec::new();
    let mut unspent = vec![7];
    for height in 1..=hints.height() {
        hints.unspent(height, &mut unspent)?;
        check_list(&unspent);
        let outputs = hints.output_count(height);
        assert!(outputs.is_none_or(|n| unspent.last().is_none_or(|last| *last < n)));
        blocks.push(Block { unspent: unspent.clone(), outputs });
    }
    for height in [0, hints.height().saturating_add(1), u32::MAX] {
        let there = (1..=hints.height()).contains(&height);
        assert!(there || hints.unspent(height, &mut unspent).is_err());
    }
    Ok(blocks)
}

fn check_list(unspent: &[u32]) {
    assert!(unspent.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(unspent.last().is_none_or(|last| *last < OUTPUTS_MAX));
}

/// Writes a file with these blocks.
fn file_of(format: Format, blocks: &[Block]) -> Vec<u8> {
    let encoder = encoder(format);
    let mut file = Vec::new();
    let mut lens = Vec::new();
    encoder.put_head(blocks.len() as u32, &mut file);
    let head_len = file.len();
    for Block { unspent, outputs } in blocks {
        let start = file.len();
        let outputs = outputs.unwrap_or(OUTPUTS_MAX);
        encoder.put_block(unspent, outputs, &mut file).expect("what was read is written");
        lens.push((file.len() - start) as u32);
    }
    encoder.put_tail(&mut file);
    if let Some(head) = encoder.final_head(&lens) {
        file[..head_len].copy_from_slice(&head);
    }
    file
}

fn check_compression(hints: &dyn Hints, blocks: &[Block]) {
    let file = compress(hints).expect("what was read is compressed");
    let again = open(file).expect("what was compressed is opened");
    assert_eq!(again.format(), Format::Compressed);
    let again = read(&*again).expect("what was compressed is read");
    assert!(again.iter().map(|b| &b.unspent).eq(blocks.iter().map(|b| &b.unspent)));
}

/// Corrects the checksums of a compressed file's frames, and the one of all the rest, as far as the
/// file has the lengths that lead to them.
fn mend_checksums(file: &mut [u8]) -> Option<()> {
    let number = |bytes: &[u8]| bytes.first_chunk().map(|n| u32::from_le_bytes(*n) as usize);
    let tail = file.len().checked_sub(COMPRESSED_TAIL_BYTES)?;
    let index_len = number(&file[tail..])?.checked_mul(COMPRESSED_ENTRY_BYTES)?;
    let index = tail.checked_sub(index_len).filter(|index| *index >= COMPRESSED_HEAD_BYTES)?;
    let mut at = COMPRESSED_HEAD_BYTES;
    for entry in (index..tail).step_by(COMPRESSED_ENTRY_BYTES) {
        let end = at.checked_add(number(&file[entry + 2..])?)?;
        if let Some(frame) = file.get(at..end) {
            let crc = crc32c::crc32c(frame).to_le_bytes();
            file[entry + 6..entry + COMPRESSED_ENTRY_BYTES].copy_from_slice(&crc);
        }
        at = end;
    }
    let crc = crc32c::crc32c(&file[..COMPRESSED_HEAD_BYTES]);
    let end = file.len() - 4;
    let crc = crc32c::crc32c_append(crc, &file[index..end]).to_le_bytes();
    file[end..].copy_from_slice(&crc);
    Some(())
}
