//! How the server is reached, and by whom. Each option has Core's name, unless it is said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::auth::{Credential, Whitelist};
use super::subnet::Subnet;

/// Core's default of `-rpcthreads`.
const THREADS: usize = 16;
/// Core's default of `-rpcworkqueue`.
const WORK_QUEUE: usize = 64;
/// Core's default of `-rpcservertimeout`.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How the server is reached, and by whom.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The addresses to listen on. It is enough if one of them can be listened on.
    pub bind: Vec<SocketAddr>,
    /// Who may connect besides this machine (`-rpcallowip`).
    pub allow: Vec<Subnet>,
    /// Who may ask (`-rpcauth`, `-rpcuser` with `-rpcpassword`).
    pub credentials: Vec<Credential>,
    /// The file for a random password, with its permissions (`-rpccookiefile`, `-rpccookieperms`);
    /// `None` for none.
    pub cookie: Option<CookieFile>,
    /// Which methods users may call (`-rpcwhitelist`).
    pub whitelist: Whitelist,
    /// Whether REST is answered (`-rest`).
    pub rest: bool,
    /// Whether the page is shown to this machine without a password. Not an option of Core.
    pub page_is_public: bool,
    /// The most calls that are answered at a time (`-rpcthreads`).
    pub threads: usize,
    /// The most calls that wait (`-rpcworkqueue`).
    pub work_queue: usize,
    /// Time after which an idle connection is closed (`-rpcservertimeout`); `None` for no limit.
    pub timeout: Option<Duration>,
}

/// The file for a random password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieFile {
    pub path: PathBuf,
    /// Its permissions, as for `chmod`.
    pub mode: u32,
    /// Whether a file that cannot be written is an error; otherwise there is none, and a warning
    /// says so.
    pub is_needed: bool,
}

impl ServerConfig {
    /// Returns Core's defaults for these addresses.
    pub fn new(bind: Vec<SocketAddr>) -> Self {
        Self {
            bind,
            allow: Vec::new(),
            credentials: Vec::new(),
            cookie: None,
            whitelist: Whitelist::default(),
            rest: false,
            page_is_public: false,
            threads: THREADS,
            work_queue: WORK_QUEUE,
            timeout: Some(TIMEOUT),
        }
    }
}
