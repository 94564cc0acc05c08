//! Answers people and programs over HTTP while Apus works (Core's `-server`): JSON-RPC, REST,
//! metrics for Prometheus, and a web page. It has threads of its own, and the pipelines never wait
//! for it: it reads what they have published.
//!
//! | module | what it does |
//! |---|---|
//! | `subnet`, `origin` | which addresses and which sites may ask |
//! | `auth`, `cookie` | names and passwords |
//! | [`config`] | how the server is reached, and by whom |
//! | `logs` | the categories of the log |
//! | [`live`] | what the running process reports about itself |
//! | `threads` | who answers calls, with limits on time and memory |
//! | `jsonrpc`, `named` | the frame of JSON-RPC around calls |
//! | `state` | what calls are answered from |
//! | `control`, `network` | the methods about each |
//! | `methods` | the list of all methods, with those of `apus-query` |
//! | `rpc` | the calls that are being answered |
//! | `connections` | limits on connections |
//! | `metrics` | what Prometheus reads |
//! | `page` | the web page |
//! | `router` | the routes, and who may take each |
//! | `serve` | sockets and the runtime: [`Server`] |
//! | [`offline`] | a server without sockets, for tests |

mod subnet;
mod origin;
mod auth;
mod cookie;
pub mod config;
mod logs;
pub mod live;
mod threads;
mod jsonrpc;
mod named;
mod state;
mod control;
mod network;
mod methods;
mod rpc;
mod connections;
mod metrics;
mod page;
mod router;
mod serve;
pub mod offline;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod load_tests;

pub use auth::{Credential, Whitelist};
pub use config::ServerConfig;
pub use cookie::COOKIE_FILE;
pub use live::Live;
pub use logs::Logs;
pub use serve::{Server, StartError};
pub use subnet::Subnet;
