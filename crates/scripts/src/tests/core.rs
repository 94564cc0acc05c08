//! Random blocks, each with one to three changes that break rules, on a chain of their own. A whole
//! Bitcoin Core (libbitcoinkernel) must refuse each for the same reason, in the same words.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, ScriptBuf, Sequence, Transaction, Txid, Witness};
use bitcoinkernel::{
    Block, ChainType, ChainstateManager, ChainstateManagerBuilder, ContextBuilder, Log, Logger,
};

use super::node::Node;
use super::reasons::committed;
use super::*;

/// The lines of Core's log that say why a block is refused.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<Vec<String>>>);

impl Log for Refusals {
    fn log(&self, line: &str) {
        let line = line.trim_end();
        let accept = line.split_once("AcceptBlock FAILED (").map(|(_, state)| state);
        let accept = accept.and_then(|state| state.strip_suffix(')'));
        let connect = line.split_once("Block validation error: ").map(|(_, state)| state);
        if let Some(state) = accept.or(connect) {
            self.0.lock().unwrap().push(state.to_owned());
        }
    }
}

struct Core {
    refusals: Refusals,
    manager: ChainstateManager,
    _dir: tempfile::TempDir,
    _logger: Logger,
}

impl Core {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let refusals = Refusals::default();
        let logger = Logger::new(refusals.clone()).unwrap();
        let context = ContextBuilder::new().chain_type(ChainType::Regtest).build().unwrap();
        let (data, blocks) = (dir.path().join("data"), dir.path().join("data/blocks"));
        let manager = ChainstateManagerBuilder::new(
            &context,
            data.to_str().unwrap(),
            blocks.to_str().unwrap(),
        )
        .unwrap()
        .block_tree_db_in_memory(true)
        .chainstate_db_in_memory(true)
        .build()
        .unwrap();
        manager.import_blocks().unwrap();
        Self { refusals, manager, _dir: dir, _logger: logger }
    }

    /// Returns Core's reason for refusing the block; `None` if it accepts it.
    fn refuses(&self, bytes: &[u8]) -> Option<String> {
        self.refusals.0.lock().unwrap().clear();
        self.manager.process_block(&Block::new(bytes).unwrap());
        self.refusals.0.lock().unwrap().first().cloned()
    }
}

/// A block on the node's tip that is still being changed.
struct Draft {
    header: Header,
    txs: Vec<Transaction>,
    witness: bool,
    late_witness: bool,
    reserved: Vec<Vec<u8>>,
    changed_root: bool,
    repeated_tail: bool,
}

impl Draft {
    fn new(node: &Node) -> Self {
        let tip = node.headers.last().unwrap();
        let header = Header {
            version: 4,
            prev: tip.hash(),
            time: tip.time + 600,
            bits: 0x207f_ffff,
            ..Header::default()
        };
        let mut coinbase = coinbase(node.headers.len() as u32);
        coinbase.output[0].value = bitcoin::Amount::from_sat(1000);
        Self {
            header,
            txs: vec![coinbase],
            witness: false,
            late_witness: false,
            reserved: vec![vec![0; 32]],
            changed_root: false,
            repeated_tail: false,
        }
    }

    fn bytes(mut self) -> Vec<u8> {
        if self.witness {
            self.txs = committed(self.txs, &self.reserved);
        }
        if self.late_witness {
            self.txs.last_mut().unwrap().input[0].witness.push([9]);
        }
        let mut raw: Vec<Vec<u8>> = self.txs.iter().map(serialize).collect();
        let plain = block_of_raw(&raw);
        self.header.merkle_root = BlockView::parse(&plain).unwrap().header().merkle_root;
        if self.changed_root {
            self.header.merkle_root.0[0] ^= 1;
        }
        if self.repeated_tail && raw.len() % 2 == 1 && raw.len() > 1 {
            raw.push(raw.last().unwrap().clone());
        }
        mined(self.header, &raw)
    }

    /// Returns the last transaction that is not the coinbase; if there is none, one is added.
    fn last(&mut self, node: &Node, random: &mut Random) -> &mut Transaction {
        if self.txs.len() < 2 {
            self.spend(node, random);
        }
        self.txs.last_mut().unwrap()
    }

