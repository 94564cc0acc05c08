//! A look at the machine: all that is known of it at one moment.

use std::path::PathBuf;

use apus_node::options::Options;
use apus_node::resources::allow_open_files;
use apus_node::root::Root;

use super::memory::Memory;
use super::mounts::mounts;
use super::nodes::{Place, Running, places, running};
use super::processor::Processor;
use super::volume::{Volume, candidates};
use super::{clock, measure::Speed};
use crate::status::status;

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
    },
    /// It cannot be read, for example because bitcoind has it open; the reason.
    Closed(String),
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
    /// The processor.
    pub processor: Processor,
    /// The memory.
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
        let known = places(root, std::slice::from_ref(&datadir)).into_iter().map(|place| {
            let there = Options { datadir: root.below(&place.path), ..options.clone() };
            let held = match status(&there) {
                Ok(status) => {
                    Held::Chain { height: status.height, time: status.time, pruned: status.pruned }
                }
                Err(why) => Held::Closed(why.to_string()),
            };
            Known { place, held }
        });
        Self {
            now,
            clock_is_kept: clock::is_kept(root),
            processor: Processor::of(root, options),
            memory: Memory::of(root),
            volume: Volume::of(root, &mounts, &datadir),
            speed: None,
            candidates: candidates(root, &mounts),
            running: running(root),
            known: known.collect(),
            open_files: allow_open_files(u64::MAX),
            datadir,
        }
    }

    /// Takes the directory of a node on this machine for that of the options, which the user did
    /// not name, if that one holds no blocks: the one with the most blocks, or else one that is in
    /// use by a running node.
    pub fn prefer_known(&mut self, root: &Root) {
        let is_running = !self.running.is_empty();
        let height = |known: &Known| match known.held {
            Held::Chain { height, .. } => Some(Some(height)),
            Held::Closed(_) => is_running.then_some(None),
        };
        let best = self.known.iter().max_by_key(|known| height(known));
        let best = best.filter(|known| height(known).is_some());
        if let (None, Some(best)) = (self.held(), best) {
            self.datadir.clone_from(&best.place.path);
            self.volume = Volume::of(root, &mounts(root), &self.datadir);
        }
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
