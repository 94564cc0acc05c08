//! Bitmaps: a bit for each output, bit 0 of a byte first, padded to a byte with zeros.

use super::elias_fano::Wrong;

const DAMAGED: Wrong = "bits are set behind its last output";

/// Bytes of a bitmap of `outputs` bits.
pub fn bytes_of(outputs: u32) -> usize {
    (outputs as usize).div_ceil(8)
}

/// Appends the bitmap in which the bits `unspent`, ascending and below `outputs`, are set.
pub fn put(unspent: &[u32], outputs: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes_of(outputs), 0);
    for index in unspent {
        out[start + *index as usize / 8] |= 1 << (index % 8);
    }
}

/// Refuses a bitmap of `outputs` bits whose padding is not zero.
pub fn check_padding(bitmap: &[u8], outputs: u32) -> Result<(), Wrong> {
    match bitmap.last() {
        Some(byte) if !outputs.is_multiple_of(8) && byte >> (outputs % 8) != 0 => Err(DAMAGED),
        _ => Ok(()),
    }
}

/// Puts the numbers of the bits that are set into `unspent`, in the place of what it held.
pub fn read(bitmap: &[u8], outputs: u32, unspent: &mut Vec<u32>) -> Result<(), Wrong> {
    unspent.clear();
    check_padding(bitmap, outputs)?;
    let (words, rest) = bitmap.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut base = 0;
    for word in words.iter().chain([&last]) {
        let mut word = u64::from_le_bytes(*word);
        while word != 0 {
            unspent.push(base + word.trailing_zeros());
            word &= word - 1;
        }
        base += 64;
    }
    Ok(())
}
