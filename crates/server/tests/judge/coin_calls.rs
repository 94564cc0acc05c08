//! `scantxoutset` finds the outputs of random descriptors as bitcoind does, and describes them as
//! it does.

use apus_descriptors::{Descriptor, address, with_checksum};
use apus_hash::hex;
use apus_testdata::Random;
use apus_wire::Chain;
use serde_json::{Value, json};

use super::compare::compare_calls;
use super::daemon::{Daemon, bitcoind};
use super::descriptor_calls::expression;
use super::http::Request;
use super::scan_calls::{KEYS, TPUB};
use super::worlds;

/// The number of descriptors whose scripts are paid to.
const COUNT: usize = 300;
/// Another extended key of test networks, from BIP84 and BIP32's second vector.
const OTHER: &str = "tpubD6NzVbkrYhZ4XHndKkuB8FifXm8r5FQHwrN6oZuWCz13qb93rtgKvD4PQsqC4HP4yhV3tA2f\
                     qr2RbY5mNXfM7RxXUoeABoDtsFUq2zJq6YK";
/// The indexes that are paid to, of descriptors with a wildcard.
const INDEXES: u32 = 5;

struct Maker {
    random: Random,
}

impl Maker {
    /// A key, with an origin or without, fixed or of an index; `is_alone` says that it may be any.
    fn key(&mut self, x_only: bool) -> String {
        let random = &mut self.random;
        let origin = match random.below(4_u32) {
            0 => "[d34db33f]",
            1 => "[D34DB33F/44h/0'/7]",
            _ => "",
        };
        let steps = ["", "/3", "/0/1", "/<0;1>", "/2147483647", "/01", "/000/<00;07>"];
        let end = if random.below(3_u32) == 0 { "" } else { "/*" };
        match random.below(4_u32) {
            0 => {
                let key = random.one_of(&KEYS);
                format!("{origin}{}", if x_only { &key[2..] } else { key })
            }
            1 => format!("{origin}{OTHER}{}{end}", random.one_of(&steps)),
            _ => format!("{origin}{TPUB}{}{end}", random.one_of(&steps)),
        }
    }

    /// Arguments of `multi()`.
    fn several(&mut self, most: u32) -> String {
        let count = 1 + self.random.below(most);
        let keys: Vec<String> = (0..count).map(|_| self.key(false)).collect();
        format!("{},{}", 1 + self.random.below(count), keys.join(","))
    }

    /// A tree of scripts.
    fn tree(&mut self, depth: u32) -> String {
        match self.random.below(6_u32) {
            0..=2 if depth > 0 => {
                format!("{{{},{}}}", self.tree(depth - 1), self.tree(depth - 1))
            }
            3 => {
                let name = self.random.one_of(&["multi_a", "sortedmulti_a"]);
                format!("{name}(1,{},{},{})", self.key(true), self.key(true), self.key(true))
            }
            4 => format!("and_v(v:pk({}),older({}))", self.key(true), 1 + depth),
            5 => format!("and_v(v:pkh({}),pk({}))", self.key(true), self.key(true)),
            _ => format!("pk({})", self.key(true)),
        }
    }

    fn descriptor(&mut self) -> String {
        match self.random.below(20_u32) {
            0 => format!("pk({})", self.key(false)),
            1 => format!("pkh({})", self.key(false)),
            2 => format!("wpkh({})", self.key(false)),
            3 => format!("sh(wpkh({}))", self.key(false)),
            4 => format!("sh(pkh({}))", self.key(false)),
            5 => format!("wsh(pkh({}))", self.key(false)),
            6 => format!("multi({})", self.several(3)),
            7 => format!("sortedmulti({})", self.several(3)),
            8 => format!("sh(sortedmulti({}))", self.several(5)),
            9 => format!("wsh(multi({}))", self.several(9)),
            10 => format!("sh(wsh(sortedmulti({})))", self.several(6)),
            11 => format!("tr({})", self.key(true)),
            12 => format!("tr({},pk({}))", self.key(false), self.key(true)),
            13 | 14 => format!("tr({},{})", self.key(true), self.tree(3)),
            15 => format!("rawtr({})", self.key(true)),
            16 => format!("combo({})", self.key(false)),
            17 => format!("sh(multi({}))", self.several(4)),
            _ => {
                let depth = 1 + self.random.below(2_u32);
                format!("wsh({})", expression(&mut self.random, TPUB, depth))
            }
        }
    }
}

/// The calls for descriptors, some of whose scripts are paid to.
fn calls(descriptors: &[String], paid: &[Vec<u8>]) -> Vec<Value> {
    let mut calls = Vec::new();
    for descriptor in descriptors {
        let summed = with_checksum(descriptor.clone());
        calls.push(json!([{ "desc": summed, "range": INDEXES }]));
    }
    for range in [json!(2), json!([1, 3]), json!([4, 4])] {
        let objects = descriptors.iter().take(60);
        let objects = objects.map(|text| json!({ "desc": text, "range": range }));
        calls.push(objects.collect::<Value>());
    }
    let raw = paid.iter().map(|script| format!("raw({})", hex(script)));
    calls.push(raw.collect::<Value>());
    let addresses = paid.iter().filter_map(|script| address(script, Chain::Regtest));
    calls.push(addresses.map(|address| format!("addr({address})")).collect::<Value>());
    // The first of several that have a script describes it.
    let mut both: Vec<Value> = descriptors.iter().map(|text| json!(text)).take(20).collect();
    both.extend(paid.iter().take(20).map(|script| json!(format!("raw({})", hex(script)))));
    calls.push(json!(both));
    calls
}

#[test]
fn unspent_outputs_of_descriptors_are_described_as_by_core() {
    let test = "unspent_outputs_of_descriptors_are_described_as_by_core";
    let Some(program) = bitcoind(test) else { return };
    let world = worlds::empty();
    let daemon = Daemon::start(&program, &world.datadir(), "regtest", &world.options);
    let mut maker = Maker { random: Random(43) };
    let mut descriptors = Vec::new();
    let mut paid = Vec::new();
    while descriptors.len() < COUNT {
        let descriptor = maker.descriptor();
        let Ok(parsed) = Descriptor::parse(&descriptor, Chain::Regtest) else { continue };
        let index = maker.random.below(INDEXES);
        let scripts = parsed.scripts_at(index).unwrap();
        let script = scripts[maker.random.below(scripts.len())].clone();
        let pay = json!([1, format!("raw({})", hex(&script))]);
        daemon.client.must("generatetodescriptor", &pay);
        descriptors.push(descriptor);
        paid.push(script);
    }
    let calls = calls(&descriptors, &paid).into_iter();
    let calls = calls.map(|objects| Request::call("scantxoutset", &json!(["start", objects])));
    let found = compare_calls(daemon, &world, calls.collect());
    let descs = found.iter().filter(|reply| reply.contains("\"desc\":\"")).count();
    assert!(descs > COUNT * 9 / 10, "{descs} of {COUNT} found anything");
}
