//! The files, memory and state of a join, from its beginning to its end.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_coins::Chainstate;
use apus_disk::{Caching, Disk, Parts, StoreError};
use apus_hash::{Hash, HashKey, Sha256d};
use apus_host::threads;
use apus_join::{Layout, Memory, cut};
use apus_node::commit::Ledger;
use apus_node::opened::Node;
use apus_node::options::Options;
use apus_node::shared::Shared;
use apus_node::space;
use apus_progress::Observer;
use apus_progress::words::size;
use apus_store::{BlockFiles, DataDir, IndexRecord};

use super::directory::{self, progress_path, spill_file};
use super::plan::JoinPlan;
use super::saved::{Key, Saved};
use super::state::{JoinState, UndoAt};
use apus_node::sealed::{begun_again, unreadable};

/// The spill file goes through the page cache: most of it is read again soon, and all of it is
/// deleted, so what fits in memory need never reach the disk.
const CACHING: Caching = Caching::PageCache;

/// The files, memory and state of a join.
pub(super) struct Workspace {
    disk: Disk,
    /// The file of saved work.
    progress: PathBuf,
    /// The directory of the spill file.
    spill: PathBuf,
    key: Key,
    pub parts: Parts,
    pub layout: Layout,
    pub memory: Memory,
    /// The key of the hashes by which blocks are recognised when they are read again. It is random
    /// for each join, so that no miner and no disk can predict it.
    pub hash_key: HashKey,
    pub state: JoinState,
    /// Time from one save to the next.
    pub save_every: Duration,
}

impl Workspace {
    /// Carries on from saved work, if it is of the same join and its blocks are stored where they
    /// were; otherwise begins from nothing. Tells `observer` if saved work is damaged or gone.
    pub fn begin(
        node: &mut Node,
        plan: &JoinPlan,
        observer: &dyn Observer,
    ) -> Result<Self, StoreError> {
        let target = plan.chain.tip().unwrap_or(node.tip());
        let key = key(node, target);
        let saved = directory::load(node.dir().disk(), node.options())?;
        let progress = progress_path(node.options());
        if saved.is_none() && progress.is_file() {
            observer.note(&unreadable(&progress, "the join"));
        }
        let is_saved = saved.is_some();
        let fits =
            |saved: &Saved| saved.key == key && fits(saved, plan, &node.shared(), node.ledger());
        let memory = memory(node.options(), node.ledger());
        let spill = directory::may_carry_on_in(node.dir().disk(), node.options())?;
        let resumed = saved.filter(fits).zip(spill);
        if is_saved && resumed.is_none() {
            observer.note(
                "The interrupted join is given up: this one has other blocks, another place for \
                 temporary files, or other options",
            );
        }
        if let Some((saved, spill)) = resumed {
            directory::expect(&spill, node.options())?;
            match Self::resume(node.dir().disk(), node.options(), memory, saved, spill) {
                Ok(mut work) => {
                    work.state.assumed = plan.assumed_blocks(node.tree());
                    return Ok(work);
                }
                Err(error) if is_refused(&error) => return Err(error),
                Err(error) => observer.note(&begun_again(&error, "the join")),
            }
        }
        Self::forget(node)?;
        let sizes: Vec<u64> = plan.steps.iter().map(|step| step.weight).collect();
        let layout = Layout::new(plan.first_height, &sizes, memory);
        let spill = node.options().spill_path();
        // If nothing can be written there, the join fails before it begins.
        node.dir().disk().create_dir_all(&spill)?;
        directory::note(node.dir().disk(), node.options())?;
        let path = spill_file(&spill);
        let piece_bytes = layout.piece_bytes(memory);
        let parts = Parts::new(node.dir().disk(), path, layout.parts(), piece_bytes, CACHING);
        let mut state = JoinState::new(&cut(&sizes, memory.workers), layout.partitions());
        state.assumed = plan.assumed_blocks(node.tree());
        let disk = node.dir().disk().clone();
        let save_every = node.options().save_every;
        let hash_key = HashKey::random();
        Ok(Self { disk, progress, spill, key, parts, layout, memory, hash_key, state, save_every })
    }

    fn resume(
        disk: &Disk,
        options: &Options,
        memory: Memory,
        saved: Saved,
        spill: PathBuf,
    ) -> Result<Self, StoreError> {
        let Saved { key, layout, state, hash_key, .. } = saved;
        let progress = progress_path(options);
        let path = spill_file(&spill);
        let piece_bytes = layout.piece_bytes(memory);
        let parts = Parts::resume(disk, path, piece_bytes, &saved.parts, CACHING)?;
        let disk = disk.clone();
        let save_every = options.save_every;
        tracing::debug!(target: "blockstorage",
            read = state.blocks_read(),
            checked = state.checked,
            "carrying on with an interrupted join"
        );
        Ok(Self { disk, progress, spill, key, parts, layout, memory, hash_key, state, save_every })
    }

