//! Writes a hints file, which is in order of height, from blocks in the order of their files.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use apus_consensus::is_bip30_unspendable;
use apus_disk::{Disk, File, SpillFile};
use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_node::workers::{check_stop, for_each_on_pool};
use apus_progress::{Phase, Progress, Watch};
use apus_swiftsync::{HintsEncoder, HintsError};
use apus_wire::BlockView;
use rayon::ThreadPool;

use crate::stored::{ReadBlock, StoredChain};

/// The most bytes of blocks in a group, which a thread takes at once: enough that the work done
/// once for a group does not matter, and few enough that the memory held for it is small.
const GROUP_BYTES_MAX: u64 = 16 << 20;

/// The fewest bytes of blocks in a group: with smaller groups, more threads would gain nothing.
const GROUP_BYTES_MIN: u64 = 64 << 10;

/// Groups for each thread if there are few blocks, so that all threads end together.
const GROUPS_PER_THREAD: u64 = 8;

/// Bytes that are gathered for one write.
const WRITE_BYTES: usize = 1 << 20;

/// The suffix of the temporary file, next to the hints file, that holds the hints in file order.
pub(super) const PIECES_SUFFIX: &str = ".pieces.tmp";

/// The hints file that is being written.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub path: &'a Path,
    pub encoder: &'a dyn HintsEncoder,
}

/// The input and output of writing a hints file from stored blocks, and the threads for it.
pub(super) struct HintsTask<'a> {
    pub chain: &'a StoredChain,
    pub target: Target<'a>,
    pub pool: &'a ThreadPool,
    pub watch: Watch<'a>,
}

/// The blocks that get hints, in the order in which they lie in the files.
pub(super) struct FileOrder {
    /// Heights of the blocks, in file order.
    pub heights: Vec<u32>,
    /// Ranges of indices into `heights`, one after the other, of about equal bytes.
    pub groups: Vec<Range<u32>>,
}

/// A block whose hints are being written.
pub(super) struct HintedBlock<'a> {
    pub height: u32,
    /// The block's index in file order.
    pub index: u32,
    pub view: BlockView<&'a [u8]>,
    pub txids: Vec<Hash>,
    /// Whether the block's coinbase is one of the two that BIP30's exceptions overwrote: its
    /// outputs no longer exist, although no input spent them.
    pub overwritten: bool,
}

/// A source that says which outputs are unspent.
pub(super) trait UnspentSource: Sync {
    /// A group of blocks in the source's memory.
    type Group: Send + Default;

    /// Loads the group at `index` of [`FileOrder::groups`] into `group`, whose content is replaced.
    fn load(&self, index: usize, group: &mut Self::Group) -> Result<(), SyncError>;

    /// Replaces the content of `unspent` with the indices of the block's unspent outputs,
    /// ascending. Returns the number of outputs that the format counts.
    fn unspent_of(
        &self,
        group: &Self::Group,
        block: &HintedBlock,
        unspent: &mut Vec<u32>,
    ) -> Result<u32, SyncError>;
}

/// The totals of a hints file.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    /// Number of outputs that the format counts.
    pub outputs: u64,
    /// Number of unspent outputs.
    pub unspent: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl FileOrder {
    /// Returns the blocks from height 1 to `height`, in groups for `threads` threads.
    ///
    /// # Errors
    /// A block is not stored.
    pub fn new(chain: &StoredChain, height: u32, threads: usize) -> Result<Self, SyncError> {
        let heights = chain.in_file_order(1..height + 1)?;
        let groups = groups(chain, &heights, threads);
        Ok(Self { heights, groups })
    }
}

