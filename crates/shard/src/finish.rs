//! The last stage: a data directory, a snapshot, or the verdict alone, from the results of all
//! tasks. Nothing is visible before the balance holds.

use std::path::Path;

use apus_coins::{Coin, SnapshotCoins, SnapshotHead, decode_coin_key};
use apus_disk::{Disk, StoreError};
use apus_host::temporary::TemporaryDir;
use apus_join::Span;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_progress::Watch;
use apus_sync::join::{JoinPlan, JoinState, ReadCounts, balance};
use apus_wire::Cursor;

use super::building::Building;
use super::errors::{missing, unfit, with_again};
use super::finished::Finished;
use super::job::Job;
use super::matching::for_each_coin;
use super::results::Results;
use super::stage::Stage;

/// The destination of a job.
pub enum Destination<'a> {
    /// A data directory, which holds no coins yet. Blocks that it does not hold are copied there.
    DataDir(&'a Options),
    /// A UTXO snapshot, as Core's `dumptxoutset` writes it.
    Snapshot(&'a Path),
    /// Nothing.
    Verdict,
}

/// Puts the results of a job together.
///
/// # Errors
/// Results are missing, damaged, or do not fit each other; or the destination cannot be written, or
/// holds coins already.
pub fn finish(
    job: &Job,
    results: Results,
    destination: &Destination,
    watch: Watch,
) -> Result<Finished, SyncError> {
    if results.stage != Stage::Finish {
        return Err(missing(job, &results));
    }
    finish_all(job, results, destination, watch).map_err(|error| with_again(job, error))
}

fn finish_all(
    job: &Job,
    results: Results,
    destination: &Destination,
    watch: Watch,
) -> Result<Finished, SyncError> {
    let plan = super::task::plan(job, results.end);
    let state = state(job, &results)?;
    balance(&state, &plan, &job.manifest.network).map_err(unfit)?;
    if let Destination::Snapshot(path) = destination {
        write_snapshot(job, &results, &plan, path)?;
    }
    let network = job.manifest.network.clone();
    if let Destination::DataDir(options) = destination {
        let options = Options { network, ..(*options).clone() };
        return Building::begin(job, &options, watch)?.run(&results, state);
    }
    if results.end < job.whole_end() {
        // Only a UTXO set can tell why the next block is not valid.
        let scratch = TemporaryDir::new()?;
        let options = Options::new(scratch.path().to_path_buf(), network);
        return Building::begin_without_blocks(job, &options, watch)?.run(&results, state);
    }
    let best = job.tree.node(plan.chain.tip().unwrap_or(job.tree.genesis()));
    let height = best.height;
    let best_block = best.hash;
    let counts = state.read().counts;
    let paired = &state.paired.counts;
    let coins = paired.left;
    let amount = Some(paired.left_amount);
    Ok(Finished { height, best_block, coins, amount, counts, refusal: None })
}

/// Returns the state of a join whose passes have done what the tasks have.
///
/// # Errors
/// A span does not have all its blocks.
fn state(job: &Job, results: &Results) -> Result<JoinState, SyncError> {
    let blocks = results.end as usize - 1;
    let mut state = JoinState::new(&[Span { first: 0, end: blocks }], 1);
    let mut read = ReadCounts::default();
    for (span, (_, note)) in results.read.iter().flatten().enumerate() {
        let due = job.span(span, results.end).len();
        if note.blocks.len() != due || note.read.counts.blocks != due as u64 {
            return Err(unfit(format!("span {span} has {} of {due} blocks", note.blocks.len())));
        }
        read.add(&note.read);
    }
    state.spans[0].next = blocks;
    state.spans[0].read = read;
    for (_, note) in &results.matched {
        state.paired.counts.add(&note.counts);
    }
    Ok(state)
}

/// Writes a snapshot file of the coins of all partitions.
fn write_snapshot(
    job: &Job,
    results: &Results,
    plan: &JoinPlan,
    path: &Path,
) -> Result<(), SyncError> {
    let base = job.tree.node(plan.chain.tip().unwrap_or(job.tree.genesis())).hash;
    let coins = results.matched.iter().map(|(_, note)| note.counts.left).sum();
    let head = SnapshotHead { network: job.manifest.network.magic, base, coins };
    Disk::new().write_new(path, |file| {
        file.write_all_at(&head.to_bytes(), 0)?;
        let mut at = SnapshotHead::BYTES as u64;
        for (number, (pack, note)) in results.matched.iter().enumerate() {
            let mut written = SnapshotCoins::default();
            let wrong = |what: String| StoreError::new(job.objects.path(pack.name()), what);
            for_each_coin(job, (number, pack), |key, coin| {
                let coin = Coin::decode(&mut Cursor::new(coin));
                let (outpoint, coin) = decode_coin_key(key)
                    .and_then(|outpoint| Ok((outpoint, coin?)))
                    .map_err(|error| wrong(error.to_string()))?;
                written.push(&outpoint, &coin);
                Ok(())
            })?;
            let (bytes, coins) = written.finish();
            if coins != note.counts.left {
                let due = note.counts.left;
                return Err(wrong(format!("it has {coins} coins, and says that it has {due}")));
            }
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(())
    })?;
    Ok(())
}
