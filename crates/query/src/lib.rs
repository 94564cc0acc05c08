//! Answers about chain, blocks, transactions and coins, as Bitcoin Core's RPC and REST give them.
//!
//! Everything is answered from a [`View`](apus_node::view::View), which shows a directory as of its
//! last commit, so that a sync may run beside, and never waits. Field names, their order, the form
//! of numbers, and errors are Core's; docs/guide/server.md lists what differs.
//!
//! The crate does not know HTTP, authentication, peers, nor how a directory is synced: the caller
//! brings what needs the methods of syncing ([`AtRest`]).
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | an error with Core's code |
//! | [`json`] | JSON text, with numbers as Core prints them |
//! | [`params`] | the parameters of calls |
//! | [`waiting`] | calls that wait |
//! | `amount` | amounts of calls |
//! | `indexes` | Core's optional indexes |
//! | `scan_state` | a scan that runs |
//! | `source` | what answers are made of |
//! | `opcodes`, `script` | scripts |
//! | `transaction`, `stored`, `header` | transactions, stored blocks, headers |
//! | `chain`, `block`, `block_stats`, `deployments`, `coins`, `coin_stats` | calls about each |
//! | `scan_objects`, `scan_coins` | descriptors of a scan, and that of the UTXO set |
//! | `raw_transaction`, `filters`, `spenders`, `scan` | calls that indexes answer |
//! | `mining`, `address`, `decode` | calls about the next block, addresses, raw transactions |
//! | `descriptor` | a call about descriptors |
//! | `mempool` | calls about the mempool, which is empty |
//! | `proof`, `verify`, `wait` | calls that prove, verify, wait |
//! | `methods` | the list of all calls |
//! | `rest_answer`, `rest` | the REST interface |

pub mod error;
pub mod json;
pub mod params;
pub mod waiting;
mod amount;
mod indexes;
mod scan_state;
mod source;
mod opcodes;
mod script;
mod transaction;
mod stored;
mod header;
mod chain;
mod block;
mod raw_transaction;
mod block_stats;
mod coins;
mod coin_stats;
mod filters;
mod spenders;
mod scan_objects;
mod scan;
mod scan_coins;
mod deployments;
mod proof;
mod mining;
mod address;
mod decode;
mod descriptor;
mod mempool;
mod verify;
mod wait;
mod methods;
mod rest_answer;
mod rest;

pub use error::RpcError;
pub use json::Json;
pub use mempool::RELAY_FEE;
pub use methods::{About, Method, call, find, methods};
pub use rest::{reads_body, rest};
pub use rest_answer::RestAnswer;
pub use source::{AtRest, Source};
pub use waiting::Waiting;
