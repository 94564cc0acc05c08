//! Checks the last blocks, their undo data and the UTXO set against each other (Core's
//! `verifychain`). Nothing is written.
//!
//! Level 0 reads blocks, level 1 checks the rules that need no coins, level 2 checks undo data:
//! each block by itself, on all cores. Level 3 disconnects blocks in memory, from the tip down, and
//! level 4 connects them again.

mod disconnect;
mod examine;
mod report;

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use crate::in_order::activate::connect;
use apus_chain::ActiveChain;
use apus_disk::StoreError;
use apus_node::block::step::Step;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::memory_share::{InOrderShare, header_bytes};
use apus_node::opened::{Node, step};
use apus_node::shared::Shared;
use apus_node::sources::BlockOrigin;
use apus_progress::outcome::Counts;
use apus_progress::{Phase, Progress, Watch};
use disconnect::Disconnector;
use examine::{Examined, examine};
pub use report::{Damage, DamageList, Incomplete, LevelReport, Verified, Verify};

/// Blocks that are examined at once. At level 3, the coins of twice as many are in memory: 1 MB for
/// each busy block.
const CHUNK: u32 = 32;

/// Runs all levels that are asked for. The coins cache then holds what level 3 has disconnected; at
/// level 4 the ledger must be read-only, and counts the blocks that were connected again.
///
/// # Errors
/// The system refuses to read a file, of which nothing is known then.
pub fn all_levels(node: &mut Node, asked: Verify, watch: Watch) -> Result<Verified, StoreError> {
    let tip = node.tree().node(node.tip());
    let mut found = Verified {
        asked: Verify { level: asked.level.min(4), ..asked },
        height: tip.height,
        best_block: tip.hash,
        levels: Vec::new(),
        damage: DamageList::default(),
        damaged_indexes: Vec::new(),
        interrupted: false,
        counts: Default::default(),
        script_difference: None,
        elapsed: Default::default(),
        cpu: Default::default(),
    };
    go_down(node, &mut found, watch)?;
    if found.asked.level == 4 {
        let level = go_up(node, &mut found, watch)?;
        found.levels.push(level);
    }
    Ok(found)
}

/// Runs levels 0 to 3, from the tip down.
fn go_down(node: &mut Node, found: &mut Verified, watch: Watch) -> Result<(), StoreError> {
    let bytes_max = InOrderShare::new(
        node.options().dbcache_bytes,
        header_bytes(node.tree(), node.view().is_some()),
    )
    .cache_bytes;
    let (shared, ledger) = node.split();
    let mut descent = Descent::new(&shared, ledger, found, watch);
    let mut disconnector = Disconnector::new(found.height, bytes_max);
    let mut ready = Vec::new();
    loop {
        let with_coins = found.asked.level >= 3 && disconnector.ended.is_none();
        let is_last = descent.is_at_end();
        let disconnect = || disconnector.disconnect_all(&shared, ready);
        let examine = || if is_last { Vec::new() } else { descent.next(with_coins) };
        let ((), blocks) = shared.pool.install(|| rayon::join(disconnect, examine));
        if is_last {
            break;
        }
        ready = Vec::new();
        for mut block in blocks {
            descent.note(&block);
            found.counts.blocks += 1;
            found.counts.bytes += block.bytes;
            found.counts.transactions += block.transactions;
            match block.damage.take() {
                Some(damage) if damage.error.is_refused() => return Err(damage.error),
                Some(damage) => found.damage.note(damage),
                None => {}
            }
            if with_coins {
                ready.push(block);
            }
        }
    }
    found.damage.append(std::mem::take(&mut disconnector.damage));
    found.interrupted = descent.is_stopped;
    found.levels = descent.levels(found.asked.level, &disconnector);
    Ok(())
}

/// Levels 0 to 2, `CHUNK` blocks at a time, and how far they got.
struct Descent<'a> {
    shared: &'a Shared<'a>,
    ledger: &'a Ledger,
    level: u8,
    heights: RangeInclusive<u32>,
    /// Whether blocks below `heights` were asked for, and are pruned.
    is_pruned: bool,
    /// The lowest height that was examined; above the tip at first.
    from: u32,
    /// The height down to which every block has undo data.
    undo_from: u32,
    /// The number of blocks examined so far, and their bytes, for progress.
    blocks: AtomicU64,
    bytes: AtomicU64,
    is_stopped: bool,
    watch: Watch<'a>,
}

impl<'a> Descent<'a> {
    fn new(shared: &'a Shared<'a>, ledger: &'a Ledger, found: &Verified, watch: Watch<'a>) -> Self {
        let level = found.asked.level;
        let height = found.height;
        let wanted = match found.asked.blocks {
            0 => 1,
            blocks => (height + 1).saturating_sub(blocks).max(1),
        };
        let stored = if ledger.pruning.is_pruned { ledger.blocks_from() } else { 1 };
        Self {
            shared,
            ledger,
            level,
            heights: wanted.max(stored)..=height,
            is_pruned: stored > wanted,
            from: height + 1,
            undo_from: height + 1,
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_stopped: false,
            watch,
        }
    }

