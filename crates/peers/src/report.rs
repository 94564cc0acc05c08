//! What peers gave, for the progress line and the final report.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use apus_net::{PeerId, Themselves, Transport};
use apus_node::progress::{Download, Observer, Progress, Tip};

/// The most peers that are remembered after their end; of others there is no report.
const REPORTS_MAX: usize = 1000;

/// What one peer gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerReport {
    /// Where it is.
    pub address: String,
    /// Its program and version; empty if it did not say.
    pub user_agent: String,
    /// `v1` or `v2` (BIP324).
    pub transport: &'static str,
    /// Whether it connected to us.
    pub inbound: bool,
    /// Blocks that it sent, and that were asked of it.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Bytes a second that it sent while blocks were asked of it; `None` if it sent few.
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
    /// A connection is open.
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

    /// The peer has said what it is.
    pub fn greet(&mut self, id: PeerId, them: &Themselves) {
        if let Some(report) = self.0.get_mut(&id) {
            report.user_agent.clone_from(&them.user_agent);
        }
    }

    /// The peer has sent a block.
    pub fn add_block(&mut self, id: PeerId, bytes: u64) {
        if let Some(report) = self.0.get_mut(&id) {
            report.blocks += 1;
            report.bytes += bytes;
        }
    }

    /// So many bytes a second come from the peer.
    pub fn note_speed(&mut self, id: PeerId, speed: Option<u64>) {
        if let Some(report) = self.0.get_mut(&id) {
            report.speed = speed.or(report.speed);
        }
    }

    /// The connection has ended.
    pub fn end(&mut self, id: PeerId, why: String) {
        if let Some(report) = self.0.get_mut(&id) {
            report.ended = Some(why);
        }
    }

    /// The report of a peer.
    pub fn get(&self, id: PeerId) -> Option<&PeerReport> {
        self.0.get(&id)
    }

    /// All reports, in the order of the connections.
    pub fn all(&self) -> Vec<PeerReport> {
        self.0.values().cloned().collect()
    }
}

/// The number of peers, and what has come from them.
#[derive(Default)]
pub(super) struct Traffic {
    peers: AtomicUsize,
    bytes: AtomicU64,
}

impl Traffic {
    /// So many peers have completed the handshake.
    pub fn set_peers(&self, peers: usize) {
        self.peers.store(peers, Relaxed);
    }

    /// A message of so many bytes has come.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Both, as progress has them.
    pub fn download(&self) -> Download {
        Download { peers: self.peers.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// An observer that adds peers to what it is shown.
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
