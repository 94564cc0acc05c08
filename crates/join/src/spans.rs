//! Spans of heights: pieces of the chain, each of which one worker processes in order of height.

/// A range of consecutive blocks, by their index among the blocks of the join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first block.
    pub first: usize,
    /// One after the last block.
    pub end: usize,
}

/// Bytes of blocks in each of the last spans of a long chain. Shorter spans gain nothing, since
/// each begins with an empty window of recent transactions.
const SPAN_BYTES_MIN: u64 = 64 << 20;
/// On a short chain, each of the last spans is a worker's share of the blocks divided by this.
const SPANS_PER_WORKER: u64 = 16;

/// Cuts blocks, given by their sizes in bytes, into spans for `workers`: long ones first, which
/// make the most of the window of recent transactions, and shorter ones at the end, so that all
/// workers finish at about the same time.
pub fn cut(sizes: &[u64], workers: usize) -> Vec<Span> {
    let all: u64 = sizes.iter().sum();
    cut_with(sizes, workers, SPAN_BYTES_MIN.min(all / (SPANS_PER_WORKER * workers as u64)))
}

fn cut_with(sizes: &[u64], workers: usize, bytes_min: u64) -> Vec<Span> {
    let mut left: u64 = sizes.iter().sum();
    let mut spans = Vec::new();
    let mut first = 0;
    while first < sizes.len() {
        let wanted = match workers {
            1 => u64::MAX,
            // A span has at least one block, however many workers there are.
            workers => (left / (2 * workers as u64)).max(bytes_min).max(1),
        };
        let mut end = first;
        let mut bytes = 0;
        while end < sizes.len() && bytes < wanted {
            bytes += sizes[end];
            end += 1;
        }
        spans.push(Span { first, end });
        left -= bytes;
        first = end;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_all_blocks_once_and_get_shorter() {
        assert!(cut(&[], 3).is_empty());
        assert_eq!(cut(&[285], 500), [Span { first: 0, end: 1 }]);
        for workers in [1, 2, 3, 8] {
            let sizes: Vec<u64> = (0..1000).map(|i| 1 + i % 7).collect();
            let spans = cut_with(&sizes, workers, 20);
            assert_eq!((spans[0].first, spans[spans.len() - 1].end), (0, 1000));
            assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].first));
            let bytes = |span: &Span| sizes[span.first..span.end].iter().sum::<u64>();
            assert!(spans.windows(2).all(|pair| bytes(&pair[0]) + 7 >= bytes(&pair[1])));
            assert_eq!(spans.len() == 1, workers == 1);
        }
    }
}
