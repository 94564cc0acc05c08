//! Syncing in order of height: each block takes the coins that it spends from the UTXO set, and the
//! best valid chain becomes the active one.

pub mod activate;
pub mod connect;
mod disconnect;
mod pipeline;
mod ready;
mod sections;
pub mod side;
