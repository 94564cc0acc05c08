//! The first stage: reads a span of heights, as a worker of a join does.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk::{Parts, StoreError};
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_sync::join::{ReadCounts, Reader, SpanState};

use super::errors::error;
use super::job::Job;
use super::results::{BlockNote, ReadNote, store};
use super::stage::Stage;
use super::task::Task;
use crate::objects::PackWriter;

/// Reads the blocks of a span before `end`. The result has for each partition its outputs and its
/// spends, and for each bucket what is known of its blocks. If a block cannot be right, the span
/// ends below it.
pub fn read_span(job: &Job, number: usize, end: u32, stop: &AtomicBool) -> Result<(), SyncError> {
    let heights = job.span(number, end);
    let name = Stage::Read.pack(number, heights.end);
    let task = Task::new(job, heights.end, job.manifest.engine)?;
    let mut until = heights.end;
    let mut fault = None;
    loop {
        let heights = heights.start..until;
        let parts = task.parts();
        let first = heights.start as usize - 1;
        let last = until as usize - 1;
        let read = ReadCounts::default();
        let mut span = SpanState { source: number as u32 + 1, first, next: first, end: last, read };
        let mut tx_counts = Vec::new();
        let mut digests = Vec::new();
        let refused = task.with_context(heights, &parts, |context, blocks| {
            let mut reader = Reader::new(context);
            reader.read(&mut span, stop, |block| tx_counts.push(block.tx_count))?;
            digests = blocks.take_digests();
            Ok(context.fault())
        });
        if stop.load(Relaxed) {
            return Err(SyncError::Stopped);
        }
        // What is wrong with its bytes may be wrong with this copy alone, so that the block is not
        // refused, but without another copy it ends the job as well.
        let refused = match refused {
            Err(Fault::Damaged(step, what)) => {
                let height = job.tree.node(step.id).height;
                tracing::warn!(target: "validation", height, what, "a block is damaged");
                Some(height)
            }
            refused => refused.map_err(|fault| error(job, fault))?,
        };
        if let Some(height) = refused {
            // Spends of a block that does not count have taken outputs from the window.
            (until, fault) = (height, Some(height));
            continue;
        }
        let blocks = tx_counts.into_iter().zip(digests);
        let blocks = blocks.map(|(tx_count, digest)| BlockNote { tx_count, digest }).collect();
        let note = ReadNote { fault, read: span.read, blocks };
        return Ok(write(job, &name, &note, &parts)?);
    }
}

fn write(job: &Job, name: &str, note: &ReadNote, parts: &Parts) -> Result<(), StoreError> {
    let layout = &job.manifest.layout;
    let mut writer = PackWriter::begin(&job.objects, name, job.id)?;
    for partition in 0..layout.partitions() {
        store(&mut writer, 2 * partition, parts, layout.outputs(partition))?;
        store(&mut writer, 2 * partition + 1, parts, layout.spends(partition))?;
    }
    for part in layout.first_bucket()..layout.parts() {
        store(&mut writer, part, parts, part)?;
    }
    writer.finish(&note.to_bytes())
}
