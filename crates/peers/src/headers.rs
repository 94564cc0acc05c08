//! Requests headers from peers between pipelines, while the tree may grow.

use std::sync::Arc;
use std::time::Duration;

use apus_chain::Tree;
use apus_net::{Has, HeaderChain};
use apus_node::clock::unix_time;
use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::progress::{Observer, Phase, Progress, Watch};
use apus_rules::Work;

use super::Peers;
use super::connections::Connections;

/// [`Peers::patience`] divided by this is the time for which a peer that does not say whether it
/// has more headers delays the download of blocks, once another peer has said that it has none: 5 s
/// of two minutes.
const PATIENCE_BEFORE_BLOCKS: u32 = 24;
/// Blocks by which the best header may be above the tip when a sync ends: blocks of a branch that
/// no peer has.
const LAG_BLOCKS: u32 = 144;
/// Time from one save of headers to the next.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// Time after which the user is told what a search waits for.
const WORDS_AFTER: Duration = Duration::from_secs(10);

/// When a search for headers ends.
#[derive(Clone, Copy)]
pub struct Search {
    /// Whether nothing else is left to do, so that slow peers are waited for longer.
    pub is_last: bool,
    /// Whether files have blocks to connect, so that the search ends when peers bring no new
    /// headers for a while.
    pub has_files: bool,
    /// The height that the headers must reach: that of the hints or the snapshot, or 0.
    pub height: u32,
}

/// Requests headers from all peers until none of them has more, and adds them to the tree and the
/// block index.
///
/// # Errors
/// The disk fails, or `watch` asks to stop.
pub fn find_headers(
    node: &mut Node,
    peers: &Arc<Peers>,
    search: Search,
    watch: Watch,
) -> Result<(), SyncError> {
    let before_blocks = peers.patience / PATIENCE_BEFORE_BLOCKS;
    let patience = if search.is_last { peers.patience } else { before_blocks };
    let mut waited = Waited::default();
    let mut since = None;
    let mut news = (0, Duration::ZERO);
    grow(node, peers, watch, |connections, tree| {
        let now = connections.now();
        let waits = now - *since.get_or_insert(now);
        let best = tree.node(tree.best_header());
        if waits.is_zero() || best.height != news.0 {
            news = (best.height, now);
        }
        // A peer that is being connected may have a better chain.
        let may_come = !search.is_last && waits < before_blocks && connections.is_opening();
        let is_done = !may_come && connections.manager().has_all_headers(now, patience);
        let phase = match () {
            () if connections.manager().ready() == 0 => Phase::FindingPeers,
            () if !is_done => Phase::DownloadingHeaders,
            () if !has_minimum_work(tree) => Phase::WaitingForWork,
            () if best.height < search.height && waits < peers.patience => Phase::WaitingForHeaders,
            () => return true,
        };
        if search.has_files && now >= news.1 + before_blocks {
            return true;
        }
        waited.note(phase, now, watch.observer);
        watch.observer.observe(&progress(phase, tree));
        false
    })
}

/// Waits until there is a better chain of headers than before, or a peer has blocks of a better
/// chain that none had before. Meanwhile all peers are asked for headers that they may have
/// announced while the tree could not grow.
///
/// # Errors
/// The disk fails, or `watch` asks to stop.
pub fn wait_for_news(node: &mut Node, peers: &Arc<Peers>, watch: Watch) -> Result<(), SyncError> {
    let best = node.tree.best_header();
    let (tip_id, tip) = (node.tip(), node.tree.node(node.tip()).work);
    grow(node, peers, watch, |connections, tree| {
        connections.stay_at_tip(tree, tip_id, watch.observer);
        watch.observer.observe(&progress(Phase::Following, tree));
        let is_new = |has: Has| {
            let best = tree.node(has.best);
            !tree.is_linked(has.best) && !best.failed && best.work > tip && !has.is_limited
        };
        tree.best_header() != best || connections.manager().schedule().having().any(is_new)
    })
}

