//! Calls of `scanblocks`, and of `getdescriptorinfo` with the same descriptors.

use apus_descriptors::{address, with_checksum};
use apus_hash::hex;
use apus_wire::Chain;
use serde_json::{Value, json};

use super::calls::Rpc;
use super::descriptor_calls::random_descriptors;
use super::worlds::World;

/// An extended key of test networks, from Core's tests.
pub const TPUB: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8\
                   ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
/// An extended key of mainnet, from BIP86.
const XPUB: &str = "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVky7D3UKD\
                   P9QyrLprQ3VCECoY49yfdDEHGCtMMj92pReUsQ";
/// Public keys.
pub const KEYS: [&str; 3] = [
    "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
    "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
    "02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
];

/// Scans for the scripts of blocks, and for what is no descriptor.
pub fn scans(world: &World, sample: &[usize], calls: &mut Vec<Rpc>) {
    let mut all = Vec::new();
    for height in sample {
        let block = world.view(*height);
        for tx in block.txs().step_by(3).take(10) {
            for output in tx.outputs().take(2) {
                all.extend(descriptors(output.script(), world));
            }
        }
    }
    for descriptor in all.iter().step_by(1 + all.len() / 150) {
        calls.push(("scanblocks", json!(["start", [descriptor]])));
    }
    let tip = world.blocks.len() - 1;
    let middle = world.blocks.len() / 2;
    for (start, stop) in [(0, tip), (middle, tip), (middle, middle), (1, middle), (tip, middle)] {
        calls.push(("scanblocks", json!(["start", all, start, stop])));
        let checked = json!({ "filter_false_positives": true });
        calls.push(("scanblocks", json!(["start", all, start, stop, "basic", checked])));
    }
    let coins = all.iter().step_by(1 + all.len() / 40);
    calls.extend(coins.map(|descriptor| ("scantxoutset", json!(["start", [descriptor]]))));
    calls.push(("scantxoutset", json!(["start", all])));
    calls.push(("scantxoutset", json!(["start", null])));
    calls.push(("scanblocks", json!(["start", all, tip + 1])));
    calls.push(("scanblocks", json!(["start", all, 0, tip + 1])));
    for action in ["start", "status", "abort", "stop", ""] {
        calls.push(("scanblocks", json!([action])));
        calls.push(("scantxoutset", json!([action])));
    }
    for options in [json!({}), json!({ "filter_false_positives": 1 }), json!({ "other": 1 })] {
        calls.push(("scanblocks", json!(["start", ["raw(51)"], 0, 1, "basic", options])));
        calls.push(("scanblocks", json!(["start", ["raw(51)"], 0, 1, "other", options])));
    }
    let key = extended_key(world.network.chain);
    objects(key, calls);
    random_descriptors(key, calls);
}

/// An extended key of a network, from Core's tests and from BIP86.
fn extended_key(chain: Chain) -> &'static str {
    match chain {
        Chain::Main => XPUB,
        _ => TPUB,
    }
}

/// The descriptors of a script that need no key.
fn descriptors(script: &[u8], world: &World) -> Vec<String> {
    let raw = (!script.is_empty()).then(|| format!("raw({})", hex(script)));
    let address =
        address(script, world.network.chain).map(|it| with_checksum(format!("addr({it})")));
    raw.into_iter().chain(address).collect()
}

/// Scan objects of every form.
fn objects(key: &str, calls: &mut Vec<Rpc>) {
    let [one, two, three] = KEYS;
    let right = [
        format!("pk({one})"),
        format!("pkh({one})"),
        format!("wpkh({one})"),
        format!("sh(wpkh({one}))"),
        format!("combo({one})"),
        format!("multi(1,{one},{two})"),
        format!("sortedmulti(2,{three},{one},{two})"),
        format!("sh(multi(2,{one},{two},{three}))"),
        format!("wsh(sortedmulti(2,{three},{one}))"),
        format!("sh(wsh(multi(1,{one},{two})))"),
        format!("wsh(and_v(v:pk({one}),older(10)))"),
        format!("wsh(multi(1,{one},{one}))"),
        format!("multi(1,{one},{one})"),
        format!("tr({one})"),
        format!("tr({one},pk({two}))"),
        format!("tr({one},{{pk({two}),and_v(v:pk({three}),after(9))}})"),
        format!("tr({one},sortedmulti_a(2,{three},{two}))"),
        format!("rawtr({one})"),
        format!("wpkh([d34db33f/84h/1'/0h]{key}/0/*)"),
        format!("wpkh({key}/<0;1>/*)"),
        format!("combo({key}/0/*)"),
    ];
    for descriptor in &right {
        let summed = with_checksum(descriptor.clone());
        calls.push(("getdescriptorinfo", json!([descriptor])));
        calls.push(("getdescriptorinfo", json!([summed])));
        calls.push(("scanblocks", json!(["start", [descriptor]])));
        calls.push(("scanblocks", json!(["start", [{ "desc": summed, "range": [3, 5] }]])));
    }
    for wrong in not_sane(key) {
        calls.push(("getdescriptorinfo", json!([wrong])));
        calls.push(("scanblocks", json!(["start", [wrong]])));
    }
    let others = written_otherwise(key).into_iter();
    calls.extend(others.map(|descriptor| ("getdescriptorinfo", json!([descriptor]))));
    for range in ranges() {
        let object = json!({ "desc": format!("wpkh({key}/*)"), "range": range });
        calls.push(("scanblocks", json!(["start", [object]])));
        calls.push(("scantxoutset", json!(["start", [object]])));
    }
    for wrong in [
        json!(1),
        json!([]),
        json!({}),
        json!({ "desc": null }),
        json!({ "desc": 1 }),
        json!("raw()"),
        json!("raw(5)"),
        json!("raw(zz)"),
        json!("raw(51)#"),
        json!("raw(51)#aaaaaaaa"),
        json!("raw(51)#a#a"),
        json!("raw(\u{e9})"),
        json!("addr()"),
        json!("addr(bc1)"),
        json!("addr(1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3)"),
        json!("nothing(51)"),
        json!(format!("wpkh({key}/0h/*)")),
        json!(format!("wpkh({key}/*h)")),
    ] {
        if wrong.is_string() {
            calls.push(("getdescriptorinfo", json!([wrong])));
        }
        calls.push(("scanblocks", json!(["start", [wrong]])));
        calls.push(("scantxoutset", json!(["start", [wrong]])));
    }
}

