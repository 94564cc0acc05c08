//! The history of descriptors: the outputs that pay to their scripts, and the inputs that spend
//! these, without a wallet.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use apus_descriptors::{Descriptor, DescriptorError, Range, ScriptPlace, Scripts};
use apus_disk::Share;
use apus_export::{Format, Forms};
use apus_host::threads;
use apus_indexes::WantedScripts;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::remedy;
use apus_node::workers::for_each_on_pool;
use apus_progress::{Phase, Progress, Watch};
use rayon::ThreadPool;

use super::blocks::{items_of, lacks_undo};
use super::columns::HISTORY;
use super::history_blocks::{HistoryBlocks, HistorySearch};
use super::history_rows::{HistoryRows, PaidOutputs, Used, add_paid};
use super::output::Destination;
use super::part::{facts, range};
use super::run::{Exported, Run};
use crate::reader::open_chain;
use apus_claims::stored::StoredChain;

/// Number of unused scripts in a row after which wallets look for no further ones (the gap limit
/// of BIP44).
const GAP: u32 = 20;
/// Number of scripts that a thread derives at a time.
const DERIVED_AT_ONCE: u32 = 256;

/// The history to export, and its form.
#[derive(Debug)]
pub struct HistoryAsked<'a> {
    /// The descriptors, as text.
    pub descriptors: &'a [String],
    /// The indexes of the descriptors with a wildcard.
    pub range: Range,
    /// The format of the file.
    pub format: Format,
    /// The forms of hashes and scripts.
    pub forms: Forms,
    /// The height of the first block; `None` for genesis.
    pub start_height: Option<u32>,
    /// The height of the last block; `None` for the tip.
    pub stop_height: Option<u32>,
}

/// The result of an export of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryExported {
    /// The counts of every export.
    pub exported: Exported,
    /// Number of scripts that were looked for.
    pub scripts: u64,
    /// Number of blocks whose filters were asked.
    pub filters: u32,
    /// Number of blocks that were read.
    pub blocks_read: u32,
    /// Heights of blocks that match by their filters and were not read, since they are pruned: the
    /// history lacks them. A few may match by mistake.
    pub blocks_pruned: Vec<u32>,
    /// Descriptors with a script in the history that is so near to the end of the range that
    /// scripts after it may be used, too.
    pub near_end: Vec<ScriptAtEnd>,
}

/// A descriptor of which scripts after the end of the range may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptAtEnd {
    /// The number of the descriptor, from 0.
    pub descriptor: u32,
    /// The highest index in the history.
    pub index: u32,
}

/// Exports the history of descriptors from a data directory, which is locked and read, not changed.
///
/// If `blockfilterindex` has filters of the blocks, only those are read that match. Of the others,
/// all blocks are read. Spent coins are those of undo data; where a block has none, the outputs
/// that pay to the scripts are collected first, from all blocks below.
///
/// Memory is that of [`export`](super::export), and some 200 bytes for each script.
///
/// # Errors
/// A descriptor is refused; as for [`export`](super::export); or a block is pruned and whether it
/// matches is unknown.
pub fn export_history(
    options: &Options,
    asked: &HistoryAsked,
    to: Destination,
    watch: Watch,
) -> Result<HistoryExported, SyncError> {
    let started = Instant::now();
    let pool = threads::pool(options.threads)?;
    let descriptors = parse(options, asked.descriptors)?;
    remedy::naming(options, || {
        let chain = open_chain(options, &pool, watch.observer)?;
        let heights = range(asked.start_height, asked.stop_height, chain.height())?;
        let mut history = HistoryExported {
            exported: Exported {
                heights: heights.clone().into_inner(),
                best_block: chain.blocks[chain.height() as usize].hash,
                rows: 0,
                bytes: 0,
                blocks_without_fees: 0,
                elapsed: started.elapsed(),
                interrupted: false,
            },
            scripts: 0,
            filters: 0,
            blocks_read: 0,
            blocks_pruned: Vec::new(),
            near_end: Vec::new(),
        };
        let work = Work { options, asked, chain: &chain, pool: &pool, watch };
        let done = work.run(&descriptors, heights, to, &mut history);
        let done = SyncError::unless_stopped(done)?;
        history.exported.interrupted = done.is_none();
        history.exported.elapsed = started.elapsed();
        Ok(history)
    })
}

fn parse(options: &Options, descriptors: &[String]) -> Result<Vec<Descriptor>, SyncError> {
    let parse = |text: &String| Descriptor::parse(text, options.network.chain).map_err(refused);
    descriptors.iter().map(parse).collect()
}

fn refused(error: DescriptorError) -> SyncError {
    SyncError::WrongOptions(format!("--match: {error}"))
}

/// The work on a history.
struct Work<'a> {
    options: &'a Options,
    asked: &'a HistoryAsked<'a>,
    chain: &'a StoredChain,
    pool: &'a ThreadPool,
    watch: Watch<'a>,
}

