//! A look at the machine: all that is known of it at one moment.

use std::fs;
use std::path::{Path, PathBuf};

use apus_host::memory::limit::memory_limit;
use apus_host::resources::field;
use apus_host::root::Root;
use apus_node::error::SyncError;
use apus_node::memory_share::default_cache_bytes;
use apus_node::options::Options;
use apus_node::reconsider::{Doubtful, doubtful};
use apus_progress::words::shell_word;
use apus_store::{BlockSource, SourceItem};
use secp_lanes::Kernel;

use super::measure::Speed;
use super::nodes::{NodeDirectory, Running, places, running, user_of};
use super::volume::{Medium, Volume, candidates, mounts};
use crate::busy::last_core_version;
use crate::refused;
use crate::status::status;

/// The most random reads a second of a disk that turns.
const TURNING_READS_MAX: f64 = 1_000.0;
/// Files and directories that exist while a program keeps the clock right: those of
/// systemd-timesyncd, chrony, ntpd, and the tools of virtual machines.
const CLOCK_KEEPERS: [&str; 6] = [
    "/run/systemd/timesync/synchronized",
    "/run/chrony/chronyd.pid",
    "/run/chronyd.pid",
    "/run/ntpd.pid",
    "/run/ntpd/ntpd.pid",
    "/dev/ptp0",
];

/// The content of a data directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeldDirectory {
    /// The directory can be read.
    Chain {
        /// Height of the UTXO set's best block.
        height: u32,
        /// Time in its header, in seconds since 1970.
        time: u32,
        /// Whether block files were pruned.
        pruned: bool,
        /// Whether it holds blocks besides genesis.
        has_blocks: bool,
        /// The reason for `apus sync --reconsider`, if there is one.
        doubtful: Option<Doubtful>,
    },
    /// It holds block files, but no UTXO set.
    Blocks,
    /// A program that may write to it has it open: this one, if that is known.
    InUse(Option<Running>),
    /// It cannot be read; the reason.
    Closed(String),
}

impl HeldDirectory {
    /// Reads what a directory holds.
    fn of(root: &Root, options: &Options, datadir: &Path, running: &[Running]) -> Self {
        let there = Options { datadir: root.below(datadir), ..options.clone() };
        let used_by = || user_of(root, datadir, &options.network, running);
        match status(&there) {
            Ok(status) => Self::Chain {
                height: status.height,
                time: status.time,
                pruned: status.pruned,
                has_blocks: status.height > 0 || status.above_tip.waiting > 0,
                doubtful: status.marked.and_then(|_| doubtful(&there).ok()),
            },
            Err(SyncError::Store(error)) if error.is_locked => Self::InUse(used_by()),
            Err(why) => {
                if let Some(held) = Self::of_other_chains(&there) {
                    return held;
                }
                let chainstate = there.network_dir().join("chainstate");
                match (is_refused(&why), used_by()) {
                    (true, Some(running)) => Self::InUse(Some(running)),
                    // Not a link to a disk that is not mounted.
                    _ if fs::symlink_metadata(chainstate).is_err() && !is_refused(&why) => {
                        lost_file(&there, datadir).map_or(Self::Blocks, Self::Closed)
                    }
                    _ => Self::Closed(with_remedy(&why)),
                }
            }
        }
    }

    /// Reads what a directory holds whose block index has entries of other chains; `None` for any
    /// other.
    fn of_other_chains(options: &Options) -> Option<Self> {
        let found = doubtful(options).ok().filter(|found| found.left_out > 0)?;
        Some(Self::Chain {
            height: found.height,
            time: found.time,
            pruned: found.pruned,
            has_blocks: true,
            doubtful: Some(found),
        })
    }
}

/// Returns whether this user may not read a file of the directory.
fn is_refused(error: &SyncError) -> bool {
    matches!(error, SyncError::Store(error) if error.is_refused())
}