    /// Adds a transaction that spends a random coin, which may be immature, or already spent by
    /// this block.
    fn spend(&mut self, node: &Node, random: &mut Random) {
        let mut coins: Vec<_> = node.coins.iter().filter(|(_, coin)| coin.amount > 0).collect();
        coins.sort_by_key(|(outpoint, coin)| (coin.height, **outpoint));
        // Most coins are taken from the oldest, which have matured.
        let limit = if random.below(8) == 0 { coins.len() } else { coins.len() / 8 };
        let (outpoint, coin) = coins[random.below(limit)];
        let txid = Txid::from_byte_array(outpoint.txid.0);
        let mut spend = transaction(
            vec![input(OutPoint { txid, vout: outpoint.vout })],
            vec![output((coin.amount - random.below(1000) as i64).max(0))],
        );
        spend.input[0].sequence = Sequence(random.one_of(&[0, 0xffff_fffe, 0xffff_ffff]));
        self.txs.push(spend);
    }
}

/// Makes a random change; most of them break a rule.
fn change(draft: &mut Draft, node: &Node, now: i64, random: &mut Random) {
    let parent = Headers(&node.headers);
    let median = parent.median_time_past();
    match random.below(32) {
        0 => draft.header.bits = random.one_of(&[0x207f_fffe, 0x207f_ff00, 0x1f7f_ffff]),
        1 => draft.header.time = (median + random.below(3) as i64 - 1) as u32,
        // Core asks its clock, which goes on while the test runs.
        2 => draft.header.time = (now + 7200 + 24 * 3600) as u32,
        3 => draft.header.version = random.one_of(&[-1, 0, 1, 2, 3, 4, 0x2000_0000]),
        4 => draft.changed_root = true,
        5 => draft.repeated_tail = true,
        6 => drop(draft.txs.swap_remove(0)),
        7 => draft.txs.push(coinbase(random.below(200) as u32)),
        8 => draft.witness = true,
        9 => {
            draft.witness = true;
            draft.reserved = random
                .one_of(&[&[][..], &[31], &[32, 32], &[33]])
                .iter()
                .map(|&len| vec![3; len])
                .collect();
        }
        10 => {
            let len = random.one_of(&[0, 1, 2, 100, 101]);
            if let Some(tx) = draft.txs.first_mut() {
                tx.input[0].script_sig = ScriptBuf::from(vec![0x51; len]);
            }
        }
        11 => {
            let claim = subsidy(node.headers.len() as u32, node.network)
                + random.one_of(&[0, 1, 999, 2000]);
            if let Some(tx) = draft.txs.first_mut() {
                tx.output[0] = output(claim);
            }
        }
        12 => {
            draft.witness = true;
            draft.late_witness = true;
        }
        13 if random.below(8) == 0 => {
            draft.witness = true;
            let len = random.one_of(&[3_990_000, 4_000_000]);
            draft.last(node, random).input[0].witness = Witness::from_slice(&[vec![0; len]]);
        }
        14 if random.below(8) == 0 => {
            let script_pubkey = ScriptBuf::from(vec![0x6a; 1_000_000]);
            let tx = draft.last(node, random);
            tx.output.push(bitcoin::TxOut { script_pubkey, ..output(0) });
        }
        19 | 20 => hidden_sigops(draft, node, random),
        13..=18 => draft.spend(node, random),
        _ => change_spend(draft, node, random),
    }
    // Later changes need at least one transaction.
    if draft.txs.is_empty() {
        draft.spend(node, random);
    }
}

fn change_spend(draft: &mut Draft, node: &Node, random: &mut Random) {
    let height = node.headers.len() as u32;
    let median = Headers(&node.headers).median_time_past() as u32;
    let time = draft.header.time;
    let tx = draft.last(node, random);
    match random.below(14) {
        0 => tx.output.clear(),
        1 => tx.output.push(output(random.one_of(&[-1, MONEY_MAX, MONEY_MAX + 1]))),
        2 => tx.output.push(output(random.one_of(&[1, 1000, 50 * COIN]))),
        3 => tx.input.push(tx.input[0].clone()),
        4 => tx.input.push(input(OutPoint::null())),
        5 => tx.input.push(input(outpoint(random.below(5) as u32))),
        6 => {
            let around = random.one_of(&[height, median, time]);
            tx.lock_time = LockTime::from_consensus(around + random.below(3) as u32 - 1);
        }
        7 => {
            tx.input[0].sequence = Sequence(random.below(130) as u32);
        }
        8 => {
            tx.input[0].sequence = Sequence(1 << 22 | random.below(150) as u32);
        }
        9 => tx.version = bitcoin::transaction::Version(random.one_of(&[-1, 0, 1, 2, 3])),
        10 => {
            tx.input[0].script_sig =
                ScriptBuf::from(random.one_of(&[&[0x6a][..], &[0x51, 0]]).to_vec())
        }
        11 => tx.input[0].witness = Witness::from_slice(&[vec![1; random.below(100)]]),
        12 => {
            let op = random.one_of(&[0xac, 0xae]);
            let count = if op == 0xac { 19_999 } else { 999 };
            let script_pubkey = ScriptBuf::from(vec![op; count + random.below(3)]);
            tx.output.push(bitcoin::TxOut { script_pubkey, ..output(0) });
        }
        _ => {
            let spent = tx.compute_txid();
            let amount = tx.output.first().map_or(0, |output| output.value.to_sat() as i64);
            draft.txs.push(transaction(
                vec![input(OutPoint { txid: spent, vout: 0 })],
                vec![output(amount)],
            ));
            if random.below(4) == 0 {
                let last = draft.txs.len() - 1;
                draft.txs.swap(last, last - 1);
            }
        }
    }
}

