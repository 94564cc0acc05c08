//! Rebuilds the block index from the block files (Core's `-reindex`), for a directory whose index
//! is damaged or lost.
//!
//! Headers are read first, in whatever order the blocks are stored; then every block is checked by
//! the rules that need no coins. A rev file does not say which block a record belongs to, so the
//! new index takes the positions of undo data from the present one, where their checksums match.
//! Nothing on disk changes before all of that is in memory and the new index is known to reach the
//! best block of the present UTXO set, so the directory opens at the same tip before and after the
//! exchange. The chainstate is rebuilt after that, and undo data that is missing is written again.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind::NotFound;

use apus_chain::{BlockId, Tree};
use apus_coins::{Heights, for_each_spending_tx};
use apus_consensus::{RuleError, proof_of_work};
use apus_disk::{Disk, StoreError};
use apus_hash::Hash;
use apus_node::block::check::{History, check_bytes};
use apus_node::block::step::Step;
use apus_node::block_records::{note_stored, record_of_header};
use apus_node::commit_job::index_entry;
use apus_node::directory::open_directory;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::mend::note_file;
use apus_node::options::Options;
use apus_node::rebuild;
use apus_node::rebuild::MARK;
use apus_node::refusals::Refusals;
use apus_node::scan::{Findings, scan};
use apus_node::snapshot_chainstate::SnapshotChainstate;
use apus_node::sources::{BlockOrigin, SourcePlace, Sources};
use apus_node::system_clock::refuse_clock_behind;
use apus_progress::outcome::Refusal;
use apus_progress::{Method, Phase, Progress, Watch};
use apus_store::layout::REBUILT_FLAG;
use apus_store::{
    BlockFiles, BlockFilesOptions, BlockSource, BlockStatus, DataDir, FlatFilePos, IndexDb,
    IndexEntry, IndexRecord, SourceItem, refuse_missing_blocks,
};
use apus_wire::{BlockView, Cursor, Header};
use rayon::prelude::*;

use crate::shrink::{self, Searched};
use crate::swift;

/// Length in bytes of the checksum after the undo data of a block.
const UNDO_CHECKSUM_BYTES: u32 = 32;

/// Number of blocks that are checked before the flag to stop is read again.
const BATCH_BLOCKS: usize = 512;

/// The blocks found in the block files, and the present index.
struct Inventory {
    tree: Tree,
    sources: Sources,
    refusals: Refusals,
    /// The records of the present index, by the hashes of their blocks; empty if it cannot be read.
    present: HashMap<Hash, IndexRecord>,
    files: BlockFiles,
}

/// The result of checking the copies of one block.
enum Verdict {
    /// The copy at this place is valid. `undo` is the undo data that the present index names for
    /// it, if that is whole.
    Good { place: SourcePlace, tx_count: u32, undo: Option<Undo> },
    /// The copy at this place is the block, and the block breaks a rule.
    Invalid { place: SourcePlace, error: RuleError },
    /// No copy is the block.
    Damaged(Vec<DamagedCopy>),
}

/// Where the undo data of a block is in the rev file of the same number as its block file.
#[derive(Clone, Copy)]
struct Undo {
    pos: u32,
    /// Offset of the first byte after it.
    end: u32,
}

/// Bytes at a place that are not the block that their header names.
struct DamagedCopy {
    place: SourcePlace,
    what: String,
}

/// A block that was found, and the result of checking it.
struct Checked {
    id: BlockId,
    verdict: Verdict,
}