/// Says which block file is missing below blocks, and what to do, if one is: an index of the files
/// below it would hide the others.
fn lost_file(options: &Options, datadir: &Path) -> Option<String> {
    let source = BlockSource::open(&options.blocks_path(), &options.network).ok()?;
    let (_, above) = source.clone().split_at_missing();
    above.scan_headers().find(|item| matches!(item, Ok(SourceItem::Block(_))))?.ok()?;
    let lost = source.lost_before(above.files().first()?)?;
    let from = shell_word(&datadir.display().to_string());
    Some(format!(
        "{lost}; put it back, or sync into a new directory from these files and from peers (`apus \
         sync --from {from} --datadir NEW`)"
    ))
}

/// Returns an error in words, with what to do about it.
fn with_remedy(error: &SyncError) -> String {
    let remedy = match error {
        SyncError::Store(error) => refused::remedy(error),
        _ => None,
    };
    remedy.map_or_else(|| error.to_string(), |remedy| format!("{error}; {remedy}"))
}

/// The data directory of a node, and what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// The directory.
    pub place: NodeDirectory,
    /// Its content.
    pub held: HeldDirectory,
}

/// The memory of the machine, in bytes; 0 where the system does not report it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Memory {
    /// All memory.
    pub total: u64,
    /// Bytes that a sync may use: available without swapping, or the limit of the control group.
    pub available: u64,
    /// Bytes of it for cached coins, unless the user says otherwise.
    pub cache: u64,
    pub swap: u64,
    /// Swap that is not used.
    pub swap_free: u64,
}

impl Memory {
    /// Reads what the system reports.
    fn of(root: &Root) -> Self {
        let text = root.read("/proc/meminfo").unwrap_or_default();
        let field = |name: &str| field(&text, name).unwrap_or(0);
        Self {
            total: field("MemTotal:"),
            available: memory_limit(root).map_or(0, |limit| limit.bytes),
            cache: default_cache_bytes(root) as u64,
            swap: field("SwapTotal:"),
            swap_free: field("SwapFree:"),
        }
    }
}

/// A look at the machine.
#[derive(Clone, Debug)]
pub struct Look {
    /// The time in seconds since 1970.
    pub now: i64,
    /// Whether a program keeps the clock right.
    pub clock_is_kept: bool,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// How signatures are verified.
    pub kernel: Kernel,
    pub memory: Memory,
    /// The data directory that the options name.
    pub datadir: PathBuf,
    /// Its file system.
    pub volume: Volume,
    /// The speed of its disk, if it was measured.
    pub speed: Option<Speed>,
    /// Other file systems that it could be on.
    pub candidates: Vec<Volume>,
    /// Running nodes.
    pub running: Vec<Running>,
    /// The version of the last bitcoind that worked on the data directory, by its log: its first
    /// two numbers.
    pub core: Option<(u32, u32)>,
    /// Data directories of nodes; that of the options comes first.
    pub known: Vec<Known>,
}

