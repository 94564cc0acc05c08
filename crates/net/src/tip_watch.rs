//! Watches at the tip whether the peers that we chose keep us there: whether they lag behind, and
//! whether the tip is stale (Core's `ConsiderEviction`, `CheckForStaleTipAndEvictPeers`). A pure
//! function of events and time.

use std::collections::BTreeMap;
use std::time::Duration;

use apus_chain::{BlockId, Tree};

use super::peer::PeerId;
use super::peer_options::NetKind;

/// A peer whose best block has less work than our tip for this long is asked for headers (Core's
/// `CHAIN_SYNC_TIMEOUT`).
const LAG_TIME: Duration = Duration::from_secs(20 * 60);
/// The time that it then has to answer (Core's `HEADERS_RESPONSE_TIME`).
const ANSWER_TIME: Duration = Duration::from_secs(2 * 60);
/// The most peers that are not dropped for this (Core's
/// `MAX_OUTBOUND_PEERS_TO_PROTECT_FROM_DISCONNECT`).
const PROTECTED_MAX: usize = 4;
/// Time from one check of the tip's age to the next (Core's `STALE_CHECK_INTERVAL`).
const STALE_EVERY: Duration = Duration::from_secs(10 * 60);
/// The tip is stale after this many block intervals (Core's `TipMayBeStale`).
const STALE_INTERVALS: u32 = 3;
/// Time from one check for one peer too many to the next (Core's `EXTRA_PEER_CHECK_INTERVAL`).
const EXTRA_EVERY: Duration = Duration::from_secs(45);
/// How long a peer is kept at least (Core's `MINIMUM_CONNECT_TIME`).
const CONNECTED_MIN: Duration = Duration::from_secs(30);

/// A peer that we chose and whose handshake is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The peer.
    pub id: PeerId,
    /// The kind of network that it is in.
    pub kind: NetKind,
    /// When the handshake was complete.
    pub since: Duration,
    /// The best block that it is known to have.
    pub best: Option<BlockId>,
}

/// A verdict on a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It must be asked for the headers after this block.
    Ask(PeerId, BlockId),
    /// It must be dropped: its chain has had less work than ours for long.
    Lags(PeerId),
    /// It must be dropped: there is a peer too many, and it announced a block longest ago.
    TooMany(PeerId),
}

/// The peers, and when the tip changed.
#[derive(Default)]
pub struct TipWatch {
    peers: BTreeMap<PeerId, Watched>,
    best_header: Option<BlockId>,
    tip: Option<BlockId>,
    changed: Duration,
    stale_checked: Duration,
    extra_checked: Duration,
    wants_extra: bool,
}

#[derive(Default)]
struct Watched {
    lag: Option<Lag>,
    is_protected: bool,
    /// When it announced a block that was new to us; 0 for never.
    announced: Duration,
}

/// A peer that has less work than the tip had when this began.
#[derive(Clone, Copy)]
struct Lag {
    tip: BlockId,
    until: Duration,
    is_asked: bool,
}

impl TipWatch {
    /// Returns whether one more peer than usual must be connected to.
    pub fn wants_extra(&self) -> bool {
        self.wants_extra
    }

    /// Returns what to do. `peers` are those that we chose, for so many `slots`; `others` are the
    /// kinds of network of those that the user chose. It must be called often while the node is at
    /// the tip.
    pub fn check(
        &mut self,
        tree: &Tree,
        tip: BlockId,
        (peers, others, slots): (&[Chosen], &[NetKind], usize),
        now: Duration,
    ) -> Vec<Verdict> {
        if self.tip.replace(tip) != Some(tip) {
            self.changed = now;
        }
        self.peers.retain(|id, _| peers.iter().any(|peer| peer.id == *id));
        self.note_announcements(tree, peers, now);
        self.protect(tree, tip, peers);
        let mut verdicts: Vec<Verdict> =
            peers.iter().filter_map(|peer| self.lagging(tree, tip, peer, now)).collect();
        if now >= self.extra_checked + EXTRA_EVERY {
            self.extra_checked = now;
            verdicts.extend(self.too_many(peers, others, slots, now));
        }
        if now >= self.stale_checked + STALE_EVERY {
            self.stale_checked = now;
            let interval = Duration::from_secs(tree.network().pow_target_spacing.into());
            self.wants_extra = now > self.changed + interval * STALE_INTERVALS;
        }
        verdicts
    }

    /// Records which peers announced the best header first.
    fn note_announcements(&mut self, tree: &Tree, peers: &[Chosen], now: Duration) {
        let best = tree.best_header();
        let is_new = self.best_header.replace(best).is_some_and(|known| known != best);
        for peer in peers {
            let has_it = peer.best.is_some_and(|block| is_at_least(tree, block, best));
            let watched = self.peers.entry(peer.id).or_default();
            if is_new && has_it {
                watched.announced = now;
            }
        }
    }

    /// Protects the first peers that have the tip.
    fn protect(&mut self, tree: &Tree, tip: BlockId, peers: &[Chosen]) {
        let mut count = self.peers.values().filter(|watched| watched.is_protected).count();
        for peer in peers.iter().filter(|peer| has(tree, peer, tip)) {
            let Some(watched) = self.peers.get_mut(&peer.id) else { continue };
            if count < PROTECTED_MAX && !watched.is_protected {
                watched.is_protected = true;
                count += 1;
            }
        }
    }

    fn lagging(
        &mut self,
        tree: &Tree,
        tip: BlockId,
        peer: &Chosen,
        now: Duration,
    ) -> Option<Verdict> {
        let watched = self.peers.get_mut(&peer.id)?;
        if watched.is_protected || has(tree, peer, tip) {
            watched.lag = None;
            return None;
        }
        // It may have reached the tip of that time, while ours has moved on.
        let lag = watched.lag.filter(|lag| !has(tree, peer, lag.tip));
        let Some(lag) = lag else {
            watched.lag = Some(Lag { tip, until: now + LAG_TIME, is_asked: false });
            return None;
        };
        if now <= lag.until {
            None
        } else if lag.is_asked {
            Some(Verdict::Lags(peer.id))
        } else {
            watched.lag = Some(Lag { until: now + ANSWER_TIME, is_asked: true, ..lag });
            let node = tree.node(lag.tip);
            Some(Verdict::Ask(peer.id, node.prev.unwrap_or(lag.tip)))
        }
    }

    /// Returns the peer to drop if there is one too many. The last peer of a kind of network stays.
    fn too_many(
        &mut self,
        peers: &[Chosen],
        others: &[NetKind],
        slots: usize,
        now: Duration,
    ) -> Option<Verdict> {
        if peers.len() <= slots {
            return None;
        }
        let kinds = || peers.iter().map(|peer| peer.kind).chain(others.iter().copied());
        let is_alone = |peer: &Chosen| kinds().filter(|kind| *kind == peer.kind).count() < 2;
        let worst = peers
            .iter()
            .filter(|peer| !is_alone(peer) && !self.peers[&peer.id].is_protected)
            .min_by_key(|peer| (self.peers[&peer.id].announced, std::cmp::Reverse(peer.id)))?;
        if now <= worst.since + CONNECTED_MIN {
            return None;
        }
        self.wants_extra = false;
        Some(Verdict::TooMany(worst.id))
    }
}

/// Returns whether the peer has a block with the work of `tip`.
fn has(tree: &Tree, peer: &Chosen, tip: BlockId) -> bool {
    peer.best.is_some_and(|best| is_at_least(tree, best, tip))
}

fn is_at_least(tree: &Tree, block: BlockId, other: BlockId) -> bool {
    tree.node(block).work >= tree.node(other).work
}
