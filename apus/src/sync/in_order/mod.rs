//! In order of height: blocks take their coins from the UTXO set, and the best valid chain becomes
//! the active one.

pub(super) mod activate;
mod connect;
mod disconnect;
mod pipeline;
