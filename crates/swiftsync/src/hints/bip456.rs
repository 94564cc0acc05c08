//! The hints file of draft BIP 456, version 0: magic 55 54 58 4f, version byte 00, height (u32,
//! little endian), then the Elias-Fano code of each block from height 1 on.

use super::blocks::{CUT_SHORT, block_of, check_block, check_end};
use super::elias_fano::{self, BitOrder, Shape};
use super::error::HintsError;
use super::format::{Format, Hints, HintsEncoder};
use super::offsets::Offsets;

pub(super) const MAGIC: [u8; 4] = *b"UTXO";
pub(super) const VERSION: u8 = 0;
/// The length of magic, version and height.
pub(super) const HEAD_BYTES: usize = 9;

/// An opened hints file of draft BIP 456. Its index takes 4 1/8 bytes of memory for each block.
pub struct Bip456<B> {
    bytes: B,
    order: BitOrder,
    /// The offset of each block, from height 1, and finally the end of the file.
    offsets: Offsets,
}

impl<B: AsRef<[u8]>> Bip456<B> {
    /// Opens a file of these bytes, which are walked once, without decoding, to find the offsets of
    /// the blocks and the bit order.
    ///
    /// # Errors
    /// The file is not of this format and version, is cut short, has bytes after its end, or has a
    /// block whose number of indices, last index or bits are invalid.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        let (order, offsets) = walk(bytes.as_ref())?;
        Ok(Self { bytes, order, offsets })
    }

    /// Returns the order of the bits in each byte.
    pub fn bit_order(&self) -> BitOrder {
        self.order
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Hints for Bip456<B> {
    fn format(&self) -> Format {
        Format::Bip456
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    fn height(&self) -> u32 {
        self.offsets.len().saturating_sub(1) as u32
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        let bytes = block_of(self.bytes.as_ref(), &self.offsets, height, 1)?;
        let decoded = elias_fano::decode(bytes, self.order, unspent);
        decoded.map(|_| ()).map_err(|what| HintsError::at(height, what))
    }

    fn output_count(&self, _height: u32) -> Option<u32> {
        None
    }
}

/// Reads the head, which is the same as in Core PR 34004, and returns the height.
pub(super) fn read_head(bytes: &[u8]) -> Result<u32, HintsError> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Err(HintsError::new("the hints file ends inside its head"));
    };
    let [m0, m1, m2, m3, version, h0, h1, h2, h3] = *head;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(HintsError::new("this is not a hints file"));
    }
    if version != VERSION {
        let what = format!("the hints file is of version {version}, which is unknown: update Apus");
        return Err(HintsError::new(what));
    }
    Ok(u32::from_le_bytes([h0, h1, h2, h3]))
}

pub(super) fn put_head(height: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
    out.extend_from_slice(&height.to_le_bytes());
}

/// Checks everything that can be checked without decoding, and returns the bit order and the offset
/// of each block.
fn walk(bytes: &[u8]) -> Result<(BitOrder, Offsets), HintsError> {
    let height = read_head(bytes)?;
    let mut at = HEAD_BYTES;
    let mut offsets = Offsets::with_capacity((height as usize).min(bytes.len()) + 1);
    // The height of the first block that does not have this bit order.
    let mut not_lsb = None;
    let mut not_msb = None;
    for height in 1..=height {
        let wrong = |what| HintsError::at(height, what);
        let (head, shape) = Shape::read(&bytes[at..]).map_err(wrong)?;
        if !offsets.push(at) {
            return Err(wrong(CUT_SHORT));
        }
        at += head;
        let Some(shape) = shape else { continue };
        let code = bytes.get(at..at + shape.bytes()).ok_or_else(|| wrong(CUT_SHORT))?;
        at += shape.bytes();
        if !shape.counts_right(code) {
            return Err(wrong("its number of indices is not the one in its code"));
        }
        for (order, not) in [(BitOrder::Lsb, &mut not_lsb), (BitOrder::Msb, &mut not_msb)] {
            if not.is_none() && !shape.ends_right(code, order) {
                *not = Some(height);
            }
        }
    }
    check_end(bytes, at as u64)?;
    if !offsets.push(at) {
        return Err(HintsError::new(CUT_SHORT));
    }
    match (not_lsb, not_msb) {
        (None, _) => Ok((BitOrder::Lsb, offsets)),
        (_, None) => Ok((BitOrder::Msb, offsets)),
        (Some(a), Some(b)) => {
            let what = "its last index is not the announced one, in either bit order";
            Err(HintsError::at(a.max(b), what))
        }
    }
}

/// Writes hints as the crate `hintsfile` 0.2.1 does.
pub struct Encoder;

impl HintsEncoder for Encoder {
    fn put_head(&self, height: u32, out: &mut Vec<u8>) {
        put_head(height, out);
    }

    fn put_block(
        &self,
        unspent: &[u32],
        outputs: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), HintsError> {
        check_block(unspent, outputs)?;
        elias_fano::encode(unspent, out).map_err(HintsError::new)
    }

    fn put_tail(&self, _out: &mut Vec<u8>) {}
}
