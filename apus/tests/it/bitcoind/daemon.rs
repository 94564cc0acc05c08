//! A bitcoind, started, asked and stopped. Or a btcd.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use apus_hash::{Hash, hex};

use crate::support::ports::free_port;
use crate::support::waiting::{comes_true, wait_until};
use crate::support::{Place, note_skipped};

/// The program that an environment variable names; without one, says that the test is skipped.
pub fn program_in(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    if path.is_none() {
        note_skipped(&format!("{variable} is not set (make judge sets BITCOIND)"));
    }
    path
}

/// A running bitcoind; killed when it is dropped.
pub struct Daemon {
    child: Child,
    cli: PathBuf,
    chain: String,
    datadir: PathBuf,
    rpcport: u16,
    pub port: u16,
}

impl Daemon {
    /// Starts bitcoind on the data directory of `place`, and waits until it answers.
    ///
    /// # Panics
    /// It does not start: its log is in the message.
    pub fn start(program: &Path, place: &Place, options: &[&str]) -> Self {
        let port = free_port();
        let rpcport = free_port();
        std::fs::create_dir_all(place.datadir()).unwrap();
        let mut daemon = Self {
            child: Command::new(program)
                .args(["-listen=1", "-bind=127.0.0.1", "-connect=0", "-server=1"])
                .arg(chain_option(place))
                .arg(format!("-port={port}"))
                .arg(format!("-rpcport={rpcport}"))
                .arg(path_option("-datadir=", &place.datadir()))
                .args(options)
                .stdout(Stdio::null())
                .stderr(Stdio::inherit())
                .spawn()
                .unwrap(),
            cli: program.with_file_name("bitcoin-cli"),
            chain: chain_option(place),
            datadir: place.datadir(),
            rpcport,
            port,
        };
        let mut answers = false;
        let is_settled = comes_true(|| {
            answers = daemon.try_ask(&["getblockcount"]).is_some();
            answers || daemon.child.try_wait().unwrap().is_some()
        });
        let log = || std::fs::read_to_string(place.network_dir().join("debug.log"));
        let is_ready = is_settled && answers;
        assert!(is_ready, "bitcoind does not start:\n{}", log().unwrap_or_default());
        daemon
    }

    /// The answer of an RPC.
    ///
    /// # Panics
    /// It is an error.
    #[track_caller]
    pub fn ask(&self, arguments: &[&str]) -> String {
        self.try_ask(arguments).unwrap_or_else(|| panic!("bitcoind refuses {arguments:?}"))
    }

    /// The answer of an RPC, which is JSON.
    #[track_caller]
    pub fn ask_json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ask(arguments)).unwrap()
    }

    fn try_ask(&self, arguments: &[&str]) -> Option<String> {
        let output = self.cli().args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        output.status.success().then_some(text)
    }

    /// Whether it is older than v32. Bitcoin Core's next version is told apart from the one before
    /// by what it does.
    pub fn is_before_32(&self) -> bool {
        self.ask_json(&["getnetworkinfo"]).get("tx_send_rate").is_none()
    }

    /// The address of its RPC.
    pub fn rpc(&self) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.rpcport)
    }

    fn cli(&self) -> Command {
        let mut command = Command::new(&self.cli);
        command.arg(&self.chain).arg(path_option("-datadir=", &self.datadir));
        command.arg(format!("-rpcport={}", self.rpcport));
        command
    }

    /// The message of the error with which an RPC answers.
    #[track_caller]
    pub fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.cli().args(arguments).output().unwrap();
        assert!(!output.status.success(), "bitcoind accepts {arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Gives it the headers of blocks, which come in order of height.
    pub fn submit_headers<'a>(&self, blocks: impl IntoIterator<Item = &'a Vec<u8>>) {
        for block in blocks {
            self.ask(&["submitheader", &hex(&block[..80])]);
        }
    }

    /// Gives it blocks.
    pub fn submit_blocks<'a>(&self, blocks: impl IntoIterator<Item = &'a Vec<u8>>) {
        for block in blocks {
            self.ask(&["submitblock", &hex(block)]);
        }
    }

    /// Mines blocks without transactions, whose coinbases pay to an output key named by `digit`.
    pub fn mine(&self, blocks: u32, digit: char) {
        let script = format!("5120{}", digit.to_string().repeat(64));
        let decoded: serde_json::Value =
            serde_json::from_str(&self.ask(&["decodescript", &script])).unwrap();
        let address = decoded["address"].as_str().unwrap();
        self.ask(&["generatetoaddress", &blocks.to_string(), address]);
    }

    /// Where peers connect to.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops it, and waits for its end.
    pub fn stop(mut self) {
        self.ask(&["stop"]);
        wait_until("bitcoind stops", || self.child.try_wait().unwrap().is_some());
    }

    /// Waits until this block is the best one.
    #[track_caller]
    pub fn wait_for_tip(&self, hash: &Hash) {
        let hash = hash.to_string();
        wait_until("bitcoind has the tip", || self.ask(&["getbestblockhash"]) == hash);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn chain_option(place: &Place) -> String {
    format!("-chain={}", place.network.chain.name())
}

fn path_option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}
