//! What a join works with, from its beginning to its end, and the directory where it saves how far
//! it is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::plan::Plan;
use super::saved::{Key, Saved, ToSave};
use super::state::{State, UndoAt};
use crate::chain::BlockId;
use crate::disk::{Caching, Disk, Parts, StoreError};
use crate::hash::{Hash, Sha256d};
use crate::join::{Layout, Memory, cut};
use crate::leveldb::PendingTable;
use crate::store::IndexEntry;
use crate::sync::commit::Ledger;
use crate::sync::node::Node;
use crate::sync::options::Options;
use crate::sync::words::size;
use crate::sync::{resources, space};

/// The file of records and spent coins in the join's directory.
const SPILL: &str = "spill.dat";
/// The file of saved progress there.
const PROGRESS: &str = "progress";

/// Most of the spill is read again soon, and all of it is deleted: what fits in memory need never
/// reach the disk.
const CACHING: Caching = Caching::PageCache;

/// The parts of a join.
pub(super) struct Workspace {
    disk: Disk,
    directory: PathBuf,
    key: Key,
    pub parts: Parts,
    pub layout: Layout,
    pub memory: Memory,
    pub state: State,
    /// Time from one save to the next.
    pub save_every: Duration,
}

impl Workspace {
    /// Takes up what an interrupted join has saved, if that was the same work and the blocks that it
    /// counts are stored where they were; else begins from nothing.
    ///
    /// # Errors
    /// The disk fails.
    pub fn begin(node: &mut Node, plan: &Plan) -> Result<Self, StoreError> {
        let key = key(node, plan);
        let saved = load(node.dir.disk(), &node.options)?;
        if let Some(saved) = saved.filter(|saved| saved.key == key && fits(saved, plan, node)) {
            match Self::resume(node, key.clone(), saved) {
                Ok(work) => return Ok(work),
                Err(error) if is_refused(&error) => return Err(error),
                Err(error) => tracing::warn!("the join starts over: {error}"),
            }
        }
        Self::forget(node)?;
        let memory = memory(node);
        let sizes: Vec<u64> = plan.steps.iter().map(|step| step.weight).collect();
        let layout = Layout::new(plan.first_height, &sizes, memory);
        let directory = node.options.spill_path();
        let (path, piece_bytes) = (directory.join(SPILL), layout.piece_bytes(memory));
        let parts = Parts::new(node.dir.disk(), path, layout.parts(), piece_bytes, CACHING);
        let state = State::new(&cut(&sizes, memory.workers), layout.partitions());
        let (disk, save_every) = (node.dir.disk().clone(), node.options.save_every);
        Ok(Self { disk, directory, key, parts, layout, memory, state, save_every })
    }

    fn resume(node: &Node, key: Key, saved: Saved) -> Result<Self, StoreError> {
        let memory = memory(node);
        let (layout, state) = (saved.layout, saved.state);
        let directory = node.options.spill_path();
        let (path, piece_bytes) = (directory.join(SPILL), layout.piece_bytes(memory));
        let parts = Parts::resume(node.dir.disk(), path, piece_bytes, &saved.parts, CACHING)?;
        let (disk, save_every) = (node.dir.disk().clone(), node.options.save_every);
        tracing::debug!(
            read = state.blocks_read(),
            checked = state.checked,
            "carrying on with an interrupted join"
        );
        Ok(Self { disk, directory, key, parts, layout, memory, state, save_every })
    }

    /// Saves the progress: records and spent coins, and then the file that names their places. What
    /// else it names is durable already: block files, undo data, and the tables in the state. After
    /// a crash in between, the progress saved before counts, whose places are still good. No worker
    /// may run.
    ///
    /// # Errors
    /// The disk fails.
    pub fn save(&mut self, plan: &Plan, ledger: &Ledger) -> Result<(), StoreError> {
        // A plan may have ended below a block since it was made.
        self.key.target = ledger.entries[plan.steps[plan.steps.len() - 1].id.index()].hash;
        let room = self.parts.take_forgotten();
        let parts = self.parts.save()?;
        let to_save = ToSave {
            key: &self.key,
            layout: &self.layout,
            state: &self.state,
            positions: positions(&self.state, plan, &ledger.entries),
            parts: &parts,
        };
        self.disk.create_dir_all(&self.directory)?;
        self.disk.write_private(self.directory.join(PROGRESS), &to_save.to_bytes())?;
        self.parts.release(room)
    }

