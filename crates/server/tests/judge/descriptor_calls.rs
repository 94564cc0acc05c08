//! Calls of `getdescriptorinfo` with random descriptors, sane and not.

use apus_testdata::Random;
use serde_json::json;

use super::calls::Rpc;
use super::scan_calls::KEYS;

/// The number of descriptors.
const COUNT: usize = 2000;
/// How deep their expressions are at most.
const DEPTH_MAX: u32 = 3;

/// Adds the calls; `key` is an extended key of the network.
pub fn random_descriptors(key: &str, calls: &mut Vec<Rpc>) {
    let mut random = Random(7);
    for _ in 0..COUNT {
        let depth = 1 + random.below(DEPTH_MAX);
        let script = match random.below(6_u32) {
            0 => several("multi", &mut random, key),
            1 => several("sortedmulti", &mut random, key),
            _ => expression(&mut random, key, depth),
        };
        let descriptor = match random.below(8_u32) {
            0 => format!("sh(wsh({script}))"),
            1 => format!("sh({script})"),
            2..=4 => tree(&mut random, &script, key),
            _ => format!("wsh({script})"),
        };
        calls.push(("getdescriptorinfo", json!([descriptor])));
    }
}

/// A tree of one script or two.
fn tree(random: &mut Random, script: &str, key: &str) -> String {
    let internal = public_key(random, key);
    let script = script.replace("multi(", "multi_a(");
    match random.below(3_u32) {
        0 => format!("tr({internal},{{{script},pk({})}})", public_key(random, key)),
        1 => format!("tr({internal},{{{script},{script}}})"),
        _ => format!("tr({internal},{script})"),
    }
}

/// A function of several keys.
fn several(name: &str, random: &mut Random, key: &str) -> String {
    let count = 1 + random.below(4_u32);
    let keys: Vec<String> = (0..count).map(|_| public_key(random, key)).collect();
    format!("{name}({},{})", 1 + random.below(count), keys.join(","))
}

/// A key with an origin or without. It is mostly one of a few, so that some are there twice, also
/// in other words.
fn public_key(random: &mut Random, key: &str) -> String {
    let origin = random.one_of(&["", "", "[d34db33f]", "[00000000/7h/1]"]);
    let key = match random.below(16_u32) {
        0 => format!("{key}/<0;1>/*"),
        1 => format!("{key}/<{};{}>/*", random.below(3_u32), random.below(3_u32)),
        2 => format!("{key}/+{}/*", random.below(9_u32)),
        3 => format!("{key}/{}/0", random.below(3_u32)),
        4 => format!("{key}/{}h/*", random.below(3_u32)),
        5..=7 => random.one_of(&KEYS).to_string(),
        8 => format!("03{}", &KEYS[0][2..]),
        // Of a tree alone.
        9 => KEYS[0][2..].to_string(),
        _ => format!("{key}/{}/*", random.below(30_u32)),
    };
    origin.to_string() + &key
}

/// An expression that stands alone (miniscript's type B), sane or not.
pub fn expression(random: &mut Random, key: &str, depth: u32) -> String {
    let hash = "ab".repeat(32);
    if depth == 0 {
        let locks = [1, 10, 65_535, 4_194_305, 499_999_999, 500_000_001, 0, 1 << 31];
        return match random.below(10_u32) {
            0 => format!("older({})", random.one_of(&locks)),
            1 => format!("after({})", random.one_of(&locks)),
            2 => format!("sha256({hash})"),
            3 => format!("hash160({})", &hash[..40]),
            4 => random.one_of(&["0", "1"]).to_string(),
            5 => format!("pkh({})", public_key(random, key)),
            6 => format!("multi(1,{},{})", public_key(random, key), public_key(random, key)),
            _ => format!("pk({})", public_key(random, key)),
        };
    }
    let mut inner = || {
        let depth = depth - 1;
        expression(random, key, depth)
    };
    let first = inner();
    let second = inner();
    let third = inner();
    match random.below(9_u32) {
        0 | 1 => format!("and_v(v:{first},{second})"),
        2 => format!("or_i({first},{second})"),
        3 => format!("or_d({first},{second})"),
        4 => format!("or_b({first},s:{second})"),
        5 => format!("andor({first},{second},{third})"),
        6 => format!("and_b({first},a:{second})"),
        7 => format!("thresh(2,{first},s:{second},a:{third})"),
        _ => first,
    }
}