impl Work<'_> {
    fn run(
        &self,
        descriptors: &[Descriptor],
        heights: RangeInclusive<u32>,
        to: Destination,
        history: &mut HistoryExported,
    ) -> Result<(), SyncError> {
        let Self { options, asked, chain, pool, watch } = *self;
        let scripts = self.derive(descriptors)?;
        let wanted = WantedScripts::new(scripts.iter());
        let indexes = HistorySearch::indexes(&options.network_dir());
        let search = HistorySearch { chain, indexes: &indexes, scripts: &wanted, pool, watch };
        let blocks = search.find(heights.clone())?;
        let paid = self.paid(&search, &scripts, &blocks, *heights.end())?;
        let used = Used(descriptors.iter().map(|_| AtomicU32::new(0)).collect());
        let rows = HistoryRows {
            chain,
            network: options.network.chain,
            scripts: &scripts,
            items: items_of(chain, blocks.read.iter().copied()),
            paid: &paid,
            used: &used,
            stop: watch.stop,
        };
        let mut known = facts(&options.network, &history.exported.best_block, &heights).to_vec();
        if !blocks.pruned.is_empty() {
            let pruned: Vec<String> = blocks.pruned.iter().map(u32::to_string).collect();
            known.push(("blocks_pruned", pruned.join(",")));
        }
        let format = asked.format;
        let forms = asked.forms;
        let run = Run { table: &HISTORY, format, forms, facts: &known, source: &rows, pool, watch };
        (history.exported.rows, history.exported.bytes) = run.write_to(to)?;
        history.scripts = scripts.iter().count() as u64;
        history.filters = blocks.filters;
        history.blocks_read = blocks.read.len() as u32;
        history.blocks_pruned = blocks.pruned;
        history.near_end = near_end(&used, asked.range);
        Ok(())
    }

    /// Derives the scripts of all descriptors.
    fn derive(&self, descriptors: &[Descriptor]) -> Result<Scripts, SyncError> {
        let Range { begin, end } = self.asked.range;
        // Each piece has a copy of its descriptor, which threads cannot share.
        let pieces = descriptors.iter().enumerate().flat_map(|(number, descriptor)| {
            let indexes = if descriptor.is_range() { begin..end + 1 } else { 0..1 };
            let starts = indexes.clone().step_by(DERIVED_AT_ONCE as usize);
            starts.map(move |start| {
                let indexes = start..indexes.end.min(start + DERIVED_AT_ONCE);
                (number as u32, descriptor.clone(), indexes)
            })
        });
        let pieces: Vec<(u32, Descriptor, std::ops::Range<u32>)> = pieces.collect();
        let derive = |found: &mut Vec<(Vec<u8>, ScriptPlace)>, piece| {
            let (number, descriptor, indexes): (u32, Descriptor, std::ops::Range<u32>) = piece;
            for index in indexes {
                let scripts = descriptor.scripts_at(index).map_err(refused)?;
                let index = descriptor.is_range().then_some(index);
                let place = ScriptPlace { descriptor: number, index };
                found.extend(scripts.into_iter().map(|script| (script, place)));
            }
            Ok(())
        };
        let pieces = pieces.into_iter();
        let found = for_each_on_pool(self.pool, pieces, self.watch.stop, Vec::new, derive)?;
        let mut scripts = Scripts::default();
        for (script, place) in found.into_iter().flatten() {
            scripts.insert(script, place);
        }
        Ok(scripts)
    }

    /// Collects the outputs that blocks without undo data may spend; none if all have it.
    fn paid(
        &self,
        search: &HistorySearch,
        scripts: &Scripts,
        blocks: &HistoryBlocks,
        stop: u32,
    ) -> Result<PaidOutputs, SyncError> {
        let chain = self.chain;
        let lacking = |height: &&u32| lacks_undo(&chain.blocks[**height as usize]);
        let Some(first) = blocks.read.iter().find(lacking) else {
            return Ok(PaidOutputs::default());
        };
        let below = search.find(0..=stop)?;
        if let Some(pruned) = below.pruned.first() {
            return Err(SyncError::Input(format!(
                "block {first} has no undo data here, and block {pruned}, which has outputs that \
                 it may spend, is pruned: `apus reindex` writes undo data if all blocks are stored"
            )));
        }
        let report = Progress::of(Phase::ReadingBlocks).share_to(self.watch.observer);
        let share = Share::new(below.read.len() as u64, &report);
        let read = |(paid, bytes): &mut (PaidOutputs, Vec<u8>), height: u32| {
            add_paid(chain, scripts, height, bytes, paid)?;
            share.add(1);
            Ok(())
        };
        let heights = below.read.into_iter();
        let paid = for_each_on_pool(self.pool, heights, self.watch.stop, Default::default, read)?;
        Ok(paid.into_iter().flat_map(|(paid, _)| paid).collect())
    }
}

/// Returns the descriptors of which scripts after the end of the range may be used.
fn near_end(used: &Used, range: Range) -> Vec<ScriptAtEnd> {
    let last = used.0.iter().map(|used| used.load(Relaxed).checked_sub(1));
    let near = last.enumerate().filter_map(|(descriptor, index)| {
        let index = index.filter(|index| index + GAP > range.end)?;
        Some(ScriptAtEnd { descriptor: descriptor as u32, index })
    });
    near.collect()
}
