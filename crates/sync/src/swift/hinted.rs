//! The outputs of a block, each with what the claim says about it.

use apus_coins::SnapshotError;
use apus_consensus::{CheckedBlock, is_bip30_unspendable};
use apus_node::coin_differences::{CoinDifference, DifferenceKind};
use apus_node::fault::Fault;
use apus_swiftsync::HintsError;
use apus_swiftsync::hints::{OutputCounter, OutputFate};
use apus_wire::{OutPoint, OutputView};

use super::opened_claim::{Marks, Unspent};
use crate::unspent::Mismatch;

/// The fate of an output in a SwiftSync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HintedFate {
    /// The claim says that it is unspent: its coin is kept.
    Unspent,
    /// The claim does not name it: a block up to the height of the claim spends it.
    Spent,
    /// It does not become a coin.
    NoCoin,
    /// It does not become a coin, although the hints call it unspent.
    Unspendable,
}

/// An output of a block, with its fate.
pub(super) struct HintedOutput<'a> {
    /// Position of its transaction in the block.
    pub tx: usize,
    pub outpoint: OutPoint,
    pub view: OutputView<'a>,
    pub fate: HintedFate,
    height: u32,
    /// Index by which hints name it; 0 if they have no index for it.
    index: u32,
}

/// A hint that is wrong about an output, as its block alone shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WrongHint {
    pub height: u32,
    /// The index by which the hints name the output.
    pub index: u32,
    pub outpoint: OutPoint,
    pub kind: DifferenceKind,
}

impl WrongHint {
    /// Returns the fault where wrong hints are not corrected.
    pub fn into_fault(self) -> Fault {
        let what = match self.kind {
            DifferenceKind::Unspendable => "it is unspendable",
            _ => "a block up to the hints' height spends it",
        };
        wrong_hint(self.height, self.index, what)
    }

    pub fn into_difference(self) -> CoinDifference {
        CoinDifference { outpoint: self.outpoint, height: Some(self.height), kind: self.kind }
    }
}

impl HintedOutput<'_> {
    /// Returns the fault for a snapshot that has this output, although a block up to its base block
    /// spends it.
    pub fn is_spent(&self) -> Fault {
        Fault::Snapshot(SnapshotError::new(format!(
            "it has the coin {} of block {}, which a block up to its base block spends",
            self.outpoint, self.height
        )))
    }

    /// Returns the wrong hint about this output.
    pub fn wrong_hint(&self, kind: DifferenceKind) -> WrongHint {
        WrongHint { height: self.height, index: self.index, outpoint: self.outpoint, kind }
    }
}

/// Calls `each` with every output of a block, in order.
///
/// # Errors
/// The claim does not fit the block, or `each` fails.
#[inline]
pub(super) fn for_each_output<B: AsRef<[u8]>>(
    block: &CheckedBlock<B>,
    height: u32,
    claimed: &Unspent,
    mut marks: Marks,
    mut each: impl FnMut(&HintedOutput) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let is_overwritten = is_bip30_unspendable(height, block.hash());
    let mut counter = OutputCounter::new(claimed.numbering(), is_overwritten);
    for (tx, (view, txid)) in block.view().txs().zip(block.txids()).enumerate() {
        if let Marks::Coins(coins) = &mut marks {
            coins.begin_tx(txid).map_err(|mismatch| wrong_coin(mismatch, height))?;
        }
        for (vout, output) in (0..).zip(view.outputs()) {
            let number = counter.next(tx, output.script());
            let index = number.index.unwrap_or(0);
            let is_marked = match &mut marks {
                Marks::Indices(left) => number.index.is_some() && takes(left, index),
                Marks::Coins(coins) => {
                    number.fate == OutputFate::Coin
                        && coins
                            .meet(vout, &output, tx == 0)
                            .map_err(|mismatch| wrong_coin(mismatch, height))?
                }
            };
            let fate = match (number.fate, is_marked) {
                (OutputFate::Coin, true) => HintedFate::Unspent,
                (OutputFate::Coin, false) => HintedFate::Spent,
                (OutputFate::Unspendable, true) => HintedFate::Unspendable,
                // An overwritten output has the outpoint of a later one, which may be what the
                // claim names.
                (OutputFate::Unspendable, false) | (OutputFate::Overwritten, _) => {
                    HintedFate::NoCoin
                }
            };
            let outpoint = OutPoint { txid: *txid, vout };
            each(&HintedOutput { tx, outpoint, view: output, fate, height, index })?;
        }
    }
    let outputs = counter.counted();
    match marks {
        Marks::Indices([]) => {}
        Marks::Indices([index, ..]) => {
            return Err(wrong_hint(height, *index, &format!("the block has {outputs} outputs")));
        }
        Marks::Coins(coins) => {
            coins.end(block.txids()).map_err(|mismatch| wrong_coin(mismatch, height))?;
        }
    }
    match claimed.output_count(height).filter(|announced| *announced != outputs) {
        None => Ok(()),
        Some(announced) => {
            let what =
                format!("the hints are for {announced} outputs, but the block has {outputs}");
            Err(Fault::Hints(HintsError::at(height, what)))
        }
    }
}

/// Returns whether `index` is the first of `left`, and removes it if so.
#[inline]
fn takes(left: &mut &[u32], index: u32) -> bool {
    match left {
        [next, rest @ ..] if *next == index => {
            *left = rest;
            true
        }
        _ => false,
    }
}

fn wrong_hint(height: u32, index: u32, what: &str) -> Fault {
    let what = format!("output {index} is hinted as unspent, but {what}");
    Fault::Hints(HintsError::at(height, what))
}

#[cold]
fn wrong_coin(mismatch: Mismatch, height: u32) -> Fault {
    Fault::Snapshot(SnapshotError::new(match mismatch {
        Mismatch::Unknown(outpoint) => format!(
            "it has a coin {outpoint} of block {height} that this block does not create, or has \
             it twice"
        ),
        Mismatch::Changed(outpoint) => format!(
            "its coin {outpoint} of block {height} is not as this block creates it: amount or \
             script differ, or whether it is a coinbase's"
        ),
    }))
}
