//! Reindex: builds the UTXO set again from the blocks in the data directory.

use std::time::Instant;

use apus_node::directory::check_exists;
use apus_node::error::SyncError;
use apus_node::opened::Coins;
use apus_node::options::Options;
use apus_node::rebuild::Rebuild;
use apus_node::remedy;
use apus_node::run::Run;
use apus_progress::Watch;
use apus_progress::estimate::estimating::Estimating;

use super::claim::Claim;
use super::ending::Ending;
use super::index_files;
use super::run::{bound_cache, connect, end};
use super::shrink::{self, Searched};
use super::summary::Summary;
use super::unfinished::open_node;

/// Rebuilds the chainstate from the blocks in the data directory (Core's -reindex-chainstate).
///
/// The present chainstate stays in use until the new one is complete and replaces it in one step.
/// After an interruption, the next call continues.
///
/// # Errors
/// As for [`sync`](fn@super::sync); and if there are no blocks, or too few to reach the height of
/// the present chainstate.
pub fn reindex(options: &Options, watch: Watch) -> Result<Summary, SyncError> {
    reindex_on(&Run::new(options), watch)
}

/// Does what [`reindex`] does, with the caller's handles.
pub fn reindex_on(run: &Run, watch: Watch) -> Result<Summary, SyncError> {
    let observer = Estimating::new(watch.observer);
    let summary = rebuild(run, Watch::new(&observer, watch.stop))?;
    Ok(Summary { ran: observer.ran(), ..summary })
}

fn rebuild(run: &Run, watch: Watch) -> Result<Summary, SyncError> {
    let Run { options, disk, .. } = run;
    remedy::naming_uncommitted(options, || {
        let started = Instant::now();
        check_exists(options)?;
        let claim = Claim::open(options)?;
        let rebuild = Rebuild::begin(disk, options)?;
        let mut node = open_node(run, Coins::New(&rebuild))?;
        if let Err(error) = shrink::check_reach(node.dir(), node.tree(), options, Searched::Index) {
            let has_begun = !node.chainstate().is_empty();
            let dir = node.close();
            if !has_begun {
                rebuild.remove()?;
            }
            drop(dir);
            return Err(error);
        }
        watch.observer.meters(&node.meters());
        bound_cache(&mut node);
        let summary = connect(&mut node, claim.as_ref(), started, watch)
            .map_err(|error| Ending::of_reindex(node.shared().scripts).explain(error))?;
        end(node, Some(rebuild), summary)
    })
}

/// Rebuilds the block index from the block files, and then the chainstate (Core's -reindex), for a
/// directory whose block index is damaged or lost.
///
/// The present index, if it can be opened at all, is kept until the new one is complete; the
/// present chainstate is kept as in [`reindex`]. Undo data is written again. If the rebuild of the
/// chainstate is interrupted, the next call continues it.
///
/// # Errors
/// As for [`reindex`]; and if block files or their `xor.dat` are missing, in which case nothing was
/// changed.
pub fn reindex_files(options: &Options, watch: Watch) -> Result<Summary, SyncError> {
    reindex_files_on(&Run::new(options), watch)
}

/// Does what [`reindex_files`] does, with the caller's handles.
pub fn reindex_files_on(run: &Run, watch: Watch) -> Result<Summary, SyncError> {
    let Run { options, disk, .. } = run;
    let observer = Estimating::new(watch.observer);
    let watch = Watch::new(&observer, watch.stop);
    let refusals = remedy::naming(options, || index_files::rebuild(disk, options, watch))?;
    let mut summary = rebuild(run, watch)?;
    summary.refusals.splice(0..0, refusals);
    if !summary.interrupted {
        index_files::finish(disk, options)?;
    }
    summary.ran = observer.ran();
    Ok(summary)
}
