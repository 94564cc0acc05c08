//! Loads a snapshot that Core's chain parameters list, unproved, as the UTXO set that bitcoind
//! works with (Core's `loadtxoutset`).

mod load;
mod meanwhile;

pub use load::{check_base, listed, load};
pub use meanwhile::{is_loaded, load_while_missing};