    fn is_at_end(&self) -> bool {
        self.is_stopped || self.from <= *self.heights.start()
    }

    /// Examines the next blocks, and returns what was found; nothing if stopped meanwhile.
    fn next(&mut self, with_coins: bool) -> Vec<Examined> {
        let low = self.from.saturating_sub(CHUNK).max(*self.heights.start());
        let examine_at = |height: u32| {
            let id = self.ledger.active.at(height).filter(|_| !self.watch.is_stopped())?;
            let block = examine(self.shared, id, self.ledger.record(id), self.level, with_coins);
            self.report(&block);
            Some(block)
        };
        let blocks = (low..self.from).into_par_iter().rev().map(examine_at);
        let Some(blocks) = blocks.collect() else {
            self.is_stopped = true;
            return Vec::new();
        };
        blocks
    }

    /// Notes that a block has been examined, after all those above it.
    fn note(&mut self, block: &Examined) {
        if self.undo_from == self.from && block.has_undo {
            self.undo_from = block.height;
        }
        self.from = block.height;
    }

    /// Tells the observer that one more block is examined; a single one may take seconds.
    fn report(&self, block: &Examined) {
        let (start, end) = self.heights.clone().into_inner();
        let blocks_all = u64::from(end - start + 1);
        let blocks = 1 + self.blocks.fetch_add(1, Relaxed);
        self.watch.observer.observe(&Progress {
            height: block.height,
            time: self.shared.tree.node(block.id).time,
            blocks,
            blocks_all,
            bytes: block.bytes + self.bytes.fetch_add(block.bytes, Relaxed),
            coins: self.shared.cache.sizes().entries as u64,
            fraction: blocks as f64 / blocks_all as f64,
            ..Progress::of(Phase::Verifying)
        });
    }

    /// Returns how far each level up to `asked` got, except level 4.
    fn levels(&self, asked: u8, disconnector: &Disconnector) -> Vec<LevelReport> {
        let blocks_ended = if self.is_stopped {
            Some(Incomplete::Stopped)
        } else {
            self.is_pruned.then_some(Incomplete::Pruned)
        };
        let undo_ended = (self.undo_from > self.from).then_some(Incomplete::NoUndo);
        let of_level = |level: u8| {
            let (from, ended) = match level {
                0 | 1 => (self.from, None),
                2 => (self.undo_from, undo_ended),
                _ => (disconnector.from, disconnector.ended),
            };
            LevelReport { level, from, ended: ended.or(blocks_ended) }
        };
        (0..=asked.min(3)).map(of_level).collect()
    }
}

/// Runs level 4: connects again, in memory, the blocks that level 3 has disconnected.
fn go_up(node: &mut Node, found: &mut Verified, watch: Watch) -> Result<LevelReport, StoreError> {
    let LevelReport { from, ended, .. } = found.levels[3];
    let mut level = LevelReport { level: 4, from: found.height + 1, ended };
    if !found.is_sound() || found.interrupted {
        let why = if found.interrupted { Incomplete::Stopped } else { Incomplete::Damaged };
        level.ended = Some(why);
        return Ok(level);
    }
    let ids = (from..=found.height).filter_map(|height| node.ledger().active.at(height));
    let steps: Vec<Step> = ids.filter_map(|id| step(node, id)).collect();
    if let Some(below) = node.ledger().active.at(from - 1) {
        node.ledger_mut().active = ActiveChain::to(node.tree(), below);
    }
    let connected = connect(node, &steps, watch);
    let Counts { inputs, scripts, .. } = node.ledger().done.counts;
    found.counts = Counts { inputs, scripts, ..found.counts };
    let reached = node.ledger().active.height().unwrap_or(0);
    let error = match connected {
        Ok(()) => {
            level.from = from;
            return Ok(level);
        }
        Err(Fault::Stopped) => {
            found.interrupted = true;
            level.ended = Some(Incomplete::Stopped);
            return Ok(level);
        }
        Err(Fault::Rule(_, error)) => {
            let what = format!("the block cannot be connected again: {error}");
            StoreError::new(node.chainstate().dir(), what)
        }
        Err(Fault::Damaged(Step { place: BlockOrigin::Stored(pos), .. }, what)) => {
            node.files().block_error(pos, what)
        }
        Err(Fault::Store(error)) if error.is_refused() => return Err(error),
        Err(Fault::Full(error) | Fault::Store(error)) => error,
        Err(_) => unreachable!("every block is stored"),
    };
    let height = reached + 1;
    let block = steps[(height - from) as usize].id;
    found.damage.note(Damage { level: 4, height, block: node.tree().node(block).hash, error });
    level.ended = Some(Incomplete::Damaged);
    Ok(level)
}
