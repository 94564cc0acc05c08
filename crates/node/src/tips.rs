//! Core's log line about every new tip (`UpdateTipLog`).

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_store::IndexRecord;
use apus_wire::ChainTxData;

use super::shared::Shared;
use apus_progress::clock::unix_time;
use apus_progress::{Observer, Tip};

/// If a block's time is within this many seconds of the present time, its height tells how far the
/// chain is.
const RECENT_SECONDS: i64 = 2 * 60 * 60;

/// The figures that are kept from one tip to the next.
#[derive(Default)]
pub struct Tips {
    transactions: ChainTransactions,
}

/// The number of transactions of all blocks up to a tip, counted on from the previous tip.
#[derive(Default)]
struct ChainTransactions {
    tip: Option<BlockId>,
    count: u64,
}

impl ChainTransactions {
    /// Returns the number of transactions of all blocks of the active chain.
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
    /// Shows an observer the tip of the active chain. `records` are those of all blocks.
    pub fn show(
        &mut self,
        shared: &Shared,
        active: &ActiveChain,
        records: &[IndexRecord],
        observer: &dyn Observer,
    ) {
        let Some(id) = active.tip() else { return };
        let tree = shared.tree;
        let node = tree.node(id);
        let transactions = self.transactions.up_to(tree, active, records);
        let sizes = shared.cache.sizes();
        let best_height = tree.node(tree.best_header()).height;
        let blocks_left = i64::from(best_height) - i64::from(node.height);
        let seconds_left =
            (blocks_left >= 0).then(|| blocks_left * i64::from(shared.network.pow_target_spacing));
        let block_time = i64::from(node.time);
        let data = &shared.network.chain_tx_data;
        observer.tip(&Tip {
            hash: node.hash,
            height: node.height,
            version: tree.header(id).version,
            log2_work: node.work.log2(),
            transactions,
            time: node.time,
            progress: guess_progress(data, transactions, block_time, seconds_left, unix_time()),
            cache_bytes: sizes.bytes,
            cache_coins: sizes.entries,
        });
    }
}

/// Returns the share of all transactions up to `now` that a chain with `transactions` has, whose
/// last block has the time `block_time` (Core's `GuessVerificationProgress`). The blocks up to the
/// best header take `seconds_left`; `None` if the best header is below the block.
pub fn guess_progress(
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
    let (known, since) = if transactions <= data.tx_count {
        (data.tx_count, now - data.time)
    } else {
        (transactions, now - end)
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
            format!("{:.6}", guess_progress(&data, transactions, block_time, left, now))
        };
        assert_eq!(progress(0, 0, None, 2_000_000), "0.000000");
        // Up to the known number of transactions, at its time and later.
        assert_eq!(progress(2_500, 0, None, 1_000_000), "0.500000");
        assert_eq!(progress(5_000, 0, None, 1_010_000), "0.500000");
        // Above it, estimated from the time of the block; by its height if it is recent.
        assert_eq!(progress(6_000, 1_020_000, Some(0), 1_032_000), "0.500000");
        assert_eq!(progress(6_000, 1_020_000, Some(1_200), 1_027_200), "0.909091");
        assert_eq!(progress(6_000, 1_020_000, Some(0), 1_027_200), "1.000000");
        assert_eq!(progress(6_000, 1_020_000, None, 1_027_200), "0.625000");
        // A clock that is slow.
        assert_eq!(progress(6_000, 1_020_000, None, 1_010_000), "1.000000");
        assert_eq!(Network::new(Chain::Main).chain_tx_data.tx_count, 1_315_805_869);
    }
}
