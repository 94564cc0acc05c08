//! Which inbound peer makes room for a new one when all places are taken (Core's
//! `SelectNodeToEvict`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::peer::PeerId;

/// Peers that are kept because of the part of the network that they are in.
const BY_GROUP: usize = 4;
/// Peers that are kept because they answer pings quickly.
const BY_PING: usize = 8;
/// Peers that are kept because they sent new blocks last.
const BY_BLOCK: usize = 8;

/// An inbound peer that may have to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvictionCandidate {
    /// The peer.
    pub id: PeerId,
    /// When it connected.
    pub connected: Duration,
    /// The shortest time in which it answered a ping; `None` if it has answered none.
    pub min_ping: Option<Duration>,
    /// When it last sent a block that we wanted; `None` if it has sent none.
    pub last_block: Option<Duration>,
    /// The part of the network that it is in, hashed with a secret, so that an attacker cannot
    /// choose a part that is kept.
    pub group: u64,
    /// Whether it connects from this machine, as all do that come through Tor.
    pub is_local: bool,
}

/// Returns the peer to disconnect, so that another can connect; `None` if all are to be kept. Kept
/// are, as in Core, peers that an attacker cannot have many of: 4 by their part of the network, 8
/// by ping, 8 that last sent new blocks, and of the others the half that connected first, up to
/// half of it local ones (`ProtectEvictionCandidatesByRatio`). Of the part of the network with the
/// most other peers, the youngest goes.
pub fn select_to_evict(mut candidates: Vec<EvictionCandidate>) -> Option<PeerId> {
    keep_first(&mut candidates, BY_GROUP, |peer| peer.group);
    keep_first(&mut candidates, BY_PING, |peer| peer.min_ping.unwrap_or(Duration::MAX));
    let (mut with_blocks, mut others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|peer| peer.last_block.is_some());
    keep_first(&mut with_blocks, BY_BLOCK, |peer| std::cmp::Reverse(peer.last_block));
    others.extend(with_blocks);
    let half = others.len() / 2;
    let (mut local, mut others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|peer| peer.is_local);
    let kept = local.len().min(half / 2);
    keep_first(&mut local, kept, |peer| peer.connected);
    others.extend(local);
    keep_first(&mut others, half - kept, |peer| peer.connected);
    let mut groups: BTreeMap<u64, Vec<EvictionCandidate>> = BTreeMap::new();
    for peer in others {
        groups.entry(peer.group).or_default().push(peer);
    }
    let youngest =
        |peers: &Vec<EvictionCandidate>| peers.iter().map(|peer| (peer.connected, peer.id)).max();
    let largest = groups.values().max_by_key(|peers| (peers.len(), youngest(peers)))?;
    youngest(largest).map(|(_, id)| id)
}

/// Removes the first `count` candidates by `key`, which are kept as peers.
fn keep_first<K: Ord>(
    candidates: &mut Vec<EvictionCandidate>,
    count: usize,
    key: impl Fn(&EvictionCandidate) -> K,
) {
    candidates.sort_by_key(|peer| (key(peer), peer.connected));
    candidates.drain(..count.min(candidates.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(count: u64) -> Vec<EvictionCandidate> {
        let of = |number: u64| EvictionCandidate {
            id: PeerId(number),
            connected: Duration::from_secs(number),
            min_ping: Some(Duration::from_millis(count - number)),
            last_block: None,
            group: number % 10,
            is_local: false,
        };
        (0..count).map(of).collect()
    }

    #[test]
    fn few_peers_are_all_kept() {
        assert_eq!(select_to_evict(candidates(12)), None);
        assert!(select_to_evict(candidates(14)).is_some());
    }

    #[test]
    fn the_youngest_of_the_largest_group_goes() {
        let mut peers = candidates(100);
        // Its pings are the slowest, so that these do not protect it.
        for peer in &mut peers[60..] {
            (peer.group, peer.min_ping) = (77, None);
        }
        assert_eq!(select_to_evict(peers.clone()), Some(PeerId(99)));
        // It is kept for a fast answer, or for a block.
        peers[99].min_ping = Some(Duration::ZERO);
        assert_eq!(select_to_evict(peers.clone()), Some(PeerId(98)));
        peers[98].last_block = Some(Duration::from_secs(5));
        assert_eq!(select_to_evict(peers), Some(PeerId(97)));
    }

    /// All that come through Tor are of one part of the network, and slow.
    #[test]
    fn a_quarter_is_kept_for_local_ones() {
        let mut peers = candidates(100);
        for peer in &mut peers[60..] {
            (peer.group, peer.min_ping, peer.is_local) = (77, None, true);
        }
        for _ in 0..30 {
            let gone = select_to_evict(peers.clone()).unwrap();
            peers.retain(|peer| peer.id != gone);
        }
        // As the largest part of the network, they would be 10.
        assert_eq!(peers.iter().filter(|peer| peer.is_local).count(), 16);
    }

    #[test]
    fn those_that_connected_first_are_kept() {
        let mut peers = candidates(100);
        peers.iter_mut().for_each(|peer| (peer.group, peer.min_ping) = (1, None));
        for _ in 0..40 {
            let gone = select_to_evict(peers.clone()).unwrap();
            peers.retain(|peer| peer.id != gone);
        }
        let left: Vec<u64> = peers.iter().map(|peer| peer.id.0).collect();
        assert_eq!(left, (0..60).collect::<Vec<_>>());
    }
}
