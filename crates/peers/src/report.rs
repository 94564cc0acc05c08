//! What each peer sent, for the progress line and the final report.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use apus_net::{PeerId, Themselves, Transport};
use apus_node::progress::{Download, Observer, Progress, Tip};

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
        let (user_agent, speed, ended) = (String::new(), None, None);
        let (blocks, bytes) = (0, 0);
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

    /// Returns the report on a peer.
    pub fn get(&self, id: PeerId) -> Option<&PeerReport> {
        self.0.get(&id)
    }

    /// Returns all reports, in the order of the connections.
    pub fn all(&self) -> Vec<PeerReport> {
        self.0.values().cloned().collect()
    }
}

/// The number of peers, and the bytes that have come from them.
#[derive(Default)]
pub(super) struct Traffic {
    peers: AtomicUsize,
    bytes: AtomicU64,
}

impl Traffic {
    /// Sets the number of peers that have completed the handshake.
    pub fn set_peers(&self, peers: usize) {
        self.peers.store(peers, Relaxed);
    }

    /// Counts the bytes of a message that has arrived.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the number of peers and of bytes, for a progress report.
    pub fn download(&self) -> Download {
        Download { peers: self.peers.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// An observer that adds the download from peers to each progress report.
pub struct WithPeers<'a> {
    pub(super) inner: &'a dyn Observer,
    pub(super) traffic: &'a Traffic,
}

impl Observer for WithPeers<'_> {
    fn observe(&self, progress: &Progress) {
        let download = Some(self.traffic.download());
        self.inner.observe(&Progress { download, ..progress.clone() });
    }

    fn note(&self, text: &str) {
        self.inner.note(text);
    }

    fn wants_tips(&self) -> bool {
        self.inner.wants_tips()
    }

    fn tip(&self, tip: &Tip) {
        self.inner.tip(tip);
    }
}
