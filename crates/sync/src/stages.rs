//! The stages of a run by each method.

use apus_chain::BlockId;
use apus_node::commit::Ledger;
use apus_node::forecast::Forecast;
use apus_node::opened::Node;
use apus_node::options::AssumeValid;
use apus_node::waiting::Waiting;
use apus_progress::Method;
use apus_progress::estimate::plan::{CACHED_TABLES, RunPlan, Stage, Task};
use apus_progress::phase::Phase;
use apus_store::{IndexKind, find_index};

/// Returns the stages of a run that connects these blocks by `method`, and then the other blocks of
/// the best chain, `rest`, in order.
pub(super) fn stages(
    node: &Node,
    method: Method,
    blocks: &Waiting,
    rest: Option<Waiting>,
) -> RunPlan {
    let first = Task {
        tables: node.chainstate().disk_bytes() as f64,
        ..task(node.forecast(), node.ledger(), blocks)
    };
    // Every script is checked by a SwiftSync, or none, however deep blocks are buried.
    let first = match (method, node.options().assumevalid) {
        (Method::SwiftSync, AssumeValid::Nothing) => Task { script_bytes: first.bytes, ..first },
        (Method::SwiftSync, _) => Task { script_bytes: 0.0, ..first },
        _ => first,
    };
    let mut stages = first.stages(method, node.shared().costs);
    let rest = rest.filter(|_| method != Method::InOrder);
    if let Some(rest) = &rest {
        let tables = first.tables + first.new_tables;
        let rest = Task { tables, ..task(node.forecast(), node.ledger(), rest) };
        stages.extend(rest.stages(Method::InOrder, node.shared().costs));
    }
    let bytes = blocks.bytes + rest.map_or(0, |rest| rest.bytes);
    stages.extend(indexed(node, bytes as f64));
    RunPlan { stages }
}

/// Returns the stages of a proof of the blocks up to `target`: the sums alone or, with `by_join`,
/// the sums of outpoints and then every rule by a join.
pub fn of_proof(node: &Node, target: BlockId, by_join: bool) -> RunPlan {
    let blocks = Waiting::between(node, 1, target);
    let task = task(node.forecast(), node.ledger(), &blocks);
    let checks_all = node.options().assumevalid == AssumeValid::Nothing && !by_join;
    let script_bytes = if checks_all { task.bytes } else { 0.0 };
    let mut stages = Task { script_bytes, ..task }.stages(Method::SwiftSync, node.shared().costs);
    stages.truncate(1);
    if by_join {
        stages.extend(task.stages(Method::Join, node.shared().costs));
    }
    RunPlan { stages }
}

fn task(forecast: &Forecast, ledger: &Ledger, blocks: &Waiting) -> Task {
    Task {
        blocks: f64::from((blocks.last + 1).saturating_sub(blocks.first)),
        bytes: blocks.bytes as f64,
        script_bytes: blocks.with_scripts as f64,
        from_peers: blocks.from_peers as f64,
        tables: 0.0,
        new_tables: forecast.growth.tables(blocks.bytes).likely as f64,
        cached: ledger.limit.share.cache_bytes as f64 * CACHED_TABLES,
    }
}

/// Returns the stages of the indexes that the options name, after this many bytes of blocks.
fn indexed(node: &Node, mut bytes: f64) -> Vec<Stage> {
    let kinds = &node.options().indexes;
    if kinds.is_empty() {
        return Vec::new();
    }
    let is_new = |kind: &IndexKind| {
        let found = find_index(node.dir().disk(), kind.database(node.dir().path()));
        !found.is_ok_and(|index| index.is_some_and(|index| index.reached().next().is_some()))
    };
    if node.ledger().active.height() > Some(0) && kinds.iter().any(is_new) {
        bytes += Waiting::between(node, 1, node.tip()).bytes as f64;
    }
    let stage = |phase| Stage::new(phase, node.shared().costs.seconds(phase, 0.0, bytes, 0.0));
    let is_sorted =
        |kind: &IndexKind| matches!(kind, IndexKind::TxIndex | IndexKind::TxoSpenderIndex);
    let mut stages = vec![stage(Phase::ReadingForIndexes)];
    if kinds.iter().any(is_sorted) {
        stages.push(stage(Phase::WritingIndexes));
    }
    stages
}
