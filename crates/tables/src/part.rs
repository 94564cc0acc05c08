//! A part of a chain as a table: a range of heights, for which everything needed is stored.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;

use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_wire::Network;

use super::blocks::{BlockSource, lacks_undo};
use super::coins::CoinSource;
use super::columns::ExportTable;
use super::source::Source;
use apus_claims::stored::StoredChain;

/// A part of a chain as a table.
pub(super) struct Part<'a> {
    pub chain: &'a StoredChain,
    pub network: &'a Network,
    pub table: ExportTable,
    pub heights: RangeInclusive<u32>,
    /// The height of the block that the part is said to be read as of: the tip, unless the part
    /// must not depend on it.
    as_of: u32,
}

impl<'a> Part<'a> {
    /// Returns the part between two heights, both included; without them it begins at genesis and
    /// ends at the tip.
    ///
    /// # Errors
    /// The heights are not in the chain, or a block or undo data that the table needs is not
    /// stored.
    pub fn new(
        chain: &'a StoredChain,
        network: &'a Network,
        table: ExportTable,
        (start, stop): (Option<u32>, Option<u32>),
    ) -> Result<Self, SyncError> {
        let heights = range(start, stop, chain.height())?;
        check_stored(chain, table, &heights)?;
        Ok(Self { chain, network, table, heights, as_of: chain.height() })
    }

    /// Returns the part as it is when the block at `height` is the tip.
    pub fn with_tip(self, height: u32) -> Self {
        Self { as_of: height, ..self }
    }

    /// Returns the best block of the chain that the part is read as of.
    pub fn tip(&self) -> Hash {
        self.chain.blocks[self.as_of as usize].hash
    }

    /// Returns what a file or a schema says about the part.
    pub fn facts(&self) -> [(&'static str, String); 4] {
        facts(self.network, &self.tip(), &self.heights)
    }

    /// Returns the number of blocks whose fees are unknown; 0 if the table has no fees.
    pub fn without_fees(&self) -> u64 {
        let (start, stop) = self.heights.clone().into_inner();
        let blocks = self.chain.blocks[start as usize..=stop as usize].iter();
        match self.table {
            ExportTable::Blocks | ExportTable::Transactions => {
                blocks.filter(|block| lacks_undo(block)).count() as u64
            }
            ExportTable::Coins | ExportTable::Inputs | ExportTable::Outputs => 0,
        }
    }

    /// Returns the source of the part's rows, which ends soon after `stop` becomes true.
    pub fn source(&self, stop: &'a AtomicBool) -> Result<Box<dyn Source + 'a>, SyncError> {
        let heights = self.heights.clone();
        Ok(match self.table {
            ExportTable::Coins => Box::new(CoinSource::new(&self.chain.chainstate, heights, stop)?),
            table => Box::new(BlockSource::new(self.chain, self.network, table, heights, stop)),
        })
    }
}

/// Returns what a file or a schema says about a range of heights, read as of the best block `tip`.
pub(super) fn facts(
    network: &Network,
    tip: &Hash,
    heights: &RangeInclusive<u32>,
) -> [(&'static str, String); 4] {
    [
        ("chain", network.chain.name().to_string()),
        ("best_block", tip.to_string()),
        ("start_height", heights.start().to_string()),
        ("stop_height", heights.end().to_string()),
    ]
}

/// Returns the heights that are asked for.
///
/// # Errors
/// They are not in the chain whose tip has height `tip`, or in the wrong order.
pub(super) fn range(
    start: Option<u32>,
    stop: Option<u32>,
    tip: u32,
) -> Result<RangeInclusive<u32>, SyncError> {
    let start = start.unwrap_or(0);
    let stop = stop.unwrap_or(tip);
    if start.max(stop) > tip {
        return Err(SyncError::Input(format!(
            "the chainstate is at height {tip}, which is below height {}",
            start.max(stop)
        )));
    }
    if start > stop {
        let what = format!("the first height, {start}, is above the last height, {stop}");
        return Err(SyncError::WrongOptions(what));
    }
    Ok(start..=stop)
}

/// Checks that the blocks and undo data that the table needs are stored.
fn check_stored(
    chain: &StoredChain,
    table: ExportTable,
    heights: &RangeInclusive<u32>,
) -> Result<(), SyncError> {
    let (start, stop) = heights.clone().into_inner();
    let blocks = &chain.blocks[start as usize..=stop as usize];
    // Missing data lies below stored data, so the advice is to begin above the highest block that
    // lacks it.
    let last = |is_missing: &dyn Fn(usize) -> bool| {
        (0..blocks.len()).rev().find(|at| is_missing(*at)).map(|at| start + at as u32)
    };
    let advice = |height: u32, else_what: &str| {
        if height == chain.height() {
            else_what.to_string()
        } else {
            format!("begin above it, with --start-height {}, or {else_what}", height + 1)
        }
    };
    let needs_blocks = table != ExportTable::Coins;
    if needs_blocks && let Some(height) = last(&|at| blocks[at].pos.is_none()) {
        return Err(SyncError::Input(format!(
            "block {height} is not stored here, since its file was pruned: {}",
            advice(height, "use a directory that holds it (coins need no blocks)")
        )));
    }
    let needs_undo = table == ExportTable::Inputs;
    if needs_undo && let Some(height) = last(&|at| lacks_undo(&blocks[at])) {
        return Err(SyncError::Input(format!(
            "block {height} has no undo data here, so the coins that it spent are unknown: {}",
            advice(height, "let `apus reindex` write it")
        )));
    }
    Ok(())
}