/// Rebuilds the index of the data directory's block files, unless an earlier run has done so and
/// was interrupted while it rebuilt the chainstate. Returns the blocks and other bytes in the files
/// that were refused.
///
/// # Errors
/// Block files are missing or cannot be read, the blocks in them do not reach the best block of the
/// present UTXO set, or `watch` asks to stop: the directory is then unchanged. Or the disk fails.
pub fn rebuild(disk: &Disk, options: &Options, watch: Watch) -> Result<Vec<Refusal>, SyncError> {
    let (source, above) = open_files(disk, options)?.split_at_missing();
    let dir = open_directory(options, disk, false)?;
    if was_rebuilt(&dir) {
        return Ok(Vec::new());
    }
    let pool = apus_host::threads::pool(options.threads)?;
    let mut inventory = Inventory::new(options, &dir);
    let present = read_present(&dir, options);
    let had_index = present.is_some();
    inventory.take_present(present.unwrap_or_default());
    inventory.scan(&source, watch)?;
    let left_out = inventory.left_out(&source, &above)?;
    let checked = pool.install(|| inventory.check_all(watch))?;
    let entries = inventory.entries(checked, options.network.segwit_height)?;
    let lost = inventory.lost_from(&entries);
    let Inventory { tree, refusals, files, .. } = inventory;
    let searched = Searched::Files { refused: refusals.listed.first(), has_index: had_index };
    let is_compared = shrink::check_reach(&dir, &tree, options, searched);
    if is_compared.is_err() {
        // The next sync with sources or peers stores their blocks again.
        let is_there = |file: &u32| files.block_path(*file).exists();
        for file in lost.into_iter().filter(is_there) {
            note_file(disk, dir.path(), file)?;
        }
    }
    if let (Err(_) | Ok(false), Some(mut left_out)) = (&is_compared, left_out) {
        left_out.what += if had_index && is_compared.is_err() {
            "; put the file back, or `apus sync --from` a node or a file that has its blocks, \
             which stores them again"
        } else {
            "; put the file back, or sync into a new directory (`apus sync --from` a node with all \
             blocks `--datadir` new)"
        };
        return Err(left_out.into());
    }
    is_compared?;
    // An interrupted rebuild or SwiftSync needs undo data that the new index may not name.
    rebuild::remove(disk, dir.path())?;
    // bitcoind does not start with a UTXO set from a snapshot if the index may lack its base block.
    if let Some(snapshot) = SnapshotChainstate::find_or_clear(disk, dir.path())?
        && !(had_index && tree.find(&snapshot.base).is_some())
    {
        watch.observer.note(&format!(
            "The UTXO set that bitcoind has loaded from a snapshot of block {} is removed, as by \
             bitcoind -reindex",
            snapshot.base
        ));
        snapshot.give_up()?;
    }
    for method in Method::ALL {
        match method {
            Method::InOrder | Method::Join => {}
            Method::SwiftSync => {
                let saved = dir.path().join(swift::directory::DIRECTORY);
                swift::directory::remove_directory(disk, &saved)?;
            }
        }
    }
    let changes = files.flush()?;
    pool.install(|| IndexDb::rebuild(disk, &dir.index_path(), &changes, &entries))?;
    Ok(refusals.listed)
}

/// Reads the entries of the present index; `None` if it is missing or damaged, or if Bitcoin Core
/// has begun to rebuild it.
fn read_present(dir: &DataDir, options: &Options) -> Option<Vec<IndexEntry>> {
    let index = IndexDb::open_read_only(dir.disk(), &dir.index_path());
    match index.and_then(|index| index.load(&options.network)) {
        Ok(index) => (!index.reindexing).then_some(index.entries),
        Err(error) => {
            tracing::debug!(target: "reindex", "the present index cannot be read: {error}");
            None
        }
    }
}

/// Removes the mark that says that the index is new and the chainstate has yet to be rebuilt.
pub fn finish(disk: &Disk, options: &Options) -> Result<(), StoreError> {
    let path = options.network_dir().join("blocks").join("index");
    IndexDb::open(disk, &path)?.forget_rebuilt()
}

/// Returns whether an earlier run has rebuilt the index and was interrupted while it rebuilt the
/// chainstate.
fn was_rebuilt(dir: &DataDir) -> bool {
    let is_whole = || {
        let (db, index, _) = dir.open_blocks()?;
        Ok::<bool, StoreError>(!index.reindexing && db.read_flag(REBUILT_FLAG)? == Some(true))
    };
    dir.path().join(MARK).exists() && is_whole().unwrap_or(false)
}

/// Opens the block files for reading.
///
/// # Errors
/// There are none, or they cannot be read.
fn open_files(disk: &Disk, options: &Options) -> Result<BlockSource, SyncError> {
    let network_dir = options.network_dir();
    let blocks = options.blocks_path();
    refuse_missing_blocks(disk, &network_dir, &blocks, &options.network)?;
    if !network_dir.is_dir() || !blocks.is_dir() {
        return Err(SyncError::Input(format!(
            "{} does not exist: there are no block files to index; `apus sync` downloads blocks, \
             or reads them from files with --from",
            blocks.display()
        )));
    }
    Ok(BlockSource::open(&blocks, &options.network)?)
}

impl Inventory {
    /// Creates an inventory of the block files in `dir` with only the genesis block.
    fn new(options: &Options, dir: &DataDir) -> Self {
        Self {
            tree: Tree::new(options.network.clone()),
            sources: Sources::default(),
            refusals: Refusals::default(),
            present: HashMap::new(),
            files: BlockFiles::new(
                dir.disk(),
                dir.blocks_path(),
                options.network.magic,
                dir.obfuscation(),
                Vec::new(),
                BlockFilesOptions::default(),
            ),
        }
    }

