//! A client of JSON-RPC over HTTP, by hand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::Place;
use crate::support::program::{program_on, signal};
use crate::support::waiting::{LIMIT, wait_until};

/// Sends the body of a request, with the lines of `headers`, and returns status and body.
pub fn post(address: SocketAddr, headers: &str, body: &str) -> (u16, String) {
    request(address, "POST /", headers, body)
}

/// Sends a request, and returns status and body.
pub fn request(address: SocketAddr, what: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let length = body.len();
    let head = format!("{what} HTTP/1.0\r\n{headers}Content-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{what}: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_string())
}

/// Returns the header with this name and password.
pub fn authorization(pair: &str) -> String {
    use base64::Engine as _;
    format!("Authorization: Basic {}\r\n", base64::prelude::BASE64_STANDARD.encode(pair))
}

/// `apus` with a server; killed when it is dropped.
pub struct Running {
    child: Option<Child>,
    pub address: SocketAddr,
    pub cookie: PathBuf,
    password: String,
}

impl Running {
    /// Starts a command of `apus` on the directory of `place`, with a server on a free port, and
    /// waits until it says where.
    pub fn start(place: &Place, args: &[&str]) -> Self {
        Self::start_with(place, args, None)
    }

    /// Like [`Running::start`], with a socket that is told what systemd would be.
    pub fn start_with(place: &Place, args: &[&str], notified: Option<&Path>) -> Self {
        let mut command = program_on(place, args);
        command.args(["--server", "--rpcport=0"]);
        if let Some(socket) = notified {
            command.env("NOTIFY_SOCKET", socket);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            seen += &format!("{line}\n");
            let (_, after) = line.split_once("Answering RPC and showing a page on http://")?;
            Some(after.trim_end_matches('/').parse().unwrap())
        });
        // The rest is read, so that it need not wait.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.unwrap_or_else(|| panic!("no server: {seen}"));
        wait_until("the directory is open", || request(address, "GET /readyz", "", "").0 == 200);
        let cookie = place.network_dir().join(".cookie");
        let password = std::fs::read_to_string(&cookie).unwrap_or_default();
        Self { child: Some(child), address, cookie, password }
    }

    /// Sends a body with the password of the cookie.
    pub fn post(&self, body: &str) -> (u16, String) {
        post(self.address, &authorization(&self.password), body)
    }

    /// Returns what Prometheus would read.
    pub fn metrics(&self) -> String {
        request(self.address, "GET /metrics", &authorization(&self.password), "").1
    }

    /// Calls a method, and returns its result or its error.
    #[track_caller]
    pub fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"method": method, "params": params, "id": 1}).to_string();
        let (_, reply) = self.post(&body);
        let reply: Value = serde_json::from_str(&reply).unwrap();
        if reply["error"].is_null() { reply["result"].clone() } else { reply["error"].clone() }
    }

    /// Returns the most memory that it has taken.
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).unwrap().count()
    }

    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.as_ref().unwrap().id()).into()
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    /// Ends it by a signal.
    pub fn end(self, by: Signal) -> Output {
        signal(self.child.as_ref().unwrap(), by);
        self.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
