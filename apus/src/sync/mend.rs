//! Stored blocks that are damaged: replaced by good copies from the sources.
//!
//! A good copy is appended to the block files like any new block, with its undo data, and then the
//! index points at the new place. Nothing that is stored is written over, so that whatever a crash
//! cuts, the index names either the damaged bytes, and the same command replaces them, or the good
//! ones. What is damaged lies together, a bad stretch of a disk or the lost end of a file: so all
//! blocks of a file are looked at once one is found damaged.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::node::{Node, refusal};
use super::outcome::Refusal;
use super::sources::{BlockBytes, Place, SourcePlace};
use crate::chain::BlockId;
use crate::disk::StoreError;
use crate::rules::CheckedBlock;
use crate::store::{BlockStatus, FlatFilePos};
use crate::sync::block::step::{BlockFault, Step};

/// A block whose bytes are what its header promises.
type Block = CheckedBlock<BlockBytes>;

/// The file next to Core's `chainstate` that holds the numbers of blk files in which a damaged
/// block was found and no good copy was known: the next sync that has sources looks at them.
pub const NOTE: &str = "damaged-block-files";

/// A block's bytes are not the block: a source's copy is forgotten, a stored one is replaced.
///
/// # Errors
/// The stored one cannot be replaced. Its file is noted, for a later sync.
pub(super) fn take_another_copy(node: &mut Node, step: Step, what: &str) -> Result<(), StoreError> {
    match step.place {
        Place::Source(place) => {
            let refusal = refusal(node, &step, what.to_string());
            node.refusals.push(refusal);
            node.forget_copy(step.id, place);
            Ok(())
        }
        Place::Stored(pos) => {
            let has_copies = !node.sources.all_copies(step.id).is_empty();
            let is_left = match has_copies {
                true => !mend_file(node, pos.file, &AtomicBool::new(false))?.is_empty(),
                false => true,
            };
            if is_left {
                let mut noted = read_note(node)?;
                noted.insert(pos.file);
                write_note(node, &noted)?;
            }
            match node.entry(step.id).block_pos() == Some(pos) {
                true => Err(stored_damage(node, step.id, pos, what)),
                false => Ok(()),
            }
        }
    }
}

/// Replaces what is damaged in the files that earlier runs have noted.
pub(super) fn mend_noted(node: &mut Node, stop: &AtomicBool) -> Result<(), StoreError> {
    let noted = read_note(node)?;
    if noted.is_empty() || node.sources.files().is_empty() {
        return Ok(());
    }
    let mut left = noted.clone();
    for file in noted {
        let damaged = mend_file(node, file, stop)?;
        if stop.load(Relaxed) {
            return Ok(());
        }
        if damaged.is_empty() {
            left.remove(&file);
        }
        for (id, pos, what) in damaged {
            let error = stored_damage(node, id, pos, &what);
            node.refusals.push(Refusal {
                path: Some(error.path),
                offset: error.offset,
                block: None,
                reason: error.what,
            });
        }
    }
    write_note(node, &left)
}

/// What is wrong with a stored block of which there is no good copy, and what to do.
pub(super) fn stored_damage(node: &Node, id: BlockId, pos: FlatFilePos, what: &str) -> StoreError {
    let block = node.tree.node(id);
    let tried = match node.sources.files().is_empty() {
        true => "",
        false => ", and no good copy is among the files given with --from",
    };
    let what = format!(
        "block {} at height {}, stored here, is damaged ({what}){tried}; `apus sync --from` a \
         node or a file that has this block replaces it; then run this command again",
        block.hash, block.height
    );
    StoreError::corrupt(node.files.block_path(pos.file), u64::from(pos.pos), what)
}

