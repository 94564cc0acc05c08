//! Encodes lengths, pushes and witnesses.

use crate::opcodes::{OP_PUSHDATA1, OP_PUSHDATA2};

/// Appends a CompactSize.
pub(crate) fn put_compact(n: usize, out: &mut Vec<u8>) {
    match n {
        0..=0xfc => out.push(n as u8),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(n as u32).to_le_bytes());
        }
    }
}

/// Returns the bytes after their length.
pub(crate) fn with_length(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(3 + bytes.len());
    put_compact(bytes.len(), &mut text);
    text.extend_from_slice(bytes);
    text
}

/// Appends the shortest push of at most 520 bytes of data. Small numbers have shorter pushes.
pub(crate) fn push(data: &[u8], out: &mut Vec<u8>) {
    match data.len() {
        0..=75 => {}
        76..=255 => out.push(OP_PUSHDATA1),
        _ => out.push(OP_PUSHDATA2),
    }
    out.push(data.len() as u8);
    if data.len() > 255 {
        out.push((data.len() >> 8) as u8);
    }
    out.extend_from_slice(data);
}

/// Encodes a witness: the number of items, and each item after its length.
pub(crate) fn stack(items: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + items.iter().map(|item| item.len() + 1).sum::<usize>());
    put_compact(items.len(), &mut out);
    for item in items {
        put_compact(item.len(), &mut out);
        out.extend_from_slice(item);
    }
    out
}
