//! UTXO snapshots: what is made, what is said of them, and what is refused.

mod create;
