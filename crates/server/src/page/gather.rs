//! Collects what the page shows from everything that knows a part of it.

use std::collections::VecDeque;
use std::fs;
use std::path::{self, Path};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use apus_disk::FileSystem;
use apus_node::clock::unix_time;
use apus_node::next_command::prune_mib;
use apus_node::view::View;
use apus_node::{Bottleneck, Phase, Progress, memory_in_use};
use apus_wire::Chain as Network;

use super::blocks;
use super::state::{
    Cache, Chain, Coins, Disk, LogLine, Memory, Peer, Run, Speed, Stage, State, Tip,
};
use crate::live::{Live, Seen};

/// Without a block for this long, a run that waits for blocks from peers is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// The time over which blocks a second are counted.
const PACE_WINDOW: Duration = Duration::from_secs(60);
/// Time between two looks at the disk.
const DISK_EVERY: Duration = Duration::from_secs(10);
/// Time between two pictures of a chain: of a short one, and of one with many blocks, which takes
/// 0.1 s of a core.
const PICTURE_EVERY: Duration = Duration::from_secs(2);
const LARGE_PICTURE_EVERY: Duration = Duration::from_secs(10);
/// From this height on a chain has many blocks.
const LARGE: u32 = 100_000;

/// Where the page comes from.
pub struct Gatherer {
    live: Arc<Live>,
    view: Arc<View>,
    /// Whether the run was asked to stop.
    stop: Arc<AtomicBool>,
    /// What is looked at less often.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    chain: Arc<Chain>,
    chain_at: Option<Instant>,
    disk: Disk,
    disk_at: Option<Instant>,
    /// Bytes received when they last grew, and when that was.
    received: Option<(u64, Instant)>,
    /// Blocks processed in the last minute of this phase.
    paced: VecDeque<(Instant, u64)>,
    paced_in: Option<Phase>,
}

impl Gatherer {
    /// Creates a source of the page; `stop` is raised when the run is asked to stop.
    pub fn new(live: Arc<Live>, view: Arc<View>, stop: Arc<AtomicBool>) -> Self {
        Self { live, view, stop, kept: Mutex::default() }
    }

    /// Collects the state of this moment.
    pub fn state(&self) -> State {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (live, seen) = (&self.live, self.live.progress());
        let about = live.about();
        let stage = self.stage(seen.as_ref(), &mut kept);
        self.look_at_disk(&mut kept);
        let is_over = live.end().is_some();
        self.paint(&mut kept, is_over);
        let progress = seen.as_ref().map(|seen| &seen.progress);
        let chain = about.network.chain;
        let found = self.view.look(|it| {
            let tip = it.tip();
            let coins = Coins {
                count: it.coin_count.unwrap_or(0),
                transactions: Some(it.transactions(tip.height)).filter(|count| *count > 0),
            };
            let headers = it.tree.node(it.tree.best_header()).height;
            let coins = Some(coins).filter(|_| it.coin_count.is_some());
            let mib = prune_mib(it.prune_target);
            (tip, headers, coins, Some(mib).filter(|_| it.is_pruned))
        });
        let tip = found.map(|(tip, ..)| Tip {
            height: tip.height,
            hash: tip.hash.to_string(),
            time: tip.time.into(),
        });
        // In order, blocks connect long before they are committed.
        let tip =
            progress.filter(|progress| progress.phase == Phase::Connecting).map_or(tip, |it| {
                let (height, time) = (it.height, it.time.into());
                Some(Tip { height, time, hash: String::new() })
            });
        let headers = found.map_or(0, |(_, headers, ..)| headers);
        let (waits_for_headers, heard) = (stage == Stage::Headers, progress.map(|p| p.height));
        State {
            version: about.version.clone(),
            network: chain.name(),
            datadir: datadir(&about.directory, chain),
            now: unix_time(),
            started: live.began(),
            phase: progress.map(|progress| progress.phase),
            run: progress.map(run).unwrap_or_default(),
            speed: speed(seen.as_ref(), &mut kept),
            bottleneck: progress.and_then(bottleneck),
            tip: tip.unwrap_or_default(),
            headers: headers.max(heard.filter(|_| waits_for_headers).unwrap_or(0)),
            chain: Arc::clone(&kept.chain),
            peers: self.peers(progress),
            disk: kept.disk,
            memory: memory(),
            cache: self.cache(progress),
            log: self.lines(),
            coins: found.and_then(|(_, _, coins, _)| coins),
            blocks_dir: about.blocks_dir.as_deref().map(absolute),
            network_options: about.network_options.clone(),
            prune: found.and_then(|(.., prune)| prune),
            stage,
        }
    }

