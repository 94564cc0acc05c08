//! The index of an output in its block, as hints name it.

use super::sorted::{Survivor, txid_of, txid_start, vout_of};
use crate::hash::Hash;
use crate::swiftsync::hints::Numbering;
use crate::wire::{BlockView, is_unspendable};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::hints::sorted::survivor;
    use crate::testdata::{blocks_of, data};
    use crate::wire::OutPoint;

    #[test]
    fn survivors_are_numbered_and_strangers_told() {
        // Height 2 of regtest has two outputs, of which the second is OP_RETURN; 170 of mainnet has
        // three in two transactions.
        let regtest = blocks_of(&data("regtest-1-206.dat"));
        let mainnet = blocks_of(&data("mainnet-0-14131.dat"));
        for (bytes, spendable, all) in [(&regtest[1], 1, 2), (&mainnet[170], 3, 3)] {
            let block = BlockView::parse(&bytes[..]).unwrap();
            let txids = block.txids();
            let mut survivors: Vec<Survivor> = outputs(&block, false)
                .filter(|output| !output.is_gone)
                .map(|output| OutPoint { txid: txids[output.tx], vout: output.vout })
                .map(|outpoint| survivor(7, &outpoint))
                .collect();
            survivors.sort_unstable();
            let mut unspent = Vec::new();
            let mut number = |overwritten, numbering, survivors: &[Survivor]| {
                number(&block, &txids, overwritten, numbering, survivors, &mut unspent)
                    .map(|count| (count, unspent.clone()))
            };
            let indices: Vec<u32> = (0..spendable).collect();
            let of_kind = [(Numbering::Spendable, spendable), (Numbering::All, all)];
            for (numbering, count) in of_kind {
                assert_eq!(number(false, numbering, &survivors), Ok((count, indices.clone())));
                assert_eq!(number(false, numbering, &[]), Ok((count, vec![])));
                for len in 1..survivors.len() {
                    let (_, found) = number(false, numbering, &survivors[..len]).unwrap();
                    assert_eq!(found.len(), len);
                }
                // A coinbase that was overwritten is never there, and has an index or none.
                let left = match numbering {
                    Numbering::Spendable => spendable - 1,
                    Numbering::All => all,
                };
                assert_eq!(number(true, numbering, &[]), Ok((left, vec![])));
                assert!(number(true, numbering, &survivors).is_err());
                // One that the block has not, one twice, one that cannot be spent.
                for vout in [0, 1, 60_000] {
                    let txid = Hash([0; 32]);
                    let strange = survivor(7, &OutPoint { txid, vout });
                    let with = [&[strange], &survivors[..]].concat();
                    assert_eq!(number(false, numbering, &with), Err(strange));
                }
                let twice = [&survivors[..1], &survivors[..]].concat();
                assert!(number(false, numbering, &twice).is_err());
            }
            let unspendable = survivor(7, &OutPoint { txid: txids[0], vout: 1 });
            assert_eq!(number(false, Numbering::All, &[unspendable]), Err(unspendable));
        }
    }
}
