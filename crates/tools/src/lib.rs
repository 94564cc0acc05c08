//! Commands on a data directory besides syncing it. This crate does not know how a sync works: it
//! opens directories, proves and disconnects blocks through `apus-sync`.
//!
//! | module | what it does |
//! |---|---|
//! | [`at_rest`](mod@at_rest) | verifies and copies a directory for a server |
//! | [`index`](mod@index) | builds Core's optional indexes |
//! | [`info`] | computes statistics of the UTXO set (Core's `gettxoutsetinfo`) |
//! | [`verify`](mod@verify) | checks blocks, undo data and UTXO set (Core's `verifychain`) |
//! | [`machine`] | looks at the machine: what to do on it, and what makes a sync slow or unsafe |
//! | [`status`](mod@status) | reads the state of a directory |
//! | [`busy`](mod@busy) | what another program does with a directory that it has locked |
//! | [`refused`] | what to do where the system refuses something |
//! | [`rewind`](mod@rewind) | takes the UTXO set back to a lower height |
//! | [`serve`](mod@serve) | serves blocks to peers |
//! | [`prune`](mod@prune) | deletes block files (Core's `pruneblockchain`) |

pub mod at_rest;
pub mod busy;
pub mod index;
pub mod info;
pub mod machine;
pub mod prune;
pub mod refused;
pub mod rewind;
pub mod serve;
pub mod status;
pub mod verify;

pub use apus_coins::{HashType as UtxoHash, UtxoStats};
pub use apus_indexes::{IndexReach, Indexed, StatisticsAt, Totals};
pub use apus_store::{IndexKind, TxIndexForm};
pub use at_rest::at_rest;
pub use busy::{Busy, Reached, busy};
pub use index::{index, index_on};
pub use info::{txoutset_info, txoutset_info_at};
pub use prune::prune;
pub use rewind::{rewind, rewind_on};
pub use serve::{can_serve, has_filters, serve};
pub use status::{IndexStatus, SnapshotStatus, Status, Unfinished, status};
pub use verify::{verify, verify_on};
