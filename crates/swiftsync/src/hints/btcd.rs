//! The hints file of btcd (its pull request 2478, June 2026): magic and height as in draft BIP 456,
//! with version 1; then for each block from height 1 on the length of its entry (CompactSize), and
//! the entry: for each unspent output, as CompactSize, how many outputs lie between it and the one
//! before. All of this is a gzip file.
//!
//! Outputs are counted as in BIP 456. A block of a gzip file can only be read after all blocks
//! before it, so the file is expanded when it is opened, and its blocks are kept in memory as
//! Elias-Fano codes: 123 MB for mainnet. Files that were unpacked are read as well.

use std::io::{BufRead, BufReader, Error, ErrorKind};

use apus_wire::{packed, put_compact_size};

use super::bip456::{self, Bip456, Form, HEAD_BYTES, MAGIC};
use super::blocks::{CUT_SHORT, INDEX_TOO_LARGE, OUTPUTS_MAX, Wrong, check_block};
use super::elias_fano::{self, BitOrder, read_compact_size};
use super::error::HintsError;
use super::format::{Format, HintsEncoder};
use super::gzip::{self, Gunzip};
use super::offsets::Offsets;

pub(super) const VERSION: u8 = 1;

const DAMAGED: Wrong = "the gzip file is damaged, or has bytes after its end: download it again";

/// The largest entry of a block: no number takes more than five bytes.
const ENTRY_BYTES_MAX: u32 = 5 * OUTPUTS_MAX;

/// A file may take this memory, and eight times its length. Mainnet takes 1.4 times its length; a
/// file of noughts would expand to a thousand times.
const HELD_BYTES_MIN: usize = 64 << 20;
const HELD_PER_BYTE: usize = 8;
/// What an entry of [`Offsets`] takes, about.
const OFFSET_BYTES: usize = 4;

/// Opens a file of these bytes.
///
/// # Errors
/// The file is not of this format and version, is damaged, is cut short, has bytes after its end,
/// has a block with an index that no block has, or expands to more than a chain's hints can.
pub(super) fn open(bytes: &[u8]) -> Result<Bip456<Vec<u8>>, HintsError> {
    let held_max = HELD_BYTES_MIN.saturating_add(bytes.len().saturating_mul(HELD_PER_BYTE));
    if !bytes.starts_with(&gzip::MAGIC) {
        return read(&mut &bytes[..], held_max);
    }
    let gunzip = Gunzip::new(bytes).map_err(|error| HintsError::new(why(&error)))?;
    let mut input = BufReader::with_capacity(1 << 16, gunzip);
    let content = input.fill_buf().map_err(|error| HintsError::new(why(&error)))?;
    let is_other = content.len() >= HEAD_BYTES
        && !(content.starts_with(&MAGIC) && content[MAGIC.len()] == VERSION);
    if let Some(packed) = packed(bytes).filter(|_| is_other) {
        return Err(HintsError::new(packed.advice()));
    }
    read(&mut input, held_max)
}

fn why(error: &Error) -> Wrong {
    if error.kind() == ErrorKind::UnexpectedEof { CUT_SHORT } else { DAMAGED }
}

/// Reads an unpacked file to its end.
fn read(input: &mut dyn BufRead, held_max: usize) -> Result<Bip456<Vec<u8>>, HintsError> {
    let mut head = [0; HEAD_BYTES];
    input.read_exact(&mut head).map_err(|_| HintsError::new(bip456::NO_HEAD))?;
    let last = bip456::read_head(&head, VERSION)?;
    let mut codes = Vec::new();
    let mut offsets = Offsets::default();
    let mut entry = Vec::new();
    let mut unspent = Vec::new();
    for height in 1..=last {
        let wrong = |what| HintsError::at(height, what);
        read_entry(input, &mut entry).map_err(wrong)?;
        decode(&entry, &mut unspent).map_err(wrong)?;
        let is_near = offsets.push(codes.len());
        elias_fano::encode(&unspent, BitOrder::Lsb, &mut codes).map_err(wrong)?;
        if !is_near || codes.len() + offsets.len() * OFFSET_BYTES > held_max {
            return Err(wrong("the hints file expands to more than a chain's hints can"));
        }
    }
    let more = input.fill_buf().map_err(|error| HintsError::new(why(&error)))?;
    if !more.is_empty() || !offsets.push(codes.len()) {
        return Err(HintsError::new("the hints file has bytes after its end"));
    }
    let form = Form { order: BitOrder::Lsb, first_height: 1 };
    Ok(Bip456 { bytes: codes, form, format: Format::Btcd, offsets })
}

/// Reads the entry of the next block.
fn read_entry(input: &mut dyn BufRead, entry: &mut Vec<u8>) -> Result<(), Wrong> {
    let mut fill = |bytes: &mut [u8]| input.read_exact(bytes).map_err(|error| why(&error));
    let mut len = [0; 5];
    fill(&mut len[..1])?;
    let more = match len[0] {
        0xfd => 2,
        0xfe => 4,
        _ => 0,
    };
    fill(&mut len[1..=more])?;
    let (len, _) = read_compact_size(&len)?;
    if len > ENTRY_BYTES_MAX {
        return Err("its entry is longer than that of any block");
    }
    entry.resize(len as usize, 0);
    fill(entry)
}

/// Replaces the contents of `unspent` by the indices of an entry.
fn decode(mut entry: &[u8], unspent: &mut Vec<u32>) -> Result<(), Wrong> {
    unspent.clear();
    let mut next = 0u32;
    while !entry.is_empty() {
        let (gap, len) = read_compact_size(entry)?;
        entry = &entry[len..];
        let index = next.saturating_add(gap);
        if index >= OUTPUTS_MAX {
            return Err(INDEX_TOO_LARGE);
        }
        unspent.push(index);
        next = index + 1;
    }
    Ok(())
}

/// Writes hints as btcd does before it packs them with gzip.
pub(super) struct Encoder;

impl HintsEncoder for Encoder {
    fn put_head(&self, height: u32, out: &mut Vec<u8>) {
        bip456::put_head_of(VERSION, height, out);
    }

    fn put_block(
        &self,
        unspent: &[u32],
        outputs: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), HintsError> {
        check_block(unspent, outputs)?;
        let mut entry = Vec::with_capacity(unspent.len());
        let mut next = 0;
        for index in unspent {
            put_compact_size(&mut entry, u64::from(index - next));
            next = index + 1;
        }
        put_compact_size(out, entry.len() as u64);
        out.append(&mut entry);
        Ok(())
    }
}
