//! The routes, called without a socket; and the sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apus_node::Options;
use apus_node::view::View;
use apus_progress::{Observer, Unobserved};
use apus_progress::{Phase, Progress};
use apus_query::Source;
use apus_wire::{Chain, Network};
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::BodyExt;

use super::live::About;
use super::offline::Offline;
use super::{Credential, Live, Server, ServerConfig};

const HOME: &str = "127.0.0.1";

/// Sends a request of this machine, with the right password unless `password` is empty.
async fn ask(
    server: &Offline,
    (method, path): (&str, &str),
    password: &str,
    body: &str,
) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if !password.is_empty() {
        request = request.header(header::AUTHORIZATION, basic(password));
    }
    let request = request.body(Body::from(body.to_string())).unwrap();
    text(send(server, HOME, request).await).await
}

async fn send(server: &Offline, from: &str, request: Request<Body>) -> Response {
    server.send(from.parse().unwrap(), request).await
}

pub(super) fn basic(pair: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

async fn text(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

pub(super) const UPTIME: &str = r#"{"method":"uptime","id":1}"#;

#[tokio::test]
async fn a_password_opens_what_is_not_open_to_all() {
    let server = Offline::new(|_| {});
    let answer = "{\"result\":0,\"error\":null,\"id\":1}\n".to_string();
    assert_eq!(ask(&server, ("POST", "/"), "me:secret", UPTIME).await, (200, answer));
    for path in ["/", "/metrics"] {
        let (status, body) = ask(&server, ("GET", path), "", "").await;
        assert_eq!(status, 401, "{path}");
        assert!(body.contains(".cookie") && body.contains("--pagepublic"), "{path}: {body}");
        assert_eq!(ask(&server, ("GET", path), "me:secret", "").await.0, 200, "{path}");
    }
    assert_eq!(ask(&server, ("POST", "/"), "", UPTIME).await, (401, String::new()));
    assert_eq!(ask(&server, ("GET", "/healthz"), "", "").await, (200, "ok\n".to_string()));
    for (method, path, status) in [
        ("POST", "/wallet/", 404),
        ("GET", "/none", 404),
        ("GET", "/rest/chaininfo.json", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/%2e%2e/etc/passwd", 404),
        ("PUT", "/", 405),
        ("DELETE", "/", 405),
    ] {
        assert_eq!(
            ask(&server, (method, path), "me:secret", "").await.0,
            status,
            "{method} {path}"
        );
    }
    let only_post = "JSONRPC server handles only POST requests".to_string();
    assert_eq!(ask(&server, ("PUT", "/"), "", "").await, (405, only_post));
}

#[tokio::test]
async fn rest_needs_no_password_and_methods_that_core_knows() {
    let server = Offline::new(|config| config.rest = true);
    let path = "/rest/chaininfo.json";
    for password in ["", "me:secret", "me:wrong"] {
        // The directory is not open.
        assert_eq!(ask(&server, ("GET", path), password, "").await.0, 503, "{password}");
    }
    for method in ["HEAD", "POST", "PUT"] {
        assert_eq!(ask(&server, (method, path), "", "").await.0, 503, "{method}");
    }
    for method in ["CONNECT", "DELETE", "FOO", "OPTIONS", "PATCH", "TRACE", "get"] {
        for path in [path, "/", "/none"] {
            let answer = ask(&server, (method, path), "", "").await;
            assert_eq!(answer, (405, String::new()), "{method} {path}");
        }
    }
    // Another site is allowed by the right password alone.
    for (password, status) in [("me:secret", 503), ("me:wrong", 401)] {
        let request = Request::get(path).header("host", "node.example");
        let request = request.header(header::AUTHORIZATION, basic(password));
        let response = send(&server, HOME, request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status().as_u16(), status, "{password}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_answered_late() {
    let server = Offline::new(|_| {});
    let began = tokio::time::Instant::now();
    let request = Request::post("/").header(header::AUTHORIZATION, basic("me:wrong"));
    let response = send(&server, HOME, request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Basic realm=\"jsonrpc\"");
    assert_eq!(began.elapsed(), Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_told_by_no_answer() {
    let server = Offline::new(|config| config.rest = true);
    let began = tokio::time::Instant::now();
    for path in ["/healthz", "/readyz", "/", "/metrics", "/none"] {
        for host in ["localhost", "evil.example"] {
            let request = Request::get(path).header("host", host);
            let request = request.header(header::AUTHORIZATION, basic("me:wrong"));
            let response = send(&server, HOME, request.body(Body::empty()).unwrap()).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path} {host}");
        }
    }
    assert_eq!(began.elapsed(), 10 * Duration::from_millis(250));
}

#[tokio::test]
async fn a_user_of_some_methods_sees_no_page() {
    let server = Offline::new(|config| config.whitelist.add("me:uptime"));
    for path in ["/", "/events", "/metrics", "/page.js"] {
        assert_eq!(ask(&server, ("GET", path), "me:secret", "").await.0, 403, "{path}");
    }
    assert_eq!(ask(&server, ("POST", "/"), "me:secret", UPTIME).await.0, 200);
}

#[tokio::test]
async fn a_proxy_does_not_make_strangers_programs_of_this_machine() {
    let server = Offline::new(|config| config.page_is_public = true);
    for header in ["forwarded", "x-forwarded-for", "x-real-ip", "via"] {
        let page = Request::get("/").header("host", "localhost").header(header, "for=10.0.0.1");
        let response = send(&server, HOME, page.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{header}");
    }
    assert_eq!(ask(&server, ("GET", "/"), "", "").await.0, 200);
    assert_eq!(ask(&server, ("GET", "/metrics"), "", "").await.0, 401);
}

#[tokio::test]
async fn other_networks_and_other_sites_are_refused() {
    let server = Offline::new(|config| {
        config.allow = vec!["10.0.0.0/8".parse().unwrap()];
        config.page_is_public = true;
    });
    let post = || Request::post("/").header(header::AUTHORIZATION, basic("me:secret"));
    for (from, status) in [("10.1.2.3", 200), ("::1", 200), ("11.0.0.1", 403)] {
        let response = send(&server, from, post().body(Body::from(UPTIME)).unwrap()).await;
        assert_eq!(response.status().as_u16(), status, "{from}");
    }
    let evil = post().header("host", "127.0.0.1").header("origin", "http://evil.example");
    assert_eq!(send(&server, HOME, evil.body(Body::from(UPTIME)).unwrap()).await.status(), 403);
    // The page is public to this machine alone, under its own names.
    let page = |host: &str| Request::get("/").header("host", host).body(Body::empty()).unwrap();
    assert_eq!(send(&server, HOME, page("localhost:8332")).await.status(), 200);
    assert_eq!(send(&server, "10.1.2.3", page("10.0.0.1")).await.status(), 401);
    assert_eq!(send(&server, HOME, page("rebound.example")).await.status(), 403);
}

#[tokio::test]
async fn a_body_is_bounded() {
    let server = Offline::new(|_| {});
    let large = " ".repeat((32 << 20) + 1);
    assert_eq!(ask(&server, ("POST", "/"), "me:secret", &large).await.0, 413);
    // It is not even read without a password.
    assert_eq!(ask(&server, ("POST", "/"), "", &large).await.0, 401);
    let pieces = Body::new(http_body_util::StreamBody::new(Endless));
    let request = Request::post("/").header(header::AUTHORIZATION, basic("me:secret"));
    assert_eq!(send(&server, HOME, request.body(pieces).unwrap()).await.status(), 413);
}

/// A body that never ends.
struct Endless;

impl futures_core::Stream for Endless {
    type Item = Result<hyper::body::Frame<axum::body::Bytes>, std::convert::Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context,
    ) -> std::task::Poll<Option<Self::Item>> {
        let piece = axum::body::Bytes::from_static(&[b' '; 1 << 16]);
        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(piece))))
    }
}

#[tokio::test]
async fn networks_are_known_by_their_names() {
    let server = Offline::new(|_| {});
    for (name, expected) in [
        ("IPv4", r#""result":[]"#),
        ("cjdns", r#""result":[]"#),
        ("", r#"{"code":-8,"message":"Network not recognized: "}"#),
        ("foo", r#"{"code":-8,"message":"Network not recognized: foo"}"#),
        ("not_publicly_routable", r#"{"code":-8,"#),
    ] {
        let call = format!(r#"{{"method":"getnodeaddresses","params":[0,"{name}"],"id":1}}"#);
        let (_, text) = ask(&server, ("POST", "/"), "me:secret", &call).await;
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[tokio::test]
async fn stop_ends_the_work() {
    let server = Offline::new(|_| {});
    let (status, reply) = ask(&server, ("POST", "/"), "me:secret", r#"{"method":"stop"}"#).await;
    assert_eq!((status, reply.contains("stopping")), (200, true));
    assert!(server.is_stopped());
}

#[tokio::test]
async fn addresses_of_peers_are_counted() {
    let server = Offline::new(|_| {});
    server.live().observer(&Unobserved).addresses([[5, 2], [1, 0], [0, 3]]);
    let call = r#"{"method":"getaddrmaninfo","id":1}"#;
    let (status, text) = ask(&server, ("POST", "/"), "me:secret", call).await;
    let counts = "{\"ipv4\":{\"new\":5,\"tried\":2,\"total\":7},\
                  \"ipv6\":{\"new\":1,\"tried\":0,\"total\":1},\
                  \"onion\":{\"new\":0,\"tried\":3,\"total\":3},\
                  \"i2p\":{\"new\":0,\"tried\":0,\"total\":0},\
                  \"cjdns\":{\"new\":0,\"tried\":0,\"total\":0},\
                  \"all_networks\":{\"new\":6,\"tried\":5,\"total\":11}}";
    assert_eq!((status, text.contains(counts)), (200, true), "{text}");
}

#[tokio::test]
async fn metrics_tell_what_is_known() {
    let server = Offline::new(|_| {});
    let observer = server.live().observer(&Unobserved);
    observer.observe(&Progress { height: 7, coins: 9, ..Progress::of(Phase::Connecting) });
    observer.note("Warning: it rains");
    let (status, text) = ask(&server, ("GET", "/metrics"), "me:secret", "").await;
    assert_eq!(status, 200);
    for line in [
        "bitcoin_warnings_total 1.0",
        "bitcoin_uptime 0.0",
        "apus_phase{phase=\"Connecting blocks\"} 1.0",
        "apus_height 7.0",
        "apus_coins_cached 9.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
}

/// Starts a server on a free port of this machine.
pub(super) fn server(change: impl FnOnce(&mut ServerConfig)) -> (Server, Arc<Live>) {
    let mut config = ServerConfig::new(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)]);
    config.credentials = vec![Credential::new("me", "secret").unwrap()];
    change(&mut config);
    let options = Options::new(PathBuf::from("/d"), Network::new(Chain::Regtest));
    let live = Live::new(About::new(&options, "1", false));
    let view = Arc::<View>::default();
    let source = Source::of_sync(Arc::clone(&view), &options, || None);
    let server = Server::start(&config, &live, (source, &view), &Arc::default()).unwrap();
    (server, live)
}

pub(super) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Reads until the server closes the connection.
pub(super) fn rest_of(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn a_connection_carries_many_requests() {
    let (server, _) = server(|_| {});
    let mut stream = connect(&server);
    let head = format!("Host: localhost\r\nAuthorization: {}\r\n", basic("me:secret"));
    let length = UPTIME.len();
    let post = format!("POST / HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{UPTIME}");
    let last = format!("GET /healthz HTTP/1.1\r\n{head}Connection: close\r\n\r\n");
    stream.write_all((post.clone() + &post + &last).as_bytes()).unwrap();
    let text = rest_of(stream);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3, "{text}");
    assert_eq!(text.matches("content-type: application/json").count(), 2, "{text}");
}

#[test]
fn what_is_no_http_is_refused() {
    let (server, _) = server(|_| {});
    for (request, status) in [
        ("GARBAGE\r\n\r\n".to_string(), "HTTP/1.1 400 "),
        (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(1_000_000)), "HTTP/1.1 431 "),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1000)), "HTTP/1.1 431 "),
    ] {
        let mut stream = connect(&server);
        stream.write_all(request.as_bytes()).unwrap();
        let text = rest_of(stream);
        assert!(text.starts_with(status), "{}: {text}", &request[..20.min(request.len())]);
    }
}

#[test]
fn an_idle_connection_is_closed() {
    let (server, _) = server(|config| config.timeout = Some(Duration::from_millis(50)));
    let mut silent = connect(&server);
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0);
    let mut slow = connect(&server);
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert!(!rest_of(slow).contains("200 OK"));
}

#[test]
fn many_connections_leave_room_for_another() {
    let (server, _) = server(|_| {});
    let idle: Vec<TcpStream> = (0..600).map(|_| connect(&server)).collect();
    let mut stream = connect(&server);
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    assert!(rest_of(stream).contains("200 OK"));
    drop(idle);
}

#[test]
fn the_cookie_is_there_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".cookie");
    let file = super::config::CookieFile { path: path.clone(), mode: 0o600, is_needed: true };
    let (server, _) = server(|config| config.cookie = Some(file));
    let cookie = std::fs::read_to_string(&path).unwrap();
    let mut stream = connect(&server);
    let authorization = basic(&cookie);
    let post = format!(
        "POST / HTTP/1.0\r\nAuthorization: {authorization}\r\nContent-Length: {}\r\n\r\n{UPTIME}",
        UPTIME.len()
    );
    stream.write_all(post.as_bytes()).unwrap();
    assert!(rest_of(stream).contains("\"result\":0"));
    drop(server);
    assert!(!path.exists());
}
