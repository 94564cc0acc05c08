//! The constants of the format that docs/format.md names.

pub use super::frame::{FRAME_BLOCKS_MAX, FRAME_INDICES_MAX, LANES};
pub use super::model::{CONTEXTS, TABLES_MAX};
pub use super::rans::{SLOT_BITS, STATE_START};
pub use super::token::TOKENS;

/// The first bytes of a file.
pub const COMPRESSED_MAGIC: [u8; 4] = *b"APHC";
/// The version, which follows the magic.
pub const COMPRESSED_VERSION: u8 = 0;
/// The length of magic, version, height, and length of the model.
pub const COMPRESSED_HEAD_BYTES: usize = 13;
/// The length of an index entry: a frame's number of blocks, length and CRC-32C.
pub const COMPRESSED_ENTRY_BYTES: usize = 10;
/// The length of the tail: the number of frames, and the CRC-32C of all but the frames.
pub const COMPRESSED_TAIL_BYTES: usize = 8;