/// Looks at every block stored in a file, replaces those that are damaged and have good copies, and
/// returns the others that are damaged, with what is wrong with them.
fn mend_file(
    node: &mut Node,
    file: u32,
    stop: &AtomicBool,
) -> Result<Vec<(BlockId, FlatFilePos, String)>, StoreError> {
    let stored = |id: BlockId| Some((node.entry(id).block_pos()?, id));
    let mut blocks: Vec<(FlatFilePos, BlockId)> = node.tree.ids().filter_map(stored).collect();
    blocks.retain(|(pos, _)| pos.file == file);
    blocks.sort_unstable();
    let mut left = Vec::new();
    for (pos, id) in blocks {
        if stop.load(Relaxed) {
            break;
        }
        let step = Step { id, place: Place::Stored(pos), weight: 0 };
        let Err(what) = checked(node, step)? else { continue };
        match good_copy(node, id)? {
            Some((place, block)) => replace(node, step, &block, place, &what)?,
            None => left.push((id, pos, what)),
        }
    }
    let (shared, ledger) = node.split();
    ledger.write_index(shared.files)?;
    Ok(left)
}

/// The block at a place, or what is wrong with the bytes there.
fn checked(node: &mut Node, step: Step) -> Result<Result<Block, String>, StoreError> {
    let (shared, _) = node.split();
    match shared.read(step).and_then(|bytes| shared.check(step, bytes)) {
        Ok(block) => Ok(Ok(block)),
        Err(BlockFault::Store(error)) => Err(error),
        Err(BlockFault::Damaged(what)) => Ok(Err(what)),
        Err(BlockFault::Rule(error)) => Ok(Err(error.to_string())),
    }
}

fn good_copy(node: &mut Node, id: BlockId) -> Result<Option<(SourcePlace, Block)>, StoreError> {
    for place in node.sources.all_copies(id) {
        let step = Step { id, place: Place::Source(place), weight: 0 };
        match checked(node, step)? {
            Ok(block) => return Ok(Some((place, block))),
            Err(what) => {
                let refusal = refusal(node, &step, what);
                node.refusals.push(refusal);
            }
        }
    }
    Ok(None)
}

/// Appends a good copy of a stored block, and the undo data that the block has, since that lies in
/// the rev file of the same number; the index is the caller's to write.
fn replace(
    node: &mut Node,
    step: Step,
    block: &Block,
    copy: SourcePlace,
    what: &str,
) -> Result<(), StoreError> {
    let from = node.sources.refusal(copy, "");
    let (path, offset) = (from.path.unwrap_or_default(), copy.offset);
    let reason = format!(
        "the copy stored here was damaged ({what}) and is replaced by the one in {} at byte \
         {offset}",
        path.display()
    );
    let refusal = refusal(node, &step, reason);
    let (shared, ledger) = node.split();
    let (files, segwit_height) = (shared.files, shared.network.segwit_height);
    let entry = ledger.change(step.id);
    let undo = entry.undo_pos().map(|pos| files.read_undo(pos, &entry.header.prev));
    let undo = match undo {
        Some(Err(error)) if error.source.is_some() => return Err(error),
        // Undo data that is damaged too is made anew when the block is connected.
        undo => undo.and_then(Result::ok),
    };
    let view = block.view();
    let pos = files.append_block(view.bytes(), entry.height, entry.header.time)?;
    entry.status.0 &= !BlockStatus::BLOCK_HAVE_UNDO;
    entry.undo_pos = 0;
    ledger.note_stored(step.id, pos, view.tx_count() as u32, segwit_height);
    if let Some(undo) = undo {
        files.write_undo(ledger.change(step.id), &undo)?;
    }
    tracing::debug!(%refusal, "replaced");
    node.refusals.push(refusal);
    Ok(())
}

fn read_note(node: &Node) -> Result<BTreeSet<u32>, StoreError> {
    let bytes = node.dir.disk().read(node.dir.path().join(NOTE))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

fn write_note(node: &Node, files: &BTreeSet<u32>) -> Result<(), StoreError> {
    let (disk, path) = (node.dir.disk(), node.dir.path().join(NOTE));
    if files.is_empty() {
        disk.remove(&path)?;
        return disk.sync_dir(node.dir.path());
    }
    let lines: String = files.iter().map(|file| format!("{file}\n")).collect();
    disk.write_atomically(&path, lines.as_bytes())
}
