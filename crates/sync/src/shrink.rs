//! Whether a rebuilt UTXO set is lower than the one that it replaces. A lower one would hide that
//! blocks are missing, so it replaces the present set only if the user allows that.

use apus_chain::Tree;
use apus_coins::Chainstate;
use apus_hash::Hash;
use apus_node::error::SyncError;
use apus_node::opened::{Node, about_height};
use apus_node::options::Options;
use apus_progress::outcome::Refusal;
use apus_store::DataDir;

/// The best block of the UTXO set that a rebuild is to replace.
enum Present {
    /// There is no UTXO set, or it cannot be read.
    Unknown,
    /// A block in the block index, at this height.
    Indexed(u32),
    /// A block that is not in the block index.
    NotIndexed {
        /// The hash of the block.
        block: Hash,
        /// The words for its height in messages.
        height: String,
    },
}

/// Where the blocks of a rebuild were looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Searched<'a> {
    /// In the block index.
    Index,
    /// In the block files.
    Files {
        /// The first block that was refused. An error names it, since it may be the cause.
        refused: Option<&'a Refusal>,
        /// Whether the present block index can be read.
        has_index: bool,
    },
}

/// Checks, before anything is changed, that a set to be built from the blocks that are available in
/// `tree` can reach the height of the present set in `dir`. Returns whether there is a set whose
/// height was compared.
///
/// # Errors
/// Blocks up to that height are missing, and the user does not allow a lower set.
pub fn check_reach(
    dir: &DataDir,
    tree: &Tree,
    options: &Options,
    searched: Searched<'_>,
) -> Result<bool, SyncError> {
    if may_shrink(options) {
        return Ok(false);
    }
    let reach = tree.best_candidate().map_or(0, |id| tree.node(id).height);
    let blocks = dir.blocks_path().display();
    let refused = match searched {
        Searched::Index => None,
        Searched::Files { refused, .. } => refused.map(without_remedy),
    };
    let what = match present(dir, tree) {
        Present::Indexed(height) if reach < height => format!(
            "the blocks in {blocks} reach height {reach}{}, but the UTXO set is at height \
             {height}.",
            why(refused.as_ref())
        ),
        Present::NotIndexed { block, height } if searched == Searched::Index => {
            return Err(SyncError::WouldShrink(format!(
                "the UTXO set is at block {block}{height} which is not in the block index, which \
                 ends at height {reach}: `apus reindex --index` looks for it in the block files, \
                 and rebuilds the index if it is there. The present UTXO set was kept"
            )));
        }
        Present::NotIndexed { block, height } => format!(
            "the UTXO set is at block {block}{height} which is not among the blocks in {blocks} \
             (they reach height {reach}): is the right disk mounted there?"
        ),
        Present::Indexed(_) => return Ok(true),
        Present::Unknown => return Ok(false),
    };
    let next = match searched {
        Searched::Files { has_index: false, .. } => {
            "or run `apus reindex --index --allow-shrink`, which takes the blocks that are there, \
             and then `apus sync --from` a node that has the others"
        }
        _ => {
            "or `apus sync --from` a node that has them; to replace the UTXO set by a lower one \
             anyway, add --allow-shrink"
        }
    };
    Err(SyncError::WouldShrink(format!(
        "{what} The present UTXO set was kept. Restore the missing blocks, {next}"
    )))
}

/// Checks that the finished set of `node` is not lower than the present set. `refusals` are the
/// blocks that were refused; the error names the first, which may be the cause.
///
/// # Errors
/// The set is lower, and the user does not allow that. The present set was kept.
pub fn check_height(node: &Node, refusals: &[Refusal]) -> Result<(), SyncError> {
    let built = node.tree().node(node.tip()).height;
    match present(node.dir(), node.tree()) {
        Present::Indexed(height) if built < height && !may_shrink(node.options()) => {
            Err(SyncError::WouldShrink(format!(
                "the new UTXO set ends at height {built}{}, but the present one is at height \
                 {height}: the present one was kept. Remove the cause and run the same command to \
                 continue; to take the lower one, add --allow-shrink",
                why(refusals.first())
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the refused block without the command that its reason may name, which may not repair it
/// where coins are lacking, too.
fn without_remedy(refused: &Refusal) -> Refusal {
    let reason = refused.reason.split("; `apus ").next().unwrap_or_default().to_string();
    Refusal { reason, ..refused.clone() }
}

/// Returns the refused block in parentheses.
fn why(refused: Option<&Refusal>) -> String {
    refused.map_or_else(String::new, |refused| format!(" ({refused})"))
}

/// Returns whether the new set may be lower: the user allows it, or names a height to stop at.
fn may_shrink(options: &Options) -> bool {
    options.allow_shrink || options.stop_at_height.is_some()
}

/// Returns the best block of the present set in `dir`.
fn present(dir: &DataDir, tree: &Tree) -> Present {
    let chainstate = Chainstate::open_read_only(dir.disk(), &dir.chainstate_path());
    let best = chainstate.and_then(|chainstate| Ok((chainstate.best_block()?, chainstate)));
    let (block, chainstate) = match best {
        Ok((Some(block), chainstate)) => (block, chainstate),
        Ok((None, _)) => return Present::Unknown,
        Err(error) => {
            tracing::debug!(target: "coindb", "the present UTXO set cannot be read: {error}");
            return Present::Unknown;
        }
    };
    match tree.find(&block) {
        Some(id) => Present::Indexed(tree.node(id).height),
        None => Present::NotIndexed { block, height: about_height(&chainstate) },
    }
}
