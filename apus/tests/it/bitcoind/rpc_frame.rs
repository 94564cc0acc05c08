//! The frame of JSON-RPC, and the methods that are not about blocks and coins: bitcoind and Apus
//! answer the same bytes to the same requests.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::daemon::{Daemon, program_in};
use crate::peers::world::world;
use crate::server::client::{Running, authorization, post, request};

/// Bodies that both answer alike, byte for byte.
const BODIES: &[&str] = &[
    // Versions, ids, notifications.
    r#"{"method":"getblockcount","params":[],"id":1}"#,
    r#"{"method":"getblockcount"}"#,
    r#"{"method":"getblockcount","id":null}"#,
    r#"{"method":"getblockcount","params":null,"id":1.50}"#,
    r#"{"method":"getblockcount","params":{},"id":{"a":[1,"b"]}}"#,
    r#"{"jsonrpc":"1.0","method":"getblockcount","id":"a"}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount","id":"a"}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount","id":null}"#,
    r#"{"jsonrpc":"2.0","method":"getblockcount"}"#,
    r#"{"jsonrpc":"2.0","method":"none"}"#,
    r#"{"jsonrpc":"2.0","method":"none","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"getblockhash","params":[-1],"id":1}"#,
    r#"{"jsonrpc":null,"method":"getblockcount","id":1}"#,
    r#"{"id":1,"id":2,"method":"getblockcount","method":"none"}"#,
    // What is no call.
    "",
    " ",
    "{",
    "{}",
    "null",
    "1",
    "\"a\"",
    r#"{"method":"getblockcount"} x"#,
    r#"{"method":1,"id":1}"#,
    r#"{"method":null,"id":1}"#,
    r#"{"jsonrpc":"2.0","id":1}"#,
    r#"{"jsonrpc":"1.1","method":"getblockcount","id":1}"#,
    r#"{"jsonrpc":2.0,"method":"getblockcount","id":1}"#,
    r#"{"method":"getblockcount","params":"a","id":1}"#,
    r#"{"method":"getblockcount","params":1,"id":1}"#,
    r#"{"method":"none","id":1}"#,
    r#"{"method":"getwalletinfo","id":1}"#,
    r#"{"method":"getblockhash","params":[-1],"id":1}"#,
    // Batches.
    "[]",
    "[1]",
    r#"[{"method":"getblockcount","id":1},{"jsonrpc":"2.0","method":"none","id":2}]"#,
    r#"[{"jsonrpc":"2.0","method":"getblockcount"}]"#,
    r#"[{"method":"getblockcount","id":1},{"jsonrpc":"2.0","method":"getblockcount"},[]]"#,
    r#"[{"method":"getblockcount","id":1},null,{"method":1,"id":3}]"#,
    // Parameters by name.
    r#"{"method":"getblockhash","params":{"height":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":[0]},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":[0],"height":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"height":0,"height":1},"id":1}"#,
    r#"{"method":"getblockhash","params":{"depth":0},"id":1}"#,
    r#"{"method":"getblockhash","params":{"args":0,"height":0},"id":1}"#,
    r#"{"method":"getrawmempool","params":{"mempool_sequence":true},"id":1}"#,
    r#"{"method":"echo","params":{"arg0":1,"arg2":[2]},"id":1}"#,
    r#"{"method":"echo","params":{"args":[1,2],"arg3":{"a":null}},"id":1}"#,
    // Types.
    r#"{"method":"getblockhash","params":["0"],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[null,[]],"id":1}"#,
    // An empty mempool, and no peers.
    r#"{"method":"getrawmempool","id":1}"#,
    r#"{"method":"getrawmempool","params":[true],"id":1}"#,
    r#"{"method":"getrawmempool","params":[true,true],"id":1}"#,
    r#"{"method":"getmempoolinfo","id":1}"#,
    r#"{"method":"getmempoolentry","params":["00"],"id":1}"#,
    r#"{"method":"getmempoolcluster","params":["zz"],"id":1}"#,
    r#"{"method":"gettxspendingprevout","params":[[]],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[6],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[0],"id":1}"#,
    r#"{"method":"estimatesmartfee","params":[6,"x"],"id":1}"#,
    r#"{"method":"sendrawtransaction","params":["00"],"id":1}"#,
    r#"{"method":"testmempoolaccept","params":[[]],"id":1}"#,
    r#"{"method":"testmempoolaccept","params":[["00"]],"id":1}"#,
    r#"{"method":"submitpackage","params":[[]],"id":1}"#,
    r#"{"method":"getprioritisedtransactions","id":1}"#,
    r#"{"method":"getconnectioncount","id":1}"#,
    r#"{"method":"getpeerinfo","id":1}"#,
    r#"{"method":"getaddednodeinfo","id":1}"#,
    r#"{"method":"listbanned","id":1}"#,
    r#"{"method":"getmemoryinfo","params":["x"],"id":1}"#,
    r#"{"method":"logging","params":[["x"]],"id":1}"#,
    r#"{"method":"getnetworkhashps","id":1}"#,
    r#"{"method":"getnetworkhashps","params":[1,9],"id":1}"#,
    r#"{"method":"getnetworkhashps","params":[-1],"id":1}"#,
    r#"{"method":"getnetworkhashps","params":[0],"id":1}"#,
    r#"{"method":"getnetworkhashps","params":[1,9999],"id":1}"#,
    r#"{"method":"help","params":["none"],"id":1}"#,
];

