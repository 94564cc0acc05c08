//! Calls of RPC with right and wrong parameters.

use apus_wire::BlockView;
use serde_json::{Value, json};

use super::worlds::{World, hash_of};

/// A call.
pub type Rpc = (&'static str, Value);

/// A hash that no block and no transaction has.
pub const NONE: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

/// Every call, of which `sample` heights name blocks.
pub fn calls(world: &World, sample: &[usize]) -> Vec<Rpc> {
    let mut calls = of_chain();
    for height in 0..world.blocks.len() {
        calls.push(("getblockhash", json!([height])));
        calls.push(("getblockheader", json!([world.hash(height).to_string()])));
    }
    for height in sample {
        of_block(&world.view(*height), *height, &mut calls);
    }
    for header in &world.others {
        of_other(&hash_of(header).to_string(), &mut calls);
    }
    let whole = world.view(*sample.last().unwrap());
    wrong(&whole, &mut calls);
    calls
}

fn of_chain() -> Vec<Rpc> {
    let mut calls: Vec<Rpc> = [
        "getbestblockhash",
        "getblockchaininfo",
        "getblockcount",
        "getchaintips",
        "getchaintxstats",
        "getdeploymentinfo",
        "getdifficulty",
        "getindexinfo",
        "verifychain",
    ]
    .map(|name| (name, json!([])))
    .into();
    for params in
        [json!([]), json!(["hash_serialized_3"]), json!(["muhash"]), json!(["none", null, true])]
    {
        calls.push(("gettxoutsetinfo", params));
    }
    for blocks in [0, 1, 7, 143, 150, 198, 199, 200, 201, 100_000] {
        calls.push(("getchaintxstats", json!([blocks])));
    }
    for level in 0..=5 {
        calls.push(("verifychain", json!([level, 3 * level])));
    }
    calls.push(("getindexinfo", json!(["txindex"])));
    calls.push(("waitfornewblock", json!([1])));
    calls.push(("waitfornewblock", json!([1, NONE])));
    calls.push(("waitforblockheight", json!([0, 1])));
    calls.push(("waitforblockheight", json!([1_000_000, 1])));
    calls
}

fn of_block(block: &BlockView<&[u8]>, height: usize, calls: &mut Vec<Rpc>) {
    let hash = block.hash().to_string();
    calls.push(("getblockheader", json!([hash, false])));
    calls.push(("getblockstats", json!([height])));
    calls.push(("getblockstats", json!([hash])));
    calls.push(("getblockstats", json!([hash, ["txs", "avgfee", "height", "txs"]])));
    calls.push(("getdeploymentinfo", json!([hash])));
    calls.push(("getchaintxstats", json!([null, hash])));
    calls.push(("getchaintxstats", json!([height / 2, hash])));
    for verbosity in [json!(-1), json!(0), json!(false), json!(1), json!(true), json!(2), json!(3)]
    {
        calls.push(("getblock", json!([hash, verbosity])));
    }
    let txids: Vec<String> = block.txids().iter().map(ToString::to_string).collect();
    for (index, (tx, txid)) in block.txs().zip(&txids).enumerate().take(12) {
        for verbosity in 0..3 {
            calls.push(("getrawtransaction", json!([txid, verbosity, hash])));
        }
        for vout in 0..tx.output_count() + 1 {
            calls.push(("gettxout", json!([txid, vout, index % 2 == 0])));
        }
        calls.push(("gettxoutproof", json!([[txid], hash])));
        calls.push(("gettxoutproof", json!([[txid]])));
    }
    calls.push(("gettxoutproof", json!([txids.iter().step_by(3).collect::<Vec<_>>(), hash])));
}

/// Calls about a block outside the active chain.
fn of_other(hash: &str, calls: &mut Vec<Rpc>) {
    for name in
        ["getblockheader", "getblock", "getblockstats", "getdeploymentinfo", "getblockfilter"]
    {
        calls.push((name, json!([hash])));
    }
    for verbosity in 0..4 {
        calls.push(("getblock", json!([hash, verbosity])));
        calls.push(("getrawtransaction", json!([NONE, verbosity, hash])));
    }
    calls.push(("getchaintxstats", json!([1, hash])));
    calls.push(("gettxoutproof", json!([[NONE], hash])));
    calls.push(("waitforblock", json!([hash, 1])));
}

/// Calls whose parameters are wrong.
fn wrong(block: &BlockView<&[u8]>, calls: &mut Vec<Rpc>) {
    let hash = block.hash().to_string();
    let txid = block.txids()[0].to_string();
    let upper = hash.to_uppercase();
    let long = format!("{hash}00");
    let not_hex = format!("{}zz", &hash[..62]);
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("abc"),
        json!(NONE),
        json!(upper),
        json!(long),
        json!(not_hex),
        json!([]),
        json!({}),
    ];
    for (name, params) in right(&hash, &txid) {
        let tail = [&params[..], &[json!(1)]].concat();
        for count in 0..=params.len() + 1 {
            // A call without a limit of time would wait.
            if !(name.starts_with("waitfor") && count < params.len()) {
                calls.push((name, Value::Array(tail[..count].to_vec())));
            }
        }
        for (index, value) in (0..params.len()).flat_map(|i| values.iter().map(move |v| (i, v))) {
            let waits = ["waitforblock", "waitforblockheight", "waitfornewblock"].contains(&name);
            if waits && (value.is_null() || *value == json!(0)) {
                continue;
            }
            let mut params = params.clone();
            params[index] = value.clone();
            calls.push((name, Value::Array(params)));
        }
    }
    for txids in [json!([]), json!([txid, txid]), json!([txid, NONE]), json!([1]), json!(["ab"])] {
        calls.push(("gettxoutproof", json!([txids, hash])));
        calls.push(("gettxoutproof", json!([txids])));
    }
    for stats in [json!(["nothing"]), json!([1]), json!(["txs", null]), json!(["txs", "nothing"])] {
        calls.push(("getblockstats", json!([hash, stats])));
    }
    for options in
        [json!({"rollback": 1_000_000}), json!({"rollback": -1}), json!({"rollback": "ab"})]
    {
        calls.push(("dumptxoutset", json!(["/nowhere/at/all", "rollback", options])));
        calls.push(("dumptxoutset", json!(["/nowhere/at/all", "latest", options])));
    }
    for kind in ["", "first", "rollback"] {
        calls.push(("dumptxoutset", json!(["/nowhere/at/all", kind])));
    }
    calls.push(("getrawtransaction", json!([txid, 0, NONE])));
    calls.push(("getrawtransaction", json!([block.header().merkle_root.to_string()])));
}

