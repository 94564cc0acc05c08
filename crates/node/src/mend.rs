//! The replacement of damaged stored blocks by good copies from sources or peers.
//!
//! A good copy is written where the block was stored, so that the optional indexes, which name its
//! place, stay as they are. If it does not fit there, or if the file may be another one, since it
//! has content but no block where the index says, the copy is appended like any new block, with
//! its undo data, and then the index points at the new place. After a crash at any point the index
//! names either damaged bytes, which the same command then replaces, or good ones.
//! Damage comes in stretches, such as a bad part of a disk or the lost end of a file. So once one
//! block is found damaged, all blocks of its file are checked.

use std::collections::BTreeSet;
use std::io::ErrorKind::NotFound;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_chain::{BlockId, Tree};
use apus_consensus::CheckedBlock;
use apus_disk::{Disk, StoreError};
use apus_store::{BlockFiles, BlockStatus, FlatFilePos, STORAGE_HEADER_BYTES};

use super::block::step::Step;
use super::block_peers::Wanted;
use super::commit::Ledger;
use super::fault::Fault;
use super::opened::{Node, refusal};
use super::shared::{NEVER, Shared};
use super::sources::{BlockBytes, BlockOrigin, SourcePlace};
use apus_progress::Unobserved;
use apus_progress::outcome::Refusal;

/// A block that passes all rules that need no coins.
type Block = CheckedBlock<BlockBytes>;

/// The file next to Core's `chainstate` that holds the numbers of the blk files in which a damaged
/// block was found without a good copy of it. The next sync with sources or peers checks these
/// files.
pub const NOTE: &str = "damaged-block-files";

/// A damaged stored block.
struct DamagedBlock {
    id: BlockId,
    pos: FlatFilePos,
    /// The fault of its bytes.
    what: String,
    /// Bytes of the file up to which a copy may reach at this place.
    end: u32,
}

/// A copy of a block, read and checked.
struct GoodCopy {
    /// The place in a source; `None` if a peer sent the copy.
    place: Option<SourcePlace>,
    block: Block,
}

/// Makes another copy of a block available whose bytes at `step` are damaged: a source's copy is
/// forgotten, a stored one is replaced. `what` says what is wrong with the bytes.
///
/// # Errors
/// The stored copy cannot be replaced. Its file is noted for a later sync.
pub fn take_another_copy(
    node: &mut Node,
    step: Step,
    what: &str,
    stop: &AtomicBool,
) -> Result<(), StoreError> {
    match step.place {
        // A block from peers is requested again where it is checked.
        BlockOrigin::Peers => Ok(()),
        BlockOrigin::Source(place) => {
            let refusal = refusal(&node.shared(), &step, what.to_string());
            node.refuse(refusal);
            node.forget_copy(step.id, place);
            Ok(())
        }
        BlockOrigin::Stored(pos) => {
            let has_copies =
                !node.sources().all_copies(step.id).is_empty() || node.peers().is_some();
            let before = node.repaired().len();
            if has_copies && !mend_file(node, pos.file, stop)?.is_empty() {
                note_file(node.dir().disk(), node.dir().path(), pos.file)?;
            }
            let hash = node.tree().node(step.id).hash;
            if node.repaired()[before..].iter().any(|block| block.block == Some(hash)) {
                return Ok(());
            }
            Err(stored_damage(node, step.id, pos, what))
        }
    }
}

/// Notes a block file that holds a damaged block in a network's directory, for [`mend_noted`].
pub fn note_file(disk: &Disk, directory: &Path, file: u32) -> Result<(), StoreError> {
    let mut noted = read_note(disk, directory)?;
    noted.insert(file);
    write_note(disk, directory, &noted)
}

/// Replaces the blocks of missing files and the damaged blocks in the noted files, if sources or
/// peers may have them. Returns whether there was a file to check.
///
/// # Errors
/// No good copy of a block of a missing file is found; those stored until then are kept.
pub fn mend_noted(node: &mut Node, stop: &AtomicBool) -> Result<bool, StoreError> {
    if node.sources().files().is_empty() && node.peers().is_none() {
        return Ok(false);
    }
    let disk = node.dir().disk().clone();
    let directory = node.dir().path().to_path_buf();
    let missing = missing_files(node.tree(), node.ledger(), node.files());
    let mut noted = read_note(&disk, &directory)?;
    if !missing.is_empty() {
        // They are no longer missing once their first block is stored again.
        noted.extend(&missing);
        write_note(&disk, &directory, &noted)?;
    }
    if noted.is_empty() || stop.load(Relaxed) {
        return Ok(!noted.is_empty());
    }
    let mut left = noted.clone();
    for file in noted {
        let listed = node.repaired().len();
        let damaged = mend_file(node, file, stop)?;
        if stop.load(Relaxed) {
            return Ok(true);
        }
        if missing.contains(&file) {
            note_restored(node, file, listed, &damaged)?;
        }
        if damaged.is_empty() {
            left.remove(&file);
        }
        for DamagedBlock { id, pos, what, .. } in damaged {
            let error = stored_damage(node, id, pos, &what);
            node.refuse(Refusal {
                path: Some(error.path),
                offset: error.offset,
                block: None,
                reason: error.what,
            });
        }
    }
    write_note(&disk, &directory, &left)?;
    Ok(true)
}

