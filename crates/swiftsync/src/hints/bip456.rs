//! The hints file of draft BIP 456, version 0: magic 55 54 58 4f, version byte 00, height (u32,
//! little endian), then the Elias-Fano code of each block, from height 0 or 1 on.
//!
//! The draft has changed, and its text does not say which bit of a byte is first. In August 2026 it
//! has a code for block 0, and test vectors with bit 7 first, which is what Apus writes as
//! [`Format::Bip456`]. The files of other programs have all bits one way or the other, and no code
//! for block 0; they are told apart by reading them.

use super::blocks::{CUT_SHORT, Wrong, block_of, check_block, check_end};
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
    pub(super) bytes: B,
    pub(super) form: Form,
    pub(super) format: Format,
    /// The offset of each block, from the form's first on, and finally the end of the file.
    pub(super) offsets: Offsets,
}

/// What differs between the forms of the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The order of the bits in each byte.
    pub order: BitOrder,
    /// The height of the first code: 0, or 1 if block 0 has none.
    pub first_height: u32,
}

impl Form {
    fn format(self) -> Format {
        match (self.first_height, self.order) {
            (0, BitOrder::Msb) => Format::Bip456,
            (0, BitOrder::Lsb) => Format::Bip456Lsb,
            (_, BitOrder::Msb) => Format::Hintsfile01,
            (_, BitOrder::Lsb) => Format::Hintsfile02,
        }
    }
}

impl<B: AsRef<[u8]>> Bip456<B> {
    /// Opens a file of these bytes, which are walked once to find the offsets of the blocks and the
    /// form. Few blocks are decoded: those before the first that has only one bit order. A caller
    /// who knows the bit order gives it.
    ///
    /// # Errors
    /// The file is not of this format and version, is cut short, has bytes after its end, has a
    /// block whose number of indices, last index or bits are invalid, or says different things in
    /// the two bit orders.
    pub fn open(bytes: B, order: Option<BitOrder>) -> Result<Self, HintsError> {
        let (form, offsets) = walk(bytes.as_ref(), order)?;
        Ok(Self { bytes, form, format: form.format(), offsets })
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Hints for Bip456<B> {
    fn format(&self) -> Format {
        self.format
    }

    fn height(&self) -> u32 {
        (self.offsets.len() as u32 + self.form.first_height).saturating_sub(2)
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        let Form { order, first_height } = self.form;
        let bytes = block_of(self.bytes.as_ref(), &self.offsets, height, first_height)?;
        let decoded = elias_fano::decode(bytes, order, unspent);
        decoded.map(|_| ()).map_err(|what| HintsError::at(height, what))
    }

    fn output_count(&self, _height: u32) -> Option<u32> {
        None
    }
}

pub(super) const NO_HEAD: Wrong = "the hints file ends inside its head";

/// Reads the head, which is the same in Core PR 34004 and in btcd's files, and returns the height.
pub(super) fn read_head(bytes: &[u8], expected: u8) -> Result<u32, HintsError> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Err(HintsError::new(NO_HEAD));
    };
    let [m0, m1, m2, m3, version, h0, h1, h2, h3] = *head;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(HintsError::new("this is not a hints file"));
    }
    if version != expected {
        let what = format!("the hints file is of version {version}, which is unknown: update Apus");
        return Err(HintsError::new(what));
    }
    Ok(u32::from_le_bytes([h0, h1, h2, h3]))
}

/// Appends the head of a file of version 0.
pub(super) fn put_head(height: u32, out: &mut Vec<u8>) {
    put_head_of(VERSION, height, out);
}

pub(super) fn put_head_of(version: u8, height: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.push(version);
    out.extend_from_slice(&height.to_le_bytes());
}

