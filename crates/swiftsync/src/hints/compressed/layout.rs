//! The constants of the format that docs/format.md names.

/// The first bytes of a file.
pub const COMPRESSED_MAGIC: [u8; 4] = *b"APHC";
/// The version, which follows the magic.
pub const COMPRESSED_VERSION: u8 = 1;
/// The length of magic, version and height.
pub const COMPRESSED_HEAD_BYTES: usize = 9;
/// The length of an index entry: a frame's number of blocks, length and CRC-32C.
pub const COMPRESSED_ENTRY_BYTES: usize = 10;
/// The length of the tail: the number of frames, and the CRC-32C of all but the frames.
pub const COMPRESSED_TAIL_BYTES: usize = 8;
/// The largest number of indices in a frame: they are decoded in a millisecond, and take 512 KiB. A
/// block has at most 111,111.
pub const FRAME_INDICES_MAX: usize = 1 << 17;
/// The largest number of blocks in a frame.
pub const FRAME_BLOCKS_MAX: usize = 1 << 12;
