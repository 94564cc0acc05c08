//! Blocks for which a rev file has several records that may be their undo data.
//!
//! Rev files also hold the undo data of stale blocks. Such a record may have the same shape as that
//! of the sibling on the chain, the same checksum (over the hash of their parent), and coins that
//! pass every rule. Only the sums tell the two apart: if they do not balance, other records are
//! tried in place of those used, until they do.

use std::collections::{HashMap, HashSet};

use apus_chain::BlockId;
use apus_disk::StoreError;
use apus_hash::Elements;
use apus_node::block::step::Step;
use apus_node::block::validate::check_spends;
use apus_node::fault::Fault;
use apus_node::shared::{NEVER, Shared};
use apus_node::sources::Place;
use apus_store::{FlatFilePos, IndexRecord, UndoRecord};
use apus_swiftsync::Aggregate;
use rayon::prelude::*;

use super::context::Context;
use super::tally::push_coin;
use super::undo::{UndoAt, UndoWritten, external_coins};

/// Maximum number of combinations that are tried. Each has a chance of one in 2^256 to balance the
/// sums with wrong coins.
const COMBINATIONS_MAX: usize = 1 << 16;

/// Other undo data of a block, with which the block passes every rule too.
struct Alternative {
    payload: Vec<u8>,
    /// What it adds to the sums: the coins used before as created, and its own coins as spent.
    difference: Aggregate,
}

/// A block that may have other undo data.
struct Choice {
    /// Index of the block among the undo data that was written.
    written: usize,
    others: Vec<Alternative>,
}

/// The undo data used for a block: where it was found, and where it was written.
struct Used {
    step: Step,
    tx_count: u32,
    pos: FlatFilePos,
    /// Number of the source file whose rev file was searched first.
    file: u32,
    /// The record at which that search began.
    guess: usize,
}

/// Looks for other undo data that balances `aggregate`. If there is any, it is written, and
/// `written` and `aggregate` are updated; otherwise nothing changes.
pub(super) fn balance(
    context: &Context,
    records: &[IndexRecord],
    aggregate: &mut Aggregate,
    written: &mut [UndoWritten],
) -> Result<(), Fault> {
    let shared = context.shared;
    let used = used(context, records, written);
    let choices: Vec<Choice> = shared.pool.install(|| {
        let spare = spare_records(context, &used)?;
        let choice = |(written, used): (usize, &Option<Used>)| {
            let others = match used {
                Some(used) => alternatives(context, used, &spare)?,
                None => Vec::new(),
            };
            Ok((!others.is_empty()).then_some(Choice { written, others }))
        };
        let choices = used.par_iter().enumerate().map(choice);
        choices.filter_map(Result::transpose).collect::<Result<_, Fault>>()
    })?;
    tracing::debug!(target: "validation", blocks = choices.len(), "undo data of several siblings");
    let Some((chosen, balanced)) = combine(aggregate, &choices) else {
        return Ok(());
    };
    for (choice, at) in choices.iter().zip(chosen) {
        let Some(other) = at.checked_sub(1).map(|at| &choice.others[at]) else { continue };
        let UndoWritten { id, at } = &mut written[choice.written];
        let file = records[id.index()].file;
        let height = shared.tree.node(*id).height;
        let prev = &shared.tree.prev_hash(*id);
        let undo = UndoRecord { file, height, prev, payload: &other.payload };
        let pos = shared.files.append_undo(undo)?;
        *at = FlatFilePos { file, pos };
    }
    *aggregate = balanced;
    Ok(())
}

/// Returns where each block's undo data was found; `None` if that is no rev file of a source.
fn used(context: &Context, records: &[IndexRecord], written: &[UndoWritten]) -> Vec<Option<Used>> {
    let sources = context.plan.steps.iter().zip(&context.plan.undo);
    let sources: HashMap<BlockId, UndoAt> = sources.map(|(step, at)| (step.id, *at)).collect();
    let of_block = |UndoWritten { id, at }: &UndoWritten| {
        let UndoAt::Source { file, guess } = *sources.get(id)? else { return None };
        let record = &records[id.index()];
        let step = Step { id: *id, place: Place::Stored(record.block_pos()?), weight: 0 };
        Some(Used { step, tx_count: record.tx_count, pos: *at, file, guess })
    };
    written.iter().map(of_block).collect()
}

/// Records of rev files that were not used for any block, by source file and number of spending
/// transactions. They are few, since nearly every record belongs to a block of this chain.
type Spare = HashMap<(u32, u32), Vec<usize>>;