/// Checks everything that can be checked without decoding, and returns the form and the offset of
/// each block.
///
/// The bit order does not change where a code ends, so the number of codes says whether block 0 has
/// one. That is empty, since its output is in no UTXO set.
fn walk(bytes: &[u8], order: Option<BitOrder>) -> Result<(Form, Offsets), HintsError> {
    let last = read_head(bytes, VERSION)?;
    let mut at = HEAD_BYTES;
    let mut offsets = Offsets::with_capacity((last as usize).min(bytes.len()) + 2);
    let mut orders = Orders::new(order);
    // A first code that is empty is taken for that of block 0 until the end of the file tells.
    let mut first_height = u32::from(bytes.get(at) != Some(&0));
    for height in first_height..=last {
        if first_height == 0 && height == last && at == bytes.len() {
            first_height = 1;
            break;
        }
        let wrong = |what| HintsError::at(height, what);
        let (head, shape) = Shape::read(&bytes[at..]).map_err(wrong)?;
        if !offsets.push(at) {
            return Err(wrong(CUT_SHORT));
        }
        let start = at;
        at += head + shape.map_or(0, |shape| shape.bytes());
        let code = bytes.get(start..at).ok_or_else(|| wrong(CUT_SHORT))?;
        if let Some(shape) = shape {
            orders.narrow(height, &shape, code, head)?;
        }
    }
    check_end(bytes, at as u64)?;
    if !offsets.push(at) {
        return Err(HintsError::new(CUT_SHORT));
    }
    Ok((Form { order: orders.only(first_height)?, first_height }, offsets))
}

/// The bit orders in which the codes so far are right: bit 0 first, and bit 7 first.
struct Orders {
    /// The height of the first block whose code is wrong in this order.
    wrong: [Option<u32>; 2],
    /// The height of the first block whose code is right in both, for different indices.
    differs: Option<u32>,
}

impl Orders {
    const ALL: [BitOrder; 2] = [BitOrder::Lsb, BitOrder::Msb];

    fn new(known: Option<BitOrder>) -> Self {
        let wrong = Self::ALL.map(|order| known.filter(|known| *known != order).map(|_| 0));
        Self { wrong, differs: None }
    }

    /// Leaves out the orders in which this code, after its first `head` bytes, is wrong.
    fn narrow(
        &mut self,
        height: u32,
        shape: &Shape,
        code: &[u8],
        head: usize,
    ) -> Result<(), HintsError> {
        if !shape.counts_right(&code[head..]) {
            let what = "its number of indices is not the one in its code";
            return Err(HintsError::at(height, what));
        }
        for (order, wrong) in Self::ALL.into_iter().zip(&mut self.wrong) {
            if wrong.is_none() && !shape.ends_right(&code[head..], order) {
                *wrong = Some(height);
            }
        }
        if self.wrong == [None, None] {
            let [mut lsb, mut msb] = [Vec::new(), Vec::new()];
            let read = [
                elias_fano::decode(code, BitOrder::Lsb, &mut lsb),
                elias_fano::decode(code, BitOrder::Msb, &mut msb),
            ];
            self.wrong = read.map(|read| read.err().map(|_| height));
            if self.wrong == [None, None] && lsb != msb {
                self.differs.get_or_insert(height);
            }
        }
        Ok(())
    }

    /// Returns the order of a file with these codes.
    fn only(&self, first_height: u32) -> Result<BitOrder, HintsError> {
        match (self.wrong, self.differs) {
            // Both say the same: the one that files of this form usually have.
            ([None, None], None) if first_height == 0 => Ok(BitOrder::Msb),
            ([None, None], None) | ([None, Some(_)], _) => Ok(BitOrder::Lsb),
            ([Some(_), None], _) => Ok(BitOrder::Msb),
            ([None, None], Some(height)) => Err(HintsError::at(
                height,
                "its code names different outputs with bit 0 and with bit 7 of each byte first, \
                 and the other blocks do not tell which is right: choose with `apus hints compress \
                 --bit-order`, and use the file that it writes",
            )),
            ([Some(a), Some(b)], _) => Err(HintsError::at(
                a.max(b),
                "its last index is not the announced one, or its indices do not ascend, in either \
                 bit order",
            )),
        }
    }
}

/// Writes hints in a form of the draft.
pub(super) struct Encoder(pub Form);

impl HintsEncoder for Encoder {
    fn put_head(&self, height: u32, out: &mut Vec<u8>) {
        put_head(height, out);
        if self.0.first_height == 0 {
            out.push(0);
        }
    }

    fn put_block(
        &self,
        unspent: &[u32],
        outputs: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), HintsError> {
        check_block(unspent, outputs)?;
        elias_fano::encode(unspent, self.0.order, out).map_err(HintsError::new)
    }
}
