//! `apus export --match` gives what bitcoind tells of the same scripts, and derives the addresses
//! of descriptors as bitcoind does.

use apus_store::IndexKind;
use apus_wire::Chain as Network;
use serde_json::{Value, json};

use super::daemon::{Daemon, program_in};
use crate::export::history::{History, TPUB, history, raw, some_scripts};
use crate::support::chains::small;
use crate::support::indexes::try_index;
use crate::support::waiting::wait_until;
use crate::support::{Place, with_genesis};

/// Public keys.
const KEYS: [&str; 2] = [
    "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
    "02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
];

/// The row of an output or of the coin that an input spends, without the columns that bitcoind does
/// not know, if its script is one of `scripts`.
fn row(
    (block, tx): (&Value, &Value),
    (side, index): (&str, usize),
    output: &Value,
    prev: &str,
    scripts: &[String],
) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let script = text(&output["scriptPubKey"]["hex"]);
    scripts.contains(&script).then(|| {
        let value = (output["value"].as_f64().unwrap() * 1e8).round() as u64;
        let hash = text(&block["hash"]);
        let txid = text(&tx["txid"]);
        let address = text(&output["scriptPubKey"]["address"]);
        let at = format!("{},{},{hash}", block["height"], block["time"]);
        format!("{at},{txid},{side},{index},{value},{prev},{address},{script}")
    })
}

/// The rows of a block as `getblock` with all details has it.
fn rows_of(block: &Value, scripts: &[String]) -> Vec<String> {
    let mut rows = Vec::new();
    for tx in block["tx"].as_array().unwrap() {
        for (index, input) in tx["vin"].as_array().unwrap().iter().enumerate() {
            if let Some(coin) = input.get("prevout") {
                let prev = format!("{},{}", input["txid"].as_str().unwrap(), input["vout"]);
                rows.extend(row((block, tx), ("input", index), coin, &prev, scripts));
            }
        }
        for (index, output) in tx["vout"].as_array().unwrap().iter().enumerate() {
            rows.extend(row((block, tx), ("output", index), output, ",", scripts));
        }
    }
    rows
}

/// The rows of a history, without the columns that bitcoind does not know.
fn without_own(history: &History) -> Vec<String> {
    let known = |row: &String| {
        let columns: Vec<&str> = row.split(',').collect();
        [&columns[..7], &columns[8..10], &columns[12..]].concat().join(",")
    };
    history.rows.iter().map(known).collect()
}

#[test]
fn a_history_is_what_bitcoind_tells_of_the_scripts() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("blocks", &blocks);
    try_index(&place, &[IndexKind::BlockFilterIndex]).unwrap();
    let scripts: Vec<_> = some_scripts(&blocks).into_iter().step_by(2).collect();
    let found = history(&place, &raw(&scripts), &[]);
    let daemon = Daemon::start(&bitcoind, &place, &["-blockfilterindex"]);
    let objects = json!(raw(&scripts)).to_string();
    let exact = r#"{"filter_false_positives":true}"#;
    let scan = ["scanblocks", "start", &objects, "0", "200", "basic", exact];
    let scanned = daemon.ask_json(&scan);
    let hex: Vec<String> = scripts.iter().map(|script| script.to_hex_string()).collect();
    let mut expected = Vec::new();
    for hash in scanned["relevant_blocks"].as_array().unwrap() {
        let block = daemon.ask_json(&["getblock", hash.as_str().unwrap(), "3"]);
        expected.extend(rows_of(&block, &hex));
    }
    assert!(expected.len() > 50);
    assert_eq!(without_own(&found), expected);
    // The sum is that of the unspent coins.
    let unspent = daemon.ask_json(&["scantxoutset", "start", &objects]);
    let unspent = (unspent["total_amount"].as_f64().unwrap() * 1e8).round() as i64;
    let sum = found.rows.iter().map(|row| {
        let columns: Vec<&str> = row.split(',').collect();
        let value: i64 = columns[6].parse().unwrap();
        if columns[4] == "output" { value } else { -value }
    });
    assert_eq!(sum.sum::<i64>(), unspent);
    daemon.stop();
}

#[test]
fn addresses_are_derived_as_by_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let [one, two] = KEYS;
    let key = format!("{TPUB}/0/*");
    let origin = format!("[d34db33f/84h/1'/0h]{TPUB}/1/*");
    let descriptors = [
        format!("pkh({key})"),
        format!("wpkh({key})"),
        format!("sh(wpkh({key}))"),
        format!("wpkh({origin})"),
        format!("sh(multi(1,{one},{key}))"),
        format!("sh(sortedmulti(2,{two},{key},{one}))"),
        format!("wsh(multi(2,{key},{one},{two}))"),
        format!("wsh(sortedmulti(1,{two},{one},{key}))"),
        format!("sh(wsh(sortedmulti(2,{one},{two},{key})))"),
        format!("wsh(andor(pk({key}),older(1000),pk({one})))"),
        format!("wsh(thresh(2,pk({key}),s:pk({one}),sln:after(100)))"),
        format!("tr({key})"),
        format!("tr({one},pk({key}))"),
        format!("tr({key},{{pk({one}),{{multi_a(1,{two},{one}),and_v(v:pk({two}),older(9))}}}})"),
        format!("rawtr({key})"),
    ];
    let place = Place::new(Network::Regtest);
    let daemon = Daemon::start(&bitcoind, &place, &["-blockfilterindex"]);
    let mut expected = Vec::new();
    for (number, descriptor) in descriptors.iter().enumerate() {
        let checksum = daemon.ask_json(&["getdescriptorinfo", descriptor]);
        let checked = format!("{descriptor}#{}", checksum["checksum"].as_str().unwrap());
        let index = 3 + number;
        let range = format!("[{index},{index}]");
        let addresses = daemon.ask_json(&["deriveaddresses", &checked, &range]);
        let address = addresses[0].as_str().unwrap().to_string();
        daemon.ask(&["generatetoaddress", "1", &address]);
        expected.push((number.to_string(), index.to_string(), address));
    }
    wait_until("bitcoind has indexed", || {
        let info = daemon.ask_json(&["getindexinfo"]);
        info["basic block filter index"]["synced"] == true
    });
    daemon.stop();
    let columns = |row: &String, at: [usize; 3]| {
        let columns: Vec<&str> = row.split(',').collect();
        at.map(|at| columns[at].to_string()).into()
    };
    let found = history(&place, &descriptors, &["--range", "20"]);
    let rows: Vec<(String, String, String)> =
        found.rows.iter().map(|row| columns(row, [10, 11, 12])).collect();
    assert_eq!(rows, expected);
    assert_eq!(found.json["range_too_small"].as_array().unwrap().len(), descriptors.len());
    assert!(found.warnings.contains("near the end of the range"), "{}", found.warnings);
    // combo() is the first three, and an address is one script.
    let combo = history(&place, &[format!("combo({key})")], &[]);
    assert_eq!((combo.rows.len(), &combo.warnings[..]), (3, ""));
    let address = history(&place, &[format!("addr({})", expected[5].2)], &[]);
    assert_eq!(address.rows.len(), 1);
    // Both paths of a key.
    let both = history(&place, &[format!("wpkh({TPUB}/<0;1>/*)")], &["--range", "[4,6]"]);
    let rows: Vec<(String, String, String)> =
        both.rows.iter().map(|row| columns(row, [10, 11, 12])).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0].2, &rows[1].2), (&expected[1].2, &expected[3].2));
}
