//! The work of a run, stage by stage.

use super::costs::{Costs, crowding};
use crate::options::Method;
use crate::phase::Phase;

/// Bytes a second of a disk that holds a stage up. Much is in the page cache.
const DISK_SPEED: f64 = 1.3e9;
/// Bytes a second of a usual download.
const DOWNLOAD_SPEED: f64 = 25e6;
/// Bytes of the tables of a coin that takes a byte of the cache (docs/budget.md).
pub const CACHED_TABLES: f64 = 70.0 / 106.0;
/// A run of new tables with at most this share (one in ...) of all is left as it is.
const MERGED_ALONE_SHARE: f64 = 8.0;

/// A stage of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stage {
    /// The phase that is reported meanwhile.
    pub phase: Phase,
    /// The work, in seconds of the machine of docs/budget.md with as many cores as this one.
    pub work: f64,
    /// The part of the work that is not a download, so that its pace measures the machine.
    pub own: f64,
}

impl Stage {
    /// Creates a stage that takes the processor this many seconds, and the disk these bytes.
    pub fn new(phase: Phase, seconds: f64, disk_bytes: f64) -> Self {
        let work = seconds.max(disk_bytes / DISK_SPEED);
        Self { phase, work, own: work }
    }

    /// Returns the stage if it downloads these bytes meanwhile.
    fn downloading(self, bytes: f64) -> Self {
        Self { work: self.work.max(bytes / DOWNLOAD_SPEED), ..self }
    }
}

/// The stages of a run in their order, from now on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The stages. A phase may occur more than once.
    pub stages: Vec<Stage>,
}

impl Plan {
    /// Returns the work of all stages, in seconds of the machine of docs/budget.md.
    pub fn work(&self) -> f64 {
        self.stages.iter().map(|stage| stage.work).sum()
    }
}

/// Blocks that are to become part of the UTXO set. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    /// The number of blocks.
    pub blocks: f64,
    /// All of them.
    pub bytes: f64,
    /// Those whose scripts are checked.
    pub script_bytes: f64,
    /// What is copied or downloaded to the block files.
    pub copied: f64,
    /// The part of these that peers send.
    pub from_peers: f64,
    /// Undo data that is written.
    pub undo: f64,
    /// Temporary files of a join.
    pub spilled: f64,
    /// The tables of the coins before.
    pub tables: f64,
    /// The tables of the coins that these blocks add.
    pub new_tables: f64,
    /// The tables of as many coins as the cache holds.
    pub cached: f64,
}

impl Task {
    /// Returns the stages of a run that does this by `method`.
    pub fn stages(&self, method: Method, costs: &Costs) -> Vec<Stage> {
        let Self { blocks, bytes, script_bytes, undo, spilled, tables, cached, .. } = *self;
        let seconds = |phase| costs.seconds(phase, blocks, bytes, script_bytes);
        let read = bytes + self.copied;
        let new = self.new_tables;
        let tables_stage =
            |phase, bytes| Stage::new(phase, costs.seconds(phase, 0.0, bytes, 0.0), 2.0 * bytes);
        match method {
            Method::InOrder => {
                let crowding = crowding(tables + new / 2.0, cached);
                let merged = if tables > 0.0 && new > tables / MERGED_ALONE_SHARE {
                    tables + new
                } else if new > cached {
                    new
                } else {
                    0.0
                };
                let written = new.min(cached);
                let connecting = seconds(Phase::Connecting) * crowding;
                vec![
                    Stage::new(Phase::Connecting, connecting, read + undo)
                        .downloading(self.from_peers),
                    tables_stage(Phase::WritingCoins, written),
                    tables_stage(Phase::Merging, merged),
                ]
            }
            Method::Join => {
                let checked = script_bytes + undo + spilled / 2.0;
                let stage = |phase, bytes| Stage::new(phase, seconds(phase), bytes);
                vec![
                    stage(Phase::JoinReading, read + spilled).downloading(self.from_peers),
                    stage(Phase::JoinMatching, spilled),
                    stage(Phase::JoinChecking, checked),
                ]
            }
            Method::SwiftSync => vec![
                Stage::new(Phase::SwiftSync, seconds(Phase::SwiftSync), read + undo)
                    .downloading(self.from_peers),
                tables_stage(Phase::WritingCoins, new),
            ],
        }
    }
}
