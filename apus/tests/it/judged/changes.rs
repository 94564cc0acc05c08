//! Random changes in real blocks, judged by Apus and by the engine. The blocks have a place in a
//! chain and get new proof of work and a new merkle root, so that other rules decide.
//! `rules::tests::differential` does the same for the rules that need a block alone.

use std::collections::{BTreeMap, HashSet};
use std::panic::catch_unwind;
use std::time::{SystemTime, UNIX_EPOCH};

use apus_chain::{BlockId, Tree};
use apus_consensus::{
    BlockContext, RuleClass, RuleError, check_block_in_context, check_header_in_context,
};
use apus_hash::Hash;
use apus_scripts::check_block;
use apus_testchain::block::{merkle_root, mine};
use apus_testchain::{Chain, Rng, Spec, remerkle, seal};
use apus_wire::{BlockView, Chain as Network, Header};
use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, Block, ScriptBuf, consensus};

use crate::support::judge::{Judge, Verdict};
use crate::support::{Place, hash_of, with_genesis};

/// A change to the bytes of a block: set, flip, insert, delete, repeat or swap a few.
fn change_bytes(bytes: &mut Vec<u8>, first: usize, rng: &mut Rng) {
    for _ in 0..rng.between(1, 3) {
        if bytes.len() <= first {
            return;
        }
        let mut place = || first + rng.below((bytes.len() - first) as u64) as usize;
        let at = place();
        let other = place();
        let len = rng.between(1, 40).min((bytes.len() - at) as u64) as usize;
        match rng.below(7) {
            0 => bytes[at] = [0, 1, 0x7f, 0x80, 0xfd, 0xff][rng.below(6) as usize],
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.insert(at, rng.next_u64() as u8),
            3 => drop(bytes.drain(at..at + len)),
            4 => {
                let piece = bytes[at..at + len].to_vec();
                bytes.splice(other..other, piece);
            }
            5 => bytes.swap(at, other),
            _ => bytes.truncate(at),
        }
    }
}

/// Replaces merkle root and proof of work of a block whose bytes were changed, without a change to
/// its transactions. `None` if the bytes are no transactions.
fn mined_again(bytes: &mut [u8]) {
    let Ok(view) = BlockView::parse(&*bytes) else { return };
    let root = merkle_root(view.txs().map(|tx| tx.txid().0).collect());
    let Ok(mut header) = consensus::deserialize::<bitcoin::block::Header>(&bytes[..80]) else {
        return;
    };
    header.merkle_root = bitcoin::TxMerkleNode::from_byte_array(root);
    // A target out of range is never met.
    if header.bits.to_consensus() == apus_testchain::block::REGTEST_BITS {
        mine(&mut header, true);
    }
    bytes[..80].copy_from_slice(&consensus::serialize(&header));
}

/// A change to a block's fields, after which the witness commitment is replaced or not.
fn change_fields(block: &mut Block, rng: &mut Rng) {
    let at = rng.below(block.txdata.len() as u64) as usize;
    let tx = &mut block.txdata[at];
    let input = rng.below(tx.input.len() as u64) as usize;
    let output = rng.below(tx.output.len() as u64) as usize;
    match rng.below(14) {
        0 => tx.output[output].value = Amount::from_sat(rng.next_u64() >> rng.below(40)),
        1 => drop(tx.output.pop()),
        2 => tx.lock_time = bitcoin::absolute::LockTime::from_consensus(rng.next_u64() as u32),
        3 => tx.input[input].sequence = bitcoin::Sequence(rng.next_u64() as u32),
        4 => tx.input[input].witness.push(rng.next_u64().to_le_bytes()),
        5 => tx.input[input].witness.clear(),
        6 => tx.input[input].previous_output.vout ^= 1,
        7 => tx.input[input].script_sig = ScriptBuf::from(vec![0x51; rng.below(103) as usize]),
        8 => drop(block.txdata.remove(at)),
        9 => block.txdata.push(block.txdata[at].clone()),
        10 => block.txdata.swap(at, 0),
        11 => {
            block.header.time =
                block.header.time.wrapping_add(rng.below(9_000) as u32).wrapping_sub(4_500)
        }
        12 => block.header.version = bitcoin::block::Version::from_consensus(rng.below(6) as i32),
        _ => {
            tx.output[output].script_pubkey =
                ScriptBuf::from(vec![0xac; rng.below(22_000) as usize])
        }
    }
    if block.txdata.is_empty() {
        return;
    }
    match rng.below(3) {
        0 if block.txdata[0].output.len() > 1 => seal(block),
        1 => {
            mine(&mut block.header, true);
        }
        _ => remerkle(block),
    }
}