    fn stage(&self, seen: Option<&Seen>, kept: &mut Kept) -> Stage {
        let is_stopping = self.stop.load(Relaxed);
        if let Some(end) = self.live.end() {
            return match end.error {
                Some(error) => Stage::Failed(error),
                None if is_stopping => Stage::Stopped,
                None => Stage::Finished,
            };
        }
        if self.live.about().is_at_rest {
            return Stage::Serving;
        }
        if is_stopping {
            return Stage::Stopping;
        }
        let Some(seen) = seen else { return Stage::Starting };
        match seen.progress.phase {
            Phase::Following => Stage::Following,
            Phase::FindingPeers => match seen.phase_began.elapsed() {
                elapsed if elapsed >= STALLED_AFTER => Stage::Stalled(elapsed),
                _ => Stage::Starting,
            },
            Phase::Headers
            | Phase::DownloadingHeaders
            | Phase::WaitingForWork
            | Phase::WaitingForHeaders => Stage::Headers,
            _ => silence(&seen.progress, kept).map_or(Stage::Syncing, Stage::Stalled),
        }
    }

    fn peers(&self, progress: Option<&Progress>) -> Option<Vec<Peer>> {
        let peers = self.live.peers();
        if peers.is_empty() && progress.is_none_or(|progress| progress.download.is_none()) {
            return None;
        }
        let peer = |peer: &apus_node::PeerInfo| Peer {
            address: peer.address.clone(),
            agent: peer.user_agent.clone(),
            inbound: peer.inbound,
            encrypted: peer.transport == "v2",
            bytes: peer.block_bytes,
            blocks: peer.blocks,
            speed: peer.speed,
        };
        Some(peers.iter().map(peer).collect())
    }

    fn cache(&self, progress: Option<&Progress>) -> Option<Cache> {
        let coins = progress.map(|progress| progress.coins).filter(|coins| *coins > 0)?;
        let bytes = self.live.tip().map_or(0, |tip| tip.cache_bytes as u64);
        Some(Cache { coins, bytes, limit: self.live.about().cache_bytes })
    }

    fn lines(&self) -> Vec<LogLine> {
        let lines = self.live.lines().into_iter();
        lines
            .map(|line| LogLine { time: line.time, is_warning: line.warns, text: line.text })
            .collect()
    }

    fn look_at_disk(&self, kept: &mut Kept) {
        if kept.disk_at.is_some_and(|at| at.elapsed() < DISK_EVERY) {
            return;
        }
        kept.disk_at = Some(Instant::now());
        let directory = &self.live.about().directory;
        let [blocks, tables, join, swiftsync] = ["blocks", "chainstate", "join", "swiftsync"]
            .map(|name| size_of(&directory.join(name)));
        // Block files may be in another place; what is being written is not committed yet.
        let files = self.view.look(|it| it.files_bytes).unwrap_or(0);
        kept.disk = Disk {
            used: files.max(blocks) + tables,
            temporary: join + swiftsync,
            free: FileSystem::of(directory).ok().map(|system| system.free),
        };
    }

    fn paint(&self, kept: &mut Kept, is_over: bool) {
        let every = if kept.chain.height < LARGE { PICTURE_EVERY } else { LARGE_PICTURE_EVERY };
        if !is_over && kept.chain_at.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        let is_mainnet = self.live.about().network.chain == Network::Main;
        if let Some(chain) = blocks::picture(&self.view, &self.live.about().marks, is_mainnet) {
            (kept.chain, kept.chain_at) = (Arc::new(chain), Some(Instant::now()));
        }
    }
}

fn speed(seen: Option<&Seen>, kept: &mut Kept) -> Speed {
    let Some(Seen { progress, at, .. }) = seen else { return Speed::default() };
    let estimate = progress.estimate.as_ref();
    if kept.paced_in != Some(progress.phase) {
        (kept.paced_in, kept.paced) = (Some(progress.phase), VecDeque::new());
    }
    let samples = &mut kept.paced;
    samples.push_back((*at, progress.blocks));
    while samples.front().is_some_and(|(first, _)| *at - *first > PACE_WINDOW) {
        samples.pop_front();
    }
    let blocks = samples.front().and_then(|(first, blocks)| {
        let (blocks, seconds) =
            (progress.blocks.checked_sub(*blocks)?, (*at - *first).as_secs_f64());
        (seconds > 0.5 && blocks > 0).then_some(blocks as f64 / seconds)
    });
    let download = estimate.and_then(|estimate| estimate.download);
    Speed {
        bytes: estimate.and_then(|estimate| estimate.speed),
        blocks,
        download: progress.download.map(|_| download.unwrap_or(0.0)),
        upload: progress.upload.map(|upload| upload.bytes_per_second as f64),
    }
}

