//! Expands a gzip file (RFC 1952) of one member. The library does DEFLATE, and not the rest.

use std::io::{Error, ErrorKind, Read, Result};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};

/// The first bytes of a file.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];
const HEAD_BYTES: usize = 10;
const DEFLATE: u8 = 8;
/// Flags of optional fields after the head.
const HEAD_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// Reads the content of a gzip file. Its memory is fixed: some 50 KiB.
///
/// Reading fails with [`ErrorKind::UnexpectedEof`] if the file is cut short, and with
/// [`ErrorKind::InvalidData`] if it is damaged or has bytes after its end.
pub(super) struct Gunzip<'a> {
    rest: &'a [u8],
    state: Box<InflateState>,
    crc: u32,
    len: u32,
    is_done: bool,
}

impl<'a> Gunzip<'a> {
    pub fn new(file: &'a [u8]) -> Result<Self> {
        let rest = skip_head(file).ok_or(ErrorKind::InvalidData)?;
        let state = InflateState::new_boxed(DataFormat::Raw);
        Ok(Self { rest, state, crc: u32::MAX, len: 0, is_done: false })
    }

    /// Compares checksum and length at the end of the file with those of what was read.
    fn check_end(&self) -> Result<()> {
        let (crc, rest) = self.rest.split_first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
        let (len, rest) = rest.split_first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
        let is_right =
            u32::from_le_bytes(*crc) == !self.crc && u32::from_le_bytes(*len) == self.len;
        if is_right && rest.is_empty() { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }
}

impl Read for Gunzip<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        while !self.is_done && !out.is_empty() {
            let done = inflate(&mut self.state, self.rest, out, MZFlush::None);
            self.rest = &self.rest[done.bytes_consumed..];
            let read = &out[..done.bytes_written];
            self.crc = crc32(self.crc, read);
            self.len = self.len.wrapping_add(read.len() as u32);
            match done.status {
                Ok(MZStatus::StreamEnd) => {
                    self.check_end()?;
                    self.is_done = true;
                }
                Ok(_) if done.bytes_consumed + read.len() > 0 => {}
                _ if self.rest.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                _ => return Err(Error::from(ErrorKind::InvalidData)),
            }
            if !read.is_empty() {
                return Ok(read.len());
            }
        }
        Ok(0)
    }
}

/// Returns what follows the head and its optional fields.
fn skip_head(file: &[u8]) -> Option<&[u8]> {
    let (head, mut rest) = file.split_first_chunk::<HEAD_BYTES>()?;
    let flags = head[3];
    if head[..2] != MAGIC || head[2] != DEFLATE || flags >= 2 * COMMENT {
        return None;
    }
    if flags & EXTRA != 0 {
        let (len, after) = rest.split_first_chunk()?;
        rest = after.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    for _ in 0..(flags & (NAME | COMMENT)).count_ones() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest = &rest[end + 1..];
    }
    if flags & HEAD_CRC != 0 { rest.get(2..) } else { Some(rest) }
}

/// The CRC-32 of gzip and Ethernet, which the processor has no instruction for.
static CRC_OF_BYTE: [u32; 256] = crc_of_bytes();

const fn crc_of_bytes() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| crc >> 8 ^ CRC_OF_BYTE[usize::from(crc as u8 ^ byte)])
}
