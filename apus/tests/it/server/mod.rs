//! `--server`: a program that answers while it works, and what it tells systemd.

pub mod client;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use apus_wire::Chain;
use rustix::process::Signal;
use serde_json::json;

use self::client::{Running, authorization, post, request};
use crate::peers::world::{tip, world};
use crate::serving::client::Serving;
use crate::support::Place;
use crate::support::program::{apus, assert_contains, assert_ends, program_on, stderr};
use crate::support::waiting::{LIMIT, wait_until};

const SERVE: [&str; 3] = ["serve", "--bind=127.0.0.1", "--port=0"];
const COUNT: &str = r#"{"method":"getblockcount","id":1}"#;

#[test]
fn a_directory_at_rest_is_asked_with_its_cookie() {
    let place = world().in_order();
    let running = Running::start(&place, &SERVE);
    let height = world().height();
    let reply = format!("{{\"result\":{height},\"error\":null,\"id\":1}}\n");
    assert_eq!(running.post(COUNT), (200, reply));
    assert_eq!(running.ask("getbestblockhash", json!([])), json!(tip().to_string()));
    assert_eq!(running.ask("getpeerinfo", json!([])), json!([]));
    assert_eq!(running.ask("getwalletinfo", json!([]))["code"], -32601);
    let (status, _) = post(running.address, &authorization("me:wrong"), COUNT);
    assert_eq!(status, 401);
    assert_eq!(request(running.address, "GET /readyz", "", "").0, 200);
    assert_eq!(request(running.address, "GET /rest/chaininfo.json", "", "").0, 404);
    let cookie = running.cookie.clone();
    assert!(cookie.exists());
    assert_eq!(running.ask("stop", json!([])), json!("Apus stopping"));
    assert_ends(&running.wait(), 0, &[]);
    assert!(!cookie.exists());
}

/// A sync follows its only peer, and is asked meanwhile.
#[test]
fn a_sync_is_asked_and_ends_well_by_a_signal() {
    let served = world().in_order();
    let server = Serving::start(&served, &["--server=0"]);
    let place = Place::new(Chain::Regtest);
    let socket = place.root().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(LIMIT)).unwrap();
    let connect = format!("--connect={}", server.address);
    let args = ["sync", "--follow", &connect, "--lan=0"];
    let running = Running::start_with(&place, &args, Some(&socket));
    wait_until("the sync is at the tip", || {
        running.ask("getblockcount", json!([])) == json!(world().height())
    });
    wait_until("the peer is shown", || running.ask("getconnectioncount", json!([])) == json!(1));
    let peers = running.ask("getpeerinfo", json!([]));
    assert_eq!(peers[0]["addr"], json!(server.address.to_string()));
    assert_eq!(peers[0]["network"], json!("not_publicly_routable"));
    assert_eq!(
        (&peers[0]["inbound"], &peers[0]["subver"]),
        (&json!(false), &json!("/Apus:0.1.0/"))
    );
    assert!(peers[0]["bytesrecv"].as_u64().unwrap() > 0, "{peers}");
    let info = running.ask("getnetworkinfo", json!([]));
    assert_eq!(
        (&info["connections_out"], &info["localservices"]),
        (&json!(1), &json!("0000000000000000"))
    );
    let text = running.metrics();
    for line in [format!("bitcoin_blocks {}.0", world().height()), "bitcoin_peers 1.0".to_string()]
    {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert_ends(&running.end(Signal::TERM), 0, &[]);
    let mut told = String::new();
    let mut buffer = [0; 1000];
    while !told.contains("STOPPING=1") {
        let read = systemd.recv(&mut buffer).unwrap();
        told += std::str::from_utf8(&buffer[..read]).unwrap();
    }
    assert!(told.starts_with("READY=1"), "{told}");
    assert!(told.contains("WATCHDOG=1\nSTATUS="), "{told}");
}

#[test]
fn a_cookie_that_was_not_written_is_not_named() {
    let place = world().in_order();
    std::fs::create_dir(place.network_dir().join(".cookie")).unwrap();
    let mut command = program_on(&place, &SERVE);
    let serve = command.args(["--server", "--rpcport=0"]);
    let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| !line.contains("Serving blocks on")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_contains(&said.join("\n"), &["cannot write the cookie", "Answering RPC"]);
    assert!(!said.iter().any(|line| line.contains("a password: those in")), "{said:#?}");
}

