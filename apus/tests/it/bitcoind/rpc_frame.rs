//! `apus serve`, asked like a bitcoind: methods that tell about the process have the same fields,
//! and wrong paths and passwords the same statuses. `crates/server/tests/judge` compares the bytes
//! of all other replies.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::daemon::{Daemon, program_in};
use crate::peers::world::world;
use crate::server::client::{Running, authorization, post, request};

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
            shapes: SHAPES.iter().map(shape).collect(),
            statuses: STATUSES
                .iter()
                .map(|(what, body)| request(address, what, &named, body).0)
                .collect(),
            unnamed: post(address, "", "{}").0,
            misnamed: post(address, &authorization("me:wrong"), "{}").0,
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
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let place = world().in_order();
    let cookie = place.network_dir().join(".cookie");
    let daemon = Daemon::start(&bitcoind, &place, &[]);
    let theirs = Answers::of(daemon.rpc(), &std::fs::read_to_string(&cookie).unwrap());
    let is_before_32 = daemon.is_before_32();
    daemon.stop();
    let running = Running::start(&place, &["serve", "--bind=127.0.0.1", "--port=0"]);
    let ours = Answers::of(running.address, &std::fs::read_to_string(&cookie).unwrap());
    let mut wrong = String::new();
    for ((method, theirs), ours) in SHAPES.iter().zip(&theirs.shapes).zip(&ours.shapes) {
        let only = |some: &[String], others: &[String]| -> Vec<String> {
            some.iter().filter(|field| !others.contains(field)).cloned().collect()
        };
        // A test build of bitcoind warns.
        let theirs: Vec<String> =
            theirs.iter().filter(|field| !field.starts_with("/warnings")).cloned().collect();
        let missing = only(&theirs, ours);
        let mut more = only(ours, &theirs);
        let is_new = |field: &String| {
            field.starts_with("/tx_send_rate") || field.starts_with("/inv_buckets")
        };
        more.retain(|field| !(is_before_32 && is_new(field)));
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
