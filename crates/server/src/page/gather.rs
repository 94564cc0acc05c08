//! Collects what the page shows from everything that knows a part of it.

use std::fs;
use std::path::{self, Path};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use apus_disk::FileSystem;
use apus_host::memory_in_use;
use apus_node::next_command::prune_mib;
use apus_node::view::View;
use apus_progress::clock::unix_time;
use apus_progress::{Estimate, PeerInfo, Phase, Progress};
use apus_wire::Chain as Network;

use super::blocks;
use super::state::{Cache, Chain, Coins, Disk, Memory, PageState, Run, Speed, Stage, Tip};
use crate::live::Live;

/// A search for peers that takes this long is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);
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
    /// Figures that are read less often.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    chain: Arc<Chain>,
    chain_at: Option<Instant>,
    disk: Disk,
    disk_at: Option<Instant>,
}

impl Gatherer {
    /// Creates a source of the page; `stop` is raised when the run is asked to stop.
    pub fn new(live: Arc<Live>, view: Arc<View>, stop: Arc<AtomicBool>) -> Self {
        Self { live, view, stop, kept: Mutex::default() }
    }

    /// Collects the state of this moment.
    pub fn state(&self) -> PageState {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let live = &self.live;
        let seen = self.live.progress();
        let about = live.about();
        let progress = seen.as_ref();
        let stage = self.stage(progress);
        self.look_at_disk(&mut kept);
        let is_over = live.end().is_some();
        self.paint(&mut kept, is_over);
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
                let height = it.height;
                let time = it.time.into();
                Some(Tip { height, time, hash: String::new() })
            });
        let headers = found.map_or(0, |(_, headers, ..)| headers);
        let waits_for_headers = stage == Stage::Headers;
        let heard = progress.map(|p| p.height);
        PageState {
            version: about.version.clone(),
            network: chain.name(),
            datadir: datadir(&about.directory, chain),
            now: unix_time(),
            started: live.began(),
            phase: progress.map(|progress| progress.phase),
            run: progress.map(run).unwrap_or_default(),
            speed: speed(progress),
            bottleneck: progress.and_then(|progress| progress.estimate.as_ref()?.bottleneck),
            tip: tip.unwrap_or_default(),
            headers: headers.max(heard.filter(|_| waits_for_headers).unwrap_or(0)),
            chain: Arc::clone(&kept.chain),
            peers: self.peers(progress),
            disk: kept.disk,
            memory: memory(),
            cache: self.cache(progress),
            log: self.live.lines(),
            coins: found.and_then(|(_, _, coins, _)| coins),
            blocks_dir: about.blocks_dir.as_deref().map(absolute),
            network_options: about.network_options.clone(),
            prune: found.and_then(|(.., prune)| prune),
            stage,
        }
    }

    fn stage(&self, progress: Option<&Progress>) -> Stage {
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
        let Some(progress) = progress else { return Stage::Starting };
        let waiting = progress.estimate.as_ref().and_then(|estimate| estimate.waiting);
        match (progress.phase, waiting) {
            (Phase::Following, _) => Stage::Following,
            (Phase::FindingPeers, waiting) if waiting.is_none_or(|time| time < STALLED_AFTER) => {
                Stage::Searching
            }
            (_, Some(time)) => Stage::Stalled(time),
            (
                Phase::Headers
                | Phase::DownloadingHeaders
                | Phase::WaitingForWork
                | Phase::WaitingForHeaders,
                None,
            ) => Stage::Headers,
            (_, None) => Stage::Syncing,
        }
    }

    fn peers(&self, progress: Option<&Progress>) -> Option<Arc<[PeerInfo]>> {
        let peers = self.live.peers();
        if peers.is_empty() && progress.is_none_or(|progress| progress.download.is_none()) {
            return None;
        }
        Some(peers)
    }

    fn cache(&self, progress: Option<&Progress>) -> Option<Cache> {
        let coins = progress.map(|progress| progress.coins).filter(|coins| *coins > 0)?;
        let bytes = self.live.tip().map_or(0, |tip| tip.cache_bytes as u64);
        Some(Cache { coins, bytes, limit: self.live.about().cache_bytes })
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
        let marks = self.live.meters().map(|meters| meters.marks).unwrap_or_default();
        if let Some(chain) = blocks::picture(&self.view, &marks, is_mainnet) {
            (kept.chain, kept.chain_at) = (Arc::new(chain), Some(Instant::now()));
        }
    }
}

fn speed(progress: Option<&Progress>) -> Speed {
    let Some(progress) = progress else { return Speed::default() };
    let estimate = progress.estimate.as_ref();
    let download = estimate.and_then(|estimate| estimate.download);
    Speed {
        bytes: estimate.and_then(|estimate| estimate.speed),
        blocks: estimate.and_then(|estimate| estimate.blocks),
        download: progress.download.map(|_| download.unwrap_or(0.0)),
        upload: progress.upload.map(|upload| upload.bytes_per_second as f64),
    }
}

fn run(progress: &Progress) -> Run {
    let estimate = progress.estimate.as_ref();
    Run {
        share: estimate.and_then(Estimate::of_run),
        left: estimate.and_then(|estimate| estimate.left),
        blocks: (progress.blocks_all > 0).then_some((progress.blocks, progress.blocks_all)),
    }
}

fn memory() -> Memory {
    let memory = memory_in_use().unwrap_or_default();
    Memory { used: memory.bytes, mapped: memory.mapped }
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
    use apus_node::Options;
    use apus_progress::{Observer, Unobserved};
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
            (Phase::FindingPeers, Stage::Searching),
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
    fn a_run_without_peers_stalls_since_the_last_block_and_not_since_somebody_looks() {
        let gatherer = gatherer();
        let waiting = Some(Duration::from_secs(80));
        let estimate = Some(Estimate { waiting, ..Estimate::default() });
        let of = |phase| Progress { estimate: estimate.clone(), ..Progress::of(phase) };
        let stalled = Stage::Stalled(Duration::from_secs(80));
        for (phase, expected) in [
            (Phase::JoinReading, stalled.clone()),
            (Phase::FindingPeers, stalled.clone()),
            (Phase::DownloadingHeaders, stalled),
            (Phase::Following, Stage::Following),
        ] {
            assert_eq!(stage_after(&gatherer, &of(phase)), expected, "{phase:?}");
        }
    }

    #[test]
    fn the_directory_is_named_as_bitcoind_takes_it() {
        let state = gatherer().state();
        assert_eq!((state.datadir.as_str(), state.network), ("/nowhere/node", "regtest"));
        assert_eq!(datadir(Path::new("/a/b"), Network::Main), "/a/b");
    }
}
