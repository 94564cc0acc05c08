//! Requests headers from peers between pipelines, while the tree may grow.

use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_consensus::Work;
use apus_net::{Has, HeaderChain, NEAR_BLOCKS, PeerManager, claim};
use apus_node::block::check::{History, check_bytes};
use apus_node::block::step::Step;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::{Node, refusal};
use apus_node::sources::BlockOrigin;
use apus_progress::clock::unix_time;
use apus_progress::words::about;
use apus_progress::{Observer, Phase, Progress, Watch};

use super::Peers;
use super::connections::Connections;
use super::feed::Feed;

/// [`Peers::patience`] divided by this is the time for which a peer that does not say whether it
/// has more headers delays the download of blocks, once another peer has said that it has none: 5 s
/// of two minutes.
const PATIENCE_BEFORE_BLOCKS: u32 = 24;
/// The longest that such a peer delays the end of a sync.
const PATIENCE_AT_END: Duration = Duration::from_secs(20);
/// The number of peers that must have said what they have, or those being connected are waited for
/// at the end of a sync.
const HEARD_MIN: usize = 3;
/// The age at which the user is told of a tip at the end of a sync.
const OLD_TIP_SECONDS: i64 = 24 * 60 * 60;
/// Time from one save of headers to the next.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// Time after which the user is told what a search waits for.
const WORDS_AFTER: Duration = Duration::from_secs(10);

/// When a search for headers ends.
#[derive(Clone, Copy)]
pub struct Search {
    /// Whether blocks near the tip are downloaded meanwhile, as by [`wait_for_news`].
    pub fetches: bool,
    /// Whether nothing else is left to do, so that slow peers are waited for longer.
    pub is_last: bool,
    /// Whether files have blocks to connect, so that the search ends when peers bring no new
    /// headers for a while.
    pub has_files: bool,
    /// The height that the headers must reach: that of the hints or the snapshot, or 0.
    pub height: u32,
    /// Whether a peer is waited for that offers the coins that blocks spend, while connections are
    /// being opened.
    pub needs_coins: bool,
}

/// Requests headers from all peers until none of them has more, and adds them to the tree and the
/// block index. The blocks after the tip that peers have count as available from now on, except
/// that a search that fetches blocks stores them, and ends once one of them may be the next tip.
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
    let at_end = peers.patience.min(PATIENCE_AT_END);
    let patience = if search.is_last { at_end } else { before_blocks };
    let mut waited = Waited::default();
    let mut since = None;
    let mut news = (0, Duration::ZERO);
    grow(node, peers, watch, search.fetches, |connections, tree| {
        let now = connections.now();
        let waits = now - *since.get_or_insert(now);
        let best = tree.node(tree.best_header());
        if waits.is_zero() || best.height != news.0 {
            news = (best.height, now);
        }
        // A peer that is being connected may have a better chain.
        let is_alone = !search.is_last || connections.manager().heard() < HEARD_MIN;
        let lacks_coins = search.needs_coins && !connections.manager().offers_coins();
        let may_come = (waits < patience && is_alone || waits < peers.patience && lacks_coins)
            && connections.is_opening();
        let is_done = !may_come
            && connections.manager().has_all_headers(now, patience)
            && !(search.fetches && connections.awaits_blocks(tree, patience));
        let phase = if connections.manager().ready() == 0 {
            Phase::FindingPeers
        } else if !is_done {
            Phase::DownloadingHeaders
        } else if !has_minimum_work(tree) {
            Phase::WaitingForWork
        } else if best.height < search.height && waits < peers.patience {
            Phase::WaitingForHeaders
        } else {
            return true;
        };
        if search.has_files && now >= news.1 + before_blocks {
            return true;
        }
        waited.note(phase, now, watch.observer);
        watch.observer.observe(&progress(phase, tree, tree.best_header()));
        false
    })
}

/// Takes headers, and stores the blocks of all branches with more work than the tip, until one of
/// them may be the next tip. No branch waits for another. If a peer has many more on that one, they
/// count as available from now on, so that a pipeline downloads them.
///
/// # Errors
/// The disk fails, or `watch` asks to stop.
pub fn wait_for_news(node: &mut Node, peers: &Arc<Peers>, watch: Watch) -> Result<(), SyncError> {
    let tip = node.tip();
    let stop_at = node.options().stop_at_height;
    grow(node, peers, watch, true, |connections, tree| {
        connections.stay_at_tip(tree, tip, watch.observer);
        let progress = if lags_behind(tree, tip, stop_at, connections.manager()) {
            progress(Phase::WaitingForBlocks, tree, tip)
        } else {
            progress(Phase::Following, tree, tree.best_header())
        };
        watch.observer.observe(&progress);
        false
    })
}

/// Returns what speaks against the tip being the last block of the best chain, for the user at the
/// end of a sync.
pub fn doubts(node: &Node, peers: &Peers) -> Vec<String> {
    let mut doubts = Vec::new();
    if peers.connections().manager().heard() < 2 {
        doubts.push(
            "Only one peer has said which chain it has: others may have a better one".to_string(),
        );
    }
    let best = node.tree().height(node.tree().best_header());
    if best > node.tree().height(node.tip()) + NEAR_BLOCKS
        && node.options().stop_at_height.is_none()
    {
        doubts.push(format!(
            "A peer has shown headers up to height {best}, but no peer sends their blocks"
        ));
    }
    let age = age_of_tip(node.tree(), node.tip());
    if age > OLD_TIP_SECONDS && node.options().stop_at_height.is_none() {
        let age = about(Duration::from_secs(age.unsigned_abs()));
        doubts.push(format!(
            "The last block is {age} old: if the network is alive, the peers hold back newer ones"
        ));
    }
    doubts
}

