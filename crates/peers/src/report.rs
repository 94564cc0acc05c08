//! Counts of each peer, for the progress line and the final report.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use apus_net::{PeerId, Themselves, Transport};
use apus_progress::Download;
use apus_wire::message::Services;

use super::limiter::Limiter;

/// The most reports that are kept: beyond these, the oldest of a connection that has ended is
/// dropped.
const REPORTS_MAX: usize = 1000;

/// The report on one peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerReport {
    /// The peer's address.
    pub address: String,
    /// The peer's program and version; empty if it did not say.
    pub user_agent: String,
    /// `v1` or `v2` (BIP324).
    pub transport: &'static str,
    /// Whether the peer connected to us.
    pub inbound: bool,
    /// Number of requested blocks that the peer sent.
    pub blocks: u64,
    /// Bytes of the requested blocks that the peer sent.
    pub bytes: u64,
    /// Bytes a second that the peer sent while blocks were requested from it; `None` if it sent
    /// few.
    pub speed: Option<u64>,
    /// Why the connection ended; `None` if it lasted to the end.
    pub ended: Option<String>,
}

impl fmt::Display for PeerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.address, self.user_agent, self.transport)
    }
}

/// The reports of all peers.
#[derive(Default)]
pub(super) struct Reports(BTreeMap<PeerId, PeerReport>);

impl Reports {
    /// Adds the report on a connection that was opened.
    pub fn begin(&mut self, id: PeerId, address: String, transport: Transport, inbound: bool) {
        if self.0.len() >= REPORTS_MAX {
            let ended = self.0.iter().find(|(_, report)| report.ended.is_some());
            let least = ended.map(|(id, _)| *id);
            least.map(|id| self.0.remove(&id));
        }
        let transport = match transport {
            Transport::V1 => "v1",
            Transport::V2 => "v2",
        };
        let user_agent = String::new();
        let speed = None;
        let ended = None;
        let blocks = 0;
        let bytes = 0;
        let report =
            PeerReport { address, user_agent, transport, inbound, blocks, bytes, speed, ended };
        self.0.insert(id, report);
    }

    /// Records the peer's program and version.
    pub fn greet(&mut self, id: PeerId, them: &Themselves) {
        if let Some(report) = self.0.get_mut(&id) {
            report.user_agent.clone_from(&them.user_agent);
        }
    }

    /// Counts a requested block that the peer sent.
    pub fn add_block(&mut self, id: PeerId, bytes: u64) {
        if let Some(report) = self.0.get_mut(&id) {
            report.blocks += 1;
            report.bytes += bytes;
        }
    }

    /// Records the bytes a second that the peer sends, if they are known.
    pub fn note_speed(&mut self, id: PeerId, speed: Option<u64>) {
        if let Some(report) = self.0.get_mut(&id) {
            report.speed = speed.or(report.speed);
        }
    }

    /// Records that the connection has ended, and why.
    pub fn end(&mut self, id: PeerId, why: String) {
        if let Some(report) = self.0.get_mut(&id) {
            report.ended = Some(why);
        }
    }

    pub fn get(&self, id: PeerId) -> Option<&PeerReport> {
        self.0.get(&id)
    }

    /// Returns all reports, in the order of the connections.
    pub fn all(&self) -> Vec<PeerReport> {
        self.0.values().cloned().collect()
    }
}

/// The number of peers, the bytes that they have sent, and the bytes still to come.
pub(super) struct Traffic {
    peers: AtomicUsize,
    outbound: AtomicUsize,
    bytes: AtomicU64,
    /// Bytes of blocks so far, and those of the connections that were open when they were counted.
    block_bytes: AtomicU64,
    open_bytes: AtomicU64,
    left: AtomicU64,
    waited_nanoseconds: AtomicU64,
    limiter: Arc<Limiter>,
}

impl Traffic {
    /// Creates the numbers without any peer.
    pub fn new(limiter: Arc<Limiter>) -> Self {
        let peers = AtomicUsize::new(0);
        let outbound = AtomicUsize::new(0);
        let [bytes, block_bytes, open_bytes, left, waited_nanoseconds] = [0; 5].map(AtomicU64::new);
        Self { peers, outbound, bytes, block_bytes, open_bytes, left, waited_nanoseconds, limiter }
    }

    /// Sets the number of peers that have completed the handshake, and of those among them that
    /// we connected to.
    pub fn set_peers(&self, peers: usize, outbound: usize) {
        self.peers.store(peers, Relaxed);
        self.outbound.store(outbound, Relaxed);
    }

    /// Sets the bytes of all blocks that are wanted from now on.
    pub fn want(&self, bytes: u64) {
        self.left.store(bytes, Relaxed);
    }

    /// Notes that a block has arrived that this many bytes were expected of.
    pub fn arrived(&self, expected: u64) {
        // One thread alone changes this.
        self.left.store(self.left.load(Relaxed).saturating_sub(expected), Relaxed);
    }

    /// Sets the time in which at least one thread has waited for a block.
    pub fn set_waited(&self, waited: Duration) {
        self.waited_nanoseconds.store(waited.as_nanos() as u64, Relaxed);
    }

    /// Takes note of the bytes of blocks that all open connections have received so far.
    pub fn set_open_bytes(&self, bytes: u64) {
        let before = self.open_bytes.swap(bytes, Relaxed);
        self.block_bytes.fetch_add(bytes.saturating_sub(before), Relaxed);
    }

    /// Counts the bytes of a message that has arrived.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns how far the download is, for a progress report.
    pub fn download(&self) -> Download {
        Download {
            peers: self.peers.load(Relaxed),
            outbound: self.outbound.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            block_bytes: self.block_bytes.load(Relaxed),
            left: self.left.load(Relaxed),
            waited: Duration::from_nanos(self.waited_nanoseconds.load(Relaxed)),
            limit: self.limiter.now(),
        }
    }
}

/// Returns what a peer with these services does not send, as the end of a sentence about the peer.
pub(super) fn limits(services: Services) -> &'static str {
    if !services.has(Services::WITNESS) {
        "; it does not serve witnesses, so no block is requested from it"
    } else if services.has(Services::NETWORK) {
        ""
    } else if services.has(Services::NETWORK_LIMITED) {
        "; it is pruned, so only its most recent 286 blocks are requested"
    } else {
        "; it serves no blocks"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_arrived_is_no_longer_left() {
        let traffic = Traffic::new(Arc::new(Limiter::new(None)));
        traffic.want(1_000);
        traffic.add(450);
        traffic.set_open_bytes(900);
        // A connection has ended, and another one receives.
        traffic.set_open_bytes(100);
        traffic.set_open_bytes(130);
        traffic.arrived(400);
        traffic.set_peers(3, 2);
        traffic.set_waited(Duration::from_secs(7));
        let seen = Download {
            peers: 3,
            outbound: 2,
            bytes: 450,
            block_bytes: 930,
            left: 600,
            waited: Duration::from_secs(7),
            limit: None,
        };
        assert_eq!(traffic.download(), seen);
        // Blocks may be larger than expected.
        traffic.arrived(700);
        assert_eq!(traffic.download().left, 0);
    }
}
