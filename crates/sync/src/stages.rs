//! The stages of a run by each method, and what each is expected to cost.

use apus_chain::BlockId;
use apus_node::block::step::Step;
use apus_node::estimate::amounts::{Amounts, mainnet_height, of_mainnet};
use apus_node::estimate::plan::{Plan, Stage};
use apus_node::estimate::weigher::crowding;
use apus_node::growth::COIN_BYTES;
use apus_node::opened::Node;
use apus_node::options::{AssumeValid, Method};
use apus_node::phase::Phase;
use apus_node::space::usual_spill_bytes;
use apus_node::waiting::Waiting;
use apus_store::{IndexKind, find_index};
use apus_wire::Chain;

/// Bytes of a coin in the cache (docs/budget.md).
const CACHED_COIN_BYTES: usize = 106;
/// Blocks of half a year: fewer are not worth an estimate before headers are known, and the scripts
/// of about as many are not assumed valid by a program of today.
const MANY_BLOCKS: u32 = 26_000;
/// Points at which the growth of the UTXO set is looked at.
const POINTS: u32 = 16;
/// The part of a block's bytes that a join writes as undo data.
const UNDO: f64 = 0.125;
/// The part of a block's bytes that the tables of indexes take.
const INDEX_SHARE: f64 = 0.2;
/// A run of new tables with at most this share (one in ...) of the coins of all is left as it is.
const MERGED_ALONE_SHARE: f64 = 8.0;

/// Returns the stages of a run that connects these blocks by `method`, and then the other blocks of
/// the best chain, `rest`, in order.
pub(super) fn stages(node: &Node, method: Method, blocks: &Waiting, rest: Option<Waiting>) -> Plan {
    let mut stages = match method {
        Method::InOrder => Vec::new(),
        Method::Join => joined(node, blocks),
        Method::SwiftSync => swift(node, blocks, coins(node, blocks.bytes)),
    };
    let before = coins_before(node);
    let (in_order, before) = match method {
        Method::InOrder => (Some(*blocks), before),
        _ => (rest, before + coins(node, blocks.bytes)),
    };
    if let Some(blocks) = in_order {
        stages.extend(connected(node, &blocks, coins(node, blocks.bytes), before));
    }
    let rest = rest.filter(|_| method != Method::InOrder);
    stages.extend(indexed(node, &[Some(*blocks), rest]));
    Plan { stages }
}

/// Returns the stages that a sync of mainnet from peers will probably have, while its headers are
/// not known yet; `None` for another network, or if few blocks are missing.
pub(super) fn before_headers(node: &Node, now: i64) -> Option<Plan> {
    let options = &node.options;
    let first = node.tree.node(node.tip()).height + 1;
    let last = mainnet_height(now).min(options.stop_at_height.unwrap_or(u32::MAX));
    if options.network.chain != Chain::Main || last < first.saturating_add(MANY_BLOCKS) {
        return None;
    }
    let scripts_from = match options.assumevalid {
        AssumeValid::Nothing => 0,
        _ => last - MANY_BLOCKS,
    };
    let method = match options.method {
        _ if options.swiftsync.has_claim() => Method::SwiftSync,
        Some(method) => method,
        None if node.ledger.pruning.target().is_some() => Method::InOrder,
        None => Method::Join,
    };
    let (amounts, all) = (of_mainnet(first, last, scripts_from), of_mainnet(first, last, 0));
    let bytes = amounts.bytes as u64;
    let blocks = Waiting {
        first,
        target: node.tree.best_header(),
        last,
        bytes,
        with_scripts: amounts.script_bytes as u64,
        without_undo: bytes,
        copied: bytes,
        from_peers: bytes,
        amounts,
        signatures: all.signatures,
    };
    Some(stages(node, method, &blocks, None))
}

/// Returns the stages of a proof of the blocks up to `target`: the sums alone or, with `by_join`,
/// the sums of outpoints and then every rule by a join.
pub fn of_proof(node: &Node, target: BlockId, by_join: bool) -> Plan {
    let blocks = Waiting { copied: 0, ..Waiting::between(node, 1, target) };
    let checks_all = node.options.assumevalid == AssumeValid::Nothing && !by_join;
    let mut stages = vec![summed(node, &blocks, checks_all)];
    if by_join {
        stages.extend(joined(node, &blocks));
    }
    Plan { stages }
}

/// Estimates how many coins are left of blocks of this size.
fn coins(node: &Node, bytes: u64) -> f64 {
    node.growth.tables(bytes).likely as f64 / COIN_BYTES as f64
}

/// Estimates how many coins the UTXO set has before the run.
fn coins_before(node: &Node) -> f64 {
    node.chainstate.disk_bytes() as f64 / COIN_BYTES as f64
}

/// Returns how many coins the cache holds.
fn cached(node: &Node) -> f64 {
    (node.ledger.share.cache_bytes / CACHED_COIN_BYTES) as f64
}

