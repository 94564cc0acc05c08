//! A look at the machine: all that is known of it at one moment.

use std::fs;
use std::path::{Path, PathBuf};

use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::resources::allow_open_files;
use apus_node::root::Root;

use super::memory::Memory;
use super::mounts::mounts;
use super::nodes::{Place, Running, places, running, user_of};
use super::processor::Processor;
use super::volume::{Medium, Volume, candidates};
use super::{clock, measure::Speed};
use crate::status::status;

/// The most random reads a second of a disk that turns.
const TURNING_READS_MAX: f64 = 1_000.0;

/// What a data directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
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
    },
    /// It holds block files, but no UTXO set.
    Blocks,
    /// A program that may write to it has it open: this one, if that is known.
    InUse(Option<Running>),
    /// It cannot be read; the reason.
    Closed(String),
}

impl Held {
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
            },
            Err(SyncError::Store(error)) if error.is_locked => Self::InUse(used_by()),
            Err(why) => {
                let chainstate = there.network_dir().join("chainstate");
                match (is_refused(&why), used_by()) {
                    (true, Some(running)) => Self::InUse(Some(running)),
                    // Not a link to a disk that is not mounted.
                    _ if fs::symlink_metadata(chainstate).is_err() && !is_refused(&why) => {
                        Self::Blocks
                    }
                    _ => Self::Closed(why.to_string()),
                }
            }
        }
    }
}

/// Returns whether this user may not read a file of the directory.
fn is_refused(error: &SyncError) -> bool {
    matches!(error, SyncError::Store(error) if error.is_refused())
}

/// The data directory of a node, and what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// The directory.
    pub place: Place,
    /// What it holds.
    pub held: Held,
}

/// A look at the machine.
#[derive(Clone, Debug)]
pub struct Look {
    /// The time in seconds since 1970.
    pub now: i64,
    /// Whether a program keeps the clock right.
    pub clock_is_kept: bool,
    pub processor: Processor,
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
    /// Data directories of nodes; that of the options comes first.
    pub known: Vec<Known>,
    /// The number of files that the process may have open.
    pub open_files: u64,
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
            let held = Held::of(root, options, &place.path, &running);
            Known { place, held }
        });
        let known = known.collect();
        Self {
            now,
            clock_is_kept: clock::is_kept(root),
            processor: Processor::of(root, options),
            memory: Memory::of(root),
            volume: Volume::of(root, &mounts, &datadir),
            speed: None,
            candidates: candidates(root, &mounts),
            running,
            known,
            open_files: allow_open_files(u64::MAX),
            datadir,
        }
    }

    /// Takes the directory of a node on this machine for that of the options, which the user did
    /// not name, if that one holds no blocks: the one with the most blocks, or else one that is in
    /// use, or else one of block files alone.
    pub fn prefer_known(&mut self, root: &Root) {
        let worth = |known: &Known| match known.held {
            Held::Chain { height, .. } => Some((2, height)),
            Held::InUse(_) => Some((1, 0)),
            Held::Blocks => Some((0, 0)),
            Held::Closed(_) => None,
        };
        let best = self.known.iter().max_by_key(|known| worth(known));
        let best = best.filter(|known| worth(known).is_some());
        if let (None, Some(best)) = (self.held(), best) {
            self.datadir.clone_from(&best.place.path);
            self.volume = Volume::of(root, &mounts(root), &self.datadir);
        }
    }

    /// Takes note of the measured speed. No disk that turns reads so often, whatever the system
    /// reports.
    pub fn measured(&mut self, speed: Speed) {
        if speed.reads > TURNING_READS_MAX && self.volume.medium == Medium::Rotating {
            self.volume.medium = Medium::Solid;
        }
        self.speed = Some(speed);
    }

    /// Returns the other directory from which most blocks can be read; `None` if none has any.
    pub fn source(&self) -> Option<&Path> {
        let worth = |known: &Known| match known.held {
            Held::Chain { height, pruned: false, .. } if height > 0 => Some((1, height)),
            // It may be pruned: the sync says so.
            Held::InUse(_) | Held::Blocks => Some((0, 0)),
            Held::Chain { .. } | Held::Closed(_) => None,
        };
        let others = self.known.iter().filter(|known| known.place.path != self.datadir);
        let best = others.max_by_key(|known| worth(known)).filter(|known| worth(known).is_some());
        best.map(|known| &*known.place.path)
    }

    /// Returns what the data directory of the options holds; `None` if it holds no blocks.
    pub fn held(&self) -> Option<&Held> {
        let here = self.known.iter().find(|known| known.place.path == self.datadir);
        here.map(|known| &known.held)
    }

    /// Returns the height of the data directory of the options; 0 if it is not known.
    pub fn height(&self) -> u32 {
        match self.held() {
            Some(Held::Chain { height, .. }) => *height,
            _ => 0,
        }
    }
}
