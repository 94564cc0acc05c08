//! Files of saved progress: what they hold between their first bytes and a checksum, and the forms
//! that all of them use.

use std::path::Path;

use apus_disk::StoreError;
use apus_hash::sha256d;
use apus_node::outcome::Counts;
use apus_wire::{Cursor, ParseError};

/// The bytes of a file: its first bytes, what `put` appends, and the double SHA-256 of all that.
pub fn seal(magic: &[u8; 8], put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = magic.to_vec();
    put(&mut out);
    let checksum = sha256d(&out);
    out.extend_from_slice(&checksum.0);
    out
}

/// What `put` of [`seal`] appended; `None` for anything else.
pub fn unseal<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (content, checksum) = bytes.split_last_chunk::<32>()?;
    if sha256d(content).0 != *checksum {
        return None;
    }
    content.strip_prefix(magic)
}

/// Words for saved progress of `work` that is there and cannot be read.
pub fn unreadable(path: &Path, work: &str) -> String {
    let path = path.display();
    format!(
        "{path}: the file is damaged, or was saved by another version of Apus: {work} starts over"
    )
}

/// Words for damage to the temporary files of `work`.
pub fn begun_again(error: &StoreError, work: &str) -> String {
    format!("{error}: the temporary files are removed, and {work} starts over")
}

/// Appends bytes after their length, which may be more than a CompactSize of a message allows.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads what [`put_bytes`] appended.
pub fn bytes<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ParseError> {
    let len = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    cursor.take(len)
}

/// Appends numbers of eight bytes each, little endian.
pub fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Appends counts as numbers.
pub fn put_counts(out: &mut Vec<u8>, counts: &Counts) {
    let Counts { blocks, bytes, transactions, inputs, scripts } = *counts;
    put_numbers(out, &[blocks, bytes, transactions, inputs, scripts]);
}

/// Reads what [`put_counts`] appended.
pub fn counts(cursor: &mut Cursor) -> Result<Counts, ParseError> {
    let (blocks, bytes, transactions) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let (inputs, scripts) = (cursor.u64()?, cursor.u64()?);
    Ok(Counts { blocks, bytes, transactions, inputs, scripts })
}
