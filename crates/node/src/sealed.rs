//! The file format of saved work: magic bytes, content and a checksum, and the encodings that the
//! saved work of a join and of a SwiftSync have in common.

use std::path::Path;

use apus_disk::StoreError;
use apus_hash::sha256d;
use apus_progress::outcome::Counts;
use apus_wire::{Cursor, ParseError};

/// Returns the bytes of a file: `magic`, what `put` appends, and the double SHA-256 of both.
pub fn seal(magic: &[u8; 8], put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = magic.to_vec();
    put(&mut out);
    let checksum = sha256d(&out);
    out.extend_from_slice(&checksum.0);
    out
}

/// Returns what `put` of [`seal`] has appended; `None` for bytes that [`seal`] has not returned.
pub fn unseal<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (content, checksum) = bytes.split_last_chunk::<32>()?;
    if sha256d(content).0 != *checksum {
        return None;
    }
    content.strip_prefix(magic)
}

/// Returns the message for saved work of `work` that exists and cannot be read.
pub fn unreadable(path: &Path, work: &str) -> String {
    let path = path.display();
    format!(
        "{path}: the file is damaged, or was saved by another version of Apus: {work} starts over"
    )
}

/// Returns the message for damaged temporary files of `work`, which starts over.
pub fn begun_again(error: &StoreError, work: &str) -> String {
    format!("{error}: the temporary files are removed, and {work} starts over")
}

/// Appends the length of `bytes` as a 64-bit number, and then `bytes`. The length may exceed the
/// maximum of a CompactSize in messages.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads what [`put_bytes`] appended.
pub fn bytes<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ParseError> {
    let len = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    cursor.take(len)
}

/// Appends each number as eight bytes, little endian.
pub fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Reads numbers that [`put_numbers`] appended.
pub fn numbers<const N: usize>(cursor: &mut Cursor) -> Result<[u64; N], ParseError> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = cursor.u64()?;
    }
    Ok(numbers)
}

/// Appends the fields of `counts` as [`put_numbers`] does.
pub fn put_counts(out: &mut Vec<u8>, counts: &Counts) {
    let Counts { blocks, bytes, transactions, inputs, scripts } = *counts;
    put_numbers(out, &[blocks, bytes, transactions, inputs, scripts]);
}

/// Reads what [`put_counts`] appended.
pub fn counts(cursor: &mut Cursor) -> Result<Counts, ParseError> {
    let [blocks, bytes, transactions, inputs, scripts] = numbers(cursor)?;
    Ok(Counts { blocks, bytes, transactions, inputs, scripts })
}
