//! Rebuilds the block index from the block files (Core's `-reindex`), for a directory whose index
//! is damaged or lost.
//!
//! Headers are read first, in whatever order the blocks are stored; then every block is checked by
//! the rules that need no coins. Nothing on disk changes before all of that is in memory. The new
//! index names no undo data, since a rev file does not say which block a record belongs to. The
//! chainstate is rebuilt after that, and undo data is then written again from the start of each rev
//! file.

use std::path::Path;

use apus_chain::{BlockId, Tree};
use apus_disk::{Disk, StoreError};
use apus_node::block::check::{History, check_bytes};
use apus_node::block::step::Step;
use apus_node::block_records::{note_stored, record_of_header};
use apus_node::commit_job::index_entry;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::opened::open_directory;
use apus_node::options::Options;
use apus_node::outcome::Refusal;
use apus_node::progress::{Phase, Progress, Watch};
use apus_node::rebuild;
use apus_node::rebuild::MARK;
use apus_node::scan::{Findings, scan};
use apus_node::snapshot_chainstate::SnapshotChainstate;
use apus_node::sources::{Place, SourcePlace, Sources};
use apus_rules::RuleError;
use apus_store::layout::REBUILT_FLAG;
use apus_store::{
    BlockFiles, BlockFilesOptions, BlockSource, DataDir, FlatFilePos, IndexDb, IndexEntry,
};
use apus_wire::{BlockView, genesis_block};
use rayon::prelude::*;

use crate::swift;

/// Number of blocks that are checked before the flag to stop is read again.
const BATCH_BLOCKS: usize = 512;

/// The blocks found in the block files.
struct Inventory {
    tree: Tree,
    sources: Sources,
    refusals: Vec<Refusal>,
}

