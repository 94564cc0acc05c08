use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::chain::StoredChain;
use super::number::outputs;
use super::summary::{Halt, HintsSummary};
use super::workers::check;
use super::write::{HintedBlock, Totals, Unspent, Work, assemble, groups, put_block, write_hints};
use crate::disk::SpillFile;
use crate::hash::Hash;
use crate::swiftsync::hints::{Numbering, encoder};
use crate::swiftsync::{Format, Hints, HintsError};
use crate::sync::error::SyncError;
use crate::sync::hints_file::HintsFile;
use crate::sync::options::Options;
use crate::sync::progress::{Observer, Phase, Progress};
use crate::sync::remedy;

/// Bytes that are held before they are written.
const HELD_BYTES: usize = 1 << 20;

/// Whether hints can be written in another format only with the blocks that they are for: it
/// counts the outputs in another way, or holds how many there are, which `hints` do not tell.
pub fn conversion_needs_blocks(hints: &dyn Hints, format: Format) -> bool {
    let holds_counts = matches!(format, Format::Booster | Format::Bitset);
    let has_counts = hints.output_count(1).is_some();
    let counts_alike = hints.format().numbering() == format.numbering();
    hints.height() > 0 && (!counts_alike || (holds_counts && !has_counts))
}

/// Writes hints in another format. Where [`conversion_needs_blocks`], those of the synced
/// directory that `options` name are read, once, in the order of their files, on all threads; it
/// is locked and not changed. Memory, temporary disk and `out` as for [`super::create_hints`].
///
/// # Errors
/// The hints cannot be right, or are not for these blocks; there is no such directory, or it does
/// not go up to the hints' height; the disk fails; the format has no room for a block.
pub fn convert_hints(
    hints: &HintsFile,
    options: &Options,
    format: Format,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<HintsSummary, SyncError> {
    remedy::naming(options, || convert(hints, options, format, out, observer, stop))
}

fn convert(
    hints: &HintsFile,
    options: &Options,
    format: Format,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<HintsSummary, SyncError> {
    let started = Instant::now();
    let result = match conversion_needs_blocks(hints.reader.as_ref(), format) {
        true => with_blocks(hints, options, format, out, observer, stop),
        false => without_blocks(hints, format, out, observer, stop).map(|totals| (totals, None)),
    };
    let ((totals, best_block), interrupted) = match result {
        Ok(done) => (done, false),
        Err(Halt::Stopped) => ((Totals::default(), None), true),
        Err(Halt::Failed(error)) => return Err(error),
    };
    let counted = best_block.is_some() || hints.reader.output_count(1).is_some();
    let height = hints.reader.height();
    Ok(HintsSummary {
        height,
        best_block,
        blocks: height,
        outputs: counted.then_some(totals.outputs),
        unspent: totals.unspent,
        bytes: totals.bytes,
        elapsed: started.elapsed(),
        interrupted,
    })
}

fn without_blocks(
    hints: &HintsFile,
    format: Format,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Totals, Halt> {
    let (encoder, spill) = (encoder(format), SpillFile::unlinked(out, ".pieces.tmp"));
    let (mut totals, mut pieces) = (Totals::default(), Vec::new());
    let (mut unspent, mut held, mut offset) = (Vec::new(), Vec::new(), 0);
    let reader = hints.reader.as_ref();
    for height in 1..=reader.height() {
        check(stop)?;
        reader.unspent(height, &mut unspent).map_err(|error| hints.error(error))?;
        let least = unspent.last().map_or(0, |last| last.saturating_add(1));
        let outputs = reader.output_count(height).unwrap_or(least);
        let start = held.len();
        let put = put_block(encoder.as_ref(), height, &unspent, outputs, &mut held);
        put.map_err(|error| SyncError::Hints { path: out.to_path_buf(), error })?;
        pieces.push((offset + start as u64, (held.len() - start) as u32));
        totals.outputs += u64::from(outputs);
        totals.unspent += unspent.len() as u64;
        if held.len() > HELD_BYTES || height == reader.height() {
            offset = spill.append(&held)? + held.len() as u64;
            held.clear();
            observe(observer, height, reader.height());
        }
    }
    totals.bytes = assemble(encoder.as_ref(), &pieces, &spill, out, stop)?;
    Ok(totals)
}

fn observe(observer: &dyn Observer, height: u32, of: u32) {
    let (blocks, fraction) = (u64::from(height), f64::from(height) / f64::from(of));
    let phase = Phase::MakingHints;
    observer.observe(&Progress { phase, height, time: 0, blocks, bytes: 0, coins: 0, fraction });
}

fn with_blocks(
    hints: &HintsFile,
    options: &Options,
    format: Format,
    out: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<(Totals, Option<Hash>), Halt> {
    let pool = crate::sync::threads::pool(options.threads)?;
    let chain = StoredChain::open(options, &pool)?;
    let (height, tip) = (hints.reader.height(), chain.height());
    if height > tip {
        return Err(Halt::Failed(SyncError::Usage(format!(
            "these hints are for height {height}, and the directory with the blocks is at height \
             {tip}: sync it further"
        ))));
    }
    let order = chain.in_file_order(1..height + 1)?;
    let groups = groups(&chain, &order, options.threads);
    let encoder = encoder(format);
    let encoder = encoder.as_ref();
    let work = Work { chain: &chain, pool: &pool, observer, stop, encoder, out };
    let renumbered = Renumbered { hints, to: format.numbering() };
    let totals = write_hints(&work, &order, &groups, &renumbered)?;
    Ok((totals, Some(chain.blocks[height as usize].hash)))
}

/// Other hints tell which outputs are unspent, and perhaps count them in another way.
struct Renumbered<'a> {
    hints: &'a HintsFile,
    to: Numbering,
}

impl Unspent for Renumbered<'_> {
    type Group = ();

    fn load(&self, _: usize, _: &mut ()) -> Result<(), Halt> {
        Ok(())
    }

    fn tell(&self, _: &(), block: &HintedBlock, unspent: &mut Vec<u32>) -> Result<u32, Halt> {
        let reader = self.hints.reader.as_ref();
        let (height, from) = (block.height, reader.format().numbering());
        let mut hinted = Vec::new();
        reader.unspent(height, &mut hinted).map_err(|error| self.hints.error(error))?;
        let mut hinted = hinted.into_iter().peekable();
        let (mut before, mut after) = (0, 0);
        unspent.clear();
        for output in outputs(&block.view, block.overwritten) {
            let mut is_hinted = false;
            if output.counts(from) {
                is_hinted = hinted.next_if_eq(&before).is_some();
                before += 1;
            }
            // Core PR 34004 hints the two coinbases that were overwritten.
            let is_overwritten = block.overwritten && output.tx == 0;
            if is_hinted && output.is_gone && !is_overwritten {
                let what = "it hints an output that cannot be spent; it is for another chain";
                return Err(self.hints.error(HintsError::at(height, what)).into());
            }
            if output.counts(self.to) {
                if is_hinted && !output.is_gone {
                    unspent.push(after);
                }
                after += 1;
            }
        }
        let stated = reader.output_count(height);
        if hinted.next().is_some() || stated.is_some_and(|stated| stated != before) {
            let what = format!("it has {before} outputs, which the hints do not fit");
            return Err(self.hints.error(HintsError::at(height, what)).into());
        }
        Ok(after)
    }
}