    /// Saves the work: records and spent coins, and then the file `progress`, which names their
    /// places. What else it names must be durable already: block files, undo data, and the tables
    /// in the state. After a crash in between, the work saved before counts, and its places are
    /// still valid. No worker may run during a save.
    pub fn save(
        &mut self,
        plan: &JoinPlan,
        tree: &Tree,
        ledger: &Ledger,
    ) -> Result<(), StoreError> {
        // The plan may have been ended below a block since it was made.
        self.key.target = tree.node(plan.steps[plan.steps.len() - 1].id).hash;
        let room = self.parts.take_forgotten();
        let saved = Saved {
            key: self.key.clone(),
            hash_key: self.hash_key.clone(),
            layout: self.layout.clone(),
            state: self.state.clone(),
            positions: positions(&self.state, plan, &ledger.records.all),
            parts: self.parts.save()?,
        };
        self.disk.create_dir_all(self.progress.parent().unwrap_or(Path::new(".")))?;
        self.disk.write_private(&self.progress, &saved.to_bytes())?;
        self.parts.release(room)
    }

    /// Returns the bytes written to the spill file.
    pub fn spilled_bytes(&self) -> u64 {
        self.parts.bytes_written()
    }

    /// Removes the saved work and all temporary files.
    pub fn remove(self, options: &Options) -> Result<(), StoreError> {
        // Saved work is removed first: it must not name a file that is gone.
        let Self { disk, progress, spill, parts, .. } = self;
        directory::remove_progress(&disk, &progress)?;
        parts.destroy()?;
        directory::remove(&disk, &[options.join_path(), spill])
    }

    /// Returns whether the error says that temporary files differ from what this or an earlier run
    /// wrote.
    pub fn is_damaged(&self, error: &StoreError) -> bool {
        error.source.is_none() && error.path.starts_with(&self.spill)
    }

    /// Ends the join after an error of the disk, and returns the error. Removes all temporary files
    /// if there is no saved work to carry on from. The error of a full disk says how to continue.
    pub fn fail(self, options: &Options, plan: &JoinPlan, mut error: StoreError) -> StoreError {
        let is_saved = self.progress.is_file();
        if error.is_full() {
            let blocks: u64 = plan.steps.iter().map(|step| step.weight).sum();
            error.what += &if !plan.keeps {
                format!(
                    " (the disk is full: the temporary files of this join have {}, and may come \
                     to {}; free some space, or name a directory on another disk with TMPDIR; the \
                     files were removed)",
                    size(self.spilled_bytes()),
                    size(space::spill_bytes(blocks)),
                )
            } else if error.path.starts_with(&self.spill) {
                format!(
                    " (the disk is full: the temporary files of this join have {}, and may come to \
                     {}; free some space, name another disk with --spilldir, or sync with \
                     --method=order, which makes none; {})",
                    size(self.spilled_bytes()),
                    size(space::spill_bytes(blocks)),
                    kept(is_saved)
                )
            } else {
                format!(" (the disk is full: free some space; {})", kept(is_saved))
            };
        }
        if !is_saved && let Err(left) = self.remove(options) {
            tracing::debug!(target: "blockstorage", "temporary files of the join remain: {left}");
        }
        error
    }

    /// Gives up an interrupted join: removes what it has left, and cuts rev files back to what the
    /// block index names.
    pub fn forget(node: &mut Node) -> Result<(), StoreError> {
        let disk = node.dir().disk().clone();
        let left = directory::left(&disk, node.options())?;
        if left.is_empty() {
            return Ok(());
        }
        tracing::debug!(target: "blockstorage", "giving up an interrupted join");
        let saved = directory::load(&disk, node.options())?;
        let tables = saved.map_or_else(Vec::new, |saved| saved.state.paired.tables);
        // Saved work is removed first: after a crash it must not name anything that is gone. The
        // directories are removed last, since they show that there is something to give up.
        directory::remove_progress(&disk, &progress_path(node.options()))?;
        node.chainstate().remove_pending(&tables)?;
        let named = node.ledger().records.all.iter().filter_map(IndexRecord::undo_pos);
        node.files().cut_undo(named)?;
        let (shared, ledger) = node.split();
        ledger.write_index(shared.files, shared.tree)?;
        directory::remove(&disk, &left)
    }
}

/// Returns the target of an interrupted join that a run on `node` can carry on, if it is `target`
/// or an ancestor of it, and the share of the join's work that is done.
pub fn saved_target(node: &Node, target: BlockId) -> Result<Option<SavedTarget>, StoreError> {
    let Some(saved) = directory::load(node.dir().disk(), node.options())? else { return Ok(None) };
    let Some(found) = node.tree().find(&saved.key.target) else { return Ok(None) };
    let height = node.tree().node(found).height;
    let fits = node.tree().ancestor(target, height) == Some(found)
        && saved.key == key(node, found)
        && directory::may_carry_on_in(node.dir().disk(), node.options())?.is_some();
    let all = saved.state.spans.last().map_or(0, |span| span.end).max(1);
    // The first pass takes about as long as the other two together.
    let done = (saved.state.blocks_read() + saved.state.checked) as f64 / (2 * all) as f64;
    Ok(fits.then_some(SavedTarget { target: found, done: done.min(1.0) }))
}