/// Returns how long no block has come from peers, if that is too long.
fn silence(progress: &Progress, kept: &mut Kept) -> Option<Duration> {
    let download = progress.download.filter(|download| download.left > 0 || download.peers == 0)?;
    let is_held_up = download.peers == 0 || bottleneck(progress) == Some(Bottleneck::Peers);
    let (bytes, since) = *kept.received.get_or_insert((download.bytes, Instant::now()));
    if bytes != download.bytes || !is_held_up {
        kept.received = None;
        return None;
    }
    Some(since.elapsed()).filter(|silent| *silent >= STALLED_AFTER)
}

fn bottleneck(progress: &Progress) -> Option<Bottleneck> {
    progress.estimate.as_ref().and_then(|estimate| estimate.bottleneck)
}

fn run(progress: &Progress) -> Run {
    let blocks = (progress.blocks_all > 0).then_some((progress.blocks, progress.blocks_all));
    let Some(estimate) = &progress.estimate else { return Run { blocks, ..Run::default() } };
    Run {
        fraction: Some(estimate.fraction),
        left: estimate.left,
        parts: estimate.passes.iter().map(|pass| pass.share).collect(),
        part: estimate.pass,
        blocks,
    }
}

fn memory() -> Memory {
    let memory = memory_in_use().unwrap_or_default();
    Memory { used: memory.bytes, mapped: memory.mapped, total: None }
}

/// Returns the directory as bitcoind takes it: above that of the network.
fn datadir(directory: &Path, chain: Network) -> String {
    let above = match chain {
        Network::Main => directory,
        _ => directory.parent().unwrap_or(directory),
    };
    absolute(above)
}

/// Returns a path as it is from everywhere.
fn absolute(path: &Path) -> String {
    path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// Returns the bytes of the files in a directory and in those below it.
fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

#[cfg(test)]
mod tests {
    use apus_node::{Download, Observer, Options, Unobserved};
    use apus_wire::Network as Constants;

    use super::*;
    use crate::live::{About, End};

    fn gatherer() -> Gatherer {
        let options = Options::new("/nowhere/node".into(), Constants::new(Network::Regtest));
        let live = Live::new(About::new(&options, "1", false));
        Gatherer::new(live, Arc::default(), Arc::default())
    }

    fn stage_after(gatherer: &Gatherer, progress: &Progress) -> Stage {
        gatherer.live.observer(&Unobserved).observe(progress);
        gatherer.state().stage
    }

    #[test]
    fn the_stage_follows_the_work() {
        let gatherer = gatherer();
        assert_eq!(gatherer.state().stage, Stage::Starting);
        for (phase, expected) in [
            (Phase::FindingPeers, Stage::Starting),
            (Phase::DownloadingHeaders, Stage::Headers),
            (Phase::JoinReading, Stage::Syncing),
            (Phase::Merging, Stage::Syncing),
            (Phase::Following, Stage::Following),
        ] {
            assert_eq!(stage_after(&gatherer, &Progress::of(phase)), expected, "{phase:?}");
        }
        gatherer.stop.store(true, Relaxed);
        assert_eq!(gatherer.state().stage, Stage::Stopping);
        gatherer.live.set_end(End { error: None });
        assert_eq!(gatherer.state().stage, Stage::Stopped);
        gatherer.stop.store(false, Relaxed);
        assert_eq!(gatherer.state().stage, Stage::Finished);
        gatherer.live.set_end(End { error: Some("disk".to_string()) });
        assert_eq!(gatherer.state().stage, Stage::Failed("disk".to_string()));
    }

    #[test]
    fn a_run_without_peers_stalls() {
        let progress = |peers, bytes| Progress {
            download: Some(Download { peers, bytes, left: 9, ..Download::default() }),
            ..Progress::of(Phase::Connecting)
        };
        let Some(before) = Instant::now().checked_sub(STALLED_AFTER) else { return };
        let at = |received| Kept { received, ..Kept::default() };
        let silence = |progress: Progress, received| silence(&progress, &mut at(received));
        assert_eq!(silence(progress(0, 5), None), None);
        assert!(silence(progress(0, 5), Some((5, before))) >= Some(STALLED_AFTER));
        assert_eq!(silence(progress(0, 6), Some((5, before))), None);
        // Peers that send nothing for a while are no bottleneck as long as blocks are at hand.
        assert_eq!(silence(progress(3, 5), Some((5, before))), None);
        let files = Progress::of(Phase::Connecting);
        assert_eq!(silence(files, Some((0, before))), None);
    }

    #[test]
    fn the_directory_is_named_as_bitcoind_takes_it() {
        let state = gatherer().state();
        assert_eq!((state.datadir.as_str(), state.network), ("/nowhere/node", "regtest"));
        assert_eq!(datadir(Path::new("/a/b"), Network::Main), "/a/b");
    }
}