/// Returns parameters that are right for each method.
fn right(hash: &str, txid: &str) -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("getbestblockhash", vec![]),
        ("getblock", vec![json!(hash), json!(1)]),
        ("getblockchaininfo", vec![]),
        ("getblockcount", vec![]),
        ("getblockfilter", vec![json!(hash), json!("basic")]),
        ("getblockhash", vec![json!(3)]),
        ("getblockheader", vec![json!(hash), json!(true)]),
        ("getblockstats", vec![json!(hash), json!(["txs"])]),
        ("getchaintips", vec![]),
        ("getchaintxstats", vec![json!(3), json!(hash)]),
        ("getdeploymentinfo", vec![json!(hash)]),
        ("getdifficulty", vec![]),
        ("getindexinfo", vec![json!("txindex")]),
        ("getrawtransaction", vec![json!(txid), json!(1), json!(hash)]),
        ("gettxout", vec![json!(txid), json!(0), json!(true)]),
        ("gettxoutproof", vec![json!([txid]), json!(hash)]),
        ("gettxoutsetinfo", vec![json!("none"), json!(null), json!(true)]),
        ("pruneblockchain", vec![json!(1)]),
        ("verifychain", vec![json!(1), json!(1)]),
        ("verifytxoutproof", vec![json!("00")]),
        ("waitforblock", vec![json!(hash), json!(1)]),
        ("waitforblockheight", vec![json!(1), json!(1)]),
        ("waitfornewblock", vec![json!(1), json!(NONE)]),
        ("dumptxoutset", vec![json!("/nowhere/at/all"), json!("latest"), json!({})]),
    ]
}
