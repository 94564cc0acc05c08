use apus_wire::packed;

use super::bip456::Form;
use super::elias_fano::BitOrder;
use super::error::HintsError;
use super::format::{Format, Hints, HintsEncoder};
use super::{Bip456, Bitset, Booster, Compressed, bip456, bitset, booster, btcd, compressed, gzip};

/// Returns the format of a hints file, by its first bytes; [`Format::Bip456`] for all forms of that
/// draft, which only reading the file tells apart.
///
/// The magic is checked first: bip456, bitset and btcd share one, and the version or the bytes
/// after their head tell them apart. A gzip file is taken for one of btcd. Booster's files have no
/// magic and are recognised by their first block, so they come last.
///
/// # Errors
/// No format begins with these bytes.
pub fn recognise(bytes: &[u8]) -> Result<Format, HintsError> {
    let is_btcd = bytes.get(bip456::MAGIC.len()) == Some(&btcd::VERSION);
    if bytes.starts_with(&gzip::MAGIC) || bytes.starts_with(&bip456::MAGIC) && is_btcd {
        return Ok(Format::Btcd);
    }
    if bytes.starts_with(&bip456::MAGIC) {
        return Ok(if bitset::is_bitset(bytes) { Format::Bitset } else { Format::Bip456 });
    }
    if bytes.starts_with(&compressed::layout::COMPRESSED_MAGIC) {
        return Ok(Format::Compressed);
    }
    if bytes.starts_with(&booster::GENESIS) {
        return Ok(Format::Booster);
    }
    Err(HintsError::new(match packed(bytes) {
        Some(packed) => packed.advice(),
        None => "this is not a hints file: `apus hints create` makes one from a synced directory"
            .to_string(),
    }))
}

/// Opens a hints file of any format. `bytes` are those of the whole file, in a memory map or on the
/// heap.
///
/// # Errors
/// The file is not a hints file, is cut short, has bytes after its end, or has an invalid block; or
/// it is of BIP 456, and its bits say different things in the two orders. Errors that only decoding
/// can find are left to [`Hints::unspent`].
pub fn open<B>(bytes: B) -> Result<Box<dyn Hints>, HintsError>
where
    B: AsRef<[u8]> + Send + Sync + 'static,
{
    open_with(bytes, None)
}

/// Like [`open`], for a file of BIP 456 whose bit order is known. Other formats have only one.
///
/// # Errors
/// As [`open`], but either bit order will do if it is given.
pub fn open_with<B>(bytes: B, order: Option<BitOrder>) -> Result<Box<dyn Hints>, HintsError>
where
    B: AsRef<[u8]> + Send + Sync + 'static,
{
    Ok(match recognise(bytes.as_ref())? {
        Format::Btcd => Box::new(btcd::open(bytes.as_ref())?),
        Format::Booster => Box::new(Booster::open(bytes)?),
        Format::Bitset => Box::new(Bitset::open(bytes)?),
        Format::Compressed => Box::new(Compressed::open(bytes)?),
        Format::Bip456 | Format::Bip456Lsb | Format::Hintsfile01 | Format::Hintsfile02 => {
            Box::new(Bip456::open(bytes, order)?)
        }
    })
}

/// Returns the encoder of a format. Compressed hints are not written block by block but by
/// [`compressed::compress_range`]: their encoder here writes nothing and refuses each block.
pub fn encoder(format: Format) -> Box<dyn HintsEncoder> {
    let bip456 = |order, first_height| Box::new(bip456::Encoder(Form { order, first_height }));
    match format {
        Format::Bip456 => bip456(BitOrder::Msb, 0),
        Format::Bip456Lsb => bip456(BitOrder::Lsb, 0),
        Format::Hintsfile01 => bip456(BitOrder::Msb, 1),
        Format::Hintsfile02 => bip456(BitOrder::Lsb, 1),
        Format::Btcd => Box::new(btcd::Encoder),
        Format::Booster => Box::new(booster::Encoder),
        Format::Bitset => Box::new(bitset::Encoder),
        Format::Compressed => Box::new(NoEncoder),
    }
}

const NO_BLOCKS: &str = "compressed hints are not written block by block";

/// Stands in for the encoder of compressed hints: it has no head and no tail, and refuses each
/// block.
struct NoEncoder;

impl HintsEncoder for NoEncoder {
    fn put_head(&self, _height: u32, _out: &mut Vec<u8>) {}

    fn put_block(&self, _: &[u32], _: u32, _: &mut Vec<u8>) -> Result<(), HintsError> {
        Err(HintsError::new(NO_BLOCKS))
    }
}
