use std::fmt;

use apus_hash::Hash;

/// A reference to a transaction output: the txid and the index of the output (Core's `COutPoint`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(C)]
pub struct OutPoint {
    /// The txid of the transaction that created the output.
    pub txid: Hash,
    /// The index of the output in that transaction.
    pub vout: u32,
}

impl OutPoint {
    /// Reads an outpoint in the wire format, with which every input starts.
    #[inline]
    pub fn from_bytes(bytes: &[u8; 36]) -> Self {
        let (txid, vout) = bytes.split_at(32);
        let mut outpoint = Self::default();
        outpoint.txid.0.copy_from_slice(txid);
        outpoint.vout = u32::from_le_bytes([vout[0], vout[1], vout[2], vout[3]]);
        outpoint
    }

    /// Returns the outpoint in the wire format.
    #[inline]
    pub fn to_bytes(self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..32].copy_from_slice(&self.txid.0);
        bytes[32..].copy_from_slice(&self.vout.to_le_bytes());
        bytes
    }

    /// Returns whether this is the null outpoint, which refers to no output and appears in the
    /// input of a coinbase (Core's `COutPoint::IsNull`).
    #[inline]
    pub fn is_null(&self) -> bool {
        self.vout == u32::MAX && self.txid.is_zero()
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.txid, self.vout)
    }
}