/// Returns the numbers of the blk files that the block index names and that are missing.
fn missing_files(tree: &Tree, ledger: &Ledger, files: &BlockFiles) -> BTreeSet<u32> {
    let stored = |id: BlockId| ledger.record(id).block_pos().map(|pos| pos.file);
    let named: BTreeSet<u32> = tree.ids().filter_map(stored).collect();
    named.into_iter().filter(|file| !files.block_path(*file).exists()).collect()
}

/// Replaces the entries of a file that was missing, those from `listed` on in the list of repaired
/// blocks, by one for the file.
///
/// # Errors
/// Some of its blocks are `left` without a good copy.
fn note_restored(
    node: &mut Node,
    file: u32,
    listed: usize,
    left: &[DamagedBlock],
) -> Result<(), StoreError> {
    let path = node.files().block_path(file);
    let count = node.repaired().drain(listed..).count();
    if let Some(DamagedBlock { id, .. }) = left.first() {
        let block = node.tree().node(*id);
        let what = format!(
            "the file is missing, and the files given with --from have no good copy of {} of its \
             blocks, the first {} at height {}",
            left.len(),
            block.hash,
            block.height
        );
        return Err(StoreError::new(path, what));
    }
    let reason = format!("this file was missing, and its {count} blocks were stored again");
    node.repaired().push(Refusal { path: Some(path), offset: None, block: None, reason });
    Ok(())
}

/// Notes the file of a damaged stored block without a good copy for a later sync, and returns the
/// error: what is wrong with the block, and what to do.
pub fn stored_damage(node: &Node, id: BlockId, pos: FlatFilePos, what: &str) -> StoreError {
    let block = node.tree().node(id);
    let tried = if node.sources().files().is_empty() {
        ""
    } else {
        ", and no good copy is among the files given with --from"
    };
    let mut what = format!(
        "block {} at height {}, stored here, is damaged ({what}){tried}; `apus sync --from` a \
         node or a file that has this block replaces it; then run this command again",
        block.hash, block.height
    );
    if let Err(why) = note_file(node.dir().disk(), node.dir().path(), pos.file) {
        what += &format!(" (the file could not be noted for the sync: {why})");
    }
    node.files().block_error(pos, what)
}

/// Checks every block stored in a file, replaces the damaged ones that have good copies, and
/// returns the other damaged ones.
fn mend_file(
    node: &mut Node,
    file: u32,
    stop: &AtomicBool,
) -> Result<Vec<DamagedBlock>, StoreError> {
    let stored = |id: BlockId| Some((node.record(id).block_pos()?, id));
    let mut blocks: Vec<(FlatFilePos, BlockId)> = node.tree().ids().filter_map(stored).collect();
    blocks.retain(|(pos, _)| pos.file == file);
    blocks.sort_unstable();
    let mut damaged = Vec::new();
    let size = node.files().infos().get(file as usize).map_or(0, |info| info.size);
    let starts =
        blocks.iter().skip(1).map(|(next, _)| next.pos.saturating_sub(STORAGE_HEADER_BYTES));
    for ((pos, id), end) in blocks.iter().zip(starts.chain([size])) {
        if stop.load(Relaxed) {
            break;
        }
        let step = Step { id: *id, place: BlockOrigin::Stored(*pos), weight: 0 };
        if let Err(what) = checked(&node.shared(), step)? {
            damaged.push(DamagedBlock { id: *id, pos: *pos, what, end });
        }
    }
    // One block where the index says: the others belong into this file, too.
    let is_in_place = damaged.len() < blocks.len() || node.files().is_unwritten(file)?;
    let mut left = Vec::new();
    for mut block in damaged {
        if !is_in_place {
            block.end = 0;
        }
        let copy = if stop.load(Relaxed) { None } else { good_copy(node, block.id, stop)? };
        match copy {
            Some(copy) => replace(node, &block, &copy)?,
            None => left.push(block),
        }
    }
    let (shared, ledger) = node.split();
    ledger.write_index(shared.files, shared.tree)?;
    Ok(left)
}

