//! A bitcoind, asked over its own HTTP.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;

/// `u:p` in base64.
const CREDENTIALS: &str = "dTpw";

/// A running bitcoind; killed when it is dropped.
pub struct Daemon {
    child: Child,
    rpcport: u16,
    connection: RefCell<Option<BufReader<TcpStream>>>,
}

/// An answer over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: String,
    pub body: Vec<u8>,
}

/// The answer to a call: JSON text, or an error.
pub type Answer = Result<String, (i64, String)>;

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
    pub fn start(program: &Path, datadir: &Path, chain: &str, options: &[&str]) -> Self {
        let free_port = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let rpcport = free_port();
        let child = Command::new(program)
            .arg(format!("-chain={chain}"))
            .args([
                "-listen=0",
                "-connect=0",
                "-server=1",
                "-rest=1",
                "-rpcuser=u",
                "-rpcpassword=p",
            ])
            .arg(format!("-rpcport={rpcport}"))
            .arg(format!("-datadir={}", datadir.display()))
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut daemon = Self { child, rpcport, connection: RefCell::default() };
        let until = Instant::now() + Duration::from_secs(120);
        while !daemon.is_ready() {
            assert!(daemon.child.try_wait().unwrap().is_none(), "bitcoind does not start");
            assert!(Instant::now() < until, "bitcoind does not answer");
            std::thread::yield_now();
        }
        daemon
    }

    fn is_ready(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.rpcport)).is_ok()
            && self.ask("getblockcount", &Value::Array(vec![])).is_ok()
    }

    /// Calls a method.
    pub fn ask(&self, method: &str, params: &Value) -> Answer {
        let request = serde_json::json!({ "method": method, "params": params, "id": 1 });
        let head = format!("POST / HTTP/1.1\r\nAuthorization: Basic {CREDENTIALS}\r\n");
        let reply = self.exchange(&head, request.to_string().as_bytes());
        let body = String::from_utf8(reply.body).unwrap();
        #[derive(serde::Deserialize)]
        struct Error {
            code: i64,
            message: String,
        }
        #[derive(serde::Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<Error>,
        }
        let body: Body =
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        match body.error {
            Some(Error { code, message }) => Err((code, message)),
            None => Ok(body.result.map_or("null", RawValue::get).to_string()),
        }
    }

    /// Calls a method that does not fail.
    #[track_caller]
    pub fn must(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, &params);
        serde_json::from_str(&answer.unwrap_or_else(|error| panic!("{method}: {error:?}"))).unwrap()
    }

    /// Requests a path of REST.
    pub fn rest(&self, path: &str, body: &[u8]) -> Reply {
        let verb = if body.is_empty() { "GET" } else { "POST" };
        self.exchange(&format!("{verb} /rest/{path} HTTP/1.1\r\n"), body)
    }

    /// Sends a request on the connection that is kept open, since bitcoind is slow to close one.
    fn exchange(&self, head: &str, body: &[u8]) -> Reply {
        let mut kept = self.connection.borrow_mut();
        let stream = kept.get_or_insert_with(|| {
            let stream = TcpStream::connect(("127.0.0.1", self.rpcport)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
            stream.set_nodelay(true).unwrap();
            BufReader::new(stream)
        });
        let rest = format!("Host: x\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all(&[head.as_bytes(), rest.as_bytes(), body].concat()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut head).unwrap_or_else(|error| {
                panic!("{error}: {}", String::from_utf8_lossy(body));
            });
            assert!(read > 0, "bitcoind closes the connection");
        }
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let content_type = field("Content-Type: ").unwrap_or_default().to_string();
        let mut body = vec![0; field("Content-Length: ").unwrap().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        if field("Connection: ") == Some("close") {
            *kept = None;
        }
        Reply { status, content_type, body }
    }

    /// Stops it, and waits for its end.
    pub fn stop(mut self) {
        self.must("stop", Value::Array(vec![]));
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
