//! The index of an output in its block, as hints name it.

use crate::rules::is_bip30_unspendable;
use crate::swiftsync::hints::Numbering;
use crate::wire::{BlockView, Hash, is_unspendable};

use super::survivors::{Survivor, txid_of, txid_start, vout_of};

/// Whether this block's coinbase is one of the two that BIP30's exceptions overwrote: it is no
/// longer there, although nobody spent it.
pub(super) fn is_overwritten(height: u32, block: &Hash) -> bool {
    is_bip30_unspendable(height, block)
}

/// An output of a block.
pub(super) struct Numbered {
    /// Index of its transaction in the block.
    pub tx: usize,
    /// Its index in the transaction.
    pub vout: u32,
    /// Whether it is never there to be spent: it cannot be, or was overwritten.
    pub is_gone: bool,
}

impl Numbered {
    /// Whether it has an index.
    pub fn counts(&self, numbering: Numbering) -> bool {
        numbering == Numbering::All || !self.is_gone
    }
}

/// All outputs of a block, in order. `overwritten` tells whether its coinbase is.
pub(super) fn outputs<'a>(
    block: &'a BlockView<&[u8]>,
    overwritten: bool,
) -> impl Iterator<Item = Numbered> + 'a {
    block.txs().enumerate().flat_map(move |(tx, view)| {
        (0..).zip(view.outputs()).map(move |(vout, output)| {
            let is_gone = is_unspendable(output.script()) || (overwritten && tx == 0);
            Numbered { tx, vout, is_gone }
        })
    })
}

/// Puts the indices of the `survivors` of a block, sorted, into `unspent`, ascending, in the place
/// of what it held; returns how many outputs there are to count.
///
/// # Errors
/// The first survivor that is no output of this block, or no spendable one.
pub(super) fn number(
    block: &BlockView<&[u8]>,
    txids: &[Hash],
    overwritten: bool,
    numbering: Numbering,
    survivors: &[Survivor],
    unspent: &mut Vec<u32>,
) -> Result<u32, Survivor> {
    unspent.clear();
    let (mut count, mut found) = (0, 0);
    let mut left: &[Survivor] = &[];
    for output in outputs(block, overwritten) {
        if output.vout == 0 {
            if let Some(missing) = left.first() {
                return Err(*missing);
            }
            left = of_tx(survivors, &txids[output.tx]);
        }
        if !output.counts(numbering) {
            continue;
        }
        if !output.is_gone && left.first().is_some_and(|next| vout_of(next) == output.vout) {
            unspent.push(count);
            left = &left[1..];
            found += 1;
        }
        count += 1;
    }
    match left.first() {
        Some(missing) => Err(*missing),
        None if found < survivors.len() => Err(stranger(survivors, txids)),
        None => Ok(count),
    }
}

/// The survivors of one transaction.
fn of_tx<'a>(survivors: &'a [Survivor], txid: &Hash) -> &'a [Survivor] {
    let txid = txid_start(txid);
    let start = survivors.partition_point(|survivor| txid_of(survivor) < txid);
    let rest = &survivors[start..];
    let end = rest.iter().take_while(|survivor| txid_of(survivor) == txid).count();
    &rest[..end]
}

/// A survivor of none of the transactions, of which there is one.
fn stranger(survivors: &[Survivor], txids: &[Hash]) -> Survivor {
    let is_known =
        |survivor: &&Survivor| txids.iter().any(|id| txid_start(id) == txid_of(survivor));
    *survivors.iter().find(|survivor| !is_known(survivor)).unwrap_or(&survivors[0])
}