/// Methods whose results have the same fields, in the same order, with other values.
const SHAPES: [&str; 5] =
    ["getnetworkinfo", "getnettotals", "getmemoryinfo", "getrpcinfo", "logging"];

/// Requests that have the same status.
const STATUSES: [(&str, &str); 5] = [
    ("PUT /", ""),
    ("GET /none", ""),
    ("POST /wallet/a", "{}"),
    ("POST /none", "{}"),
    ("GET /metricsx", ""),
];

/// What a server answers.
struct Answers {
    bodies: Vec<(u16, String)>,
    shapes: Vec<Vec<String>>,
    statuses: Vec<u16>,
    unnamed: u16,
    misnamed: u16,
}

impl Answers {
    fn of(address: SocketAddr, cookie: &str) -> Self {
        let named = authorization(cookie);
        let shape = |method: &&str| {
            let body = json!({"method": method, "id": 1}).to_string();
            let (_, reply) = post(address, &named, &body);
            let result = reply.split_once("{\"result\":").expect("a reply").1;
            let value = serde_json::Deserializer::from_str(result).into_iter::<Value>().next();
            let mut fields = Vec::new();
            collect(&value.unwrap().unwrap(), "", &mut fields);
            fields
        };
        Self {
            bodies: BODIES.iter().map(|body| post(address, &named, body)).collect(),
            shapes: SHAPES.iter().map(shape).collect(),
            statuses: STATUSES
                .iter()
                .map(|(what, body)| request(address, what, &named, body).0)
                .collect(),
            unnamed: post(address, "", BODIES[0]).0,
            misnamed: post(address, &authorization("me:wrong"), BODIES[0]).0,
        }
    }
}

/// Collects the paths and types of all values. Elements of an array count as one.
fn collect(value: &Value, path: &str, fields: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| collect(value, &format!("{path}/{name}"), fields));
        }
        Value::Array(list) => {
            list.first().iter().for_each(|value| collect(value, &format!("{path}/0"), fields));
        }
        Value::Number(_) => fields.push(format!("{path}: number")),
        Value::String(_) => fields.push(format!("{path}: text")),
        Value::Bool(_) => fields.push(format!("{path}: bool")),
        Value::Null => fields.push(format!("{path}: null")),
    }
}

#[test]
fn requests_are_answered_as_by_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND", "the frame of JSON-RPC") else { return };
    let place = world().in_order();
    let cookie = place.network_dir().join(".cookie");
    let daemon = Daemon::start(&bitcoind, &place, &[]);
    let theirs = Answers::of(daemon.rpc(), &std::fs::read_to_string(&cookie).unwrap());
    daemon.stop();
    let running = Running::start(&place, &["serve", "--bind=127.0.0.1", "--port=0"]);
    let ours = Answers::of(running.address, &std::fs::read_to_string(&cookie).unwrap());
    let mut wrong = String::new();
    for ((body, theirs), ours) in BODIES.iter().zip(&theirs.bodies).zip(&ours.bodies) {
        if theirs != ours {
            wrong += &format!("{body}\n  bitcoind {theirs:?}\n  Apus     {ours:?}\n");
        }
    }
    for ((method, theirs), ours) in SHAPES.iter().zip(&theirs.shapes).zip(&ours.shapes) {
        let only = |some: &[String], others: &[String]| -> Vec<String> {
            some.iter().filter(|field| !others.contains(field)).cloned().collect()
        };
        // A test build of bitcoind warns.
        let theirs: Vec<String> =
            theirs.iter().filter(|field| !field.starts_with("/warnings")).cloned().collect();
        let (missing, more) = (only(&theirs, ours), only(ours, &theirs));
        if !missing.is_empty() || !more.is_empty() {
            wrong += &format!("{method}: missing {missing:?}, more {more:?}\n");
        }
    }
    for ((what, theirs), ours) in STATUSES.iter().zip(&theirs.statuses).zip(&ours.statuses) {
        if theirs != ours {
            wrong += &format!("{what:?}: bitcoind {theirs}, Apus {ours}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!((theirs.unnamed, theirs.misnamed), (ours.unnamed, ours.misnamed));
}