    /// Bytes written to the spill file.
    pub fn spilled_bytes(&self) -> u64 {
        self.parts.bytes_written()
    }

    /// Removes everything, after the commit.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(self) -> Result<(), StoreError> {
        // The progress goes first: it must not name a file that is gone.
        let Self { disk, directory, parts, .. } = self;
        let progress = directory.join(PROGRESS);
        if progress.exists() {
            disk.remove(progress)?;
            disk.sync_dir(&directory)?;
        }
        parts.destroy()?;
        remove_directory(&disk, &directory)
    }

    /// Ends the work for an error of the disk. If a later run has nothing to carry on from, all
    /// room is given back; a full disk is told with what it takes to go on.
    pub fn fail(self, plan: &Plan, mut error: StoreError) -> StoreError {
        let is_saved = self.directory.join(PROGRESS).is_file();
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        if error.source.as_ref().is_some_and(|source| kinds.contains(&source.kind())) {
            let blocks: u64 = plan.steps.iter().map(|step| step.weight).sum();
            error.what += &match error.path.starts_with(&self.directory) {
                true => format!(
                    " (the disk is full: the temporary files of this join have {}, and may come to \
                     {}; free some space, name another disk with --spilldir, or sync with \
                     --method=order, which makes none; {})",
                    size(self.spilled_bytes()),
                    size(space::spill_bytes(blocks)),
                    kept(is_saved)
                ),
                false => format!(" (the disk is full: free some space; {})", kept(is_saved)),
            };
        }
        if !is_saved && let Err(left) = self.remove() {
            tracing::debug!("temporary files of the join remain: {left}");
        }
        error
    }

    /// Gives up what an interrupted join has left, and cuts rev files back to what the block index
    /// names.
    ///
    /// # Errors
    /// The disk fails.
    pub fn forget(node: &mut Node) -> Result<(), StoreError> {
        let directory = node.options.spill_path();
        if !directory.is_dir() {
            return Ok(());
        }
        tracing::debug!("giving up an interrupted join");
        let disk = node.dir.disk().clone();
        let tables = load(&disk, &node.options)?.map(|saved| saved.state.paired.tables);
        // The progress goes first: after a crash it must name nothing that is gone. The directory
        // goes last, since it is what says that there is something to give up.
        disk.remove(directory.join(PROGRESS))?;
        disk.sync_dir(&directory)?;
        node.chainstate.remove_pending(&tables.unwrap_or_default())?;
        let named = node.ledger.entries.iter().filter_map(IndexEntry::undo_pos);
        node.files.cut_undo(named)?;
        let (shared, ledger) = node.split();
        ledger.write_index(shared.files)?;
        remove_directory(&disk, &directory)
    }
}

/// The tables of an interrupted join that are not committed yet, which opening the chainstate must
/// not remove.
pub(crate) fn pending_tables(disk: &Disk, options: &Options) -> Result<Vec<u64>, StoreError> {
    let saved = load(disk, options)?;
    let tables = saved.map_or_else(Vec::new, |saved| saved.state.paired.tables);
    Ok(tables.iter().map(|table: &PendingTable| table.number).collect())
}

/// The target of an interrupted join, if it is an ancestor of `target` or that block.
pub(super) fn saved_target(node: &Node, target: BlockId) -> Result<Option<BlockId>, StoreError> {
    let Some(saved) = load(node.dir.disk(), &node.options)? else { return Ok(None) };
    let found = node.tree.find(&saved.key.target);
    Ok(found.filter(|id| {
        let height = node.tree.node(*id).height;
        node.tree.ancestor(target, height) == Some(*id)
    }))
}

