//! Checks the indexes that a directory has.

use std::ops::RangeInclusive;

use apus_disk::{Result, StoreError};
use apus_node::opened::Node;
use apus_progress::Watch;
use apus_store::IndexKind;

use super::reading::IndexReader;

/// Opens each index that there is, reads the filters and the statistics of the active chain's
/// blocks at `heights`, and, if this is `whole`, every table. Returns the indexes that are damaged.
///
/// If `watch` asks to stop, returns what was found so far.
///
/// # Errors
/// The system refuses to read a file, of which nothing is known then.
pub fn damaged_indexes(
    node: &Node,
    heights: &RangeInclusive<u32>,
    whole: bool,
    watch: Watch,
) -> Result<Vec<(IndexKind, StoreError)>> {
    let reader = IndexReader::new(node.dir().disk(), node.dir().path());
    let mut damaged = Vec::new();
    for kind in IndexKind::ALL {
        match check(node, &reader, kind, heights, whole, watch) {
            Err(error) if error.is_refused() => return Err(error),
            Err(error) => damaged.push((kind, error)),
            Ok(()) => {}
        }
    }
    Ok(damaged)
}

fn check(
    node: &Node,
    reader: &IndexReader,
    kind: IndexKind,
    heights: &RangeInclusive<u32>,
    whole: bool,
    watch: Watch,
) -> Result<()> {
    if reader.find(kind)?.is_none() {
        return Ok(());
    }
    if whole {
        tracing::info!("Reading all of {}", kind.name());
        node.shared().pool.install(|| reader.verify_tables(kind, || !watch.is_stopped()))?;
    }
    for height in heights.clone() {
        let Some(id) = node.ledger().active.at(height) else { break };
        if watch.is_stopped() {
            break;
        }
        let block = node.tree().node(id).hash;
        match kind {
            IndexKind::BlockFilterIndex => drop(reader.filter(height, &block)?),
            IndexKind::CoinStatsIndex => drop(reader.statistics(height, &block)?),
            IndexKind::TxIndex | IndexKind::TxoSpenderIndex => break,
        }
    }
    Ok(())
}
