//! The choice of the method for the blocks above the tip, and the reason for it.

#[cfg(test)]
mod tests;

use apus_chain::BlockId;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::pruning::Pruning;
use apus_node::space;
use apus_node::waiting::Waiting;
use apus_progress::Method;
use apus_progress::estimate::left::Left;
use apus_progress::estimate::plan::RunPlan;
use apus_progress::words::size;

use super::above_tip::above_tip;
use super::claim::Claim;
use super::join::workspace::{SavedTarget, blocks_lacking, saved_target};
use super::stages::stages;
use super::swift;

/// When a join is chosen that the user did not ask for.
///
/// A join reads every block and writes about half as many bytes as it reads, whatever the blocks
/// spend. A sync in order looks up coins in the tables, which takes longer the larger the tables
/// are.
struct Figures {
    /// Minimum bytes of blocks for a join: a sync in order of fewer is done before a join's three
    /// passes have begun and ended.
    join_bytes_min: u64,
    /// The minimum for a join is also the bytes of the tables divided by this: the coins of fewer
    /// blocks are soon looked up, while a join may have to read all tables.
    join_tables_share: u64,
}

const FIGURES: Figures = Figures { join_bytes_min: 64_000_000, join_tables_share: 4 };

/// The method chosen for the blocks above the tip.
#[derive(Clone, Debug)]
pub struct ChosenMethod {
    pub method: Method,
    /// The reason for the method, as a clause: `no hints, and ...`.
    pub why: String,
    /// The last block of the join: the best candidate for the tip, or an ancestor of it. `None`
    /// with another method.
    target: Option<BlockId>,
    /// The blocks to sync by this method; `None` if no block waits.
    blocks: Option<Waiting>,
    /// The stages of the run; empty if no block waits.
    plan: RunPlan,
    /// The share of the work that an interrupted run has done.
    done: f64,
    /// Whether Apus chose the method, so that the user can be told of another one.
    is_automatic: bool,
}

/// Chooses the method for the blocks of `node` above its tip, once all headers are known. It is
/// SwiftSync if there is a claim for a height above the tip. Otherwise it is the method that the
/// options name or, if they name none, the join if an interrupted one can be continued, or if a
/// join is faster than a sync in order and the disks have room for it.
///
/// # Errors
/// The options contradict each other; they ask for a join, and block files are pruned or a disk has
/// no room for it; or they name no method, and blocks of an interrupted join are missing. The disk
/// fails.
pub fn choose(node: &Node, claim: Option<&Claim>) -> Result<ChosenMethod, SyncError> {
    let options = node.options();
    options.check_method().map_err(SyncError::WrongOptions)?;
    options.check_witness().map_err(SyncError::WrongOptions)?;
    if options.method == Some(Method::Join)
        && let Some(why) = pruned(&node.ledger().pruning)
    {
        return Err(SyncError::WrongOptions(format!("{why}: remove --method=join")));
    }
    if let Some(claim) =
        claim.filter(|claim| !swift::build::is_past(node.tree(), node.ledger(), claim))
    {
        return Ok(ChosenMethod::swiftsync(node, claim));
    }
    if options.method.is_none()
        && let Some(height) = blocks_lacking(node)?
    {
        return Err(SyncError::Input(format!(
            "an interrupted join of the blocks up to height {height} needs blocks that are not \
             stored yet: name their files again with --from, or give up the join's progress with \
             --method=order or --method=join"
        )));
    }
    let Some(waiting) = Waiting::of(node) else {
        let why = match above_tip(node).missing {
            0 => "no block waits",
            _ => "the next blocks are missing",
        };
        return Ok(ChosenMethod::in_order(node, None, why));
    };
    let in_order = |why: &str| Ok(ChosenMethod::in_order(node, Some(waiting), why));
    match options.method {
        Some(Method::InOrder) => return in_order("--method=order asks for it"),
        Some(Method::SwiftSync) => {
            let whose = claim.map_or("the hints'", Claim::whose);
            return in_order(&format!("the tip is at {whose} height or above"));
        }
        None | Some(Method::Join) => {}
    }
    let joined = match joined(node) {
        Ok(joined) => joined,
        Err(why) => return in_order(&why),
    };
    if let Some(saved) = saved_target(node, joined.target)? {
        return Ok(ChosenMethod::carry_on(node, saved));
    }
    let is_forced = options.method == Some(Method::Join);
    let tables = node.chainstate().disk_bytes();
    if let Some(why) = too_few(joined.bytes, tables).filter(|_| !is_forced) {
        return in_order(&why);
    }
    match space::lack_for_join(node, &joined)? {
        Some(lack) if is_forced => return Err(lack.into_error().into()),
        Some(lack) => return in_order(&lack.to_string()),
        None => {}
    }
    let hints = match claim.and_then(|claim| Some((claim.name(), claim.height(node.tree())?))) {
        None => "no hints".to_string(),
        Some((name, height)) => format!("{name} end at height {height}"),
    };
    let set = if node.tip() == node.tree().genesis() {
        "an empty UTXO set".to_string()
    } else {
        format!("a UTXO set of {}", size(tables))
    };
    let why = if is_forced {
        "--method=join asks for it".to_string()
    } else {
        format!("{hints}, and about {} wait to be added to {set}", size(joined.bytes))
    };
    Ok(ChosenMethod::join(node, joined, why))
}

