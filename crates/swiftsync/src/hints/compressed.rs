//! Compressed hints as one of the formats; their code is in `compressed`.

use super::blocks::{OUTPUTS_MAX, check_block};
use super::{Format, Hints, HintsError, Numbering};
use crate::compressed::{self, DecodeError};
pub use crate::compressed::{Compressor, Survey, layout, ranges};

/// An opened compressed hints file. It takes at most 0.5 MiB of memory for tables and 9 MiB for
/// decoded frames, and 16 bytes for each frame of the file.
pub struct Compressed<B>(compressed::Compressed<B>);

impl<B: AsRef<[u8]>> Compressed<B> {
    /// Opens a file of these bytes, which are walked once to verify all checksums.
    ///
    /// # Errors
    /// The file is not of this format and version, is cut short, has bytes after its end, or is
    /// damaged.
    pub fn open(bytes: B) -> Result<Self, HintsError> {
        Ok(Self(compressed::Compressed::open(bytes)?))
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Hints for Compressed<B> {
    fn format(&self) -> Format {
        Format::Compressed
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn height(&self) -> u32 {
        self.0.height()
    }

    fn unspent(&self, height: u32, unspent: &mut Vec<u32>) -> Result<(), HintsError> {
        Ok(self.0.unspent(height, unspent)?)
    }

    fn output_count(&self, _height: u32) -> Option<u32> {
        None
    }
}

impl From<DecodeError> for HintsError {
    fn from(error: DecodeError) -> Self {
        Self { height: error.height, what: error.what }
    }
}

/// Returns a function that reads a block of `hints` for [`Survey::add`] and [`Compressor::range`].
///
/// # Errors
/// The format of the hints counts unspendable outputs. The function fails if a block's hints are
/// invalid.
pub fn blocks_of(
    hints: &dyn Hints,
) -> Result<impl Fn(u32, &mut Vec<u32>) -> Result<(), HintsError> + Copy + Send, HintsError> {
    if hints.format().numbering() != Numbering::Spendable {
        let what = "the format counts unspendable outputs: convert the file to bip456 first";
        return Err(HintsError::new(what));
    }
    Ok(move |height: u32, unspent: &mut Vec<u32>| {
        hints.unspent(height, unspent)?;
        let checked = check_block(unspent, OUTPUTS_MAX);
        checked.map_err(|error| HintsError::at(height, error.what))
    })
}

/// Compresses hints into a whole file, on one thread.
///
/// # Errors
/// As for [`blocks_of`].
pub fn compress(hints: &dyn Hints) -> Result<Vec<u8>, HintsError> {
    compressed::compress(hints.height(), blocks_of(hints)?)
}
