//! From blocks in file order to a hints file in order of height.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rayon::ThreadPool;

use super::chain::StoredChain;
use super::summary::Halt;
use super::workers::{check, in_order};
use crate::disk::{Disk, File, SpillFile};
use crate::hash::Hash;
use crate::rules::is_bip30_unspendable;
use crate::swiftsync::{HintsEncoder, HintsError};
use crate::sync::error::SyncError;
use crate::sync::progress::{Observer, Phase, Progress};
use crate::wire::BlockView;

/// Bytes of blocks that a thread takes at once, at most: enough that what it does once for all of
/// them does not count, and few enough that what is held for them is small.
const GROUP_BYTES_MAX: u64 = 16 << 20;

/// At least; below this, more threads would not be faster.
const GROUP_BYTES_MIN: u64 = 64 << 10;

/// Groups for each thread where there are few blocks, so that all threads end together.
const GROUPS_PER_THREAD: u64 = 8;
/// Bytes that are written with one call.
const WRITE_BYTES: usize = 1 << 20;

/// Where what is written comes from and goes to, and who wants to know.
pub(super) struct Work<'a> {
    pub chain: &'a StoredChain,
    pub pool: &'a ThreadPool,
    pub observer: &'a dyn Observer,
    pub stop: &'a AtomicBool,
    pub encoder: &'a dyn HintsEncoder,
    pub out: &'a Path,
}

/// A block that is being hinted.
pub(super) struct HintedBlock<'a> {
    pub height: u32,
    /// Its index in file order.
    pub place: u32,
    pub view: BlockView<&'a [u8]>,
    pub txids: Vec<Hash>,
    /// Whether its coinbase is one of the two that BIP30's exceptions overwrote: it is no longer
    /// there, although nobody spent it.
    pub overwritten: bool,
}

/// Who tells which outputs of a block are unspent.
pub(super) trait Unspent: Sync {
    /// What it holds for a group of blocks.
    type Group: Send + Default;

    /// Takes up the group at `index`.
    fn load(&self, index: usize, group: &mut Self::Group) -> Result<(), Halt>;

    /// Puts the indices of the unspent outputs into `unspent`; returns the number of outputs.
    fn tell(
        &self,
        group: &Self::Group,
        block: &HintedBlock,
        unspent: &mut Vec<u32>,
    ) -> Result<u32, Halt>;
}

/// What was counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    pub outputs: u64,
    pub unspent: u64,
    pub bytes: u64,
}

/// Cuts blocks in file order into groups of about equal size: ranges of places.
pub(super) fn groups(chain: &StoredChain, order: &[u32], threads: usize) -> Vec<Range<u32>> {
    let pos = |height: u32| chain.blocks[height as usize].pos;
    // Where a block ends is where the next one starts; the last one of a file counts for nothing.
    let len = |index: usize| match (pos(order[index]), order.get(index + 1).and_then(|h| pos(*h))) {
        (Some(here), Some(next)) if here.file == next.file => u64::from(next.pos - here.pos),
        _ => 0,
    };
    let total: u64 = (0..order.len()).map(len).sum();
    let wanted = total / (GROUPS_PER_THREAD * threads as u64);
    let wanted = wanted.clamp(GROUP_BYTES_MIN, GROUP_BYTES_MAX);
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    for index in 0..order.len() {
        bytes += len(index);
        if bytes >= wanted {
            groups.push(start..index as u32 + 1);
            (start, bytes) = (index as u32 + 1, 0);
        }
    }
    if (start as usize) < order.len() {
        groups.push(start..order.len() as u32);
    }
    groups
}

/// Where in the spill the bytes of a block are, by height - 1.
type Pieces = Vec<(u64, u32)>;

/// What a thread has written.
struct Written<G> {
    group: G,
    bytes: Vec<u8>,
    unspent: Vec<u32>,
    encoded: Vec<u8>,
    /// Height, offset in the spill and length.
    pieces: Vec<(u32, u64, u32)>,
    totals: Totals,
}

impl<G: Default> Default for Written<G> {
    fn default() -> Self {
        let (bytes, unspent, encoded) = (Vec::new(), Vec::new(), Vec::new());
        let (group, pieces) = (G::default(), Vec::new());
        Self { group, bytes, unspent, encoded, pieces, totals: Totals::default() }
    }
}

