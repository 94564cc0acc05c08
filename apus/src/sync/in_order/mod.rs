//! Syncing in order of height: each block takes the coins that it spends from the UTXO set, and the
//! best valid chain becomes the active one.

pub(super) mod activate;
pub(super) mod connect;
mod disconnect;
mod pipeline;
pub(super) mod side;
