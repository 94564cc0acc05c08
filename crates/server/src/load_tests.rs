//! The load that strangers and users can cause. All the while, a call with a password is
//! answered.

use std::io::Write;
use std::net::TcpStream;

use apus_query::About;
use apus_query::params::{Arg, ArgKind};
use apus_testdata::memory_of;

use super::Server;
use super::methods;
use super::offline::{AUTHORIZATION, Offline};
use super::tests::{UPTIME, basic, connect, rest_of, server};

/// Sends the beginning of a request and no more.
fn begin(server: &Server, text: &str) -> TcpStream {
    let mut stream = connect(server);
    // The server may have closed it already, to make room.
    let _ = stream.write_all(text.as_bytes());
    stream
}

fn post(user: &str, body: &str) -> String {
    let authorization = basic(user);
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Calls `uptime` on a new connection.
fn check_answered(server: &Server) {
    let text = rest_of(begin(server, &post("me:secret", UPTIME)));
    assert!(text.contains("\"result\":"), "{text}");
}

#[test]
fn bodies_that_do_not_come_hold_nobody_up() {
    let (server, _) = server(|config| config.rest = true);
    // With a password, a large one takes room that small ones do not need.
    let large = post("me:secret", "").replace("Content-Length: 0", "Content-Length: 33554432");
    let named: Vec<TcpStream> = (0..8).map(|_| begin(&server, &large)).collect();
    check_answered(&server);
    // Without one, others take their places.
    let open = "POST /rest/getutxos.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n";
    let strangers: Vec<TcpStream> = (0..600).map(|_| begin(&server, open)).collect();
    check_answered(&server);
    let large = open.replace("Length: 1", "Length: 33554432");
    assert!(rest_of(begin(&server, &large)).starts_with("HTTP/1.1 413 "));
    // Other endpoints read none.
    let unread = open.replace("getutxos.bin", "chaininfo.json");
    assert!(rest_of(begin(&server, &unread)).starts_with("HTTP/1.1 503 "));
    drop((named, strangers));
}

#[test]
fn readers_that_do_not_read_hold_nobody_up() {
    let (server, _) = server(|_| {});
    let large = format!(r#"{{"method":"echo","params":["{}"]}}"#, "a".repeat(8 << 20));
    let request = post("me:secret", &large);
    let unread: Vec<TcpStream> = (0..12).map(|_| begin(&server, &request)).collect();
    check_answered(&server);
    drop(unread);
}

#[test]
fn calls_that_wait_hold_no_thread() {
    let (server, _) = server(|config| config.threads = 2);
    let stop = r#"{"method":"stop","params":[10000]}"#;
    for body in [stop.to_string(), format!("[{stop},{stop}]")] {
        let waiting: Vec<TcpStream> =
            (0..20).map(|_| begin(&server, &post("me:secret", &body))).collect();
        check_answered(&server);
        drop(waiting);
    }
}

#[test]
fn odd_requests_and_wrong_passwords_hold_nobody_up() {
    let (server, _) = server(|config| config.rest = true);
    let wrong = post("me:wrong", UPTIME);
    let wrong: Vec<TcpStream> = (0..100).map(|_| begin(&server, &wrong)).collect();
    let mut flood = String::new();
    for at in 0..600 {
        flood += &format!("GET /rest/x{at}.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    let floods: Vec<TcpStream> = (0..4).map(|_| begin(&server, &flood)).collect();
    check_answered(&server);
    drop((wrong, floods));
}

#[test]
fn connections_beyond_the_most_make_room_for_a_call() {
    let (server, _) = server(|_| {});
    let mut open = Vec::new();
    for _ in 0..3 {
        open.extend((0..300).map(|_| begin(&server, "GET / HTTP/1.1\r\n")));
        check_answered(&server);
    }
}

fn values(kind: ArgKind, bytes: usize) -> Vec<String> {
    let text = format!(r#""{}""#, "z".repeat(bytes));
    match kind {
        ArgKind::Text | ArgKind::Any => vec![text, format!(r#""{}""#, "00".repeat(bytes / 2))],
        ArgKind::Array => vec![
            format!("[{}0]", "0,".repeat(bytes / 2)),
            format!("[{text}]"),
            format!(r#"[{{"desc":{text}}}]"#),
            format!(r#"[{{"txid":{text}}}]"#),
        ],
        ArgKind::Object => vec![format!("{{{text}:0}}")],
        ArgKind::Number => vec!["9".repeat(bytes)],
        ArgKind::Bool => vec!["true".to_string()],
    }
}

/// Returns a small value, with which what comes after it is read.
fn small(arg: &Arg) -> String {
    match arg.names {
        "action" => r#""start""#.to_string(),
        _ => values(arg.kind, 1).remove(0),
    }
}

#[test]
fn large_parameters_take_no_more_than_their_bytes() {
    let bytes = memory_of(
        large_parameters_take_no_more_than_their_bytes,
        || (),
        |()| send_large_parameters(),
    );
    assert!(bytes.is_none_or(|bytes| bytes < 80 << 20), "{bytes:?}");
}

/// Sends each parameter of each method with 1 kB, 100 kB and 2 MB. What takes quadratic time would
/// take hours.
fn send_large_parameters() {
    let server = Offline::new(|_| {});
    let ask = |method: &str, params: &str| {
        let body = format!(r#"{{"method":"{method}","params":{params},"id":1}}"#);
        let headers = [("host", "localhost"), ("authorization", AUTHORIZATION)];
        let (status, reply) = server.ask(("POST", "/"), &headers, body.as_bytes()).unwrap();
        assert!(matches!(status, 200 | 500) && !reply.is_empty(), "{method}: {status}");
    };
    for method in methods::all() {
        let &About { name, args, .. } = method.about();
        for at in 0..args.len() {
            for bytes in [1_000, 100_000, 2_000_000] {
                for large in values(args[at].kind, bytes) {
                    let mut params: Vec<String> = args[..at].iter().map(small).collect();
                    params.push(large);
                    ask(name, &format!("[{}]", params.join(",")));
                }
            }
        }
    }
    for text in
        ["zzz", "1111", "xpub", "bc1", "wpkh(xpub", "tr(", "wpkh(K/<0;1", "raw(00", "addr(1"]
    {
        let text = text.to_string() + &text[text.len() - 1..].repeat(100_000) + ")";
        ask("getdescriptorinfo", &format!(r#"["{text}"]"#));
        ask("validateaddress", &format!(r#"["{text}"]"#));
    }
    let names: Vec<String> = (0..100_000).map(|at| format!(r#""a{at}":0"#)).collect();
    ask("getblockcount", &format!("{{{}}}", names.join(",")));
}