/// Adds two transactions that create and spend outputs with hashed scripts. Their signature
/// operations are counted but never executed, and are about as many as a block may have.
fn hidden_sigops(draft: &mut Draft, node: &Node, random: &mut Random) {
    let keys = random.below(17) as u8;
    let (opcode, cost) = if keys == 0 { (0x00, 20) } else { (0x50 + keys, usize::from(keys)) };
    let count = 150 + random.below(49);
    let redeem = [&[0x00, 0x63][..], &[opcode, 0xae].repeat(count), &[0x68, 0x51]].concat();
    let redeem_script = ScriptBuf::from(redeem.clone());
    let p2wsh = ScriptBuf::new_p2wsh(&redeem_script.wscript_hash());
    let push = |data: &[u8]| {
        let data = bitcoin::script::PushBytesBuf::try_from(data.to_vec()).unwrap();
        bitcoin::script::Builder::new().push_slice(data).into_script()
    };
    let p2sh_of = |script: &ScriptBuf| ScriptBuf::new_p2sh(&script.script_hash());
    let (script_pubkey, script_sig, in_witness) = match random.below(3) {
        0 => (p2sh_of(&redeem_script), push(&redeem), false),
        1 => (p2wsh, ScriptBuf::new(), true),
        _ => (p2sh_of(&p2wsh), push(p2wsh.as_bytes()), true),
    };
    let each = count * cost * if in_witness { 1 } else { 4 };
    let spends = (SIGOPS_COST_MAX as usize / each + random.below(3)).clamp(1, 500);
    draft.witness |= in_witness;
    draft.spend(node, random);
    let funding = draft.txs.last_mut().unwrap();
    funding.output = vec![bitcoin::TxOut { script_pubkey, ..output(0) }; spends];
    let txid = funding.compute_txid();
    let inputs = (0..spends as u32).map(|vout| {
        let mut input = input(OutPoint { txid, vout });
        input.script_sig = script_sig.clone();
        if in_witness {
            input.witness = Witness::from_slice(&[&redeem]);
        }
        input
    });
    draft.txs.push(transaction(inputs.collect(), vec![output(0)]));
}

#[test]
fn core_refuses_the_same_blocks_for_the_same_reasons() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let network = regtest();
    let core = Core::new();
    let mut node = Node::new(&network);
    for _ in 0..140 {
        let block = Draft::new(&node).bytes();
        node.connect(&block, now).unwrap();
        assert_eq!(core.refuses(&block), None);
    }
    let mut random = Random(0xc0de_c0de_c0de);
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..3_000 {
        let mut draft = Draft::new(&node);
        for _ in 0..1 + random.below(3) {
            change(&mut draft, &node, now, &mut random);
        }
        let bytes = draft.bytes();
        let expected = core.refuses(&bytes);
        if expected.as_ref().is_some_and(|error| error.starts_with("duplicate-invalid")) {
            continue;
        }
        let mut next = node.clone();
        let result = next.connect(&bytes, now);
        if result.is_ok() {
            node = next;
        }
        same_refusal(result.as_ref().err(), expected.as_deref(), round);
        *seen.entry(verdict(result)).or_default() += 1;
    }
    println!("{seen:?}");
    assert!(seen.len() >= 28, "{seen:?}");
}

/// Asserts that both sides refuse a block for the same reason, or accept it. Our message may be
/// longer than Core's, and lacks the error of the script interpreter.
fn same_refusal(ours: Option<&RuleError>, cores: Option<&str>, round: u32) {
    let ours = ours.map(|error| error.to_string());
    let same = match (&ours, cores) {
        (Some(ours), Some(cores)) => match cores.split_once(" (") {
            Some((reason @ "block-script-verify-flag-failed", rest)) => {
                let debug = rest.split_once("), ").map_or("", |(_, debug)| debug);
                *ours == format!("{reason}, {debug}")
            }
            _ => ours.starts_with(cores),
        },
        (ours, cores) => ours.is_none() && cores.is_none(),
    };
    assert!(same, "round {round}: {ours:?}, Core: {cores:?}");
}