/// Cuts blocks in file order into groups of about equal bytes.
fn groups(chain: &StoredChain, order: &[u32], threads: usize) -> Vec<Range<u32>> {
    let pos = |height: u32| chain.blocks[height as usize].pos;
    // A block ends where the next one of its file starts; the last one of a file counts as empty.
    let len = |index: usize| match (pos(order[index]), order.get(index + 1).and_then(|h| pos(*h))) {
        (Some(here), Some(next)) if here.file == next.file => u64::from(next.pos - here.pos),
        _ => 0,
    };
    let total: u64 = (0..order.len()).map(len).sum();
    let wanted = total / (GROUPS_PER_THREAD * threads as u64);
    let wanted = wanted.clamp(GROUP_BYTES_MIN, GROUP_BYTES_MAX);
    let mut groups = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
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

/// The place of a block's encoded hints in the temporary file.
#[derive(Clone, Copy, Default)]
pub(super) struct Piece {
    pub offset: u64,
    pub len: u32,
}

/// The hints that one thread has written, and its buffers.
struct Written<G> {
    group: G,
    /// The bytes of a block.
    bytes: Vec<u8>,
    unspent: Vec<u32>,
    /// The hints of a group of blocks.
    encoded: Vec<u8>,
    pieces: Vec<BlockPiece>,
    totals: Totals,
}

/// The piece of the block at a height.
struct BlockPiece {
    height: u32,
    piece: Piece,
}

impl<G: Default> Default for Written<G> {
    fn default() -> Self {
        let bytes = Vec::new();
        let unspent = Vec::new();
        let encoded = Vec::new();
        let group = G::default();
        let pieces = Vec::new();
        Self { group, bytes, unspent, encoded, pieces, totals: Totals::default() }
    }
}

/// Reads all blocks of `order` once, in that order, on all threads, and writes the hints file from
/// what `source` says about them.
pub(super) fn write_hints<U: UnspentSource>(
    task: &HintsTask,
    order: &FileOrder,
    source: &U,
) -> Result<Totals, SyncError> {
    let spill = SpillFile::unlinked(task.target.path, PIECES_SUFFIX);
    let blocks = AtomicU64::new(0);
    let bytes = AtomicU64::new(0);
    let writing = Writing { task, order, source, spill: &spill, blocks, bytes };
    let write = |written: &mut _, index| writing.write_group(written, index);
    let groups = 0..order.groups.len();
    let threads = for_each_on_pool(task.pool, groups, task.watch.stop, Written::default, write)?;
    let mut pieces = vec![Piece::default(); order.heights.len()];
    let mut totals = Totals::default();
    for thread in threads {
        for BlockPiece { height, piece } in thread.pieces {
            pieces[height as usize - 1] = piece;
        }
        totals.outputs += thread.totals.outputs;
        totals.unspent += thread.totals.unspent;
    }
    totals.bytes = task.target.assemble(&pieces, &spill, task.watch.stop)?;
    Ok(totals)
}

/// The state that all threads share while they read blocks.
struct Writing<'a, U> {
    task: &'a HintsTask<'a>,
    order: &'a FileOrder,
    source: &'a U,
    spill: &'a SpillFile,
    /// Number of blocks that are done.
    blocks: AtomicU64,
    /// Bytes of the blocks that are done.
    bytes: AtomicU64,
}