/// Reads all blocks of `order` once, in that order, on all threads, and makes a hints file of what
/// `source` tells of them.
pub(super) fn write_hints<U: Unspent>(
    work: &Work,
    order: &[u32],
    groups: &[Range<u32>],
    source: &U,
) -> Result<Totals, Halt> {
    let spill = SpillFile::unlinked(work.out, ".pieces.tmp");
    let (blocks, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let writing = Writing { work, order, groups, source, spill: &spill, blocks, bytes };
    let write = |written: &mut _, index| writing.write_group(written, index);
    let threads = in_order(work.pool, 0..groups.len(), work.stop, Written::default, write)?;
    let mut pieces: Pieces = vec![(0, 0); order.len()];
    let mut totals = Totals::default();
    for thread in threads {
        for (height, offset, len) in thread.pieces {
            pieces[height as usize - 1] = (offset, len);
        }
        totals.outputs += thread.totals.outputs;
        totals.unspent += thread.totals.unspent;
    }
    totals.bytes = assemble(work.encoder, &pieces, &spill, work.out, work.stop)?;
    Ok(totals)
}

/// What all threads share while they read blocks.
struct Writing<'a, U> {
    work: &'a Work<'a>,
    order: &'a [u32],
    groups: &'a [Range<u32>],
    source: &'a U,
    spill: &'a SpillFile,
    /// Blocks that are done, and their bytes.
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl<U: Unspent> Writing<'_, U> {
    fn write_group(&self, written: &mut Written<U::Group>, index: usize) -> Result<(), Halt> {
        self.source.load(index, &mut written.group)?;
        written.encoded.clear();
        let first_piece = written.pieces.len();
        for place in self.groups[index].clone() {
            check(self.work.stop)?;
            self.write_block(written, place)?;
        }
        let offset = self.spill.append(&written.encoded)?;
        written.pieces[first_piece..].iter_mut().for_each(|piece| piece.1 += offset);
        Ok(())
    }

    fn write_block(&self, written: &mut Written<U::Group>, place: u32) -> Result<(), Halt> {
        let work = self.work;
        let height = self.order[place as usize];
        let (view, txids) = work.chain.read(height, &mut written.bytes)?;
        let overwritten = is_bip30_unspendable(height, &view.hash());
        let (len, time) = (view.len() as u64, view.header().time);
        let block = HintedBlock { height, place, view, txids, overwritten };
        let outputs = self.source.tell(&written.group, &block, &mut written.unspent)?;
        let start = written.encoded.len();
        put_block(work.encoder, height, &written.unspent, outputs, &mut written.encoded)
            .map_err(|error| SyncError::Hints { path: work.out.to_path_buf(), error })?;
        written.pieces.push((height, start as u64, (written.encoded.len() - start) as u32));
        written.totals.outputs += u64::from(outputs);
        written.totals.unspent += written.unspent.len() as u64;
        let blocks = self.blocks.fetch_add(1, Relaxed) + 1;
        let bytes = self.bytes.fetch_add(len, Relaxed) + len;
        let (phase, fraction) = (Phase::MakingHints, blocks as f64 / self.order.len() as f64);
        work.observer.observe(&Progress { phase, height, time, blocks, bytes, coins: 0, fraction });
        Ok(())
    }
}

/// Encodes a block; an error names it.
pub(super) fn put_block(
    encoder: &dyn HintsEncoder,
    height: u32,
    unspent: &[u32],
    outputs: u32,
    out: &mut Vec<u8>,
) -> Result<(), HintsError> {
    let named = |error: HintsError| HintsError { height: Some(height), ..error };
    encoder.put_block(unspent, outputs, out).map_err(named)
}

/// Puts the pieces together, in order of height; the length of the file.
pub(super) fn assemble(
    encoder: &dyn HintsEncoder,
    pieces: &Pieces,
    spill: &SpillFile,
    out: &Path,
    stop: &AtomicBool,
) -> Result<u64, Halt> {
    Disk::new().replace_with(out, |file| {
        let mut sink = Sink::new(file, Vec::new());
        encoder.put_head(pieces.len() as u32, &mut sink.held);
        let mut next = 0;
        while next < pieces.len() {
            check(stop)?;
            // Pieces of blocks that lie one after the other in the files do so here.
            let (offset, len) = pieces[next];
            let mut end = offset + u64::from(len);
            next += 1;
            while let Some((_, len)) = pieces.get(next).filter(|piece| piece.0 == end) {
                if (end - offset) as usize >= WRITE_BYTES {
                    break;
                }
                end += u64::from(*len);
                next += 1;
            }
            spill.read(offset, (end - offset) as usize, &mut sink.held)?;
            sink.flush_beyond(WRITE_BYTES)?;
        }
        encoder.put_tail(&mut sink.held);
        sink.flush_beyond(0)?;
        let lens: Vec<u32> = pieces.iter().map(|(_, len)| *len).collect();
        if let Some(head) = encoder.final_head(&lens) {
            file.write_all_at(&head, 0)?;
        }
        Ok(sink.written)
    })
}

/// A file that is written from its start to its end.
pub(super) struct Sink<'a> {
    file: &'a File,
    /// What comes next.
    pub held: Vec<u8>,
    pub written: u64,
}

impl<'a> Sink<'a> {
    pub fn new(file: &'a File, held: Vec<u8>) -> Self {
        Self { file, held, written: 0 }
    }

    /// Writes what is held, if that is more than so many bytes.
    pub fn flush_beyond(&mut self, bytes: usize) -> Result<(), Halt> {
        if self.held.len() > bytes {
            self.file.write_all_at(&self.held, self.written)?;
            self.written += self.held.len() as u64;
            self.held.clear();
        }
        Ok(())
    }
}