fn changed(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if rng.percent(50) {
        let mut block: Block = consensus::deserialize(&bytes).unwrap();
        change_fields(&mut block, rng);
        if block.txdata.iter().all(|tx| !tx.input.is_empty() && !tx.output.is_empty())
            && !block.txdata.is_empty()
            && rng.percent(30)
        {
            change_fields(&mut block, rng);
        }
        bytes = apus_testchain::block::encode_block(&block);
    }
    if rng.percent(60) {
        // One time in eight the header changes.
        let first = if rng.percent(12) { 0 } else { 80 };
        change_bytes(&mut bytes, first, rng);
        if bytes.len() > 80 && rng.percent(75) {
            mined_again(&mut bytes);
        }
    }
    bytes
}

/// The headers of a chain, to judge blocks that build on one of them.
struct Context {
    network: apus_wire::Network,
    tree: Tree,
    now: i64,
}

impl Context {
    fn new(chain: &Chain) -> Self {
        let network = apus_wire::Network::new(Network::Regtest);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let headers: Vec<Header> = with_genesis(chain)
            .iter()
            .map(|block| *BlockView::parse(block).unwrap().header())
            .collect();
        let mut tree = Tree::new(network.clone());
        for header in &headers[1..] {
            tree.accept_header(header, now).unwrap();
        }
        Self { network, tree, now }
    }

    /// The result of what Core's `ProcessNewBlock` checks before it looks at coins, in its order.
    /// Of a block that it has, that is `CheckBlock` alone. `None` if the bytes are no block.
    fn judge(&self, bytes: &[u8], is_stored: bool) -> Option<Result<(), RuleError>> {
        let view = BlockView::parse(bytes).ok()?;
        let header = *view.header();
        let checked = match check_block(view, &self.network) {
            Ok(checked) => checked,
            Err(error) => return Some(Err(error)),
        };
        if is_stored {
            return Some(Ok(()));
        }
        let Some(parent) = self.tree.find(&header.prev) else {
            return Some(Err(RuleError::new(RuleClass::MissingPrev, "prev-blk-not-found", "")));
        };
        let branch = self.tree.branch(parent);
        let in_context = || {
            check_header_in_context(&header, &self.network, &branch, self.now)?;
            check_block_in_context(&checked, &self.context(parent))
        };
        Some(in_context())
    }

    fn context(&self, parent: BlockId) -> BlockContext<'_> {
        BlockContext {
            network: &self.network,
            height: self.tree.node(parent).height + 1,
            parent_median_time_past: i64::from(self.tree.median_time_past(parent)),
        }
    }
}

fn spec(seed: u64) -> Spec {
    Spec { quiet_blocks: 110, busy_blocks: 30, busy_bytes: 4_000, ..Spec::small(seed) }
}

/// The engine knows the whole chain, so it checks a changed copy of one of its blocks like a branch
/// that is not the best: everything but the coins.
#[test]
fn changed_blocks_are_judged_as_core_judges_them() {
    let chain = Chain::new(spec(31));
    let place = Place::new(Network::Regtest);
    let judge = Judge::open(&place).unwrap();
    let blocks = with_genesis(&chain);
    assert_eq!(judge.process(&blocks[1..]), blocks.len() - 1);
    let context = Context::new(&chain);
    let mut rng = Rng::new(31, 0);
    let mut seen = BTreeMap::<String, u32>::new();
    let mut stored: HashSet<Hash> = blocks.iter().map(|block| hash_of(block)).collect();
    for round in 0..12_000 {
        let height = rng.between(105, u64::from(chain.height()));
        let bytes = changed(&blocks[height as usize], &mut rng);
        let hash = hash_of(&[&bytes[..], &[0; 80]].concat());
        let ours = catch_unwind(|| context.judge(&bytes, stored.contains(&hash)))
            .unwrap_or_else(|_| panic!("round {round}: panicked at {bytes:02x?}"));
        let theirs = judge.judge(&bytes).map(|said| said.first().and_then(|first| first.fault));
        let class = ours.as_ref().map(|ours| ours.as_ref().err().map(|error| error.class));
        assert_eq!(class, theirs, "round {round}, height {height}: {ours:?}");
        let verdict = match ours {
            None => "no block".to_owned(),
            Some(Ok(())) => {
                stored.insert(hash);
                "sound".to_owned()
            }
            Some(Err(error)) => error.reason.split('(').next().unwrap_or_default().to_owned(),
        };
        *seen.entry(verdict).or_default() += 1;
    }
    println!("{seen:?}");
    assert_eq!(judge.tip(), (chain.height(), hash_of(blocks.last().unwrap())));
    assert!(seen.len() >= 15 && seen["sound"] > 200, "{seen:?}");
}

