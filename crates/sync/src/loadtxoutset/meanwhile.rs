//! A UTXO set for bitcoind while a sync proves a snapshot. If blocks up to the base block are
//! missing, the proof takes long; the snapshot is then loaded first, so that the user has a node
//! when the sync is stopped.

use apus_chain::BlockId;
use apus_node::commit::Ledger;
use apus_node::error::SyncError;
use apus_node::opened::{Node, step};
use apus_node::sources::BlockOrigin;
use apus_node::space;
use apus_progress::Watch;
use apus_wire::AssumeutxoData;

use super::load::{check_base, listed, load};
use crate::claim::Claim;
use crate::swift;

/// Loads the snapshot that the blocks are about to prove, as `apus snapshot load` does, if some of
/// these blocks are missing here. If bitcoind would not accept it, the user is told why, and the
/// sync goes on without it.
///
/// # Errors
/// The snapshot is damaged, or its coins have another hash than the listed one; or the disk fails.
pub fn load_while_missing(
    node: &mut Node,
    claim: Option<&Claim>,
    watch: Watch,
) -> Result<(), SyncError> {
    let Some(claim @ Claim::Snapshot(file)) = claim else { return Ok(()) };
    let base = node.tree().find(&file.head().base);
    let may_wait = base.is_some_and(|base| lacks_blocks(node, base));
    let goes_on = may_wait && !swift::build::is_past(node.tree(), node.ledger(), claim);
    if !goes_on
        || is_loaded(node.ledger(), claim)
        || swift::plan::targets(node.tree(), node.options(), claim).is_err()
    {
        return Ok(());
    }
    let found = match listed(&node.options().network, file) {
        Err(why) => Err(why),
        Ok(listed) => check_base(node, &listed)?.map(|()| listed),
    };
    let room = space::check_for_snapshot(node.dir(), node.chainstate(), file.bytes(), true);
    let found: Result<AssumeutxoData, String> =
        found.and_then(|listed| room.map(|()| listed).map_err(|error| error.to_string()));
    match found {
        Err(why) => watch.observer.note(&format!(
            "Until the snapshot is proved, bitcoind has no UTXO set of its height here: {why}"
        )),
        Ok(listed) => {
            watch.observer.note(&format!(
                "Blocks up to the snapshot's block {}, at height {}, are missing here: the \
                 snapshot is first loaded for bitcoind, as loadtxoutset does, and then proved",
                listed.base, listed.height
            ));
            if load(node, file, &listed, watch)?.is_some() {
                watch.observer.note(&format!(
                    "The snapshot is loaded: whenever this sync is stopped, bitcoind starts at \
                     height {} or above",
                    listed.height
                ));
            }
        }
    }
    Ok(())
}

/// Returns whether bitcoind's UTXO set here is that of the snapshot of `claim`.
pub fn is_loaded(ledger: &Ledger, claim: &Claim) -> bool {
    let Claim::Snapshot(file) = claim else { return false };
    ledger.snapshot.as_ref().is_some_and(|loaded| loaded.base == file.head().base)
}

/// Returns whether a block up to `base` is neither stored nor in a source, so that it has to come
/// from peers, if any has it.
fn lacks_blocks(node: &Node, base: BlockId) -> bool {
    let above_genesis = node.tree().ancestors(base).take_while(|id| *id != node.tree().genesis());
    above_genesis
        .into_iter()
        .any(|id| step(node, id).is_none_or(|step| step.place == BlockOrigin::Peers))
}
