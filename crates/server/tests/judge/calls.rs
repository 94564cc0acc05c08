//! Calls of RPC with right and wrong parameters.

use apus_hash::hex;
use apus_wire::BlockView;
use serde_json::{Value, json};

use super::scan_calls::scans;
use super::script_calls::scripts;
use super::worlds::{World, hash_of};

/// A call.
pub type Rpc = (&'static str, Value);

/// A hash that no block and no transaction has.
pub const NONE: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

/// Every call, of which `sample` heights name blocks.
pub fn calls(world: &World, sample: &[usize]) -> Vec<Rpc> {
    let mut calls = of_chain();
    // At most a thousand.
    for height in (0..world.blocks.len()).step_by(1 + world.blocks.len() / 1000) {
        calls.push(("getblockhash", json!([height])));
        calls.push(("getblockheader", json!([world.hash(height).to_string()])));
    }
    for height in sample {
        of_block(&world.view(*height), *height, &mut calls);
    }
    for header in &world.others {
        of_other(&hash_of(header).to_string(), &mut calls);
    }
    for block in &world.disconnected {
        of_transactions(&BlockView::parse(&block[..]).unwrap(), &mut calls);
    }
    let whole = world.view(*sample.last().unwrap());
    for height in sample {
        let block = world.view(*height);
        let texts = block.txs().take(10).map(|tx| hex(tx.bytes()));
        calls.extend(texts.map(|text| ("sendrawtransaction", json!([text]))));
    }
    wrong(&whole, &mut calls);
    // Of pruned blocks, bitcoind looks for the block first.
    if !world.fast_prune {
        let options = json!({ "rollback": 1, "in_memory": 1 });
        calls.push(("dumptxoutset", json!(["dumped", "", options])));
    }
    decodes(&whole, &mut calls);
    scans(world, sample, &mut calls);
    scripts(world, sample, &mut calls);
    addresses(&mut calls);
    for blocks in [-1, 1, 2, 119, 120, 144, 1_000_000] {
        for height in [-1, 0, 1, 100, 143, 144, 199] {
            calls.push(("getnetworkhashps", json!([blocks, height])));
        }
    }
    calls
}

fn of_chain() -> Vec<Rpc> {
    let mut calls: Vec<Rpc> = [
        "getbestblockhash",
        "getblockchaininfo",
        "getblockcount",
        "getchainstates",
        "getchaintips",
        "getchaintxstats",
        "getdeploymentinfo",
        "getdifficulty",
        "getindexinfo",
        "getnetworkinfo",
        "getzmqnotifications",
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
    for name in ["", "txindex", "coinstatsindex", "basic block filter index", "basic"] {
        calls.push(("getindexinfo", json!([name])));
    }
    for hash_type in ["muhash", "none", "hash_serialized_3"] {
        for height in [json!(0), json!(1), json!(143), json!(-1), json!(1_000_000), json!(NONE)] {
            calls.push(("gettxoutsetinfo", json!([hash_type, height])));
        }
        calls.push(("gettxoutsetinfo", json!([hash_type, 1, false])));
        calls.push(("gettxoutsetinfo", json!([hash_type, null, false])));
    }
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
    for hash_type in ["muhash", "none"] {
        calls.push(("gettxoutsetinfo", json!([hash_type, height])));
        calls.push(("gettxoutsetinfo", json!([hash_type, hash, true])));
    }
    calls.push(("getblockfilter", json!([hash])));
    of_transactions(block, calls);
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

/// Calls about the transactions of a block, which is not named.
fn of_transactions(block: &BlockView<&[u8]>, calls: &mut Vec<Rpc>) {
    for (tx, txid) in block.txs().zip(block.txids()).take(12) {
        let txid = txid.to_string();
        for verbosity in -1..4 {
            calls.push(("getrawtransaction", json!([txid, verbosity])));
        }
        let spent = tx.inputs().map(|input| input.outpoint());
        let spent = spent.map(|it| json!({ "txid": it.txid.to_string(), "vout": it.vout }));
        let created = (0..tx.output_count()).map(|vout| json!({ "txid": txid, "vout": vout }));
        let outputs: Vec<Value> =
            spent.filter(|it| it["vout"] != json!(u32::MAX)).chain(created).collect();
        calls.push(("gettxspendingprevout", json!([outputs])));
        calls.push(("gettxspendingprevout", json!([outputs, { "return_spending_tx": true }])));
        calls.push(("gettxspendingprevout", json!([outputs, { "mempool_only": true }])));
    }
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
    calls.push(("getblockfrompeer", json!([hash, 0])));
    calls.push(("gettxoutsetinfo", json!(["muhash", hash])));
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
    let tx = hex(block.txs().last().unwrap().bytes());
    for (name, params) in right(&hash, (&txid, &tx)) {
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
    for amount in ["0", "-1", "0.99999999", "1", "1e-8", "0.000000001", "\"0.1\"", "\"1.\""] {
        let amount: Value = serde_json::from_str(amount).unwrap();
        calls.push(("sendrawtransaction", json!([tx, amount])));
        calls.push(("sendrawtransaction", json!([tx, null, amount])));
        calls.push(("testmempoolaccept", json!([["00"], amount])));
        calls.push(("submitpackage", json!([["00"], amount, amount])));
    }
    for kind in ["", "first", "rollback"] {
        calls.push(("dumptxoutset", json!(["/nowhere/at/all", kind])));
    }
    wrong_outputs(&txid, calls);
    calls.push(("getrawtransaction", json!([txid, 0, NONE])));
    calls.push(("getrawtransaction", json!([NONE])));
    calls.push(("getrawtransaction", json!([NONE, 1])));
    calls.push(("getrawtransaction", json!([block.header().merkle_root.to_string()])));
}

/// Calls about outputs that are wrong in some way, with options.
fn wrong_outputs(txid: &str, calls: &mut Vec<Rpc>) {
    let output = json!({ "txid": txid, "vout": 0 });
    for outputs in [
        json!([]),
        json!([1]),
        json!([{}]),
        json!([{ "txid": txid }]),
        json!([{ "vout": 0 }]),
        json!([{ "txid": 1, "vout": 0 }]),
        json!([{ "txid": txid, "vout": "0" }]),
        json!([{ "txid": txid, "vout": -1 }]),
        json!([{ "txid": txid, "vout": 1.5 }]),
        json!([{ "txid": txid, "vout": u32::MAX }]),
        json!([{ "txid": "ab", "vout": 0 }]),
        json!([{ "vout": 0, "txid": NONE }]),
        json!([{ "txid": txid, "vout": 0, "other": 1 }]),
        json!([output, output]),
    ] {
        calls.push(("gettxspendingprevout", json!([outputs])));
    }
    for options in [
        json!({}),
        json!({ "mempool_only": false }),
        json!({ "mempool_only": null }),
        json!({ "mempool_only": 1 }),
        json!({ "return_spending_tx": "x" }),
        json!({ "return_spending_tx": false, "mempool_only": true }),
        json!({ "other": 1 }),
    ] {
        calls.push(("gettxspendingprevout", json!([[output], options])));
    }
}

/// Transactions that are decoded, whole and in part.
fn decodes(block: &BlockView<&[u8]>, calls: &mut Vec<Rpc>) {
    for tx in block.txs().take(8) {
        let text = hex(tx.bytes());
        let without_inputs = [&text[..8], "00", &hex(&[tx.output_count() as u8])];
        let outputs = hex(tx.outputs_bytes());
        let without_inputs = format!("{}{outputs}00000000", without_inputs.concat());
        for text in [
            &text[..],
            &text[..text.len() - 2],
            &format!("{text}00"),
            &text.to_uppercase(),
            &without_inputs,
            &format!("{}0001{}", &text[..8], &text[8..]),
        ] {
            calls.push(("decoderawtransaction", json!([text])));
            calls.push(("decoderawtransaction", json!([text, true])));
            calls.push(("decoderawtransaction", json!([text, false])));
        }
    }
    for text in ["", "0", "zz", "01000000000000000000", "0100000000010000000000"] {
        calls.push(("decoderawtransaction", json!([text])));
    }
}

/// Addresses of all networks, and what is no address.
fn addresses(calls: &mut Vec<Rpc>) {
    let right = [
        "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
        "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
        "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn",
        "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",
        "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
        "bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        "bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6",
        "bc1pfeessrawgf",
        "bcrt1pfeesnyr2tx",
        "bc1sw50qgdz25j",
        "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs",
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
    ];
    let wrong = [
        "",
        " ",
        "1",
        "0",
        "bc",
        "bc1",
        "bcrt1",
        "bcrt1q",
        "tb1",
        "BC1",
        "bc1\u{e9}",
        "é",
        "bc1gmk9yu",
        "bc10w508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kw5rljs90",
        "bc1rw5uspcuf",
        "BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P",
        "bc1zw508d6qejxtdg4y5r3zarvaryvqyzf3du",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh",
        "bc1pw5dgrnzv",
        "bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4",
        "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3",
        "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN",
        " 1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2 ",
        "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ",
        "11111111111111111111111111111111111111",
        "bcrt1q049edschfnwystcqnsvyfpj23mpsg3jcedq9xv",
        "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080 ",
        "bcrt1!!!qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
        "bcrt1pw5dgrnzvqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq",
    ];
    for text in right.iter().chain(&wrong) {
        calls.push(("validateaddress", json!([text])));
    }
    // One to three characters are wrong, in many places, and the case.
    for text in &right[4..] {
        let first = text.find('1').map_or(0, |at| at + 1);
        for at in (first..text.len()).step_by(5) {
            for (count, step) in [(1, 1), (2, 1), (2, 7), (3, 5)] {
                let mut bytes = text.as_bytes().to_vec();
                for at in (0..count).map(|index| at + index * step).filter(|at| *at < text.len()) {
                    bytes[at] = if bytes[at] == b'q' { b'p' } else { b'q' };
                }
                calls.push(("validateaddress", json!([String::from_utf8(bytes).unwrap()])));
            }
        }
        calls.push(("validateaddress", json!([text.to_uppercase()])));
        let (start, end) = text.split_at(text.len() / 2);
        calls.push(("validateaddress", json!([start.to_string() + &end.to_uppercase()])));
    }
}

/// Returns parameters that are right for each method.
fn right(hash: &str, (txid, tx): (&str, &str)) -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("getbestblockhash", vec![]),
        ("getblock", vec![json!(hash), json!(1)]),
        ("getblockchaininfo", vec![]),
        ("getblockcount", vec![]),
        ("getblockfilter", vec![json!(hash), json!("basic")]),
        ("getblockfrompeer", vec![json!(hash), json!(0)]),
        ("getblockhash", vec![json!(3)]),
        ("getblockheader", vec![json!(hash), json!(true)]),
        ("getblockstats", vec![json!(hash), json!(["txs"])]),
        ("getchainstates", vec![]),
        ("getchaintips", vec![]),
        ("decodescript", vec![json!("51")]),
        ("decoderawtransaction", vec![json!("00"), json!(true)]),
        ("estimatesmartfee", vec![json!(2), json!("economical")]),
        ("getaddednodeinfo", vec![]),
        ("getaddednodeinfo", vec![json!("192.0.2.7")]),
        ("getaddrmaninfo", vec![]),
        ("getnodeaddresses", vec![json!(0), json!("IPv6")]),
        ("getchaintxstats", vec![json!(3), json!(hash)]),
        ("getdeploymentinfo", vec![json!(hash)]),
        ("getdifficulty", vec![]),
        ("getconnectioncount", vec![]),
        ("getindexinfo", vec![json!("txindex")]),
        ("getmempoolancestors", vec![json!(txid), json!(true)]),
        ("getmempooldescendants", vec![json!(txid), json!(true)]),
        ("getmempoolentry", vec![json!(txid)]),
        ("getmempoolinfo", vec![]),
        ("getmininginfo", vec![]),
        ("getnetworkhashps", vec![json!(10), json!(5)]),
        ("getpeerinfo", vec![]),
        ("getprioritisedtransactions", vec![]),
        ("getrawmempool", vec![json!(true), json!(false)]),
        ("getrawtransaction", vec![json!(txid), json!(1), json!(hash)]),
        ("gettxout", vec![json!(txid), json!(0), json!(true)]),
        ("gettxoutproof", vec![json!([txid]), json!(hash)]),
        ("gettxoutsetinfo", vec![json!("none"), json!(null), json!(true)]),
        ("scanblocks", vec![json!("start"), json!(["raw(51)"]), json!(0), json!(1)]),
        ("scantxoutset", vec![json!("start"), json!(["raw(51)"])]),
        ("gettxspendingprevout", vec![json!([{ "txid": txid, "vout": 0 }]), json!({})]),
        ("pruneblockchain", vec![json!(1)]),
        ("sendrawtransaction", vec![json!(tx), json!("0.1"), json!(0)]),
        ("submitpackage", vec![json!([tx]), json!("0.1"), json!(0)]),
        ("testmempoolaccept", vec![json!([tx]), json!("0.1")]),
        ("validateaddress", vec![json!("1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2")]),
        ("verifychain", vec![json!(1), json!(1)]),
        ("verifytxoutproof", vec![json!("00")]),
        ("waitforblock", vec![json!(hash), json!(1)]),
        ("waitforblockheight", vec![json!(1), json!(1)]),
        ("waitfornewblock", vec![json!(1), json!(NONE)]),
        ("dumptxoutset", vec![json!("/nowhere/at/all"), json!("latest"), json!({})]),
    ]
}
