//! A listed snapshot as the UTXO set that bitcoind works with, unproved (Core's `loadtxoutset`).

mod load;
mod meanwhile;

pub use load::{check_base, listed, load};
pub use meanwhile::{is_loaded, load_while_missing};
