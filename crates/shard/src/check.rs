//! The third stage: checks a bucket of blocks with the coins that they spend.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::{Parts, StoreError};
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::options::ScriptEngine;
use apus_sync::join::BlockQueue;

use super::ahead::Ahead;
use super::errors::error;
use super::job::Job;
use super::results::{Results, check_note};
use super::stage::Stage;
use super::task::Task;
use crate::objects::PackWriter;

/// Results whose parts are read before they are used.
const PACKS_AHEAD: usize = 8;

/// Checks the blocks of a bucket. The result has the undo data of each, as the part with the number
/// of its height.
pub fn check_bucket(
    job: &Job,
    number: usize,
    results: &Arc<Results>,
    stop: &AtomicBool,
) -> Result<(), SyncError> {
    let heights = job.bucket(number, results.end);
    let first = heights.start;
    let end = heights.end;
    let name = Stage::Check.pack(number, heights.end);
    let engine = if results.has_difference { ScriptEngine::Core } else { job.manifest.engine };
    let task = Task::new(job, heights.end, engine)?;
    let parts = task.parts();
    load_bucket(job, number, results, &parts)?;
    let mut writer = PackWriter::begin(&job.objects, &name, job.id)?;
    let none = HashSet::new();
    let fault = task
        .with_context(task.first_with_scripts().clamp(first, end)..end, &parts, |context, _| {
            let queue = BlockQueue::new(context, &none, first as usize - 1);
            while let Some((index, bucket)) = queue.take(stop)? {
                match context.check(index, &bucket) {
                    Ok(undo) => writer.append(context.plan.height(index), &undo)?,
                    Err(Fault::Unjudged(height)) => context.refuse(height),
                    Err(fault) => return Err(fault),
                }
            }
            Ok(context.fault())
        })
        .map_err(|fault| error(job, fault))?;
    task.keep_difference()?;
    if stop.load(Relaxed) {
        Err(SyncError::Stopped)
    } else {
        Ok(writer.finish(&check_note(fault))?)
    }
}

/// Loads what the stages before know of the blocks of a bucket and of the coins that they spend.
fn load_bucket(
    job: &Job,
    number: usize,
    results: &Arc<Results>,
    parts: &Parts,
) -> Result<(), StoreError> {
    let layout = &job.manifest.layout;
    let part = layout.first_bucket() + number;
    let results = Arc::clone(results);
    let objects = Arc::clone(&job.objects);
    let spans = results.read.len();
    let count = spans + results.matched.len();
    let read = move |at: usize| -> Result<Vec<Vec<u8>>, StoreError> {
        let (pack, part) = match at.checked_sub(spans) {
            None => (&results.read[at].as_ref().expect("all spans are read").0, part as u32),
            Some(partition) => (&results.matched[partition].0, 1 + number as u32),
        };
        let mut pieces = Vec::new();
        pack.read(&objects, part..part + 1, |_, bytes| {
            pieces.push(bytes.to_vec());
            Ok::<(), StoreError>(())
        })?;
        Ok(pieces)
    };
    let packs = Ahead::new(count, PACKS_AHEAD, read);
    while let Some(pieces) = packs.next() {
        pieces?.iter().try_for_each(|bytes| parts.append(part, bytes))?;
    }
    Ok(())
}
