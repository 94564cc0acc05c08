//! Spans of heights: the pieces of the chain that one worker goes through in order of height.

/// Consecutive blocks, by their index among those of the join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first block.
    pub first: usize,
    /// One after the last block.
    pub end: usize,
}

/// The bytes of blocks that the last spans have, for a long chain. Shorter ones gain nothing: the
/// window of recent transactions of each begins empty.
const SPAN_BYTES_MIN: u64 = 64 << 20;
/// The spans that each worker has at most, if all were as short as the last ones.
const SPANS_PER_WORKER: u64 = 16;

/// Cuts blocks of these sizes in bytes into spans for `workers`: long ones first, which keep the
/// window of recent transactions useful, and shorter ones at the end, so that all workers end at
/// about the same time.
pub fn cut(sizes: &[u64], workers: usize) -> Vec<Span> {
    let all: u64 = sizes.iter().sum();
    cut_with(sizes, workers, SPAN_BYTES_MIN.min(all / (SPANS_PER_WORKER * workers as u64)))
}

fn cut_with(sizes: &[u64], workers: usize, bytes_min: u64) -> Vec<Span> {
    let mut left: u64 = sizes.iter().sum();
    let (mut spans, mut first) = (Vec::new(), 0);
    while first < sizes.len() {
        let wanted = match workers {
            1 => u64::MAX,
            // A span has a block, however many the workers are.
            workers => (left / (2 * workers as u64)).max(bytes_min).max(1),
        };
        let (mut end, mut bytes) = (first, 0);
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