/// Returns whether no better chain is available than the active one, or the height to stop at is
/// reached.
pub fn is_complete(node: &Node) -> bool {
    let best = node.tree().best_candidate().unwrap_or(node.tip());
    let height = node.tree().node(node.tip()).height;
    !node.tree().is_better(best, node.tip())
        || node.options().stop_at_height.is_some_and(|top| height >= top)
}

/// Returns whether the best header is so far above the tip that the blocks between must still
/// arrive. If an outbound peer's chain ends in a tip that is recent, the others may be headers
/// alone, and nothing need arrive.
pub fn lags(node: &Node, peers: &Peers) -> bool {
    let stop_at = node.options().stop_at_height;
    lags_behind(node.tree(), node.tip(), stop_at, peers.connections().manager())
}

fn lags_behind(tree: &Tree, tip: BlockId, stop_at: Option<u32>, manager: &PeerManager) -> bool {
    let best = tree.height(tree.best_header()).min(stop_at.unwrap_or(u32::MAX));
    best > tree.height(tip) + NEAR_BLOCKS
        && (age_of_tip(tree, tip) > OLD_TIP_SECONDS || !manager.ends_in(tip))
}

/// Returns the age of the last block in seconds.
fn age_of_tip(tree: &Tree, tip: BlockId) -> i64 {
    unix_time() - i64::from(tree.node(tip).time)
}

/// Adds peers' headers to the tree until `is_done`, and requests them from all peers again. With
/// `fetches`, stores blocks near the tip meanwhile, until one of them may be the next tip.
fn grow(
    node: &mut Node,
    peers: &Arc<Peers>,
    watch: Watch,
    fetches: bool,
    mut is_done: impl FnMut(&mut Connections, &Tree) -> bool,
) -> Result<(), SyncError> {
    let tip = node.tip();
    let top = node.options().stop_at_height.unwrap_or(u32::MAX);
    let mut connections = peers.connections();
    connections.serve(node, watch.observer);
    connections.manager().ask_for_headers();
    if fetches && node.tree().node(tip).height < top {
        connections.manager().follow(tip, top);
        connections.note_block();
    }
    let mut is_over = false;
    while !is_over {
        let until = connections.now() + SAVE_EVERY;
        let secret = connections.secret();
        while connections.now() < until && !is_over {
            is_over = node.change_tree(|tree| {
                let mut chain = HeaderChain::growing(tree, tip, unix_time(), secret);
                while connections.now() < until && (!fetches || peers.feed.has_none()) {
                    if is_done(&mut connections, chain.tree()) || watch.is_stopped() {
                        return true;
                    }
                    connections.turn(&mut chain, watch.observer);
                }
                false
            });
            if fetches {
                store_arrived(node, &mut connections, &peers.feed, watch)?;
                is_over |= !is_complete(node);
            }
        }
        let (shared, ledger) = node.split();
        ledger.write_index(shared.files, shared.tree)?;
        node.publish_headers();
    }
    let having: Vec<Has> = connections.manager().schedule().having().collect();
    node.claim(|tree| claim(tree, tip, &having, !fetches));
    if watch.is_stopped() { Err(SyncError::Stopped) } else { Ok(()) }
}

/// Stores the blocks near the tip that have arrived. They are available then.
fn store_arrived(
    node: &mut Node,
    connections: &mut Connections,
    feed: &Feed,
    watch: Watch,
) -> Result<(), SyncError> {
    while let Some((id, from, bytes)) = feed.take_left() {
        let step = Step { id, place: BlockOrigin::Peers, weight: 0 };
        match check_bytes(node.tree(), step, History::New, bytes) {
            Ok(block) => {
                connections.note_block();
                let (shared, ledger) = node.split();
                ledger.store_block(&shared, id, block.view())?;
                node.change_tree(|tree| tree.mark_available(id));
            }
            Err(fault) => {
                connections.blame(from, id, &fault, watch.observer);
                if let Fault::Rule(step, error) = fault {
                    node.refuse(refusal(&node.shared(), &step, error.to_string()));
                    node.mark_failed(id);
                }
            }
        }
    }
    Ok(())
}

fn has_minimum_work(tree: &Tree) -> bool {
    let minimum = Work::from_hash(&tree.network().minimum_chain_work);
    tree.node(tree.best_header()).work >= minimum
}

/// Returns the progress in a phase with this last block or header.
fn progress(phase: Phase, tree: &Tree, last: BlockId) -> Progress {
    let best = tree.node(last);
    // The time of the best header says nothing about peers.
    if phase == Phase::FindingPeers {
        return Progress { height: best.height, ..Progress::of(phase) };
    }
    let genesis = i64::from(tree.node(tree.genesis()).time);
    let all = unix_time() - genesis;
    let done = i64::from(best.time) - genesis;
    let is_download = phase == Phase::DownloadingHeaders;
    let fraction = if is_download { done as f64 / all.max(1) as f64 } else { 0.0 };
    Progress {
        height: best.height,
        time: best.time,
        fraction: fraction.clamp(0.0, 1.0),
        ..Progress::of(phase)
    }
}

/// The reason for a search to wait, and whether the user was told.
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