impl<U: UnspentSource> Writing<'_, U> {
    fn write_group(&self, written: &mut Written<U::Group>, index: usize) -> Result<(), SyncError> {
        self.source.load(index, &mut written.group)?;
        written.encoded.clear();
        let first_piece = written.pieces.len();
        for index in self.order.groups[index].clone() {
            check_stop(self.task.watch.stop)?;
            self.write_block(written, index)?;
        }
        let offset = self.spill.append(&written.encoded)?;
        written.pieces[first_piece..].iter_mut().for_each(|block| block.piece.offset += offset);
        Ok(())
    }

    /// Writes the hints of the block at `index` of the file order.
    fn write_block(&self, written: &mut Written<U::Group>, index: u32) -> Result<(), SyncError> {
        let task = self.task;
        let height = self.order.heights[index as usize];
        let ReadBlock { view, txids } = task.chain.read(height, &mut written.bytes)?;
        let overwritten = is_bip30_unspendable(height, &view.hash());
        let len = view.len() as u64;
        let time = view.header().time;
        let block = HintedBlock { height, index, view, txids, overwritten };
        let outputs = self.source.unspent_of(&written.group, &block, &mut written.unspent)?;
        let start = written.encoded.len();
        task.target.put_block(height, &written.unspent, outputs, &mut written.encoded)?;
        let len_encoded = (written.encoded.len() - start) as u32;
        let piece = Piece { offset: start as u64, len: len_encoded };
        written.pieces.push(BlockPiece { height, piece });
        written.totals.outputs += u64::from(outputs);
        written.totals.unspent += written.unspent.len() as u64;
        let blocks = self.blocks.fetch_add(1, Relaxed) + 1;
        let bytes = self.bytes.fetch_add(len, Relaxed) + len;
        let fraction = blocks as f64 / self.order.heights.len() as f64;
        let begun = Progress::of(Phase::MakingHints);
        task.watch.observer.observe(&Progress { height, time, blocks, bytes, fraction, ..begun });
        Ok(())
    }
}

impl Target<'_> {
    /// Appends the encoded hints of a block to `out`. The format counts `outputs` of its outputs,
    /// of which those at the indices `unspent` are unspent.
    ///
    /// # Errors
    /// The format cannot hold such a block.
    pub fn put_block(
        &self,
        height: u32,
        unspent: &[u32],
        outputs: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SyncError> {
        self.encoder.put_block(unspent, outputs, out).map_err(|error| SyncError::Hints {
            path: self.path.to_path_buf(),
            error: HintsError { height: Some(height), ..error },
        })
    }

    /// Writes the file from the pieces of all blocks, given in order of height. Returns its length.
    pub fn assemble(
        &self,
        pieces: &[Piece],
        spill: &SpillFile,
        stop: &AtomicBool,
    ) -> Result<u64, SyncError> {
        Disk::new().replace_with(self.path, |file| {
            let mut sink = Sink::new(file, Vec::new());
            self.encoder.put_head(pieces.len() as u32, &mut sink.held);
            let mut next = 0;
            while next < pieces.len() {
                check_stop(stop)?;
                // The pieces of blocks that are neighbours in the files are neighbours, too.
                let Piece { offset, len } = pieces[next];
                let mut end = offset + u64::from(len);
                next += 1;
                while let Some(piece) = pieces.get(next).filter(|piece| piece.offset == end) {
                    if (end - offset) as usize >= WRITE_BYTES {
                        break;
                    }
                    end += u64::from(piece.len);
                    next += 1;
                }
                spill.read(offset, (end - offset) as usize, &mut sink.held)?;
                sink.flush_beyond(WRITE_BYTES)?;
            }
            self.encoder.put_tail(&mut sink.held);
            sink.flush_beyond(0)?;
            let lens: Vec<u32> = pieces.iter().map(|piece| piece.len).collect();
            if let Some(head) = self.encoder.final_head(&lens) {
                file.write_all_at(&head, 0)?;
            }
            Ok(sink.written)
        })
    }
}

/// A file that is written from its start to its end.
pub(super) struct Sink<'a> {
    file: &'a File,
    /// Bytes that are not written yet.
    pub held: Vec<u8>,
    /// Number of bytes that are written.
    pub written: u64,
}

impl<'a> Sink<'a> {
    /// Creates a sink whose first bytes are `held`.
    pub fn new(file: &'a File, held: Vec<u8>) -> Self {
        Self { file, held, written: 0 }
    }

    /// Writes the bytes held, if there are more than `bytes` of them.
    pub fn flush_beyond(&mut self, bytes: usize) -> Result<(), SyncError> {
        if self.held.len() > bytes {
            self.file.write_all_at(&self.held, self.written)?;
            self.written += self.held.len() as u64;
            self.held.clear();
        }
        Ok(())
    }
}
