//! Bitcoin's wire format: from bytes to views and back. This crate knows neither files nor sockets.
//!
//! A [`BlockView`] is made once for each block and holds only offsets: walking it reads the bytes
//! of the block, and hashing it needs no serialisation. Making the views of the 2.1 GB of blocks in
//! docs/budget.md takes 0.13 s, which is 5 % of SwiftSync's time target.

#![warn(missing_docs)]

mod assumeutxo;
mod block;
mod cursor;
mod header;
mod locks;
mod merkle;
pub mod message;
mod network;
#[allow(missing_docs, reason = "the names are those of the script language")]
pub mod opcodes;
mod outpoint;
mod packed;
mod prevout;
mod script;

pub use assumeutxo::AssumeutxoData;
pub use block::{BlockView, InputView, OutputView, TxView, WITNESS_COMMITMENT_HEADER, Witness};
pub use cursor::{
    Cursor, ENDS, ParseError, VARINT_BYTES_MAX, compact_size, compact_size_len, put_compact_size,
    put_varint, put_varint_at, varint_len,
};
pub use header::{HEADER_BYTES, Header};
pub use locks::{
    LOCK_TIME_THRESHOLD, SEQUENCE_FINAL, SEQUENCE_LOCK_DISABLED, SEQUENCE_LOCK_IN_SECONDS,
    SEQUENCE_LOCK_MASK,
};
pub use merkle::{MerkleRoot, merkle_root};
pub use network::{Chain, ChainTxData, Network, ScriptFlags, flags, genesis_block};
pub use outpoint::OutPoint;
pub use packed::{Packed, packed};
pub use prevout::Prevout;
pub use script::{MAX_SCRIPT_BYTES, Op, Ops, is_unspendable};
