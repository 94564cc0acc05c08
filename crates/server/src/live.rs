//! Reports of the running process about itself: its progress, peers, tip and last words. The
//! threads that work write it and never wait for its readers.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use apus_net::PeerOptions;
use apus_node::Options;
use apus_progress::clock::unix_time;
use apus_progress::{Meters, Observer, PeerInfo, Progress, Tip};
use apus_wire::Network;

use super::logs::Logs;

/// The most lines that are kept.
const LINES_MAX: usize = 200;
/// The most characters of a line that are kept.
const LINE_CHARS_MAX: usize = 1000;

/// Facts that do not change while the process runs.
#[derive(Clone, Debug)]
pub struct About {
    pub network: Network,
    /// The network's directory.
    pub directory: PathBuf,
    /// The version of Apus.
    pub version: String,
    /// Whether the directory is at rest and only served (`apus serve`).
    pub is_at_rest: bool,
    /// The directory of the blocks, if it is another one (`-blocksdir`).
    pub blocks_dir: Option<PathBuf>,
    /// [`Options::network_options`].
    pub network_options: String,
    /// The most bytes of the coins cache (`-dbcache`).
    pub cache_bytes: u64,
    /// The peers that a sync asks for blocks; `None` if it asks none.
    pub peers: Option<PeerOptions>,
    /// Whether peers that are served get filters of blocks (`-peerblockfilters`).
    pub peerblockfilters: bool,
    /// Whether peers that are served may use the encrypted transport (`-v2transport`).
    pub v2transport: bool,
    /// The most bytes to send in 24 hours; 0 for no limit.
    pub upload_target: u64,
    /// Where the log file is; `None` if there is none.
    pub log: Option<PathBuf>,
    /// The categories of the log.
    pub logs: Arc<Logs>,
}

impl About {
    /// Returns what is to be said about work with these options.
    pub fn new(options: &Options, version: &str, is_at_rest: bool) -> Self {
        let upload_target = options.peers.as_ref().and_then(|peers| peers.maxuploadtarget);
        Self {
            network: options.network.clone(),
            directory: options.network_dir(),
            version: version.to_string(),
            is_at_rest,
            blocks_dir: options.blocks_dir.clone(),
            network_options: options.network_options.clone(),
            cache_bytes: options.dbcache_bytes as u64,
            peers: options.peers.clone(),
            peerblockfilters: options.peerblockfilters,
            v2transport: options.peers.as_ref().is_none_or(|peers| peers.v2transport),
            upload_target: upload_target.unwrap_or(0),
            log: None,
            logs: Arc::new(Logs::new(|| ())),
        }
    }
}

/// Reports of the running process about itself.
pub struct Live {
    about: About,
    began: Instant,
    /// When the process began, in seconds since 1970.
    began_unix: i64,
    now: Mutex<Now>,
    lines: Mutex<VecDeque<Line>>,
    warnings: AtomicU64,
}

#[derive(Default)]
struct Now {
    progress: Option<Progress>,
    tip: Option<Tip>,
    peers: Arc<[PeerInfo]>,
    /// Addresses of peers that are known ([`Observer::addresses`]).
    addresses: [[u64; 2]; 3],
    /// Bytes sent to and received from peers that have left.
    past_bytes: [u64; 2],
    meters: Option<Meters>,
    end: Option<End>,
}

/// A line for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// When it was said, in seconds since 1970.
    pub time: i64,
    /// Whether it is a warning.
    pub warns: bool,
    pub text: String,
}

/// How a run has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// The error that ended it; `None` if it has done its work, or was asked to stop.
    pub error: Option<String>,
}

impl Live {
    /// Creates the state of a process that begins now.
    pub fn new(about: About) -> Arc<Self> {
        Arc::new(Self {
            about,
            began: Instant::now(),
            began_unix: unix_time(),
            now: Mutex::default(),
            lines: Mutex::default(),
            warnings: AtomicU64::new(0),
        })
    }

    /// Returns an observer that keeps what it is told, and passes everything to `inner`.
    pub fn observer<'a>(&'a self, inner: &'a dyn Observer) -> impl Observer + 'a {
        Keeping { live: self, inner }
    }

