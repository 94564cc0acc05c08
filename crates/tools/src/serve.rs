//! Serves the blocks of a directory to peers.

use std::path::Path;
use std::sync::Arc;

use apus_disk::Disk;
use apus_hash::hex;
use apus_indexes::IndexReader;
use apus_node::directory::check_synced;
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::remedy;
use apus_node::run::Run;
use apus_node::served::Served;
use apus_peers::{ServeOptions, ServeReport, ServedHints};
use apus_progress::Watch;
use apus_store::{DataDir, IndexKind};
use apus_sync::hints_file::HintsFile;
use apus_sync::unfinished::open_node;
use apus_wire::message::{OfferedHints, Services};

/// Serves the headers and blocks of a directory to peers that connect, as `bitcoind` does, until
/// `watch` asks to stop. Nothing in the directory changes: it may be pruned, on a read-only mount,
/// and open in other programs that read it.
///
/// # Errors
/// The directory is missing, a program that may write to it has it open, or its index is damaged;
/// or the addresses cannot be listened on.
pub fn serve(run: &Run, how: &ServeOptions, watch: Watch) -> Result<ServeReport, SyncError> {
    let options = run.options;
    remedy::naming(options, || {
        let view = run.view.clone().unwrap_or_default();
        let shown = run.clone().shown_in(Some(Arc::clone(&view)));
        let node = open_node(&shown, Coins::ReadOnly).map_err(with_next_step)?;
        let hints = match &how.hints {
            Some(path) => Some(served_hints(path, &node, watch)?),
            None => None,
        };
        let dir = node.close();
        Served::new(Arc::clone(&view), Services::default()).look(|chain| {
            let note = |what: &str| watch.observer.note(what);
            if !chain.has_minimum_work() {
                note(
                    "This chain has less work than --minimumchainwork, so peers get no headers of \
                     it, as from Bitcoin Core: sync it further, or use --minimumchainwork 0 here \
                     and at the peers",
                );
            }
            match chain.services {
                services if services.has(Services::NETWORK) => {}
                services if services.has(Services::NETWORK_LIMITED) => note(
                    "Blocks are missing, so only the last 288 are served, to peers that already \
                     have the others",
                ),
                _ => note("Most blocks are missing, so peers ask for none"),
            }
        });
        let report = apus_peers::serve(options, (view, hints), how, watch);
        // Until now its lock has kept programs away that write.
        drop(dir);
        report
    })
}

/// Checks that the directory exists and that no other program writes to it; nothing is created.
///
/// # Errors
/// One of these does not hold.
pub fn can_serve(options: &Options) -> Result<(), SyncError> {
    check_synced(options)?;
    let root = &options.datadir;
    let blocks = options.blocks_dir.as_deref();
    let checked = DataDir::check_locks(&Disk::new(), root, &options.network, blocks, true);
    checked.map_err(|error| with_next_step(error.into()))
}

/// Returns whether the directory has the index of filters, which peers may then be sent.
///
/// # Errors
/// The index cannot be read.
pub fn has_filters(options: &Options) -> Result<bool, SyncError> {
    let reader = IndexReader::new(&Disk::new(), &options.network_dir());
    Ok(reader.find(IndexKind::BlockFilterIndex)?.is_some())
}

/// Adds to the error for a directory that is in use how its blocks can be served.
fn with_next_step(error: SyncError) -> SyncError {
    match error {
        SyncError::Store(mut error) if error.is_locked => {
            error.what += ": stop it first. bitcoind serves blocks itself, and so does `apus sync \
                           --follow --listen`";
            SyncError::Store(error)
        }
        other => other,
    }
}

/// Opens a hints file that is served with the blocks of `node`.
///
/// # Errors
/// It is no hints file, or the chain does not reach its height.
fn served_hints(path: &Path, node: &Node, watch: Watch) -> Result<ServedHints, SyncError> {
    let hints = HintsFile::open(path)?;
    let height = hints.reader.height();
    let active = &node.ledger().active;
    let Some(block) = active.at(height) else {
        return Err(SyncError::Input(format!(
            "--peerhints: {} is for height {height}, but the chain ends at {}",
            path.display(),
            active.height().unwrap_or(0)
        )));
    };
    let offered = OfferedHints {
        height,
        block: node.tree().node(block).hash,
        sha256: hints.sha256(),
        size: hints.len(),
    };
    watch.observer.note(&format!(
        "Serving {} for height {height}: --hints=peer --hints-sha256={}",
        path.display(),
        hex(&offered.sha256)
    ));
    Ok(ServedHints::open(path, offered)?)
}