/// The result of checking the copies of one block.
enum Verdict {
    /// The copy at this place is valid.
    Good { place: SourcePlace, tx_count: u32 },
    /// The copy at this place is the block, and the block breaks a rule.
    Invalid { place: SourcePlace, error: RuleError },
    /// No copy is the block.
    Damaged(Vec<DamagedCopy>),
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
/// Block files are missing, or cannot be read because `xor.dat` is lost; or `watch` asks to stop:
/// the directory is then unchanged. Or the disk fails.
pub fn rebuild(disk: &Disk, options: &Options, watch: Watch) -> Result<Vec<Refusal>, SyncError> {
    let source = open_files(options)?;
    let dir = open_directory(options, disk, false)?;
    if was_rebuilt(&dir) {
        return Ok(Vec::new());
    }
    let pool = apus_node::threads::pool(options.threads)?;
    let mut inventory = Inventory::new(options);
    inventory.scan(&source, watch)?;
    let checked = pool.install(|| inventory.check_all(watch))?;
    let files = BlockFiles::new(
        disk,
        dir.blocks_path(),
        options.network.magic,
        dir.obfuscation(),
        Vec::new(),
        BlockFilesOptions::default(),
    );
    let entries = inventory.entries(checked, &files, options.network.segwit_height)?;
    // An interrupted rebuild or SwiftSync needs undo data that the new index will not name.
    rebuild::give_up(disk, dir.path())?;
    // bitcoind does not start with a UTXO set from a snapshot if the index may lack its base block.
    if let Some(snapshot) = SnapshotChainstate::find_or_clear(disk, dir.path())? {
        watch.observer.note(&format!(
            "The UTXO set that bitcoind has loaded from a snapshot of block {} is removed, as by \
             bitcoind -reindex",
            snapshot.base
        ));
        snapshot.give_up()?;
    }
    swift::directory::remove_directory(disk, &dir.path().join(swift::directory::DIRECTORY))?;
    let changes = files.flush()?;
    pool.install(|| IndexDb::rebuild(disk, &dir.index_path(), &changes, &entries))?;
    Ok(inventory.refusals)
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
/// Some of them are missing, or cannot be read because `xor.dat` is lost.
fn open_files(options: &Options) -> Result<BlockSource, SyncError> {
    let network_dir = options.network_dir();
    let blocks = options.blocks_path();
    if !network_dir.is_dir() || !blocks.is_dir() {
        return Err(SyncError::Input(format!(
            "{} does not exist: there are no block files to index; `apus sync` downloads blocks, \
             or reads them from files with --from",
            blocks.display()
        )));
    }
    let key = blocks.join("xor.dat");
    let source = BlockSource::open(&blocks, &options.network).map_err(|error| {
        let names_chain = error.what.contains("--chain");
        let is_file = error.path.extension().is_some_and(|extension| extension == "dat");
        match key.exists() || names_chain || !is_file || error.source.is_some() {
            true => error,
            false => lost_key(&key, &error.path),
        }
    })?;
    for (expected, file) in source.files().iter().enumerate() {
        if file.number != Some(expected as u32) {
            let missing = blocks.join(format!("blk{expected:05}.dat"));
            let what = "this block file is missing: it was pruned or lost, and an index of the \
                        other files could not reach the tip; put the file back, or sync into a \
                        new directory (`apus sync --from` a node with all blocks `--datadir` new)";
            return Err(StoreError::new(missing, what).into());
        }
    }
    Ok(source)
}

/// Returns the error for block files that cannot be read because their key is lost.
fn lost_key(key: &Path, file: &Path) -> StoreError {
    let what = format!(
        "this file is missing, and {} holds no block that can be read without it: it holds the key \
         with which the block files are obfuscated. Put it back from a copy of this directory, or \
         sync into a new one (`apus sync --from` a node with all blocks `--datadir` new)",
        file.display()
    );
    StoreError::new(key, what)
}

impl Inventory {
    /// Creates an inventory with only the genesis block.
    fn new(options: &Options) -> Self {
        let bytes = genesis_block(&options.network);
        let genesis = BlockView::parse(&bytes).expect("the built-in genesis block parses");
        Self {
            tree: Tree::new(options.network.clone(), *genesis.header()),
            sources: Sources::default(),
            refusals: Vec::new(),
        }
    }

    /// Adds the blocks in the files of `source` to the inventory.
    fn scan(&mut self, source: &BlockSource, watch: Watch) -> Result<(), SyncError> {
        let Self { tree, sources, refusals } = self;
        let note = |findings: &mut Findings, id, place| findings.sources.note(id, place);
        let opened = std::slice::from_ref(source);
        let refused_on = &mut Vec::new();
        scan(Findings { tree, sources, refusals, refused_on }, note, opened, watch)
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
            let step = Step { id, place: Place::Source(place), weight: 0 };
            match check_bytes(&self.tree, step, History::New, bytes) {
                Ok(block) => {
                    let tx_count = block.view().tx_count() as u32;
                    return Ok(Verdict::Good { place, tx_count });
                }
                Err(Fault::Rule(_, error)) => return Ok(Verdict::Invalid { place, error }),
                Err(Fault::Damaged(_, what)) => damaged.push(DamagedCopy { place, what }),
                Err(Fault::Store(error)) => return Err(error),
                Err(_) => unreachable!("the bytes of a source are checked"),
            }
        }
        Ok(Verdict::Damaged(damaged))
    }

    /// Returns the index entries of all blocks, and notes in `files` what each block file holds.
    fn entries(
        &mut self,
        checked: Vec<Checked>,
        files: &BlockFiles,
        segwit_height: u32,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        let mut good = Vec::with_capacity(checked.len());
        for Checked { id, verdict } in checked {
            match verdict {
                Verdict::Good { place, tx_count } => good.push((id, place, tx_count)),
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
        for (id, place, tx_count) in good {
            let pos = FlatFilePos { file: place.file, pos: self.offset(place.file, place.offset)? };
            let entry = &mut entries[id.index()];
            let has_segwit = entry.height >= segwit_height;
            note_stored(&mut entry.record, pos, tx_count, has_segwit);
            files.note_block(pos, place.len, entry.height, entry.header.time)?;
        }
        for (file, end) in (0..).zip(self.sources.ends()).filter(|(_, end)| **end > 0) {
            files.note_used(file, self.offset(file, *end)?)?;
        }
        Ok(entries)
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
        self.refusals.push(refusal);
    }
}
