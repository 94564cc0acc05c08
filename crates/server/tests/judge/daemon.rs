//! The two servers: a bitcoind, and that of Apus.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_disk::Disk;
use apus_node::Run;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::view::View;
use apus_query::Source;
use apus_server::live::About;
use apus_server::{Credential, Live, Server, ServerConfig};
use serde_json::Value;

use super::http::{Client, Request, USER};

/// A running bitcoind; killed when it is dropped.
pub struct Daemon {
    child: Child,
    pub client: Client,
}

/// The program that BITCOIND names; without one, says that `test` is skipped.
pub fn bitcoind(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("BITCOIND").filter(|path| !path.is_empty()).map(PathBuf::from);
    if path.is_none() {
        // This bypasses the capture of a passing test's output, so that it is seen.
        let words = format!("skipped {test}: BITCOIND is not set (make judge sets it)\n");
        std::io::stderr().write_all(words.as_bytes()).unwrap();
    }
    path
}

impl Daemon {
    /// Starts bitcoind on a data directory, and waits until it answers.
    pub fn start(program: &Path, datadir: &Path, chain: &str, options: &[String]) -> Self {
        let free_port = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let rpcport = free_port();
        let child = Command::new(program)
            .arg(format!("-chain={chain}"))
            .args(["-listen=0", "-connect=0", "-server=1", "-rest=1"])
            .args([format!("-rpcuser={}", USER.0), format!("-rpcpassword={}", USER.1)])
            .arg(format!("-rpcport={rpcport}"))
            .arg(format!("-datadir={}", datadir.display()))
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut daemon = Self { child, client: Client::new(rpcport) };
        let until = Instant::now() + Duration::from_secs(120);
        while !daemon.is_ready() {
            assert!(daemon.child.try_wait().unwrap().is_none(), "bitcoind does not start");
            assert!(Instant::now() < until, "bitcoind does not answer");
            std::thread::yield_now();
        }
        daemon
    }

    /// Returns whether it answers, and has nothing left to index.
    fn is_ready(&self) -> bool {
        let answer = |method: &str| {
            let reply = self.client.send(&Request::call(method, &Value::Array(vec![])));
            reply.answer().expect("a reply").ok()
        };
        self.client.can_connect()
            && answer("getindexinfo").is_some_and(|indexes| !indexes.contains("false"))
    }

    /// Stops it, and waits for its end.
    pub fn stop(mut self) {
        self.client.must("stop", &Value::Array(vec![]));
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves a directory as `apus serve --rest` does.
pub fn serve(options: &Options) -> (Server, Client) {
    let view = Arc::new(View::default());
    let run = Run::new(options).shown_in(Some(Arc::clone(&view)));
    let keep = |_: &Disk, _: &Options| Ok(Vec::new());
    drop(Node::open(&run, Coins::ReadOnly, keep).unwrap());
    let mut config = ServerConfig::new(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)]);
    config.credentials = vec![Credential::new(USER.0, USER.1).unwrap()];
    config.rest = true;
    let live = Live::new(About::new(options, "1", true));
    let source = Source::at_rest(Arc::clone(&view), options, apus_tools::at_rest(options));
    let server = Server::start(&config, &live, (source, &view), &Arc::default()).unwrap();
    let client = Client::new(server.addresses()[0].port());
    (server, client)
}
