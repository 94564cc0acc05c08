//! Calls of `decodescript` with scripts of blocks, and with others.

use apus_hash::hex;
use apus_testdata::Random;
use apus_wire::Ops;
use serde_json::json;

use super::calls::Rpc;
use super::scan_calls::KEYS;
use super::worlds::World;

/// The number of scripts of random opcodes.
const RANDOM: usize = 400;

/// Adds the calls.
pub fn scripts(world: &World, sample: &[usize], calls: &mut Vec<Rpc>) {
    let mut all = usual();
    for height in sample {
        for tx in world.view(*height).txs().take(20) {
            all.extend(tx.outputs().map(|output| output.script().to_vec()));
            for input in tx.inputs().filter(|_| !tx.is_coinbase()) {
                all.push(input.script_sig().to_vec());
                let pushed = Ops::new(input.script_sig()).last();
                all.extend(pushed.map(|op| op.data.to_vec()));
            }
        }
    }
    all.sort();
    all.dedup();
    let every = 1 + all.len() / 500;
    calls.extend(all.iter().step_by(every).map(|it| ("decodescript", json!([hex(it)]))));
    for wrong in [json!("5"), json!("zz"), json!("51 "), json!(1), json!("AB51")] {
        calls.push(("decodescript", json!([wrong])));
    }
}

/// One script of each kind, and others that are nearly such.
fn usual() -> Vec<Vec<u8>> {
    let [one, two, _] = KEYS.map(|key| apus_query::json::from_hex(key).unwrap());
    let long = [&[4][..], &one[1..], &two[1..]].concat();
    let hybrid = [&[6][..], &one[1..], &two[1..]].concat();
    let push = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
    let pays_to = |key: &[u8]| [push(key), vec![0xac]].concat();
    let multi = |keys: &[&[u8]]| {
        let pushed: Vec<u8> = keys.iter().flat_map(|key| push(key)).collect();
        [&[0x51][..], &pushed, &[0x50 + keys.len() as u8, 0xae]].concat()
    };
    let verified = |key: &[u8]| [push(key), vec![0xad]].concat();
    let hash: [u8; 32] = std::array::from_fn(|at| at as u8);
    let mut all = vec![
        vec![],
        vec![0x51],
        vec![0x00],
        vec![0x6a],
        vec![0x6a, 2, 1, 2],
        vec![0x50],
        vec![0xba],
        vec![0xbb],
        vec![0x4e, 1],
        vec![0x51, 2, 0x4e, 0x73],
        pays_to(&one),
        pays_to(&long),
        pays_to(&hybrid),
        pays_to(&one[1..]),
        multi(&[&one]),
        multi(&[&one, &two]),
        multi(&[&one, &long]),
        multi(&[&hybrid]),
        [&[0x76, 0xa9, 20][..], &hash[..20], &[0x88, 0xac]].concat(),
        [&[0xa9, 20][..], &hash[..20], &[0x87]].concat(),
        [&[0, 20][..], &hash[..20]].concat(),
        [&[0, 32][..], &hash].concat(),
        [&[0x51, 32][..], &one[1..]].concat(),
        [&[0x51, 32][..], &[0xff; 32]].concat(),
        [&[0x52, 32][..], &hash].concat(),
        // Miniscript: two keys, a key or a time, a key and a hash, a key that is named by its hash.
        [verified(&one), pays_to(&two)].concat(),
        [&[0x63][..], &pays_to(&one), &[0x67, 0x5a, 0xb2], &verified(&two)[..34], &[0xac, 0x68]]
            .concat(),
        [verified(&one), vec![0x5a, 0xb2]].concat(),
        [verified(&one), vec![0x82, 1, 32, 0x88, 0xa8], push(&hash), vec![0x87]].concat(),
        [verified(&one), vec![0x76, 0xa9, 20], hash[..20].to_vec(), vec![0x88, 0xac]].concat(),
        [verified(&one), pays_to(&one)].concat(),
        [vec![0x51; 5_000], pays_to(&one)].concat(),
        vec![0x61; 10_001],
        [&[0x4d, 9, 2][..], &[7; 521]].concat(),
    ];
    let mut random = Random(43);
    for _ in 0..RANDOM {
        let mut script = Vec::new();
        for _ in 0..random.below(8_u32) {
            match random.below(4_u32) {
                0 => script.extend(push(random.one_of(&[&one[..], &two, &one[1..], &hash, &[9]]))),
                1 => script.push(random.one_of(&[0xac, 0xad, 0xae, 0xb1, 0xb2, 0x69, 0x87])),
                _ => script.push(random.below(256_u32) as u8),
            }
        }
        all.push(script);
    }
    all
}
