//! Bytes to views and back. Knows neither files nor sockets.
//!
//! [`BlockView`] is made once for each block and carries offsets only: walking it reads the
//! block's own bytes, and hashing it never serialises anything again. At 0.13 s for the 2.1 GB of
//! the budget's chain (docs/budget.md) the walk is 5 % of the SwiftSync target.

mod block;
mod cursor;
mod header;
mod merkle;
mod network;
#[allow(missing_docs, reason = "the names are those of the script language")]
pub mod opcodes;
mod outpoint;
mod packed;
mod script;

pub use block::{BlockView, InputView, OutputView, TxView, WITNESS_COMMITMENT_HEADER, Witness};
pub use cursor::{Cursor, ParseError, compact_size_len, put_compact_size, put_varint, varint_len};
pub use header::{HEADER_BYTES, Header};
pub use merkle::{MerkleRoot, merkle_root};
pub use network::{Chain, Network, ScriptFlags, flags, genesis_block};
pub use outpoint::OutPoint;
pub use packed::{Packed, packed};
pub use script::{MAX_SCRIPT_BYTES, is_unspendable};