/// How many blocks an interrupted join has read and checked.
pub(crate) fn unfinished(disk: &Disk, options: &Options) -> Result<Option<u32>, StoreError> {
    Ok(load(disk, options)?.map(|saved| saved.state.blocks_read() as u32))
}

fn load(disk: &Disk, options: &Options) -> Result<Option<Saved>, StoreError> {
    let file = disk.read(options.spill_path().join(PROGRESS))?;
    Ok(file.and_then(|file| Saved::parse(&file)))
}

fn key(node: &Node, plan: &Plan) -> Key {
    let base = node.tree.node(node.tip()).hash;
    let target = plan.chain.tip().map_or(Hash::ZERO, |id| node.tree.node(id).hash);
    let set = if node.chainstate.dir() == node.dir.chainstate_path() { "in place" } else { "new" };
    let kind = format!("{:?}, {set}", node.options.assumevalid);
    Key { base, target, kind }
}

/// Whether saved progress is of the blocks of the plan, where they are stored now.
fn fits(saved: &Saved, plan: &Plan, node: &Node) -> bool {
    let mut next = 0;
    let spans = &saved.state.spans;
    let in_order = spans.iter().all(|span| std::mem::replace(&mut next, span.end) == span.first);
    in_order
        && next == plan.steps.len()
        && saved.layout.first_height == plan.first_height
        && saved.state.checked <= next
        && saved.state.undo.iter().all(|undo| (undo.index as usize) < next)
        && has_undo(&saved.state.undo, plan, node)
        && saved.positions == positions(&saved.state, plan, &node.ledger.entries)
}

/// Whether the rev files still reach beyond all of this undo data: whoever gave up the join has cut
/// them.
fn has_undo(undo: &[UndoAt], plan: &Plan, node: &Node) -> bool {
    let infos = node.files.infos();
    undo.iter().all(|undo| {
        let file = node.entry(plan.steps[undo.index as usize].id).file;
        infos.get(file as usize).is_some_and(|info| undo.pos < info.undo_size)
    })
}

/// Double SHA-256 of the positions of all blocks that are read.
fn positions(state: &State, plan: &Plan, entries: &[IndexEntry]) -> Hash {
    let mut hasher = Sha256d::default();
    for index in state.spans.iter().flat_map(|span| span.first..span.next) {
        let entry = &entries[plan.steps[index].id.index()];
        let pos = entry.block_pos().map_or([u32::MAX; 2], |pos| [pos.file, pos.pos]);
        pos.iter().for_each(|number| hasher.update(&number.to_le_bytes()));
    }
    hasher.finish()
}

/// The memory that a join may take, and its threads: one more than there are cores, since one or
/// another waits for the disk. With one core there is one.
fn memory(node: &Node) -> Memory {
    let threads = node.options.threads;
    let workers = if threads > 1 { threads + 1 } else { 1 };
    let bytes = resources::cache_bytes(node.options.dbcache_bytes, node.tree.len());
    Memory { bytes, workers }
}

/// Whether the system has refused to read what may be whole, rather than the file being gone or
/// other than it was.
fn is_refused(error: &StoreError) -> bool {
    error.source.as_ref().is_some_and(|source| source.kind() != io::ErrorKind::NotFound)
}

/// Words for what becomes of the work done before a disk was full.
fn kept(is_saved: bool) -> &'static str {
    match is_saved {
        true => "what was saved is kept, and the same command carries on",
        false => "nothing was saved yet, and the temporary files are removed",
    }
}

fn remove_directory(disk: &Disk, directory: &Path) -> Result<(), StoreError> {
    if !directory.is_dir() {
        return Ok(());
    }
    for name in disk.list(directory)? {
        disk.remove(directory.join(name))?;
    }
    disk.remove_empty_dir(directory)
}