    /// Takes the headers of the present index into the tree, parents first. They were accepted
    /// before, so the clock of this computer does not matter for them.
    fn take_present(&mut self, mut entries: Vec<IndexEntry>) {
        entries.sort_unstable_by_key(|entry| entry.height);
        for entry in entries {
            let has_work = proof_of_work(&entry.hash, entry.header.bits, self.tree.network());
            if has_work && self.tree.accept_header(&entry.header, i64::from(u32::MAX)).is_ok() {
                self.present.insert(entry.hash, entry.record);
            }
        }
    }

    /// Adds the blocks in the files of `source` to the inventory.
    fn scan(&mut self, source: &BlockSource, watch: Watch) -> Result<(), SyncError> {
        let Self { tree, sources, refusals, .. } = self;
        let note = |findings: &mut Findings, id, place| findings.sources.note(id, place);
        let opened = std::slice::from_ref(source);
        scan(Findings { tree, sources, refusals }, note, opened, watch)?;
        match self.sources.from_future {
            Some(time) => refuse_clock_behind("a block in the block files", time),
            None => Ok(()),
        }
    }

    /// Returns the error that names the first missing file if a file `above` it has a block that
    /// none below it has. Core passes over these files, and later overwrites them.
    fn left_out(
        &self,
        source: &BlockSource,
        above: &BlockSource,
    ) -> Result<Option<StoreError>, StoreError> {
        for item in above.scan_headers() {
            let SourceItem::Block(block) = item? else { continue };
            let header = Header::parse(&mut Cursor::new(&block.bytes));
            let id = header.ok().and_then(|header| self.tree.find(&header.hash()));
            if id.is_some_and(|id| self.sources.place(id).is_some()) {
                continue;
            }
            let missing = source.path().join(format!("blk{:05}.dat", source.files().len()));
            let what = "this block file is missing: it was pruned or lost, and an index of the \
                        files before it could not reach the tip";
            return Ok(Some(StoreError::new(missing, what)));
        }
        Ok(None)
    }

    /// Checks every block that was found, in the order in which they are stored.
    fn check_all(&self, watch: Watch) -> Result<Vec<Checked>, SyncError> {
        let order = self.sources.in_order(self.tree.ids());
        let mut all = Vec::with_capacity(order.len());
        for batch in order.chunks(BATCH_BLOCKS) {
            if watch.is_stopped() {
                return Err(SyncError::Stopped);
            }
            let checked =
                batch.par_iter().map(|id| Ok(Checked { id: *id, verdict: self.check(*id)? }));
            all.extend(checked.collect::<Result<Vec<_>, StoreError>>()?);
            let best = self.tree.node(self.tree.best_header());
            watch.observer.observe(&Progress {
                height: best.height,
                blocks: all.len() as u64,
                fraction: all.len() as f64 / order.len() as f64,
                ..Progress::of(Phase::Indexing)
            });
        }
        Ok(all)
    }

    /// Checks the copies of a block, up to the first that is valid or breaks a rule.
    fn check(&self, id: BlockId) -> Result<Verdict, StoreError> {
        let mut damaged = Vec::new();
        for place in self.sources.copies(id) {
            let bytes = match self.sources.read(place) {
                Ok(bytes) => bytes,
                Err(error) if error.source.is_some() => return Err(error),
                Err(error) => {
                    damaged.push(DamagedCopy { place, what: error.what });
                    continue;
                }
            };
            let step = Step { id, place: BlockOrigin::Source(place), weight: 0 };
            match check_bytes(&self.tree, step, History::New, bytes) {
                Ok(block) => {
                    let tx_count = block.view().tx_count() as u32;
                    let undo = self.undo_of(id, place, block.view())?;
                    return Ok(Verdict::Good { place, tx_count, undo });
                }
                Err(Fault::Rule(_, error)) => return Ok(Verdict::Invalid { place, error }),
                Err(Fault::Damaged(_, what)) => damaged.push(DamagedCopy { place, what }),
                Err(Fault::Store(error)) => return Err(error),
                Err(_) => unreachable!("the bytes of a source are checked"),
            }
        }
        Ok(Verdict::Damaged(damaged))
    }

