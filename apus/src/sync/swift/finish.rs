//! The end of a SwiftSync: the proof, and then the commit of block and undo files, index, tables
//! and best block, in an order that a crash may interrupt anywhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::fault::Fault;
use super::plan::{Mode, Plan};
use super::tally::Gathered;
use super::undo::UndoWritten;
use super::unspent::Unspent;
use crate::coins::{Bulk, SnapshotError, Survivors, WriteError};
use crate::disk::{OnShare, Share};
use crate::hash::Hash;
use crate::rules::subsidy;
use crate::store::BlockStatus;
use crate::swiftsync::{Aggregate, HintsError};
use crate::sync::block::shared::Shared;
use crate::sync::clock::Stage;
use crate::sync::commit::Ledger;
use crate::sync::threads;

/// Threads that write tables, for each core: one waits for the disk while another sorts.
pub(super) const WRITERS_PER_CORE: usize = 2;
/// Parts of the coins that each thread writes: enough that all threads end at about the same time,
/// and few enough that tables reach their full length.
const PARTS_PER_WRITER: usize = 4;

/// The proof: every output that was created and is not hinted as unspent was spent exactly once,
/// and what is unspent is no more than the subsidies.
pub(super) fn prove<A: Aggregate>(
    gathered: &Gathered<A>,
    claimed: &Unspent,
    plan: &Plan,
    shared: &Shared,
) -> Result<(), Fault> {
    let height = plan.chain.height().unwrap_or(0);
    if !gathered.aggregate.is_balanced() {
        return Err(unbalanced(claimed, plan.mode, height));
    }
    if !gathered.coins.is_balanced() {
        return Err(Fault::Snapshot(SnapshotError::new(format!(
            "its coins are not those that the blocks up to height {height} leave: amounts, \
             scripts, or which are of coinbases differ"
        ))));
    }
    let subsidies = (1..=height).map(|height| subsidy(height, shared.network).unsigned_abs());
    let supply: u64 = subsidies.sum();
    if gathered.tally.amount > supply {
        return Err(Fault::Chain(format!(
            "{} satoshi are unspent at height {height}, and only {supply} were issued: the blocks \
             are not valid, though they were to be taken as such",
            gathered.tally.amount
        )));
    }
    match repeated(&gathered.tally.coinbases) {
        None => Ok(()),
        Some((txid, first, second)) => Err(Fault::Chain(format!(
            "the blocks at heights {first} and {second} have the same coinbase transaction {txid}: \
             whether BIP30 allows it, only a sync in order can tell"
        ))),
    }
}

/// The fault of outputs that are said to be spent and are not, or the other way round.
fn unbalanced(claimed: &Unspent, mode: Mode, height: u32) -> Fault {
    let or_undo = match mode {
        Mode::AssumeValid => "",
        Mode::Full => ", or undo data is wrong",
    };
    match claimed {
        Unspent::Hints(_) => Fault::Hints(HintsError::new(format!(
            "up to height {height}, the outputs that they say are spent are not those that the \
             blocks spend: the hints are not those of this chain{or_undo}"
        ))),
        Unspent::Snapshot(_) => Fault::Snapshot(SnapshotError::new(format!(
            "its coins are not those that the blocks up to height {height} leave unspent: some \
             are missing, or spent{or_undo}"
        ))),
    }
}

/// A coinbase transaction that two blocks have, with their heights.
fn repeated(coinbases: &[(Hash, u32)]) -> Option<(Hash, u32, u32)> {
    let mut sorted = coinbases.to_vec();
    sorted.sort_unstable();
    let pair = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0)?;
    Some((pair[0].0, pair[0].1, pair[1].1))
}

/// Makes the target the best block on disk: writes the index, the unspent coins as tables, and then
/// the best block.
pub(super) fn commit(
    shared: &Shared,
    ledger: &mut Ledger,
    plan: &Plan,
    survivors: &Survivors,
    undo: &[UndoWritten],
    writers: usize,
    report: OnShare,
) -> Result<(), Fault> {
    let _timer = shared.clock.start(Stage::Commit);
    for step in &plan.steps {
        if !ledger.record(step.id).status.is_valid(BlockStatus::BLOCK_VALID_SCRIPTS) {
            ledger.change(step.id).status.raise_validity(BlockStatus::BLOCK_VALID_SCRIPTS);
        }
    }
    for UndoWritten { id, pos } in undo {
        let entry = ledger.change(*id);
        entry.undo_pos = *pos;
        entry.status.0 |= BlockStatus::BLOCK_HAVE_UNDO;
    }
    ledger.write_index(shared.files, shared.tree).map_err(Fault::Store)?;
    let bulk = shared.chainstate.bulk().map_err(Fault::Store)?;
    write_tables(survivors, &bulk, writers, report)?;
    let best = shared.tree.node(plan.target).hash;
    bulk.commit(&best).map_err(Fault::Store)
}

/// Sorts the unspent coins and writes them as the bottom level of the tables, on all threads.
fn write_tables(
    survivors: &Survivors,
    bulk: &Bulk,
    writers: usize,
    report: OnShare,
) -> Result<(), Fault> {
    let ranges = survivors.ranges(writers * PARTS_PER_WRITER);
    let next = AtomicUsize::new(0);
    let share = Share::new(ranges.len() as u64, report);
    let write = || -> Result<(), Fault> {
        while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut writer = bulk.writer();
            survivors.write_range(range.clone(), &mut writer).map_err(|error| match error {
                WriteError::Store(error) => Fault::Store(error),
                WriteError::Twice(outpoint) => Fault::Chain(format!(
                    "the output {outpoint} was created twice: only a sync in order can tell \
                     whether BIP30 allows it"
                )),
            })?;
            writer.finish().map_err(Fault::Store)?;
            share.add(1);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let start = |number| threads::spawn(scope, format!("apus-table-{number}"), write);
        let writers: Vec<_> = (0..writers).map(start).collect();
        let panicked = |panic| std::panic::resume_unwind(panic);
        writers.into_iter().try_for_each(|writer| writer.join().unwrap_or_else(panicked))
    })
}
