//! The index by which hints name an output of a block.

use apus_wire::{BlockView, is_unspendable};

/// Which outputs of a block have an index. Indices start at 0 in each block, and follow the order
/// of its transactions and of their outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Outputs that become coins. Unspendable outputs (`is_unspendable`) and those of the two
    /// coinbases that were overwritten before BIP30 have no index.
    Spendable,
    /// All outputs. The index of an unspendable output is never hinted. Core PR 34004 does hint the
    /// two overwritten coinbases, because their outpoints exist again later.
    All,
}

/// The fate of an output when its block is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFate {
    /// It becomes a coin.
    Coin,
    /// No coin: its script can never be satisfied ([`is_unspendable`]).
    Unspendable,
    /// A coin that is lost: it belongs to one of the two coinbases that a later one overwrote
    /// (BIP30).
    Overwritten,
}

/// The index by which hints name an output, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputNumber {
    /// The index; `None` if the numbering skips the output.
    pub index: Option<u32>,
    /// The fate of the output.
    pub fate: OutputFate,
}

/// An output of a block, and the index by which hints name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedOutput {
    /// The position of its transaction in the block.
    pub tx: usize,
    /// The position of the output in the transaction.
    pub vout: u32,
    /// Its index and its fate.
    pub number: OutputNumber,
}

/// Assigns indices to the outputs of one block, one after the other.
///
/// This is the only place that decides which outputs hints count, and in which order.
#[derive(Clone, Debug)]
pub struct OutputCounter {
    numbering: Numbering,
    coinbase_is_overwritten: bool,
    counted: u32,
}

impl OutputCounter {
    /// Creates a counter at the first output of a block. `coinbase_is_overwritten` is the result of
    /// `is_bip30_unspendable` of apus-consensus for the block.
    pub fn new(numbering: Numbering, coinbase_is_overwritten: bool) -> Self {
        Self { numbering, coinbase_is_overwritten, counted: 0 }
    }

    /// Returns the index and the fate of the block's next output, which has this script and belongs
    /// to the transaction at position `tx`.
    #[inline]
    pub fn next(&mut self, tx: usize, script: &[u8]) -> OutputNumber {
        let fate = if self.coinbase_is_overwritten && tx == 0 {
            OutputFate::Overwritten
        } else if is_unspendable(script) {
            OutputFate::Unspendable
        } else {
            OutputFate::Coin
        };
        if self.numbering == Numbering::Spendable && fate != OutputFate::Coin {
            return OutputNumber { index: None, fate };
        }
        self.counted += 1;
        OutputNumber { index: Some(self.counted - 1), fate }
    }

    /// Returns the number of outputs that have an index so far; after the last output, that of the
    /// whole block.
    pub fn counted(&self) -> u32 {
        self.counted
    }
}

/// Returns all outputs of a block, in order, with their indices. `coinbase_is_overwritten` is as
/// for [`OutputCounter::new`].
pub fn numbered_outputs<B: AsRef<[u8]>>(
    block: &BlockView<B>,
    numbering: Numbering,
    coinbase_is_overwritten: bool,
) -> impl Iterator<Item = NumberedOutput> + '_ {
    let mut counter = OutputCounter::new(numbering, coinbase_is_overwritten);
    let outputs = block.txs().enumerate().flat_map(|(tx, view)| {
        (0..).zip(view.outputs()).map(move |(vout, output)| (tx, vout, output.script()))
    });
    outputs.map(move |(tx, vout, script)| NumberedOutput {
        tx,
        vout,
        number: counter.next(tx, script),
    })
}

#[cfg(test)]
mod tests {
    use apus_testdata::{blocks_of, data};

    use super::*;

    fn outputs_of(
        bytes: &[u8],
        numbering: Numbering,
        coinbase_is_overwritten: bool,
    ) -> Vec<(usize, u32, Option<u32>, OutputFate)> {
        let block = BlockView::parse(bytes).unwrap();
        numbered_outputs(&block, numbering, coinbase_is_overwritten)
            .map(|NumberedOutput { tx, vout, number }| (tx, vout, number.index, number.fate))
            .collect()
    }

    #[test]
    fn unspendable_outputs_have_an_index_only_where_all_are_counted() {
        use OutputFate::{Coin, Overwritten, Unspendable};
        // Block 2 of regtest has two outputs, of which the second is an OP_RETURN.
        let block = &blocks_of(&data("regtest-1-206.dat"))[1];
        for (numbering, overwritten, expected) in [
            (Numbering::Spendable, false, [(0, 0, Some(0), Coin), (0, 1, None, Unspendable)]),
            (Numbering::All, false, [(0, 0, Some(0), Coin), (0, 1, Some(1), Unspendable)]),
            (Numbering::Spendable, true, [(0, 0, None, Overwritten), (0, 1, None, Overwritten)]),
            (Numbering::All, true, [(0, 0, Some(0), Overwritten), (0, 1, Some(1), Overwritten)]),
        ] {
            assert_eq!(outputs_of(block, numbering, overwritten), expected);
        }
    }

    #[test]
    fn indices_go_on_from_one_transaction_to_the_next() {
        // Block 170 of mainnet has a coinbase with one output and a payment with two.
        let block = &blocks_of(&data("mainnet-0-14131.dat"))[170];
        for numbering in [Numbering::Spendable, Numbering::All] {
            let coin = |tx, vout, index| (tx, vout, Some(index), OutputFate::Coin);
            let expected = [coin(0, 0, 0), coin(1, 0, 1), coin(1, 1, 2)];
            assert_eq!(outputs_of(block, numbering, false), expected);
        }
        // Only the coinbase's outputs are overwritten.
        let spendable = outputs_of(block, Numbering::Spendable, true);
        let indices: Vec<Option<u32>> = spendable.iter().map(|output| output.2).collect();
        assert_eq!(indices, [None, Some(0), Some(1)]);
    }
}
