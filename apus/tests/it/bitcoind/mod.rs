//! A real bitcoind, as a peer and as a judge of what Apus leaves. `make judge` builds it and sets
//! BITCOIND; without that, these tests say that they are skipped.

pub mod daemon;
mod debug_log;
mod filters;
mod history;
mod indexes;
mod matrix;
mod messages;
mod pruning;
mod reconsider;
mod rpc_frame;
mod serving;
mod settings;
mod snapshot;
mod snapshot_state;
mod sync;
mod verify;
