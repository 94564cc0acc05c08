//! Converts hints files to other formats.

use std::path::Path;
use std::time::Instant;

use apus_disk::SpillFile;
use apus_host::threads;
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::remedy;
use apus_node::workers::check_stop;
use apus_progress::{Observer, Phase, Progress, Watch};
use apus_swiftsync::hints::{Numbering, OutputFate, encoder, numbered_outputs};
use apus_swiftsync::{Format, Hints, HintsError};
use apus_sync::hints_file::HintsFile;

use super::assemble::{
    FileOrder, HintedBlock, HintsTask, PIECES_SUFFIX, Piece, Target, UnspentSource, write_hints,
};
use super::summary::{HintsSummary, Made};
use crate::stored::StoredChain;

/// Bytes of encoded hints that are kept in memory before they are written.
const HELD_BYTES: usize = 1 << 20;

/// Returns whether the conversion of `hints` to `format` needs the blocks: the formats number
/// outputs differently, or `format` holds the number of outputs, which `hints` do not know.
pub fn conversion_needs_blocks(hints: &dyn Hints, format: Format) -> bool {
    let has = hints.format();
    let counts_alike = has.numbering() == format.numbering();
    let lacks_counts = format.holds_counts() && !has.holds_counts();
    hints.height() > 0 && (!counts_alike || lacks_counts)
}

/// Writes hints in another format. If [`conversion_needs_blocks`] says so, reads the blocks once
/// from the synced directory that `options` name, in the order of their files and on all threads;
/// the directory is locked and not changed. Memory, temporary disk and `out` are as for
/// [`super::create_hints`].
///
/// # Errors
/// The hints are damaged, or do not fit these blocks; the directory is missing, or its tip is below
/// the hints' height; the disk fails; or the format cannot hold a block.
pub fn convert_hints(
    hints: &HintsFile,
    options: &Options,
    format: Format,
    out: &Path,
    watch: Watch,
) -> Result<HintsSummary, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let encoder = encoder(format);
        let target = Target { path: out, encoder: encoder.as_ref() };
        let made = if conversion_needs_blocks(hints.reader.as_ref(), format) {
            with_blocks(hints, options, format.numbering(), target, watch)
        } else {
            without_blocks(hints, target, watch)
        };
        HintsSummary::of(hints.reader.height(), started, made)
    })
}

fn without_blocks(hints: &HintsFile, target: Target, watch: Watch) -> Result<Made, SyncError> {
    let reader = hints.reader.as_ref();
    let spill = SpillFile::unlinked(target.path, PIECES_SUFFIX);
    let is_counted = reader.format().holds_counts();
    let mut made = Made::default();
    let mut pieces = Vec::new();
    let mut unspent = Vec::new();
    let mut held = Vec::new();
    let mut offset = 0;
    for height in 1..=reader.height() {
        check_stop(watch.stop)?;
        reader.unspent(height, &mut unspent).map_err(|error| hints.error(error))?;
        let least = unspent.last().map_or(0, |last| last.saturating_add(1));
        let outputs = reader.output_count(height).unwrap_or(least);
        let start = held.len();
        target.put_block(height, &unspent, outputs, &mut held)?;
        pieces.push(Piece { offset: offset + start as u64, len: (held.len() - start) as u32 });
        made.unspent += unspent.len() as u64;
        if is_counted {
            *made.outputs.get_or_insert_default() += u64::from(outputs);
        }
        if held.len() > HELD_BYTES || height == reader.height() {
            offset = spill.append(&held)? + held.len() as u64;
            held.clear();
            observe(watch.observer, height, reader.height());
        }
    }
    made.bytes = target.assemble(&pieces, &spill, watch.stop)?;
    Ok(made)
}

/// Reports that the hints up to `height` of `of` are done.
fn observe(observer: &dyn Observer, height: u32, of: u32) {
    let blocks = u64::from(height);
    let fraction = f64::from(height) / f64::from(of);
    let begun = Progress::of(Phase::MakingHints);
    observer.observe(&Progress { height, blocks, fraction, ..begun });
}

fn with_blocks(
    hints: &HintsFile,
    options: &Options,
    numbering: Numbering,
    target: Target,
    watch: Watch,
) -> Result<Made, SyncError> {
    let pool = threads::pool(options.threads)?;
    let chain = StoredChain::open(options, &pool)?;
    let height = hints.reader.height();
    let tip = chain.height();
    if height > tip {
        let what = format!(
            "{}: these hints are for height {height}, but the directory with the blocks is at \
             height {tip}: sync it further",
            hints.path.display()
        );
        return Err(SyncError::Input(what));
    }
    let order = FileOrder::new(&chain, height, options.threads)?;
    let task = HintsTask { chain: &chain, target, pool: &pool, watch };
    let totals = write_hints(&task, &order, &RenumberedHints { hints, to: numbering })?;
    Ok(Made {
        best_block: Some(chain.blocks[height as usize].hash),
        outputs: Some(totals.outputs),
        unspent: totals.unspent,
        bytes: totals.bytes,
    })
}

/// Other hints as a source of unspent outputs. They may number outputs differently.
struct RenumberedHints<'a> {
    hints: &'a HintsFile,
    /// The numbering that indices are converted to.
    to: Numbering,
}

impl UnspentSource for RenumberedHints<'_> {
    type Group = ();

    fn load(&self, _: usize, _: &mut ()) -> Result<(), SyncError> {
        Ok(())
    }

    fn unspent_of(
        &self,
        _: &(),
        block: &HintedBlock,
        unspent: &mut Vec<u32>,
    ) -> Result<u32, SyncError> {
        let reader = self.hints.reader.as_ref();
        let height = block.height;
        let from = reader.format().numbering();
        let mut hinted = Vec::new();
        reader.unspent(height, &mut hinted).map_err(|error| self.hints.error(error))?;
        let mut hinted = hinted.into_iter().peekable();
        let mut before = 0;
        let mut after = 0;
        unspent.clear();
        let numbered = |numbering| numbered_outputs(&block.view, numbering, block.overwritten);
        for (old, new) in numbered(from).zip(numbered(self.to)) {
            let mut is_hinted = false;
            if let Some(index) = old.number.index {
                is_hinted = hinted.next_if_eq(&index).is_some();
                before += 1;
            }
            // Core PR 34004 has hints for the two coinbases that were overwritten.
            if is_hinted && old.number.fate == OutputFate::Unspendable {
                let what = "the block's hints name an unspendable output: the file is for another \
                            chain";
                return Err(self.hints.error(HintsError::at(height, what)));
            }
            if let Some(index) = new.number.index {
                if is_hinted && new.number.fate == OutputFate::Coin {
                    unspent.push(index);
                }
                after += 1;
            }
        }
        let stated = reader.output_count(height);
        if hinted.next().is_some() || stated.is_some_and(|stated| stated != before) {
            let what = format!("the hints do not fit the block, which has {before} outputs");
            return Err(self.hints.error(HintsError::at(height, what)));
        }
        Ok(after)
    }
}
