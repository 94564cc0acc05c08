//! Requests over HTTP, and their replies.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

/// The user and the password.
pub const USER: (&str, &str) = ("u", "p");
/// `u:p` in base64.
const CREDENTIALS: &str = "Basic dTpw";

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub verb: &'static str,
    pub path: String,
    /// The header `Authorization`.
    pub authorization: Option<&'static str>,
    pub body: Vec<u8>,
}

/// A reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: String,
    /// The header `Cache-Control`.
    pub caching: String,
    pub body: Vec<u8>,
}

/// The answer to a call: JSON text, or an error.
pub type Answer = Result<String, (i64, String)>;

/// A client of one server, with a connection that is kept open.
pub struct Client {
    port: u16,
    connection: RefCell<Option<BufReader<TcpStream>>>,
}

impl Request {
    /// A body for JSON-RPC.
    pub fn post(body: impl Into<Vec<u8>>) -> Self {
        let authorization = Some(CREDENTIALS);
        Self { verb: "POST", path: "/".to_string(), authorization, body: body.into() }
    }

    pub fn call(method: &str, params: &Value) -> Self {
        let call = serde_json::json!({ "method": method, "params": params, "id": 1 });
        Self::post(call.to_string())
    }

    /// A path of REST.
    pub fn rest(path: &str, body: &[u8]) -> Self {
        let verb = if body.is_empty() { "GET" } else { "POST" };
        Self { verb, path: format!("/rest/{path}"), authorization: None, body: body.to_vec() }
    }

    /// Returns the method of a single call.
    pub fn method(&self) -> Option<String> {
        let body = serde_json::from_slice::<Value>(&self.body).ok()?;
        body.get("method")?.as_str().map(str::to_string)
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(300).collect();
        write!(f, "{} {} {body:?}", self.verb, self.path)
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(1200).collect();
        write!(f, "{} {:?} {:?} {body:?}", self.status, self.content_type, self.caching)
    }
}

impl Reply {
    /// Returns the answer to a single call; `None` if the body is no reply.
    pub fn answer(&self) -> Option<Answer> {
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
        let body: Body = serde_json::from_slice(&self.body).ok()?;
        Some(match body.error {
            Some(Error { code, message }) => Err((code, message)),
            None => Ok(body.result.map_or("null", RawValue::get).to_string()),
        })
    }
}

impl Client {
    /// A client of the server at a port of this machine.
    pub fn new(port: u16) -> Self {
        Self { port, connection: RefCell::default() }
    }

    /// Returns whether the server accepts a connection.
    pub fn can_connect(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    /// Calls a method that does not fail.
    #[track_caller]
    pub fn must(&self, method: &str, params: &Value) -> Value {
        let answer = self.send(&Request::call(method, params)).answer().expect("a reply");
        serde_json::from_str(&answer.unwrap_or_else(|error| panic!("{method}: {error:?}"))).unwrap()
    }

    /// Sends a request on the connection that is kept open, since bitcoind is slow to close one.
    pub fn send(&self, request: &Request) -> Reply {
        let Request { verb, path, authorization, body } = request;
        let mut head = format!("{verb} {path} HTTP/1.1\r\nHost: localhost\r\n");
        if let Some(authorization) = authorization {
            head += &format!("Authorization: {authorization}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut kept = self.connection.borrow_mut();
        let stream = kept.get_or_insert_with(|| self.connect());
        stream.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut head);
            let read = read.unwrap_or_else(|error| panic!("{error}: {request}"));
            assert!(read > 0, "the connection is closed: {request}");
        }
        let field = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, it)| it).next()
        };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let content_type = field("Content-Type").unwrap_or_default().to_string();
        let caching = field("Cache-Control").unwrap_or_default().to_string();
        let len = field("Content-Length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        stream.read_exact(&mut body).unwrap();
        if field("Connection") == Some("close") {
            *kept = None;
        }
        Reply { status, content_type, caching, body }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        BufReader::new(stream)
    }
}
