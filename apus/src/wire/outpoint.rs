use std::fmt;

use crate::hash::Hash;

/// Which output a coin is: the transaction and the output's index in it (Core's `COutPoint`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(C)]
pub struct OutPoint {
    /// The transaction that created it.
    pub txid: Hash,
    /// Its index among that transaction's outputs.
    pub vout: u32,
}

impl OutPoint {
    /// The outpoint in the 36 bytes that a transaction's input starts with.
    #[inline]
    pub fn from_bytes(bytes: &[u8; 36]) -> Self {
        let (txid, vout) = bytes.split_at(32);
        let mut outpoint = Self::default();
        outpoint.txid.0.copy_from_slice(txid);
        outpoint.vout = u32::from_le_bytes([vout[0], vout[1], vout[2], vout[3]]);
        outpoint
    }

    /// The 36 bytes of the wire format.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..32].copy_from_slice(&self.txid.0);
        bytes[32..].copy_from_slice(&self.vout.to_le_bytes());
        bytes
    }

    /// Whether this is what a coinbase spends: nothing (Core's `COutPoint::IsNull`).
    pub fn is_null(&self) -> bool {
        self.vout == u32::MAX && self.txid.is_zero()
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.txid, self.vout)
    }
}