/// Returns a clause that says why block files that a join needs are missing, or will be; `None` if
/// none is.
fn pruned(pruning: &Pruning) -> Option<String> {
    let pruned = if pruning.is_pruned {
        "block files were pruned"
    } else if pruning.target().is_some() {
        "--prune deletes block files"
    } else {
        return None;
    };
    Some(format!("{pruned}, and a join needs the files of all blocks that it connects"))
}

/// Returns the blocks that a join can take: those above the active chain that are available and are
/// deep enough below the best header.
///
/// # Errors
/// There are no such blocks; the error is a clause that says why.
fn joined(node: &Node) -> Result<Waiting, String> {
    if let Some(why) = pruned(&node.ledger().pruning) {
        return Err(why);
    }
    let depth = node.options().join.depth;
    let best = node.tree().node(node.tree().best_header()).height;
    let top = best.saturating_sub(depth).min(node.options().stop_at_height.unwrap_or(u32::MAX));
    let joined = node.tree().best_candidate().and_then(|end| Waiting::up_to(node, end, top));
    joined.ok_or_else(|| {
        format!(
            "a join ends {depth} blocks below the best header, which is at height {best}, and no \
             block waits below that"
        )
    })
}

/// Returns a clause that says why a join of `bytes` of blocks is not faster than a sync in order
/// with `tables` bytes of tables; `None` if it is faster.
fn too_few(bytes: u64, tables: u64) -> Option<String> {
    let Figures { join_bytes_min, join_tables_share } = FIGURES;
    if bytes < join_bytes_min {
        return Some(format!("a join is faster from {} on", size(join_bytes_min)));
    }
    let few = bytes < tables / join_tables_share;
    few.then(|| {
        format!(
            "next to a UTXO set of {}, a join is faster from {} on",
            size(tables),
            size(tables / join_tables_share)
        )
    })
}

impl ChosenMethod {
    /// Returns a method without blocks to sync.
    pub fn new(method: Method, why: impl Into<String>) -> Self {
        let target = None;
        let blocks = None;
        let plan = RunPlan::default();
        let done = 0.0;
        Self { method, why: why.into(), target, blocks, plan, done, is_automatic: false }
    }

    fn of_blocks(node: &Node, method: Method, blocks: Waiting, why: String) -> Self {
        Self {
            plan: stages(node, method, &blocks, rest(node, &blocks)),
            blocks: Some(blocks),
            is_automatic: node.options().method.is_none(),
            ..Self::new(method, why)
        }
    }

    fn in_order(node: &Node, blocks: Option<Waiting>, why: &str) -> Self {
        match blocks {
            Some(blocks) => Self::of_blocks(node, Method::InOrder, blocks, why.to_string()),
            None => Self::new(Method::InOrder, why),
        }
    }

    fn join(node: &Node, blocks: Waiting, why: String) -> Self {
        let target = Some(blocks.target);
        Self { target, ..Self::of_blocks(node, Method::Join, blocks, why) }
    }

    fn swiftsync(node: &Node, claim: &Claim) -> Self {
        let best = node.tree().best_header();
        let height = claim.height(node.tree()).unwrap_or(0);
        let target = node.tree().ancestor(best, height).unwrap_or(best);
        let blocks = Waiting::between(node, 1, target);
        let what = match claim {
            Claim::Hints(_) => "hints up to",
            Claim::Snapshot(_) => "the coins of",
        };
        let why = format!("{} has {what} height {height}", claim.path().display());
        Self::of_blocks(node, Method::SwiftSync, blocks, why)
    }

    /// Returns the join that continues an interrupted one. Free space is not checked again: it was
    /// checked when the join began, and if a disk fills up, the join stops without a loss.
    fn carry_on(node: &Node, saved: SavedTarget) -> Self {
        let first = node.tree().node(node.tip()).height + 1;
        let blocks = Waiting::between(node, first, saved.target);
        let join = Self::join(node, blocks, "an interrupted join is continued".to_string());
        Self { done: saved.done, target: Some(saved.target), is_automatic: false, ..join }
    }

    /// Returns the last block of the join; `None` with another method.
    pub fn join_target(&self) -> Option<BlockId> {
        self.target
    }

    /// Returns the stages of the run, as far as they are known; none if no block waits.
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Returns a line for the user that names the method, the reason for it and the expected time;
    /// `None` if no block waits.
    pub fn line(&self) -> Option<String> {
        let blocks = self.blocks?;
        let left = Left::unmeasured(self.plan.work() * (1.0 - self.done));
        let range = format!("{} to {} (about {})", blocks.first, blocks.last, size(blocks.bytes));
        let what = match self.method {
            Method::InOrder => format!("Connecting blocks {range} in order"),
            Method::Join => format!("Joining blocks {range}"),
            Method::SwiftSync => format!("SwiftSync of blocks {range}"),
        };
        let otherwise = match self.method {
            Method::Join if self.is_automatic => ". --method=order syncs in order instead.",
            Method::InOrder | Method::Join | Method::SwiftSync => "",
        };
        Some(format!("{what}: {}; it should take {}{otherwise}", self.why, left.words()))
    }
}

/// Returns the blocks of the best chain after these; `None` if there are none.
fn rest(node: &Node, blocks: &Waiting) -> Option<Waiting> {
    let all = Waiting::of(node)?;
    (all.last > blocks.last).then(|| Waiting::between(node, blocks.last + 1, all.target))
}