#[test]
fn passwords_come_from_files_and_are_not_shown() {
    let place = world().in_order();
    let conf = "[regtest]\nrpcuser=me\nrpcpassword=hidden\nrpcport=1\n";
    std::fs::write(place.datadir().join("bitcoin.conf"), conf).unwrap();
    let running = Running::start(&place, &SERVE);
    assert!(!running.cookie.exists());
    let (status, _) = post(running.address, &authorization("me:hidden"), COUNT);
    assert_eq!(status, 200);
    drop(running);
    let mut command = program_on(&place, &SERVE);
    let child = command.args(["--server=0"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    crate::support::program::signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert!(!stderr(&output).contains("hidden"), "{}", stderr(&output));
}

#[test]
fn what_served_peers_get_is_reported() {
    let place = world().in_order();
    for v2 in [true, false] {
        let v2transport = format!("--v2transport={}", u8::from(v2));
        let args = [&SERVE[..], &["--maxuploadtarget=5", &v2transport]].concat();
        let running = Running::start(&place, &args);
        let totals = running.ask("getnettotals", json!([]));
        assert_eq!(totals["uploadtarget"]["target"], json!(5 << 20), "{totals}");
        let info = running.ask("getnetworkinfo", json!([]));
        let services = info["localservicesnames"].as_array().unwrap();
        assert!(services.contains(&json!("NETWORK")), "{info}");
        assert_eq!(services.contains(&json!("P2P_V2")), v2, "{info}");
    }
}

/// Who is restricted in bitcoin.conf stays so, whatever the command line adds.
#[test]
fn lists_of_files_and_of_the_command_line_are_merged() {
    let place = world().in_order();
    let secret = "0123456789abcdef0123456789abcdef$\
                  0ad814968caefdecab8a6c0c55414688fdcad02f100ee7ac5def2352aaff36e5";
    let conf = format!(
        "[regtest]\nrpcauth=bob:{secret}\nrpcwhitelist=bob:getblockcount\nrpcwhitelistdefault=0\n"
    );
    std::fs::write(place.datadir().join("bitcoin.conf"), conf).unwrap();
    let alice = format!("--rpcauth=alice:{secret}");
    let options =
        [&alice[..], "--rpcwhitelist=alice:uptime", "--rpcwhitelist=bob:getblockcount,help"];
    let running = Running::start(&place, &[&SERVE[..], &options].concat());
    for (user, method, status) in [
        ("bob", "getblockcount", 200),
        ("bob", "uptime", 403),
        ("bob", "help", 403),
        ("alice", "uptime", 200),
        ("alice", "getblockcount", 403),
    ] {
        let call = format!(r#"{{"method":"{method}","id":1}}"#);
        let user = authorization(&format!("{user}:secret"));
        assert_eq!(post(running.address, &user, &call).0, status, "{method}");
    }
}

#[test]
fn wrong_options_of_the_server_are_refused() {
    let place = world().in_order();
    for (option, words) in [
        ("--rpcallowip=host", "--rpcallowip: 'host' is no address"),
        ("--rpcauth=me:x", "--rpcauth must have the form USER:SALT$HASH"),
        ("--rpccookieperms=none", "use owner, group or all"),
    ] {
        let output = apus(&place, &[&SERVE[..], &[option]].concat());
        assert_ends(&output, 2, &[words]);
        assert!(!stderr(&output).contains("me:x"), "{}", stderr(&output));
    }
    // The port is taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = format!("--rpcbind={}", taken.local_addr().unwrap());
    let output = apus(&place, &["reindex", "--server", &bind, "--rpcallowip=127.0.0.1"]);
    assert_ends(&output, 1, &["cannot listen for RPC on", "--rpcport"]);
}

/// Strangers who are silent, slow or wrong, more than there are connections, again and again.
#[test]
fn strangers_cost_little_and_hold_up_no_call() {
    let place = world().in_order();
    let running = Running::start(&place, &[&SERVE[..], &["--rest"]].concat());
    let wrong = authorization("me:wrong");
    let requests = [
        String::new(),
        "GET / HTTP/1.1\r\nHost".to_string(),
        "POST /rest/getutxos.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n".to_string(),
        "POST /rest/getutxos.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 33554432\r\n\r\n"
            .to_string(),
        format!("GET /rest/headers/2000/{}.json HTTP/1.1\r\nHost: a\r\n\r\n", tip()),
        format!("POST / HTTP/1.1\r\nHost: a\r\n{wrong}Content-Length: 33554432\r\n\r\n"),
        "GET /rest/odd.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50),
        "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50),
    ];
    let mut open = VecDeque::new();
    for number in 0..1500 {
        let mut stream = TcpStream::connect(running.address).unwrap();
        // The server may have closed it already, to make room.
        let _ = stream.write_all(requests[number % requests.len()].as_bytes());
        open.push_back(stream);
        if open.len() > 600 {
            open.pop_front();
        }
        if number % 50 == 0 {
            assert_eq!(running.post(COUNT).0, 200);
            assert_eq!(request(running.address, "GET /healthz", "", "").0, 200);
        }
    }
    // Memory and files are those of a server with 512 connections.
    assert!(running.peak_bytes() < 300 << 20, "{}", running.peak_bytes());
    assert!(running.open_files() < 600, "{}", running.open_files());
    assert_ends(&running.end(Signal::TERM), 0, &[]);
}