impl Look {
    /// Looks at the machine, and at the data directory that the options name. Directories are read
    /// and not changed, as by [`status`].
    pub fn new(root: &Root, options: &Options, now: i64) -> Self {
        let mounts = mounts(root);
        // A relative path says nothing below another root, nor to the programs in a plan.
        let datadir =
            std::path::absolute(&options.datadir).unwrap_or_else(|_| options.datadir.clone());
        let running = running(root);
        let mut first = vec![datadir.clone()];
        first.extend(running.iter().filter_map(|running| running.datadir.clone()));
        let known = places(root, &options.network, &first).into_iter().map(|place| {
            let held = HeldDirectory::of(root, options, &place.path, &running);
            Known { place, held }
        });
        let there = Options { datadir: root.below(&datadir), ..options.clone() };
        Self {
            now,
            core: last_core_version(&there.network_dir()),
            clock_is_kept: CLOCK_KEEPERS.iter().any(|path| root.below(path).exists()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: options.scripts.kernel.unwrap_or_else(Kernel::best),
            memory: Memory::of(root),
            volume: Volume::of(root, &mounts, &datadir),
            speed: None,
            candidates: candidates(root, &mounts),
            known: known.collect(),
            running,
            datadir,
        }
    }

    /// Takes the directory of a node on this machine for that of the options, which the user did
    /// not name, if that one holds no blocks: the one with the most blocks, or else one that is in
    /// use, or else one of block files alone.
    pub fn prefer_known(&mut self, root: &Root) {
        let best = self.best(|known| match known.held {
            HeldDirectory::Chain { height, .. } => Some((2, height)),
            HeldDirectory::InUse(_) => Some((1, 0)),
            HeldDirectory::Blocks => Some((0, 0)),
            HeldDirectory::Closed(_) => None,
        });
        if let (None, Some(best)) = (self.held(), best) {
            self.datadir = best.place.path.clone();
            self.volume = Volume::of(root, &mounts(root), &self.datadir);
        }
    }

    /// Takes note of the measured speed, which tells what a disk is: the system reports disks of
    /// virtual machines as turning ones.
    pub fn measured(&mut self, speed: Speed) {
        if self.volume.medium == Medium::Unknown {
            let is_turning = speed.reads <= TURNING_READS_MAX;
            self.volume.medium = if is_turning { Medium::Rotating } else { Medium::Solid };
        }
        self.speed = Some(speed);
    }

    /// Returns the other directory from which most blocks can be read; `None` if none has any.
    pub fn source(&self) -> Option<&Path> {
        let best = self.best(|known| match known.held {
            _ if known.place.path == self.datadir => None,
            HeldDirectory::Chain { height, pruned: false, .. } if height > 0 => Some((1, height)),
            // It may be pruned: the sync says so.
            HeldDirectory::InUse(_) | HeldDirectory::Blocks => Some((0, 0)),
            HeldDirectory::Chain { .. } | HeldDirectory::Closed(_) => None,
        });
        best.map(|known| &*known.place.path)
    }

    /// Returns the directory that is worth most, and the last of equals; `None` if none is worth
    /// anything.
    fn best(&self, worth: impl Fn(&Known) -> Option<(u8, u32)>) -> Option<&Known> {
        let best = self.known.iter().max_by_key(|known| worth(known));
        best.filter(|known| worth(known).is_some())
    }

    /// Returns what the data directory of the options holds; `None` if it holds no blocks.
    pub fn held(&self) -> Option<&HeldDirectory> {
        let here = self.known.iter().find(|known| known.place.path == self.datadir);
        here.map(|known| &known.held)
    }

    /// Returns the height of the data directory of the options; 0 if it is not known.
    pub fn height(&self) -> u32 {
        match self.held() {
            Some(HeldDirectory::Chain { height, .. }) => *height,
            _ => 0,
        }
    }
}

#[cfg(test)]
impl Look {
    /// Returns a machine about which nothing is wrong, with an empty data directory.
    pub(super) fn good(datadir: &str) -> Self {
        const GB: u64 = 1_000_000_000;
        let mount = super::volume::Mount {
            point: "/".into(),
            kind: "ext4".into(),
            source: "/dev/sda1".into(),
            is_read_only: false,
        };
        Self {
            now: 1_779_190_000,
            clock_is_kept: true,
            cores: 4,
            kernel: Kernel::Avx2,
            memory: Memory {
                total: 16 * GB,
                available: 8 * GB,
                cache: GB / 2,
                swap: 2 * GB,
                swap_free: 2 * GB,
            },
            datadir: datadir.into(),
            volume: Volume {
                path: datadir.into(),
                mount: Some(mount),
                medium: Medium::Solid,
                free: 2_000 * GB,
                refused: None,
            },
            speed: Some(Speed { written: 400e6, reads: 10_000.0 }),
            candidates: Vec::new(),
            running: Vec::new(),
            core: None,
            known: Vec::new(),
        }
    }
}