/// Ranges, right and wrong.
fn ranges() -> [Value; 12] {
    [
        json!(0),
        json!(-1),
        json!([0, -1]),
        json!([-1, 3]),
        json!([5, 3]),
        json!([1]),
        json!("5"),
        json!(1.5),
        json!(1_u64 << 31),
        json!(1_000_000),
        json!([0.5, 1]),
        json!(null),
    ]
}

/// Descriptors that Core refuses, though each of their parts is right.
fn not_sane(key: &str) -> Vec<Value> {
    vec![
        json!("wsh(1)"),
        json!("wsh(0)"),
        json!("wsh(older(5))"),
        json!(format!("wsh(sha256({}))", "ab".repeat(32))),
        json!(format!("wsh(or_i(older(5),pk({})))", KEYS[0])),
        json!(format!("wsh(and_v(v:pk({}),pk({})))", KEYS[0], KEYS[0])),
        json!(format!("wsh(and_v(v:pk({}),and_v(v:after(100),after(1000000000))))", KEYS[0])),
        json!(format!("wpkh({key}/<0;0>/*)")),
        json!(format!("wpkh({key}/+1)")),
        json!(format!("multi(00,{})", KEYS[0])),
        json!(format!("wsh(and_v(v:pk({}),older(00)))", KEYS[0])),
        json!(format!("wsh(and_v(v:pk({}),older(+1)))", KEYS[0])),
        json!(format!("wpkh({key}/<1;01>/*)")),
        json!(format!("wsh(sortedmulti_a(1,{}))", KEYS[0])),
        json!(format!("tr({0},and_v(v:sortedmulti_a(1,{1}),pk({0})))", KEYS[0], KEYS[1])),
        json!(format!("tr({0},sortedmulti_a(2,{0}))", KEYS[0])),
        json!(
            "rawtr(0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c\
             4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8)"
        ),
    ]
}

/// Descriptors that Core writes in another way.
fn written_otherwise(key: &str) -> Vec<String> {
    let [one, two, three] = KEYS;
    let large = one.to_uppercase();
    vec![
        format!("pk({large})"),
        format!("sh(multi(2,{large},{two}))"),
        format!("sortedmulti(1,{two},{large})"),
        format!("rawtr({})", &large[2..]),
        format!("wsh(c:pk_k({one}))"),
        format!("wsh(and_v(vc:pk_h({one}),sha256({})))", "AB".repeat(32)),
        format!("wsh(or_i(pk({one}),0))"),
        format!("wsh(or_d(pk({one}),and_v(v:multi(1,{two},{three}),older(1000))))"),
        format!("wsh(thresh(2,pk({one}),s:pk({two}),sln:older(12960)))"),
        format!("tr({one},multi_a(1,{two},{three}))"),
        format!("tr({key}/0/*,{{{{pk({one}),pk({two})}},and_v(v:pk({three}),older(5))}})"),
        format!("wpkh([D34DB33F/84'/1h/0']{key}/1/*)"),
        format!("wpkh([d34db33f/84'/1'/0']{key}/*)"),
        format!("wpkh([d34db33f]{key}/<3;4;5>/0)"),
        format!("combo([d34db33f/84h/0']{key}/<0;1>/*)"),
        format!("wsh(multi(1,{key}/<0;1>/*,[d34db33f/9']{key}/<2;3>/*))"),
        format!("tr({key}/<0;1>/*,pk({key}/<2;3>/*))"),
        format!("rawtr({key}/<0;1>/7)"),
        format!("wpkh({key}/01/*)"),
        format!("wpkh([d34db33f/007h]{key}/00/<000;01>/2)"),
        format!("tr({key}/0/*,{{sortedmulti_a(1,{three},{key}/02/*),pk({two})}})"),
        format!(
            "tr({one},{{pk({two}),{{multi_a(1,{two}),sortedmulti_a(2,{key}/<1;2>/*,{two})}}}})"
        ),
        format!("multi(01,{one})"),
        format!("sortedmulti(002,{one},{two})"),
        format!("wsh(thresh(01,pk({one}),sln:older(0012960)))"),
        format!("wsh(and_v(v:pk({one}),after(010)))"),
        format!("tr({one},multi_a(01,{two},{three}))"),
        with_checksum(format!("sh(multi(01,{one}))")),
        format!("wpkh({key}/0h/*')"),
        "raw(ABCD)".to_string(),
        "addr(BCRT1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KYGT080)".to_string(),
        "addr(BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4)".to_string(),
    ]
}
