//! Makes the columns of the chain's picture from its blocks.

use super::state::{BlockKind, Chain, Column};

/// Columns of a picture. More would not be seen on a screen, and would take longer to send.
const COLUMNS: usize = 400;

/// A block of the best chain of headers.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its kind.
    pub kind: BlockKind,
    /// The time in its header.
    pub time: u32,
    /// Its bytes; 0 if unknown.
    pub bytes: u32,
}

/// Makes the picture of these blocks, from height 0 on. The bytes of blocks that are not stored are
/// what `expected` says for their height, or if it says nothing those of stored blocks below.
pub fn chain(blocks: &[Seen], expected: impl Fn(u32) -> Option<u64>) -> Chain {
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
        return Chain::default();
    };
    // A header's time may lie before that of its parent.
    let (start, end) = blocks.iter().fold((first.time, last.time), |(start, end), block| {
        (start.min(block.time), end.max(block.time))
    });
    let columns = blocks.len().min(COLUMNS);
    let span = u64::from(end - start) + 1;
    let mut by_height = vec![Column::default(); columns];
    let mut by_time = by_height.clone();
    let first_known = blocks.iter().find(|block| block.bytes > 0);
    let mut usual = first_known.map_or(0, |block| u64::from(block.bytes));
    for (height, block) in blocks.iter().enumerate() {
        let bytes = match block.bytes {
            0 => expected(height as u32).unwrap_or(usual),
            bytes => {
                usual = (15 * usual + u64::from(bytes)) / 16;
                bytes.into()
            }
        };
        let since = u64::from(block.time - start);
        for column in [
            &mut by_height[height * columns / blocks.len()],
            &mut by_time[(since * columns as u64 / span) as usize],
        ] {
            column.blocks[block.kind as usize] += 1;
            column.bytes += bytes;
        }
    }
    let height = (blocks.len() - 1) as u32;
    Chain { by_height, by_time, times: (start.into(), end.into()), height }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kind: BlockKind, time: u32, bytes: u32) -> Seen {
        Seen { kind, time, bytes }
    }

    #[test]
    fn each_block_is_in_one_column_of_each_picture() {
        let kind = |at: u32| if at < 700 { BlockKind::Scripts } else { BlockKind::Missing };
        let blocks: Vec<Seen> = (0..1_000).map(|at| seen(kind(at), 50 + at * at, 10)).collect();
        let chain = chain(&blocks, |_| None);
        for columns in [&chain.by_height, &chain.by_time] {
            assert_eq!(columns.len(), COLUMNS);
            let count = |kind: BlockKind| -> u32 {
                columns.iter().map(|column| column.blocks[kind as usize]).sum()
            };
            assert_eq!((count(BlockKind::Scripts), count(BlockKind::Missing)), (700, 300));
            assert_eq!(columns.iter().map(|column| column.bytes).sum::<u64>(), 10_000);
        }
        assert_eq!((chain.height, chain.times), (999, (50, 50 + 999 * 999)));
        // Later blocks follow each other less quickly here.
        assert!(chain.by_time[0].blocks > chain.by_height[0].blocks);
    }

    #[test]
    fn unknown_bytes_are_expected_or_like_those_below() {
        let blocks = [(10, 0), (5, 40), (20, 0)].map(|(time, n)| seen(BlockKind::Stored, time, n));
        let bytes = |chain: Chain| -> Vec<u64> {
            chain.by_height.iter().map(|column| column.bytes).collect()
        };
        assert_eq!(bytes(chain(&blocks, |_| None)), [40, 40, 40]);
        assert_eq!(bytes(chain(&blocks, |height| Some(height.into()))), [0, 40, 2]);
        assert_eq!(chain(&blocks, |_| None).times, (5, 20));
        assert_eq!(chain(&[], |_| None), Chain::default());
    }
}