/// Reads and checks the block of a step; the inner error says what is wrong with its bytes.
fn checked(shared: &Shared, step: Step) -> Result<Result<Block, String>, StoreError> {
    match shared.checked(step, &NEVER) {
        Ok(block) => Ok(Ok(block)),
        Err(Fault::Store(error)) if is_not_found(&error) => Ok(Err(error.to_string())),
        Err(Fault::Store(error)) => Err(error),
        Err(Fault::Damaged(_, what)) => Ok(Err(what)),
        Err(Fault::Rule(_, error)) => Ok(Err(error.to_string())),
        Err(_) => Ok(Err("no copy".to_string())),
    }
}

/// Returns the first good copy of a block in the sources, or from a peer; bad ones in the sources
/// become refusals.
fn good_copy(
    node: &mut Node,
    id: BlockId,
    stop: &AtomicBool,
) -> Result<Option<GoodCopy>, StoreError> {
    for place in node.sources().all_copies(id) {
        let step = Step { id, place: BlockOrigin::Source(place), weight: 0 };
        match checked(&node.shared(), step)? {
            Ok(block) => return Ok(Some(GoodCopy { place: Some(place), block })),
            Err(what) => {
                let refusal = refusal(&node.shared(), &step, what);
                node.refuse(refusal);
            }
        }
    }
    copy_of_peers(&node.shared(), id, stop)
}

/// Downloads a block from a peer; `None` if no peer has it.
fn copy_of_peers(
    shared: &Shared,
    id: BlockId,
    stop: &AtomicBool,
) -> Result<Option<GoodCopy>, StoreError> {
    let step = Step { id, place: BlockOrigin::Peers, weight: 0 };
    if shared.peers.is_none() {
        return Ok(None);
    }
    let fetch = || shared.checked(step, stop);
    match shared.serve(Wanted::of([&[step][..]]), &Unobserved, fetch) {
        Ok(block) => Ok(Some(GoodCopy { place: None, block })),
        Err(Fault::Store(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Writes a good copy of a stored block in its place, or appends it to the block files, and its
/// undo data, if it has any, to the rev file of the same number. The caller writes the index.
fn replace(node: &mut Node, damaged: &DamagedBlock, copy: &GoodCopy) -> Result<(), StoreError> {
    let DamagedBlock { id, pos, what, end } = damaged;
    let step = Step { id: *id, place: BlockOrigin::Stored(*pos), weight: 0 };
    let from = match copy.place {
        None => "that of a peer".to_string(),
        Some(place) => {
            let file = &node.sources().files()[place.file as usize];
            format!("the one in {} at byte {}", file.path.display(), { place.offset })
        }
    };
    let reason = format!("the copy stored here was damaged ({what}) and was replaced by {from}");
    let repaired = refusal(&node.shared(), &step, reason);
    let (shared, ledger) = node.split();
    let files = shared.files;
    let tree = shared.tree;
    let block = tree.node(step.id);
    let prev = tree.prev_hash(step.id);
    let record = ledger.change(step.id);
    let undo = record.undo_pos().map(|pos| files.read_undo(pos, &prev));
    let undo = match undo {
        Some(Err(error)) if error.source.is_some() && !is_not_found(&error) => return Err(error),
        // Damaged undo data is written again when the block is connected.
        undo => undo.and_then(Result::ok),
    };
    let view = copy.block.view();
    let fits =
        pos.pos >= STORAGE_HEADER_BYTES && pos.pos as usize + view.bytes().len() <= *end as usize;
    if !fits || undo.is_none() {
        record.status.0 &= !BlockStatus::BLOCK_HAVE_UNDO;
        record.undo_pos = 0;
    }
    if fits {
        files.rewrite_block(*pos, view.bytes())?;
    } else {
        let pos = files.append_block(view.bytes(), block.height, block.time)?;
        ledger.records.note_stored(tree, step.id, pos, view.tx_count() as u32);
    }
    if let Some(undo) = undo {
        files.write_undo(ledger.change(step.id), block.height, &prev, &undo)?;
    }
    tracing::debug!(target: "blockstorage", %repaired, "replaced a damaged block");
    node.repaired().push(repaired);
    Ok(())
}

fn is_not_found(error: &StoreError) -> bool {
    error.source.as_ref().is_some_and(|source| source.kind() == NotFound)
}

/// Reads the numbers of the block files that earlier runs have noted.
pub fn read_note(disk: &Disk, directory: &Path) -> Result<BTreeSet<u32>, StoreError> {
    let bytes = disk.read(directory.join(NOTE))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// Notes the numbers of block files for a later sync, replacing those noted before.
fn write_note(disk: &Disk, directory: &Path, files: &BTreeSet<u32>) -> Result<(), StoreError> {
    let path = directory.join(NOTE);
    if files.is_empty() {
        disk.remove(&path)?;
        return disk.sync_dir(directory);
    }
    let lines: String = files.iter().map(|file| format!("{file}\n")).collect();
    disk.write_atomically(&path, lines.as_bytes())
}
