//! What Core logs of every new tip (`UpdateTipLog`).

use std::time::{Duration, Instant};

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_store::IndexRecord;
use apus_wire::ChainTxData;

use super::clock::unix_time;
use super::progress::{Observer, Tip};
use super::shared::Shared;

/// How long figures of the cache are used again: to count it takes all its locks.
const CACHE_EVERY: Duration = Duration::from_millis(100);
/// How far a block's time may be from the present one for its height to say how far the chain is.
const RECENT_SECONDS: i64 = 2 * 60 * 60;

/// What is carried on from one tip to the next.
#[derive(Default)]
pub struct Tips {
    transactions: ChainTransactions,
    /// Bytes and entries of the cache, and when they were counted.
    cache: Option<(Instant, usize, usize)>,
}

/// Transactions of all blocks up to one, counted from a block near it.
#[derive(Default)]
struct ChainTransactions {
    tip: Option<BlockId>,
    count: u64,
}

impl ChainTransactions {
    /// Transactions of all blocks of the active chain.
    fn up_to(&mut self, tree: &Tree, active: &ActiveChain, records: &[IndexRecord]) -> u64 {
        let of = |id: BlockId| u64::from(records[id.index()].tx_count);
        // The tip was disconnected.
        if let Some(before) = self.tip
            && tree.node(before).prev.is_some()
            && tree.node(before).prev == active.tip()
        {
            self.count -= of(before);
            self.tip = active.tip();
        }
        let known = self.tip.filter(|tip| active.contains(tree, *tip));
        let (from, count) = match known {
            Some(tip) => (tree.node(tip).height + 1, self.count),
            None => (0, 0),
        };
        let new = (from..).map_while(|height| active.at(height));
        self.count = count + new.map(of).sum::<u64>();
        self.tip = active.tip();
        self.count
    }
}

impl Tips {
    /// Shows an observer the last block of the active chain, whose blocks have these `records`.
    pub fn show(
        &mut self,
        shared: &Shared,
        active: &ActiveChain,
        records: &[IndexRecord],
        observer: &dyn Observer,
    ) {
        let Some(id) = active.tip() else { return };
        let (tree, now) = (shared.tree, Instant::now());
        let node = tree.node(id);
        let transactions = self.transactions.up_to(tree, active, records);
        let known = self.cache.filter(|(at, ..)| now - *at < CACHE_EVERY);
        let count = || (now, shared.cache.bytes(), shared.cache.len());
        let (_, cache_bytes, cache_coins) = *self.cache.insert(known.unwrap_or_else(count));
        let best_height = tree.node(tree.best_header()).height;
        let blocks_left = i64::from(best_height) - i64::from(node.height);
        let seconds_left =
            (blocks_left >= 0).then(|| blocks_left * i64::from(shared.network.pow_target_spacing));
        let (block_time, data) = (i64::from(node.time), &shared.network.chain_tx_data);
        observer.tip(&Tip {
            hash: node.hash,
            height: node.height,
            version: tree.header(id).version,
            log2_work: node.work.log2(),
            transactions,
            time: node.time,
            progress: progress(data, transactions, block_time, seconds_left, unix_time()),
            cache_bytes,
            cache_coins,
        });
    }
}

/// The share of all transactions that there are by `now` that a chain of so many `transactions`
/// has, if its last block is of `block_time` (Core's `GuessVerificationProgress`). The blocks up to
/// the best header take `seconds_left`, if that is not below the block.
fn progress(
    data: &ChainTxData,
    transactions: u64,
    block_time: i64,
    seconds_left: Option<i64>,
    now: i64,
) -> f64 {
    if transactions == 0 {
        return 0.0;
    }
    let end = match seconds_left {
        Some(left) if (now - block_time).abs() <= RECENT_SECONDS => now - left,
        _ => block_time,
    };
    let (known, since) = match transactions <= data.tx_count {
        true => (data.tx_count, now - data.time),
        false => (transactions, now - end),
    };
    let all = known as f64 + since as f64 * data.rate;
    (transactions as f64 / all).min(1.0)
}

#[cfg(test)]
mod tests {
    use apus_wire::{Chain, Network};

    use super::*;

    #[test]
    fn progress_is_cores_guess() {
        let data = ChainTxData { time: 1_000_000, tx_count: 5_000, rate: 0.5 };
        let progress = |transactions, block_time, left, now| {
            format!("{:.6}", super::progress(&data, transactions, block_time, left, now))
        };
        assert_eq!(progress(0, 0, None, 2_000_000), "0.000000");
        // What is known, and what has come since.
        assert_eq!(progress(2_500, 0, None, 1_000_000), "0.500000");
        assert_eq!(progress(5_000, 0, None, 1_010_000), "0.500000");
        // Above that, from the block on; by its height once it is recent.
        assert_eq!(progress(6_000, 1_020_000, Some(0), 1_032_000), "0.500000");
        assert_eq!(progress(6_000, 1_020_000, Some(1_200), 1_027_200), "0.909091");
        assert_eq!(progress(6_000, 1_020_000, Some(0), 1_027_200), "1.000000");
        assert_eq!(progress(6_000, 1_020_000, None, 1_027_200), "0.625000");
        // A clock that is behind.
        assert_eq!(progress(6_000, 1_020_000, None, 1_010_000), "1.000000");
        assert_eq!(Network::new(Chain::Main).chain_tx_data.tx_count, 1_315_805_869);
    }
}