/// Returns the time that each of these steps takes to be connected in order
/// ([`Weigher::block`](apus_node::estimate::weigher::Weigher::block)), while the UTXO set grows.
/// Scripts are checked from the step at index `scripts_from` on.
pub(super) fn weights_in_order(node: &mut Node, steps: &[Step], scripts_from: usize) -> Vec<u64> {
    let bytes: u64 = steps.iter().map(|step| step.weight).sum();
    let (before, new, cached) = (coins_before(node), coins(node, bytes), cached(node));
    let mut weights = node.split().0.weights(Phase::Connecting, steps, scripts_from);
    let mut done = 0;
    for (weight, step) in weights.iter_mut().zip(steps) {
        done += step.weight;
        let coins = before + new * done as f64 / bytes.max(1) as f64;
        *weight = (*weight as f64 * crowding(coins, cached)) as u64;
    }
    weights
}

/// Returns the bytes that a pass over these blocks reads and stores.
fn stored(blocks: &Waiting) -> f64 {
    (blocks.bytes + blocks.copied) as f64
}

fn connected(node: &Node, blocks: &Waiting, new: f64, before: f64) -> Vec<Stage> {
    let cached = cached(node);
    let written = new.min(cached);
    let share = |point: u32| (f64::from(point) + 0.5) / f64::from(POINTS);
    let crowding = (0..POINTS).map(|point| crowding(before + new * share(point), cached));
    let crowding = crowding.sum::<f64>() / f64::from(POINTS);
    let weigher = &node.weigher;
    let undo = UNDO * blocks.without_undo as f64;
    let connecting = Stage {
        downloads: true,
        ..Stage::new(
            Phase::Connecting,
            weigher.seconds(Phase::Connecting, &blocks.amounts) * crowding,
            stored(blocks) + undo,
        )
    };
    // Coins that were written more than once, or next to others, are merged.
    let merged = match () {
        () if new > before / MERGED_ALONE_SHARE && before > 0.0 => new + before,
        () if new > cached => new,
        () => 0.0,
    };
    let bytes = |coins: f64| coins * COIN_BYTES as f64;
    vec![
        connecting,
        Stage::new(Phase::WritingCoins, weigher.writing(written), bytes(written)),
        Stage::new(Phase::Merging, weigher.merging(merged), 2.0 * bytes(merged)),
    ]
}

fn joined(node: &Node, blocks: &Waiting) -> Vec<Stage> {
    let (weigher, amounts) = (&node.weigher, &blocks.amounts);
    let seconds = |phase| weigher.seconds(phase, amounts);
    let spilled = usual_spill_bytes(blocks.bytes) as f64;
    let checked = amounts.script_bytes + UNDO * blocks.without_undo as f64 + spilled / 2.0;
    vec![
        Stage {
            downloads: true,
            ..Stage::new(Phase::JoinReading, seconds(Phase::JoinReading), stored(blocks) + spilled)
        },
        Stage::new(Phase::JoinMatching, seconds(Phase::JoinMatching), spilled),
        Stage::new(Phase::JoinChecking, seconds(Phase::JoinChecking), checked),
    ]
}

/// Returns the stages of the indexes that the options name, after these blocks.
fn indexed(node: &Node, blocks: &[Option<Waiting>]) -> Vec<Stage> {
    let kinds = &node.options.indexes;
    if kinds.is_empty() {
        return Vec::new();
    }
    let is_new = |kind: &IndexKind| {
        let found = find_index(node.dir.disk(), kind.database(node.dir.path()));
        !found.is_ok_and(|index| index.is_some_and(|index| index.best.is_some()))
    };
    let mut amounts = Amounts::default();
    blocks.iter().flatten().for_each(|blocks| amounts += blocks.amounts);
    if node.ledger.active.height() > Some(0) && kinds.iter().any(is_new) {
        amounts += Waiting::between(node, 1, node.tip()).amounts;
    }
    let (mut reading, mut writing) = (node.weigher.reading(&amounts), 0.0);
    for kind in kinds {
        let (more, written) = node.weigher.index(*kind, &amounts);
        (reading, writing) = (reading + more, writing + written);
    }
    let undo = if kinds.iter().any(|kind| kind.needs_undo()) { UNDO } else { 0.0 };
    let stage = Stage::new(Phase::ReadingForIndexes, reading, (1.0 + undo) * amounts.bytes);
    let mut stages = vec![stage];
    if writing > 0.0 {
        stages.push(Stage::new(Phase::WritingIndexes, writing, INDEX_SHARE * amounts.bytes));
    }
    stages
}

fn swift(node: &Node, blocks: &Waiting, coins: f64) -> Vec<Stage> {
    // Every script is checked, or none if blocks are assumed valid, however deep they are buried.
    let checks_all = node.options.assumevalid == AssumeValid::Nothing;
    let seconds = node.weigher.writing(coins);
    let writing = Stage::new(Phase::WritingCoins, seconds, 2.0 * coins * COIN_BYTES as f64);
    vec![summed(node, blocks, checks_all), writing]
}

/// Returns the pass of a SwiftSync over all blocks.
fn summed(node: &Node, blocks: &Waiting, checks_all: bool) -> Stage {
    let signatures = if checks_all { blocks.signatures } else { 0.0 };
    let undo = if checks_all { 2.0 * UNDO * blocks.bytes as f64 } else { 0.0 };
    let amounts = Amounts { signatures, ..blocks.amounts };
    let seconds = node.weigher.seconds(Phase::SwiftSync, &amounts);
    Stage { downloads: true, ..Stage::new(Phase::SwiftSync, seconds, stored(blocks) + undo) }
}
