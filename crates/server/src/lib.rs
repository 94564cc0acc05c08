//! Answers people and programs over HTTP while Apus works (Core's `-server`): JSON-RPC, REST,
//! metrics for Prometheus, and a web page. It has threads of its own, and the pipelines never wait
//! for it: it reads what they have published.
//!
//! | module | what it does |
//! |---|---|
//! | `subnet`, `origin` | which addresses and which sites may ask |
//! | `auth`, `cookie` | names and passwords |
//! | [`config`] | how the server is reached, and by whom |
//! | [`live`] | what the running process reports about itself |
//! | `rpc_error`, `jsonrpc`, `named` | the frame of JSON-RPC around calls |
//! | `control` | the methods about the process itself |
//! | `rpc` | the methods, and the calls that are being answered |
//! | `workers`, `connections` | limits on threads, queues, memory and connections |
//! | `metrics` | what Prometheus reads |
//! | `page` | the web page |
//! | `router` | the routes, and who may take each |
//! | `serve` | sockets and the runtime: [`Server`] |

mod subnet;
mod origin;
mod auth;
mod cookie;
pub mod config;
pub mod live;
mod rpc_error;
mod jsonrpc;
mod named;
mod control;
mod rpc;
mod workers;
mod connections;
mod metrics;
mod page;
mod router;
mod serve;
#[cfg(test)]
mod tests;

pub use auth::{Credential, Whitelist};
pub use config::Config;
pub use cookie::COOKIE_FILE;
pub use live::Live;
pub use serve::{Server, StartError};
pub use subnet::Subnet;