fn spare_records(context: &Context, used: &[Option<Used>]) -> Result<Spare, StoreError> {
    let shared = context.shared;
    let copies = &context.plan.undo_copies;
    let claim = |used: &Used| -> Result<Option<(u32, usize)>, StoreError> {
        let prev = &shared.tree.prev_hash(used.step.id);
        let payload = shared.files.read_undo(used.pos, prev)?;
        let tx_count = used.tx_count;
        let mut scratch = Vec::new();
        for (file, undo) in copies.of_block(shared, used.step.id, used.file) {
            let is_used = |bytes: &[u8]| bytes == payload;
            let tx_count = tx_count as usize;
            let found = undo.find_fitting(used.guess, prev, tx_count, &mut scratch, is_used)?;
            if let Some(record) = found {
                return Ok(Some((file, record)));
            }
        }
        Ok(None)
    };
    let claimed = used.par_iter().flatten().map(claim);
    let claimed: HashSet<(u32, usize)> =
        claimed.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    let mut spare = Spare::new();
    for (file, undo) in copies.files() {
        for (record, place) in undo.records().iter().enumerate() {
            if place.spending_txs > 0 && !claimed.contains(&(file, record)) {
                spare.entry((file, place.spending_txs)).or_default().push(record);
            }
        }
    }
    Ok(spare)
}

/// Returns the undo data among `spare` with which the block passes every rule too.
fn alternatives(context: &Context, used: &Used, spare: &Spare) -> Result<Vec<Alternative>, Fault> {
    let shared = context.shared;
    let prev = &shared.tree.prev_hash(used.step.id);
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    let mut scratch = Vec::new();
    for (file, undo) in context.plan.undo_copies.of_block(shared, used.step.id, used.file) {
        let key = (file, used.tx_count.saturating_sub(1));
        for record in spare.get(&key).into_iter().flatten() {
            let place = undo.records()[*record];
            let fits = undo.read(place, prev, &mut scratch)?;
            if fits && !payloads.contains(&scratch) {
                payloads.push(scratch.clone());
            }
        }
    }
    if payloads.is_empty() {
        return Ok(Vec::new());
    }
    let used_payload = shared.files.read_undo(used.pos, prev)?;
    payloads.retain(|payload| *payload != used_payload);
    let mut others = Vec::new();
    for payload in payloads {
        if let Some(difference) = difference(context, shared, used.step, &used_payload, &payload)? {
            others.push(Alternative { payload, difference });
        }
    }
    Ok(others)
}

/// Returns what to add to the sums if a block spends the coins of `other` instead of those of
/// `used`; `None` if `other` does not fit the block or breaks a rule.
fn difference(
    context: &Context,
    shared: &Shared,
    step: Step,
    used: &[u8],
    other: &[u8],
) -> Result<Option<Aggregate>, Fault> {
    let prepared = shared.prepare(step, &NEVER)?;
    let (Ok(before), Ok(after)) =
        (external_coins(&prepared, used), external_coins(&prepared, other))
    else {
        return Ok(None);
    };
    let scripts = Some(shared.script_checks(step.id));
    let checked = check_spends(shared, step.id, prepared, after, scripts, &context.times);
    let Ok(block) = checked else { return Ok(None) };
    let mut created = Elements::default();
    let mut spent = Elements::default();
    let outpoints = &block.prepared.external;
    for (outpoint, (before, after)) in outpoints.iter().zip(before.iter().zip(&block.coins)) {
        push_coin(&mut created, outpoint, before);
        push_coin(&mut spent, outpoint, after);
    }
    let mut difference = Aggregate::new(context.plan.aggregate, context.salt);
    difference.create_many(&created);
    difference.spend_many(&spent);
    Ok(Some(difference))
}

/// Returns the first combination that balances the sums, and these sums. It has a number for each
/// choice: 0 for the undo data that was used, or the number of an alternative, counted from 1.
fn combine(aggregate: &Aggregate, choices: &[Choice]) -> Option<(Vec<usize>, Aggregate)> {
    let sizes = choices.iter().map(|choice| choice.others.len() + 1);
    let count = sizes.fold(1, |count: usize, size| count.saturating_mul(size));
    if count > COMBINATIONS_MAX {
        tracing::warn!(
            "{} blocks have undo data of more than one sibling; only {} of all combinations are \
             tried",
            choices.len(),
            COMBINATIONS_MAX
        );
    }
    (1..count.min(COMBINATIONS_MAX)).find_map(|mut number| {
        let mut sums = aggregate.clone();
        let mut chosen = Vec::with_capacity(choices.len());
        for choice in choices {
            let at = number % (choice.others.len() + 1);
            number /= choice.others.len() + 1;
            if let Some(other) = at.checked_sub(1) {
                sums.combine(&choice.others[other].difference);
            }
            chosen.push(at);
        }
        sums.is_balanced().then_some((chosen, sums))
    })
}
