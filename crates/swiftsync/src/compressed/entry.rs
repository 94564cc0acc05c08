use super::layout::COMPRESSED_ENTRY_BYTES;

/// The entry of a frame in the file's index.
#[derive(Clone, Copy, Debug)]
pub struct FrameEntry {
    /// The number of blocks in the frame.
    pub(crate) blocks: u16,
    /// The length of the frame's code, in bytes.
    pub(crate) len: u32,
    /// The CRC-32C of the frame's code.
    pub(crate) crc: u32,
}

impl FrameEntry {
    pub(crate) fn read(bytes: [u8; COMPRESSED_ENTRY_BYTES]) -> Self {
        let [b0, b1, l0, l1, l2, l3, crc @ ..] = bytes;
        let blocks = u16::from_le_bytes([b0, b1]);
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        Self { blocks, len, crc: u32::from_le_bytes(crc) }
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }
}