/// Changed blocks on the tip, until one is connected or none is left. If one was, the chain's next
/// two blocks then have more work.
#[test]
fn changed_blocks_are_connected_or_refused_as_core_does_it() {
    let chain = Chain::new(spec(32));
    let blocks = with_genesis(&chain);
    let ours = Place::new(Network::Regtest);
    let theirs = Place::new(Network::Regtest);
    let judge = Judge::open(&theirs).unwrap();
    let mut rng = Rng::new(32, 0);
    let mut refused = BTreeMap::<String, u32>::new();
    let mut tip = 0;
    for height in (110..blocks.len() - 2).step_by(2) {
        let group: Vec<Vec<u8>> =
            (0..30).map(|_| on_the_tip(&blocks[height + 1], &mut rng)).collect();
        let summary = ours.sync(&[ours.write("chain", &blocks[tip..=height])]);
        judge.process(&blocks[tip.max(1)..=height]);
        assert_eq!((summary.height, summary.best_block), judge.tip());
        tip = height;
        let summary = ours.sync(&[ours.write("changed", &group)]);
        let mut said = Vec::new();
        group.iter().for_each(|bytes| said.extend(judge.judge(bytes).unwrap_or_default()));
        assert_eq!((summary.height, summary.best_block), judge.tip(), "above {height}");
        assert_same_refusals(&summary.refusals, &said);
        for refusal in &summary.refusals {
            let end = refusal.reason.find([',', ' ']).unwrap_or(refusal.reason.len());
            *refused.entry(refusal.reason[..end].to_owned()).or_default() += 1;
        }
    }
    drop(judge);
    println!("{refused:?}");
    super::directory::assert_same_coins(&ours, &theirs);
    assert!(refused.len() >= 8, "{refused:?}");
}

/// A change to an input, a script or an amount of one of the transactions.
fn with_another_spend(block: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut block: Block = consensus::deserialize(block).unwrap();
    let at = rng.between(1, block.txdata.len() as u64 - 1) as usize;
    let other = rng.between(1, block.txdata.len() as u64 - 1) as usize;
    let elsewhere = block.txdata[other].input[0].clone();
    let tx = &mut block.txdata[at];
    let input = rng.below(tx.input.len() as u64) as usize;
    match rng.below(20) {
        0..=3 => tx.input[input].previous_output.vout += rng.between(1, 3) as u32,
        4..=8 if tx.input[input].witness.is_empty() => {
            tx.input[input].script_sig = ScriptBuf::new();
        }
        4..=8 => tx.input[input].witness.clear(),
        9..=13 => tx.output[0].value += Amount::from_sat(rng.next_u64() >> rng.between(20, 40)),
        14..=17 => tx.input.push(elsewhere),
        18 => tx.input[input].sequence = bitcoin::Sequence(rng.below(200) as u32),
        _ => block.txdata.swap(at, other),
    }
    apus_testchain::block::encode_block(&block)
}

/// A changed copy of a block that passes the checks of a block alone, most often with a right
/// witness commitment.
fn on_the_tip(block: &[u8], rng: &mut Rng) -> Vec<u8> {
    let network = apus_wire::Network::new(Network::Regtest);
    loop {
        let mut bytes =
            if rng.percent(75) { with_another_spend(block, rng) } else { changed(block, rng) };
        let whole = consensus::deserialize::<Block>(&bytes).ok();
        let commits = |block: &Block| block.txdata.first().is_some_and(|tx| tx.output.len() > 1);
        if let Some(mut block) = whole.filter(commits)
            && rng.percent(90)
        {
            seal(&mut block);
            bytes = apus_testchain::block::encode_block(&block);
        }
        let Ok(view) = BlockView::parse(&bytes) else { continue };
        if view.header().prev.0 == block[4..36] && check_block(view, &network).is_ok() {
            return bytes;
        }
    }
}

/// Panics unless both judges gave the same verdicts.
fn assert_same_refusals(ours: &[apus_progress::Refusal], theirs: &[Verdict]) {
    let mut our: Vec<Hash> = ours.iter().filter_map(|refusal| refusal.block).collect();
    let faults = theirs.iter().filter(|verdict| verdict.fault.is_some());
    let mut their: Vec<Hash> = faults.map(|verdict| verdict.block).collect();
    our.sort();
    our.dedup();
    their.sort();
    their.dedup();
    assert_eq!(our, their, "{ours:#?} {theirs:#?}");
}