/// Returns whether no better chain is available than the active one, or the height to stop at is
/// reached.
pub fn is_complete(node: &Node) -> bool {
    let best = node.tree.best_candidate().unwrap_or(node.tip());
    let height = node.tree.node(node.tip()).height;
    !node.tree.is_better(best, node.tip())
        || node.options.stop_at_height.is_some_and(|top| height >= top)
}

/// Returns whether the best header is so far above the tip that the blocks between must still
/// arrive.
pub fn lags(node: &Node) -> bool {
    let height = |id| node.tree.node(id).height;
    let top = node.options.stop_at_height.unwrap_or(u32::MAX);
    height(node.tree.best_header()).min(top) > height(node.tip()) + LAG_BLOCKS
}

/// Adds peers' headers to the tree until `is_done`, and requests them from all peers again.
fn grow(
    node: &mut Node,
    peers: &Arc<Peers>,
    watch: Watch,
    mut is_done: impl FnMut(&mut Connections, &Tree) -> bool,
) -> Result<(), SyncError> {
    let tip = node.tip();
    let mut connections = peers.connections();
    connections.serve(node, watch.observer);
    connections.manager().ask_for_headers();
    let mut is_over = false;
    while !is_over {
        let until = connections.now() + SAVE_EVERY;
        let secret = connections.secret();
        let mut chain = HeaderChain::growing(&mut node.tree, tip, unix_time(), secret);
        while connections.now() < until {
            is_over = is_done(&mut connections, chain.tree()) || watch.is_stopped();
            if is_over {
                break;
            }
            connections.turn(&mut chain, watch.observer);
        }
        node.ledger.records.follow(&node.tree);
        let (shared, ledger) = node.split();
        ledger.write_index(shared.files, shared.tree)?;
        node.publish_headers();
    }
    for has in connections.manager().schedule().having() {
        mark_available(&mut node.tree, has);
    }
    if watch.is_stopped() { Err(SyncError::Stopped) } else { Ok(()) }
}

/// Marks the blocks that a peer has as available. Takes time only for those that were not.
fn mark_available(tree: &mut Tree, has: Has) {
    let branch = tree.ancestors(has.best).take_while(|id| !tree.is_linked(*id));
    let new: Vec<_> = branch.filter(|id| has.has(tree, *id)).collect();
    new.into_iter().rev().for_each(|id| tree.mark_available(id));
}

fn has_minimum_work(tree: &Tree) -> bool {
    let minimum = Work::from_hash(&tree.network().minimum_chain_work);
    tree.node(tree.best_header()).work >= minimum
}

fn progress(phase: Phase, tree: &Tree) -> Progress {
    let best = tree.node(tree.best_header());
    // The time of the best header says nothing about peers.
    if phase == Phase::FindingPeers {
        return Progress { height: best.height, ..Progress::of(phase) };
    }
    let genesis = i64::from(tree.node(tree.genesis()).time);
    let (all, done) = (unix_time() - genesis, i64::from(best.time) - genesis);
    let is_download = phase == Phase::DownloadingHeaders;
    let fraction = if is_download { done as f64 / all.max(1) as f64 } else { 0.0 };
    Progress {
        height: best.height,
        time: best.time,
        fraction: fraction.clamp(0.0, 1.0),
        ..Progress::of(phase)
    }
}

/// What a search waits for, and whether the user was told.
#[derive(Default)]
struct Waited {
    for_what: Option<(Phase, Duration)>,
    is_said: bool,
}

impl Waited {
    fn note(&mut self, phase: Phase, now: Duration, observer: &dyn Observer) {
        let since = match self.for_what {
            Some((known, since)) if known == phase => since,
            _ => {
                (self.for_what, self.is_said) = (Some((phase, now)), false);
                now
            }
        };
        let words = match phase {
            Phase::WaitingForWork => {
                "The headers of all peers have less work than --minimumchainwork: waiting for a \
                 peer with the best chain"
            }
            Phase::WaitingForHeaders => {
                "The headers of all peers end below the height of the hints or the snapshot: \
                 waiting for a peer that has more"
            }
            _ => return,
        };
        if now > since + WORDS_AFTER && !std::mem::replace(&mut self.is_said, true) {
            observer.note(words);
        }
    }
}
