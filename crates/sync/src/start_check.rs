//! The check of the last blocks and their undo data against the UTXO set, before a command
//! continues from that set (Core's `VerifyLoadedChainstate`).

use apus_disk::StoreError;
use apus_node::block::step::Step;
use apus_node::commit::Ledger;
use apus_node::error::SyncError;
use apus_node::mend::{note_file, take_another_copy};
use apus_node::opened::{Coins, Node};
use apus_node::options::{Options, StartCheck};
use apus_node::remedy;
use apus_node::run::Run;
use apus_node::shared::Shared;
use apus_node::sources::BlockOrigin;
use apus_progress::{Observer, Progress, Watch};

use super::unfinished::open_node;
use super::verify::{Damage, Incomplete, Verified, Verify, all_levels};

/// Forwards only the progress of a check: connecting blocks again in memory moves no tip.
struct WithoutTips<'a>(&'a dyn Observer);

impl Observer for WithoutTips<'_> {
    fn observe(&self, progress: &Progress) {
        self.0.observe(progress);
    }
}

/// Checks the last [`StartCheck::blocks`] blocks at [`StartCheck::level`], and returns the
/// opened directory. If sources or peers may have good copies of blocks (`may_mend`), files with
/// damaged blocks are noted; [`check_mended`] must be called after these blocks were replaced.
///
/// # Errors
/// The blocks, their undo data or the UTXO set are damaged; or
/// [`apus_node::Options::dbcache_bytes`] is too small for a check that the user has asked for.
pub fn check_on_start(mut node: Node, may_mend: bool, watch: Watch) -> Result<Node, SyncError> {
    let StartCheck { blocks, level } = node.options().start_check;
    // Blocks that level 4 connects again leave changes in memory.
    let connects = level >= 4;
    node.ledger_mut().writes.any = !connects;
    let mut found = check(&mut node, Verify { level, blocks }, watch)?;
    if connects {
        let options = node.options().clone();
        let run = Run::on(node.dir().disk(), &options).shown_in(node.view().cloned());
        drop(node);
        node = open_node(&run, Coins::InPlace)?;
    }
    let Some(damage) = take_first(&mut found) else {
        refuse_small_cache(node.options().start_check, &found)?;
        return Ok(node);
    };
    match damaged_block(&node.shared(), node.ledger(), &damage) {
        Some((_, file)) if may_mend => note_file(node.dir().disk(), node.dir().path(), file)?,
        Some((step, _)) => take_another_copy(&mut node, step, &damage.error.what, watch.stop)?,
        None => return Err(error_of(node.options(), node.ledger(), damage, found.damage.count)),
    }
    Ok(node)
}

/// How many copies of a block are taken before its damage is reported.
const COPIES_MAX: usize = 2;

/// Repeats [`check_on_start`], up to level 3, after sources and peers have replaced damaged blocks
/// as far as they have them.
pub fn check_mended(node: &mut Node, watch: Watch) -> Result<(), SyncError> {
    let StartCheck { blocks, level } = node.options().start_check;
    // Each copy is appended to the block files; a disk may damage all of them.
    let mut copied = Vec::new();
    loop {
        let level = level.min(3);
        let mut found = check(node, Verify { level, blocks }, watch)?;
        let Some(damage) = take_first(&mut found).filter(|_| !watch.is_stopped()) else {
            return Ok(());
        };
        let again = |id| copied.iter().filter(|copied| **copied == id).count() >= COPIES_MAX;
        let block = damaged_block(&node.shared(), node.ledger(), &damage);
        match block.filter(|(step, _)| !again(step.id)) {
            Some((step, _)) => {
                copied.push(step.id);
                take_another_copy(node, step, &damage.error.what, watch.stop)?;
            }
            None => {
                return Err(error_of(node.options(), node.ledger(), damage, found.damage.count));
            }
        }
    }
}

/// Runs all levels up to that of `asked`, and then empties the cache, which they have changed.
fn check(node: &mut Node, asked: Verify, watch: Watch) -> Result<Verified, StoreError> {
    tracing::debug!(
        target: "validation",
        blocks = asked.blocks, level = asked.level, "verifying the last blocks"
    );
    let found = all_levels(node, asked, Watch::new(&WithoutTips(watch.observer), watch.stop));
    node.drop_cache();
    found
}

/// Returns an error if the cache was too small for a check that differs from the default. Core,
/// too, stops only if the user has asked for more.
fn refuse_small_cache(asked: StartCheck, found: &Verified) -> Result<(), SyncError> {
    let StartCheck { blocks, level } = asked;
    let is_full = found.levels.iter().find(|level| level.ended == Some(Incomplete::CacheFull));
    match is_full.filter(|_| asked != StartCheck::default()) {
        None => Ok(()),
        Some(reached) => Err(SyncError::WrongOptions(format!(
            "checkblocks={blocks} and checklevel={level} (options of `apus sync`, or \
             in bitcoin.conf) reached only height {} with the coins that fit into dbcache: give a \
             larger dbcache, or check fewer blocks",
            reached.from
        ))),
    }
}

fn take_first(found: &mut Verified) -> Option<Damage> {
    (!found.damage.listed.is_empty()).then(|| found.damage.listed.remove(0))
}

/// Returns the block whose bytes are damaged, and the number of its file. `None` for other damage,
/// or if the disk failed.
fn damaged_block(shared: &Shared, ledger: &Ledger, damage: &Damage) -> Option<(Step, u32)> {
    let id = shared.tree.find(&damage.block)?;
    let pos = ledger.record(id).block_pos()?;
    let is_missing = !shared.files.block_path(pos.file).exists();
    let is_block = damage.level <= 1 && (damage.error.source.is_none() || is_missing);
    is_block.then_some((Step { id, place: BlockOrigin::Stored(pos), weight: 0 }, pos.file))
}

/// Returns the error for the first of `count` pieces of damage.
fn error_of(options: &Options, ledger: &Ledger, damage: Damage, count: u64) -> SyncError {
    let Damage { height, block, mut error, .. } = damage;
    let more = match count {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    error.what = format!("block {block} at height {height}: {}{more}", error.what);
    remedy::of_damage(options, || ledger.pruning.is_pruned, error).into()
}