    /// Returns what does not change.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns when the process began, in seconds since 1970.
    pub fn began(&self) -> i64 {
        self.began_unix
    }

    /// Returns the time since the process began.
    pub fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the last progress; `None` before the first.
    pub fn progress(&self) -> Option<Progress> {
        self.now().progress.clone()
    }

    /// Returns the last tip; `None` if none was reported.
    pub fn tip(&self) -> Option<Tip> {
        self.now().tip
    }

    /// Returns the connected peers, as they were about a second ago.
    pub fn peers(&self) -> Arc<[PeerInfo]> {
        Arc::clone(&self.now().peers)
    }

    /// Returns how many addresses of peers are known ([`Observer::addresses`]).
    pub(crate) fn addresses(&self) -> [[u64; 2]; 3] {
        self.now().addresses
    }

    /// Returns the bytes that were sent to all peers so far, and received from them.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        let now = self.now();
        now.peers.iter().fold(now.past_bytes, |sum, peer| plus(sum, peer.bytes))
    }

    /// Returns what the work measures; `None` before it begins.
    pub(crate) fn meters(&self) -> Option<Meters> {
        self.now().meters.clone()
    }

    /// Returns how the run ended; `None` while it lasts.
    pub fn end(&self) -> Option<End> {
        self.now().end.clone()
    }

    /// Records how the run ended.
    pub fn set_end(&self, end: End) {
        self.now().end = Some(end);
    }

    /// Returns the last lines, in order.
    pub fn lines(&self) -> Vec<Line> {
        self.kept().iter().cloned().collect()
    }

    /// Returns the number of warnings so far.
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Relaxed)
    }

    /// Adds a line for the user. One that begins with `Warning: ` is a warning. A line that is
    /// repeated takes the place of the one before it.
    pub fn say(&self, text: &str) {
        let mut text = text.trim();
        let warning = text.strip_prefix("Warning: ");
        text = warning.unwrap_or(text);
        let time = unix_time();
        let warns = warning.is_some();
        let line = Line { time, warns, text: text.chars().take(LINE_CHARS_MAX).collect() };
        self.warnings.fetch_add(u64::from(warns), Relaxed);
        let mut lines = self.kept();
        if lines.back().is_some_and(|last| last.text == line.text) {
            lines.pop_back();
        }
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    fn take_peers(&mut self, peers: Vec<PeerInfo>) {
        let is_gone = |old: &&PeerInfo| peers.iter().all(|peer| peer.id != old.id);
        let gone = self.peers.iter().filter(is_gone);
        self.past_bytes = gone.fold(self.past_bytes, |sum, peer| plus(sum, peer.bytes));
        self.peers = peers.into();
    }
}

fn plus(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0] + other[0], one[1] + other[1]]
}

/// An observer that keeps what it is told.
struct Keeping<'a> {
    live: &'a Live,
    inner: &'a dyn Observer,
}

impl Observer for Keeping<'_> {
    fn observe(&self, progress: &Progress) {
        // If another thread holds the lock, it writes or reads a report that is as good.
        if let Ok(mut now) = self.live.now.try_lock() {
            now.progress = Some(progress.clone());
        }
        self.inner.observe(progress);
    }

    fn inner(&self) -> Option<&dyn Observer> {
        Some(self.inner)
    }

    fn note(&self, text: &str) {
        self.live.say(text);
        self.inner.note(text);
    }

    fn wants_tips(&self) -> bool {
        true
    }

    fn tip(&self, tip: &Tip) {
        self.live.now().tip = Some(*tip);
        if self.inner.wants_tips() {
            self.inner.tip(tip);
        }
    }

    fn meters(&self, meters: &Meters) {
        self.live.now().meters = Some(meters.clone());
        self.inner.meters(meters);
    }

    fn wants_peers(&self) -> bool {
        true
    }

    fn peers(&self, peers: Vec<PeerInfo>) {
        self.live.now().take_peers(peers);
    }

    fn addresses(&self, counts: [[u64; 2]; 3]) {
        self.live.now().addresses = counts;
    }
}
