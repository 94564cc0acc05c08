//! Growth of the disk by blocks: undo data, and tables of the coins that they add. The number of
//! coins that a byte of blocks adds differs from chain to chain, and on one chain from year to
//! year, so it is estimated from some of the blocks.

use apus_coins::Coin;
use apus_wire::{BlockView, is_unspendable};

/// Bytes of undo data per byte of blocks, on mainnet.
const UNDO_OF_MAINNET: f64 = 1.0 / 8.0;
/// Bytes of tables per byte of blocks, on mainnet.
const TABLES_OF_MAINNET: f64 = 1.0 / 60.0;
/// Inputs and outputs of a byte of blocks, on mainnet.
const INPUTS_OF_MAINNET: f64 = 0.0042;
const OUTPUTS_OF_MAINNET: f64 = 0.0044;
/// Bytes of a coin in a table besides its value, if the coin before it is of another transaction:
/// lengths, txid and vout, the sequence number of LevelDB, and its share of filter and index.
const KEY_BYTES: f64 = 46.0;
/// The same, if the coin before it is of the same transaction, whose txid is not repeated.
const NEXT_KEY_BYTES: f64 = 14.0;
/// Bytes of a coin in a table, if nothing else is known of it.
pub const COIN_BYTES: u64 = 70;
/// Number of standard errors by which a mean may be wrong.
const ERRORS: f64 = 2.0;

/// An estimated number of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bytes {
    /// The lower bound: fewer are very unlikely.
    pub least: u64,
    /// The expected number.
    pub likely: u64,
}

impl Bytes {
    /// Applies `change` to both numbers.
    pub fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self { least: change(self.least), likely: change(self.likely) }
    }
}

/// Bytes that blocks add to the disk per byte of their own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Growth {
    undo: Rate,
    tables: Rate,
    inputs: Rate,
    outputs: Rate,
}

/// Bytes per byte of blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rate {
    least: f64,
    likely: f64,
}

/// Bytes that one block adds to the disk per byte of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    undo: f64,
    tables: f64,
    inputs: f64,
    outputs: f64,
}

impl Default for Growth {
    /// Returns what blocks leave on mainnet, for use without samples.
    fn default() -> Self {
        let rate = |likely| Rate { least: 0.0, likely };
        Self {
            undo: rate(UNDO_OF_MAINNET),
            tables: rate(TABLES_OF_MAINNET),
            inputs: rate(INPUTS_OF_MAINNET),
            outputs: rate(OUTPUTS_OF_MAINNET),
        }
    }
}

impl Growth {
    /// Estimates what blocks leave from samples, each taken with a probability proportional to the
    /// size of its block.
    pub fn of(samples: &[Sample]) -> Self {
        let rate = |of: fn(&Sample) -> f64, usual| Rate::of(samples.iter().map(of), usual);
        Self {
            undo: rate(|sample| sample.undo, UNDO_OF_MAINNET),
            tables: rate(|sample| sample.tables, TABLES_OF_MAINNET),
            inputs: rate(|sample| sample.inputs, INPUTS_OF_MAINNET),
            outputs: rate(|sample| sample.outputs, OUTPUTS_OF_MAINNET),
        }
    }

    /// Estimates the inputs and the outputs of `blocks` bytes of blocks.
    pub fn inputs_and_outputs(&self, blocks: u64) -> [f64; 2] {
        [self.inputs, self.outputs].map(|rate| blocks as f64 * rate.likely)
    }

    /// Estimates the undo data of `blocks` bytes of blocks.
    pub fn undo(&self, blocks: u64) -> Bytes {
        self.undo.of_blocks(blocks)
    }

    /// Estimates the tables of the coins that `blocks` bytes of blocks add.
    pub fn tables(&self, blocks: u64) -> Bytes {
        self.tables.of_blocks(blocks)
    }
}

impl Rate {
    /// Estimates the rate of all blocks from that of samples. Unless the samples rule out the
    /// `usual` rate, it is the likely one: the coins left are few compared with those created and
    /// spent, so a few blocks tell little about them.
    fn of(samples: impl ExactSizeIterator<Item = f64> + Clone, usual: f64) -> Self {
        let count = samples.len() as f64;
        if count < 2.0 {
            return Self { least: 0.0, likely: usual };
        }
        let mean = samples.clone().sum::<f64>() / count;
        let squares: f64 = samples.map(|sample| (sample - mean).powi(2)).sum();
        let error = ERRORS * (squares / (count - 1.0) / count).sqrt();
        let is_usual = (mean - error..=mean + error).contains(&usual);
        let likely = if is_usual { usual } else { mean };
        Self { least: (mean - error).max(0.0), likely: likely.max(0.0) }
    }

