//! Looks at all blocks of the best chain of headers, for the picture.

use apus_chain::BlockId;
use apus_node::mainnet_bytes::mainnet_bytes;
use apus_node::view::{Committed, View};
use apus_progress::marks::{Mark, Marks};

use super::columns::{Seen, chain};
use super::state::{BlockKind, Chain};

/// Blocks that are looked at in one go: a commit waits meanwhile, for a millisecond or two.
const AT_ONCE: usize = 1 << 15;
/// Bytes before each stored block: magic and length.
const STORAGE_HEADER_BYTES: u64 = 8;
/// A larger difference of two places is not the size of a block.
const BLOCK_BYTES_MAX: u64 = 4_000_000;

/// Returns the picture of the chain; `None` before the directory is open, and if it was opened anew
/// meanwhile.
pub fn picture(view: &View, marks: &Marks, is_mainnet: bool) -> Option<Chain> {
    let (path, connected) = view.look(path)?;
    let mut seen = Vec::with_capacity(path.len());
    // Where each stored block is: file and offset, and the block's height.
    let mut places = Vec::new();
    for ids in path.chunks(AT_ONCE) {
        view.look(|it| {
            for id in ids.iter().take_while(|id| id.index() < it.tree.len()) {
                let height = seen.len() as u32;
                let place = it.record(*id).block_pos();
                if let Some(place) = place {
                    places.push((u64::from(place.file) << 32 | u64::from(place.pos), height));
                }
                let is_connected = height <= connected;
                let kind = kind(is_connected, marks.get(height), place.is_some());
                seen.push(Seen { kind, time: it.tree.node(*id).time, bytes: 0 });
            }
        })?;
    }
    if let [genesis, first, ..] = &mut seen[..] {
        // Nothing checks or stores the genesis block.
        genesis.kind = first.kind;
    }
    set_sizes(&mut seen, places);
    let expected = |height| is_mainnet.then(|| mainnet_bytes(height, height));
    Some(chain(&seen, expected))
}

/// Returns the blocks of the best chain of headers in order of height, and the height up to which
/// they are connected.
fn path(it: &Committed) -> (Vec<BlockId>, u32) {
    let best = it.tree.best_header();
    let above = it.tree.ancestors(best).take_while(|id| !it.active.contains(&it.tree, *id));
    let above: Vec<BlockId> = above.collect();
    let connected = it.tree.node(best).height - above.len() as u32;
    let below = (0..=connected).filter_map(|height| it.active.at(height));
    (below.chain(above.into_iter().rev()).collect(), connected)
}

fn kind(is_connected: bool, mark: Option<Mark>, is_stored: bool) -> BlockKind {
    match mark {
        Some(Mark::Scripts) => BlockKind::Scripts,
        Some(Mark::Assumed) => BlockKind::Assumed,
        Some(Mark::Proved) => BlockKind::Proved,
        _ if is_connected => BlockKind::Earlier,
        Some(Mark::Read) => BlockKind::Read,
        None if is_stored => BlockKind::Stored,
        None => BlockKind::Missing,
    }
}

/// Sets the sizes of stored blocks: each ends where the next one in its file begins.
fn set_sizes(seen: &mut [Seen], mut places: Vec<(u64, u32)>) {
    places.sort_unstable();
    for pair in places.windows(2) {
        let (place, height) = pair[0];
        let bytes = (pair[1].0 - place).saturating_sub(STORAGE_HEADER_BYTES);
        if bytes <= BLOCK_BYTES_MAX {
            seen[height as usize].bytes = bytes as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_this_run_says_more_than_the_index() {
        for (is_connected, mark, is_stored, expected) in [
            (true, None, true, BlockKind::Earlier),
            (true, None, false, BlockKind::Earlier),
            (true, Some(Mark::Read), true, BlockKind::Earlier),
            (true, Some(Mark::Scripts), true, BlockKind::Scripts),
            (false, Some(Mark::Scripts), true, BlockKind::Scripts),
            (false, Some(Mark::Assumed), true, BlockKind::Assumed),
            (false, Some(Mark::Proved), true, BlockKind::Proved),
            (false, Some(Mark::Read), false, BlockKind::Read),
            (false, None, true, BlockKind::Stored),
            (false, None, false, BlockKind::Missing),
        ] {
            assert_eq!(kind(is_connected, mark, is_stored), expected, "{mark:?}");
        }
    }

    #[test]
    fn blocks_end_where_the_next_one_begins() {
        let mut seen = [Seen { kind: BlockKind::Stored, time: 0, bytes: 0 }; 4];
        // In the order of files, which is not that of heights; the last of a file has no end here.
        set_sizes(&mut seen, vec![(8, 2), (316, 0), (1 << 32 | 8, 1), (1 << 32 | 66, 3)]);
        assert_eq!(seen.map(|seen| seen.bytes), [0, 50, 300, 0]);
    }
}
