//! Compact blocks (BIP152, version 2), as far as they are served.

use apus_hash::{Hash, SipKey, sha256};

use super::payload::PayloadError;
use crate::{BlockView, Cursor, HEADER_BYTES, put_compact_size};

/// Bytes of the hash by which a compact block names a transaction.
const SHORT_ID_BYTES: usize = 6;

/// A request for transactions of a block (`getblocktxn`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetBlockTxn {
    /// The hash of the block.
    pub block: Hash,
    /// The places of the transactions in the block, in rising order.
    pub indexes: Vec<u16>,
}

impl GetBlockTxn {
    pub(super) fn parse(cursor: &mut Cursor) -> Result<Self, PayloadError> {
        let block = Hash(cursor.array()?);
        let count = cursor.compact_size()?;
        let mut indexes = Vec::new();
        let mut next = 0;
        for _ in 0..count {
            let too_high = cursor.error("the place of a transaction has more than 16 bits");
            let index = cursor.compact_u64()?.saturating_add(next);
            indexes.push(u16::try_from(index).map_err(|_| too_high)?);
            next = index + 1;
        }
        Ok(Self { block, indexes })
    }
}

/// Returns the payload of `cmpctblock` for a block: its coinbase, and short hashes of all other
/// transactions, which depend on `nonce`.
pub fn compact_block<B: AsRef<[u8]>>(block: &BlockView<B>, nonce: u64) -> Vec<u8> {
    let mut out = block.bytes()[..HEADER_BYTES].to_vec();
    out.extend_from_slice(&nonce.to_le_bytes());
    let key = sha256(&out);
    let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("8 bytes"));
    let key = SipKey(half(0), half(8));
    let wtxids = block.wtxids();
    put_compact_size(&mut out, wtxids.len() as u64 - 1);
    for wtxid in &wtxids[1..] {
        out.extend_from_slice(&key.hash(&wtxid.0).to_le_bytes()[..SHORT_ID_BYTES]);
    }
    // One transaction is complete, and it is the first.
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(block.tx(0).bytes());
    out
}

/// Returns the payload of `blocktxn` with the transactions of a block that a request names; `None`
/// if the block has fewer transactions.
pub fn block_transactions<B: AsRef<[u8]>>(
    block: &BlockView<B>,
    request: &GetBlockTxn,
) -> Option<Vec<u8>> {
    let mut out = request.block.0.to_vec();
    put_compact_size(&mut out, request.indexes.len() as u64);
    for index in request.indexes.iter().map(|index| usize::from(*index)) {
        if index >= block.tx_count() {
            return None;
        }
        out.extend_from_slice(block.tx(index).bytes());
    }
    Some(out)
}