    fn of_blocks(self, blocks: u64) -> Bytes {
        let bytes = |rate: f64| (blocks as f64 * rate).round() as u64;
        Bytes { least: bytes(self.least), likely: bytes(self.likely) }
    }
}

impl Sample {
    /// Estimates what the block at `height` leaves. The coins that it spends are assumed to be like
    /// the coins that it creates.
    pub fn of<B: AsRef<[u8]>>(view: &BlockView<B>, height: u32) -> Self {
        let mut coins = 0.0;
        let mut values = 0.0;
        let mut keys = 0.0;
        for (number, tx) in view.txs().enumerate() {
            let mut key = KEY_BYTES;
            for output in tx.outputs().filter(|output| !is_unspendable(output.script())) {
                let amount = output.value().unsigned_abs();
                let coin = Coin::new(amount, output.script(), height, number == 0);
                coins += 1.0;
                values += coin.encoded_len() as f64;
                keys += key;
                key = NEXT_KEY_BYTES;
            }
        }
        let bytes = view.len() as f64;
        // The coinbase's input spends nothing.
        let spent = view.input_count().saturating_sub(1) as f64;
        let (coins, left) = (f64::max(coins, 1.0), coins - spent);
        Self {
            undo: spent * (values / coins + 1.0) / bytes,
            tables: left * (values + keys) / coins / bytes,
            inputs: spent / bytes,
            outputs: view.output_count() as f64 / bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use apus_testdata::{blocks_of, data};

    use super::*;

    fn growth(tables: &[f64]) -> Growth {
        let sample =
            |tables: &f64| Sample { undo: 0.1, tables: *tables, inputs: 0.0, outputs: 0.0 };
        Growth::of(&tables.iter().map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn without_samples_blocks_leave_what_they_leave_on_mainnet() {
        for samples in [&[][..], &[0.5]] {
            assert_eq!(growth(samples), Growth::default());
        }
        let Bytes { least, likely } = Growth::default().tables(770_000_000_000);
        assert_eq!((least, likely / 1_000_000_000), (0, 12));
    }

    #[test]
    fn samples_that_agree_count_and_others_leave_the_usual_rate() {
        // If all are alike, the samples are certain, however far they are from the usual rate.
        let alike = growth(&[0.5; 64]).tables(1_000);
        assert_eq!(alike, Bytes { least: 500, likely: 500 });
        // Some blocks create more coins than they spend, others fewer, and the usual rate is within
        // the error.
        let mixed: Vec<f64> = (0..64).map(|n| if n % 2 == 0 { 0.3 } else { -0.25 }).collect();
        assert_eq!(growth(&mixed).tables(60_000), Bytes { least: 0, likely: 1_000 });
        // Blocks that spend more coins than they create leave nothing.
        assert_eq!(growth(&[-0.5; 64]).tables(1_000), Bytes::default());
        // The mean is 0.5, and its error 2 × 0.1 / √63.
        let spread: Vec<f64> = (0..64).map(|n| if n % 2 == 0 { 0.4 } else { 0.6 }).collect();
        let Bytes { least, likely } = growth(&spread).tables(100_000);
        assert_eq!((least, likely), (47_480, 50_000));
    }

    #[test]
    fn a_block_leaves_its_outputs_without_its_inputs() {
        let blocks = blocks_of(&data("regtest-1-206.dat"));
        for (height, bytes) in (1..).zip(&blocks) {
            let view = BlockView::parse(bytes).unwrap();
            let Sample { undo, tables, .. } = Sample::of(&view, height);
            let spent = view.input_count() - 1;
            let created: usize = view
                .txs()
                .map(|tx| tx.outputs().filter(|output| !is_unspendable(output.script())).count())
                .sum();
            let undo = undo * bytes.len() as f64;
            let tables = tables * bytes.len() as f64;
            // The value of a coin has 4 to 150 bytes here.
            let spent = spent as f64;
            assert!(undo >= spent * 5.0 && undo <= spent * 151.0, "{height}: {undo} of {spent}");
            let left = created as f64 - spent;
            let least = left.min(0.0) * 196.0 + left.max(0.0) * 18.0;
            let most = left.min(0.0) * 18.0 + left.max(0.0) * 196.0;
            assert!((least..=most).contains(&tables), "{height}: {tables} of {left}");
        }
    }
}
