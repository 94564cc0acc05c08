//! Learns the expected sizes of blocks from a sample.

use apus_chain::BlockId;
use apus_net::NEAR_BLOCKS;
use apus_node::block_peers::GivesUp;
use apus_node::expected_sizes::Sizes;
use apus_node::fault::Fault;
use apus_node::opened::Node;
use apus_progress::Watch;

use super::download::{download, fetch};

/// No sample is downloaded if fewer blocks than this are missing.
const BLOCKS_MIN: u32 = 256;
/// If few blocks are missing, about one of this many is in the sample.
const BLOCKS_FOR_EACH: u32 = 16;
/// If many blocks are missing, about this number to twice as many are in the sample.
const SAMPLE_MIN: u32 = 32;

/// Learns the sizes of blocks of the best chain from some of them, evenly spaced. If many blocks
/// are missing, downloads those of the sample that come. They are stored, unless block files are to
/// be deleted: one of the last blocks among them would keep the file of the first.
///
/// # Errors
/// The disk fails, or `watch` asks to stop.
pub fn learn_sizes(node: &mut Node, watch: Watch) -> Result<(), Fault> {
    let Some(best) = node.tree().best_candidate() else { return Ok(()) };
    let top = node.options().stop_at_height.unwrap_or(u32::MAX).min(node.tree().node(best).height);
    let tip = node.tip();
    let missing = top.saturating_sub(node.tree().node(tip).height);
    let mut sample: Vec<BlockId> = vec![tip];
    if missing >= BLOCKS_MIN {
        let count = (missing / BLOCKS_FOR_EACH).min(SAMPLE_MIN);
        // The next run chooses the same heights, whose blocks are stored then.
        let every = (missing / count).next_power_of_two() / 2;
        // A download would wait for blocks near the best header that no peer has.
        let top = top.min(node.tree().node(best).height - NEAR_BLOCKS);
        let heights = (every..=top).step_by(every as usize);
        let is_above = |height: &u32| *height > node.tree().node(tip).height;
        let blocks = heights.filter(is_above).filter_map(|at| node.tree().ancestor(best, at));
        sample.extend(blocks);
    }
    sample.sort_by_key(|id| node.tree().node(*id).height);
    sample.dedup();
    // Blocks of the active chain that are not stored were pruned.
    let is_new = |id: &BlockId| !node.ledger().active.contains(node.tree(), *id);
    let new: Vec<BlockId> = sample.iter().copied().filter(is_new).collect();
    let mut known = Vec::new();
    let learned = match node.ledger().pruning.target() {
        None => download(node, &new, GivesUp::Any, watch),
        Some(_) => fetch(node, (&new, GivesUp::Any), watch, |shared, _, id, block| {
            known.push((shared.tree.node(id).height, block.view().len() as u64));
            Ok(())
        }),
    };
    for id in sample {
        if let Some(pos) = node.record(id).block_pos()
            && let Ok(bytes) = node.files().read_block(pos)
        {
            known.push((node.tree().node(id).height, bytes.len() as u64));
        }
    }
    known.sort_unstable();
    node.forecast_mut().sizes = Sizes::new(known);
    learned
}