/// Returns the height of the last block of an interrupted join that could carry on if it did not
/// lack blocks, which are neither stored nor in a source. Returns `None` too if the user wants none
/// of these blocks.
pub fn blocks_lacking(node: &Node) -> Result<Option<u32>, StoreError> {
    let Some(saved) = directory::load(node.dir().disk(), node.options())? else { return Ok(None) };
    let tree = node.tree();
    let tip = node.tree().node(node.tip()).height;
    let end = tip + saved.state.spans.last().map_or(0, |span| span.end) as u32;
    let wanted = end.min(node.options().stop_at_height.unwrap_or(u32::MAX));
    let available = tree.best_candidate().map_or(tip, |best| tree.node(best).height);
    // A target that is no longer on the best chain of headers is not wanted.
    let is_best = tree.find(&saved.key.target).is_none_or(|target| {
        tree.ancestor(tree.best_header(), tree.node(target).height) == Some(target)
    });
    // Only a join that changes the UTXO set in place takes blocks from elsewhere.
    let is_lacking = is_best
        && available < wanted
        && !node.ledger().pruning.is_pruned
        && node.ledger().pruning.target().is_none()
        && is_in_place(node.chainstate(), node.dir())
        && saved.key == Key { target: saved.key.target, ..key(node, node.tip()) }
        && directory::may_carry_on_in(node.dir().disk(), node.options())?.is_some();
    Ok(is_lacking.then_some(end))
}

/// The target of an interrupted join, and how far the join got.
#[derive(Clone, Copy, Debug)]
pub struct SavedTarget {
    /// The last block of the join.
    pub target: BlockId,
    /// Share of the work that is done, from 0 to 1.
    pub done: f64,
}

/// Returns the key of a join from the tip of `node` to `target`. It can carry on from saved work
/// with the same key.
fn key(node: &Node, target: BlockId) -> Key {
    let base = node.tree().node(node.tip()).hash;
    let target = node.tree().node(target).hash;
    let set = if is_in_place(node.chainstate(), node.dir()) { "in place" } else { "new" };
    let engine = node.options().scripts.engine.name();
    let kind = format!("{:?}, {set}, {engine}", node.options().assumevalid);
    Key { base, target, kind }
}

/// Returns whether the join changes the existing UTXO set, instead of building a new one next to
/// it.
fn is_in_place(chainstate: &Chainstate, dir: &DataDir) -> bool {
    chainstate.dir() == dir.chainstate_path()
}

/// Returns whether saved work is of the blocks of the plan, and these are stored where they were.
fn fits(saved: &Saved, plan: &JoinPlan, shared: &Shared, ledger: &Ledger) -> bool {
    let mut next = 0;
    let spans = &saved.state.spans;
    let in_order = spans.iter().all(|span| std::mem::replace(&mut next, span.end) == span.first);
    in_order
        && next == plan.steps.len()
        && saved.layout.covers(plan.first_height..plan.end_height())
        && saved.state.checked <= next
        && saved.state.assumed <= plan.assumed_blocks(shared.tree)
        && saved.state.undo.iter().all(|undo| (undo.index as usize) < next)
        && has_undo(&saved.state.undo, shared.files)
        && saved.positions == positions(&saved.state, plan, &ledger.records.all)
}

/// Returns whether the rev files still have all of this undo data: they are cut when a join is
/// given up.
fn has_undo(undo: &[UndoAt], files: &BlockFiles) -> bool {
    let infos = files.infos();
    let is_there = |UndoAt { at, .. }: &UndoAt| {
        infos.get(at.file as usize).is_some_and(|info| at.pos < info.undo_size)
    };
    undo.iter().all(is_there)
}

/// Returns the double SHA-256 of the positions of all blocks that are read.
fn positions(state: &JoinState, plan: &JoinPlan, records: &[IndexRecord]) -> Hash {
    let mut hasher = Sha256d::default();
    for index in state.spans.iter().flat_map(|span| span.first..span.next) {
        let record = &records[plan.steps[index].id.index()];
        let pos = record.block_pos().map_or([u32::MAX; 2], |pos| [pos.file, pos.pos]);
        pos.iter().for_each(|number| hasher.update(&number.to_le_bytes()));
    }
    hasher.finish()
}

/// Returns the memory that a join may take, and its number of threads.
fn memory(options: &Options, ledger: &Ledger) -> Memory {
    let workers = threads::workers(options.threads);
    Memory { bytes: ledger.limit.share.cache_bytes, workers }
}

/// Returns whether the operating system failed to read a file that may be intact, as opposed to a
/// file that is missing or changed.
fn is_refused(error: &StoreError) -> bool {
    error.source.as_ref().is_some_and(|source| source.kind() != io::ErrorKind::NotFound)
}

/// Returns the words of a full disk's error that say what is kept.
fn kept(is_saved: bool) -> &'static str {
    if is_saved {
        "what was saved is kept; run the same command to continue"
    } else {
        "nothing was saved yet, and the temporary files are removed"
    }
}
