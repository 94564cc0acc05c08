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
        let script = expression(&mut random, key, depth);
        let one = KEYS[0];
        let descriptor = match random.below(6_u32) {
            0 => format!("sh(wsh({script}))"),
            1 => format!("sh({script})"),
            2 => format!("tr({one},{script})"),
            _ => format!("wsh({script})"),
        };
        calls.push(("getdescriptorinfo", json!([descriptor])));
    }
}

/// A key, mostly one of a few, so that some are there twice.
fn public_key(random: &mut Random, key: &str) -> String {
    match random.below(12_u32) {
        0 => format!("{key}/<0;1>/*"),
        1 => format!("{key}/<{};{}>/*", random.below(2_u32), random.below(2_u32)),
        2 => format!("{key}/+{}/*", random.below(9_u32)),
        _ => format!("{key}/{}/*", random.below(30_u32)),
    }
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
