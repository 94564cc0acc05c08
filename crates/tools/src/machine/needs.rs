//! The space and the time that a sync of mainnet takes, estimated by its eras before any header is
//! known.

use apus_node::growth::Growth;
use apus_node::mainnet_bytes::{mainnet_bytes, mainnet_height};
use apus_node::options::{AssumeValid, Options};
use apus_node::space::{spill_bytes, usual_spill_bytes};
use apus_progress::Method;
use apus_progress::estimate::left::Left;
use apus_progress::estimate::plan::{CACHED_TABLES, Costs, RunPlan, Task};

/// Blocks of a year.
const BLOCKS_A_YEAR: u32 = 365 * 144;
/// Blocks of half a year: the scripts of about as many are not assumed valid.
const NOT_ASSUMED_VALID: u32 = BLOCKS_A_YEAR / 2;

/// Bytes on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    pub blocks: u64,
    /// Undo data.
    pub undo: u64,
    /// The UTXO set.
    pub coins: u64,
}

impl Space {
    /// Returns what the blocks of mainnet from height `first` to `last` leave.
    fn of(first: u32, last: u32) -> Self {
        let blocks = mainnet_bytes(first, last);
        let growth = Growth::default();
        Self { blocks, undo: growth.undo(blocks).likely, coins: growth.tables(blocks).likely }
    }

    pub fn all(&self) -> u64 {
        self.blocks + self.undo + self.coins
    }
}

/// The needs of a sync of mainnet, from one height to the present tip.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The height of the present tip, by the clock.
    pub last: u32,
    /// The height of the first block.
    first: u32,
    /// Bytes of the blocks whose scripts are checked.
    script_bytes: u64,
    /// The disk space of the blocks and their data.
    pub space: Space,
    /// The disk space of a year's blocks and their data.
    pub a_year: Space,
}

impl Needs {
    /// Estimates what is needed for the blocks from height `first` on, at this time in seconds
    /// since 1970.
    pub fn new(first: u32, now: i64, options: &Options) -> Self {
        let last = mainnet_height(now).max(first);
        let scripts_from = match options.assumevalid {
            AssumeValid::Nothing => 0,
            _ => last.saturating_sub(NOT_ASSUMED_VALID),
        };
        Self {
            last,
            first,
            script_bytes: mainnet_bytes(first.max(scripts_from), last),
            space: Space::of(first, last),
            a_year: Space::of(last + 1, last + BLOCKS_A_YEAR),
        }
    }

    /// Returns the usual size of a join's temporary files, and the largest.
    pub fn temporary(&self) -> (u64, u64) {
        (usual_spill_bytes(self.space.blocks), spill_bytes(self.space.blocks))
    }

    /// Returns how long a machine takes with these options, without the download; `None` if there
    /// is nothing to do.
    pub fn time(&self, method: Method, options: &Options) -> Option<Left> {
        let Space { blocks, coins, .. } = self.space;
        let task = Task {
            blocks: f64::from(self.last - self.first + 1),
            bytes: blocks as f64,
            script_bytes: if method == Method::SwiftSync { 0.0 } else { self.script_bytes as f64 },
            new_tables: coins as f64,
            cached: options.dbcache_bytes as f64 * CACHED_TABLES,
            ..Task::default()
        };
        let costs = Costs::new(options.scripts.signature_cost(), options.threads);
        let stages = task.stages(method, &costs);
        (blocks > 0).then(|| Left::unmeasured(RunPlan { stages }.work()))
    }
}

#[cfg(test)]
mod tests {
    use apus_wire::{Chain, Network};

    use super::*;

    #[test]
    fn mainnet_needs_what_the_budget_says() {
        let options = Options::new("/x".into(), Network::new(Chain::Main));
        // Block 950,000, about.
        let needs = Needs::new(1, 1_749_190_000 + 50_000 * 600, &options);
        assert_eq!(needs.last, 950_000);
        let gigabytes = |bytes: u64| bytes / 1_000_000_000;
        let Space { blocks, undo, coins } = needs.space;
        assert_eq!((gigabytes(blocks), gigabytes(undo), gigabytes(coins)), (770, 96, 12));
        assert!((95..110).contains(&gigabytes(needs.a_year.all())), "{:?}", needs.a_year);
        let (usual, most) = needs.temporary();
        assert_eq!((gigabytes(usual), gigabytes(most)), (231, 1155));
        for method in Method::ALL {
            let left = needs.time(method, &options).unwrap();
            assert!(left.low <= left.high && left.high.as_secs() > 60, "{method:?}: {left:?}");
        }
        // At the tip there is nothing to store.
        let needs = Needs::new(960_000, 1_749_190_000 + 50_000 * 600, &options);
        assert!(needs.space.blocks < 5_000_000, "{:?}", needs.space);
    }
}