    /// Returns where the present index has the undo data of a block that is stored at `place`;
    /// `None` if there is none, if it is damaged, or if it lacks heights (Core before 0.15).
    fn undo_of<B: AsRef<[u8]>>(
        &self,
        id: BlockId,
        place: SourcePlace,
        block: &BlockView<B>,
    ) -> Result<Option<Undo>, StoreError> {
        let known = self.present.get(&self.tree.node(id).hash).and_then(IndexRecord::undo_pos);
        let Some(pos) = known.filter(|pos| pos.file == place.file) else { return Ok(None) };
        match self.files.read_undo(pos, &self.tree.prev_hash(id)) {
            Ok(payload) => {
                let end = pos.pos.saturating_add(payload.len() as u32 + UNDO_CHECKSUM_BYTES);
                let checked = for_each_spending_tx(&payload, block, Heights::Needed, |_, _| ());
                Ok(checked.is_ok().then_some(Undo { pos: pos.pos, end }))
            }
            Err(error) if error.source.as_ref().is_some_and(|e| e.kind() != NotFound) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns the index entries of all blocks, and notes in the block files what each of them
    /// holds. Blocks that are stored and valid are available in the tree from then on.
    fn entries(
        &mut self,
        checked: Vec<Checked>,
        segwit_height: u32,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let mut good = Vec::with_capacity(checked.len());
        for Checked { id, verdict } in checked {
            match verdict {
                Verdict::Good { place, tx_count, undo } => {
                    self.tree.mark_available(id);
                    good.push((id, place, tx_count, undo));
                }
                Verdict::Invalid { place, error } => {
                    self.tree.mark_failed(id);
                    self.refuse(id, place, error.to_string());
                }
                Verdict::Damaged(copies) => {
                    for DamagedCopy { place, what } in copies {
                        let remedy = "`apus sync --from` a node or a file that has the block \
                                      stores it again";
                        let reason = format!("the block stored here is damaged ({what}); {remedy}");
                        self.refuse(id, place, reason);
                    }
                }
            }
        }
        let entry = |id: BlockId| index_entry(&self.tree, id, record_of_header(&self.tree, id));
        let mut entries: Vec<IndexEntry> = self.tree.ids().map(entry).collect();
        for (id, place, tx_count, undo) in good {
            let pos = FlatFilePos { file: place.file, pos: self.offset(place.file, place.offset)? };
            let entry = &mut entries[id.index()];
            let has_segwit = entry.height >= segwit_height;
            note_stored(&mut entry.record, pos, tx_count, has_segwit);
            self.files.note_block(pos, place.len, entry.height, entry.header.time)?;
            if let Some(Undo { pos, end }) = undo {
                entry.record.undo_pos = pos;
                entry.record.status.0 |= BlockStatus::BLOCK_HAVE_UNDO;
                self.files.note_undo(place.file, end);
            }
        }
        self.keep_validity(&mut entries);
        for (file, end) in (0..).zip(self.sources.ends()).filter(|(_, end)| **end > 0) {
            self.files.note_used(file, self.offset(file, *end)?)?;
        }
        Ok(entries)
    }

    /// Returns the numbers of the files that have lost blocks: the present index names a block in
    /// them, and none of the `entries` found in the files does.
    fn lost_from(&self, entries: &[IndexEntry]) -> BTreeSet<u32> {
        let lost = entries.iter().filter(|entry| entry.record.block_pos().is_none());
        let known = lost.filter_map(|entry| self.present.get(&entry.hash)?.block_pos());
        known.map(|pos| pos.file).collect()
    }

    /// Keeps for stored blocks how far the present index says that they were validated, which
    /// Core expects of every block of the active chain and its parents.
    fn keep_validity(&self, entries: &mut [IndexEntry]) {
        for id in self.tree.ids() {
            let known = self.present.get(&entries[id.index()].hash);
            let Some(known) = known.filter(|known| !known.status.is_failed()) else { continue };
            let parent = self.tree.node(id).prev;
            let of_parent = parent.map_or(BlockStatus::BLOCK_VALID_MASK, |parent| {
                entries[parent.index()].record.status.0 & BlockStatus::BLOCK_VALID_MASK
            });
            let record = &mut entries[id.index()].record;
            // Core also sets this flag for the blocks below a snapshot, which are not stored.
            record.status.0 |= known.status.0 & BlockStatus::BLOCK_OPT_WITNESS;
            if record.block_pos().is_some() {
                let level = known.status.0 & BlockStatus::BLOCK_VALID_MASK;
                record.status.raise_validity(level.min(of_parent));
            }
        }
    }

    /// Converts an offset in a file to the 32 bits that the index has for it.
    fn offset(&self, file: u32, offset: u64) -> Result<u32, StoreError> {
        u32::try_from(offset).map_err(|_| {
            let path = &self.sources.files()[file as usize].path;
            let what = "a block file is at most 4 GiB long: this one is not Bitcoin Core's";
            StoreError::corrupt(path, offset, what)
        })
    }

    fn refuse(&mut self, id: BlockId, place: SourcePlace, reason: String) {
        let block = Some(self.tree.node(id).hash);
        let refusal = Refusal { block, ..self.sources.refusal(place, reason) };
        self.refusals.listed.push(refusal);
    }
}
