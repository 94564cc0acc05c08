//! The indices of a block's unspent outputs, as hints count them.

use apus_hash::Hash;
use apus_swiftsync::hints::{Numbering, OutputFate, numbered_outputs};
use apus_wire::BlockView;

use super::sorted::{OutputKey, txid_of, txid_prefix, txid_start, vout_of};

/// Replaces the content of `unspent` with the indices of a block's unspent outputs, ascending, and
/// returns the number of outputs that the numbering counts. `keys` are the sorted keys of the
/// unspent outputs.
///
/// # Errors
/// A key is of no output of this block, of one that cannot be spent, or occurs twice; the error is
/// such a key.
pub fn number<B: AsRef<[u8]>>(
    block: &BlockView<B>,
    txids: &[Hash],
    overwritten: bool,
    numbering: Numbering,
    keys: &[OutputKey],
    unspent: &mut Vec<u32>,
) -> Result<u32, OutputKey> {
    unspent.clear();
    let mut count = 0;
    let mut found = 0;
    let mut left: &[OutputKey] = &[];
    for output in numbered_outputs(block, numbering, overwritten) {
        if output.vout == 0 {
            if let Some(missing) = left.first() {
                return Err(*missing);
            }
            left = of_tx(keys, &txids[output.tx]);
        }
        let Some(index) = output.number.index else { continue };
        let is_coin = output.number.fate == OutputFate::Coin;
        if is_coin && left.first().is_some_and(|next| vout_of(next) == output.vout) {
            unspent.push(index);
            left = &left[1..];
            found += 1;
        }
        count += 1;
    }
    match left.first() {
        Some(missing) => Err(*missing),
        None if found < keys.len() => Err(stranger(keys, txids)),
        None => Ok(count),
    }
}

fn of_tx<'a>(keys: &'a [OutputKey], txid: &Hash) -> &'a [OutputKey] {
    let prefix = u64::from_be_bytes(*txid.0.first_chunk().expect("a txid has 32 bytes"));
    let txid = txid_start(txid);
    let mut start = keys.partition_point(|key| txid_prefix(key) < prefix);
    // Most transactions have no unspent output, and few share the first eight bytes of a txid.
    while keys.get(start).is_some_and(|key| txid_prefix(key) == prefix && txid_of(key) < txid) {
        start += 1;
    }
    let rest = &keys[start..];
    let end = rest.iter().take_while(|key| txid_of(key) == txid).count();
    &rest[..end]
}

/// Returns the first key whose transaction is not in `txids`. If there is none, two keys are equal,
/// and the first of all keys is returned.
fn stranger(keys: &[OutputKey], txids: &[Hash]) -> OutputKey {
    let is_known = |key: &&OutputKey| txids.iter().any(|id| txid_start(id) == txid_of(key));
    *keys.iter().find(|key| !is_known(key)).unwrap_or(&keys[0])
}

#[cfg(test)]
mod tests {
    use apus_testdata::{blocks_of, data};
    use apus_wire::OutPoint;

    use super::*;
    use crate::unspent::output_key;

    #[test]
    fn unspent_outputs_are_numbered_and_unknown_ones_reported() {
        // Block 2 of regtest has two outputs, the second of them OP_RETURN; block 170 of mainnet
        // has three, in two transactions.
        let regtest = blocks_of(&data("regtest-1-206.dat"));
        let mainnet = blocks_of(&data("mainnet-0-14131.dat"));
        for (bytes, spendable, all) in [(&regtest[1], 1, 2), (&mainnet[170], 3, 3)] {
            let block = BlockView::parse(&bytes[..]).unwrap();
            let txids = block.txids();
            let mut keys: Vec<OutputKey> = numbered_outputs(&block, Numbering::Spendable, false)
                .filter(|output| output.number.fate == OutputFate::Coin)
                .map(|output| OutPoint { txid: txids[output.tx], vout: output.vout })
                .map(|outpoint| output_key(7, &outpoint))
                .collect();
            keys.sort_unstable();
            let mut unspent = Vec::new();
            let mut number = |overwritten, numbering, keys: &[OutputKey]| {
                number(&block, &txids, overwritten, numbering, keys, &mut unspent)
                    .map(|count| (count, unspent.clone()))
            };
            let indices: Vec<u32> = (0..spendable).collect();
            let of_kind = [(Numbering::Spendable, spendable), (Numbering::All, all)];
            for (numbering, count) in of_kind {
                assert_eq!(number(false, numbering, &keys), Ok((count, indices.clone())));
                assert_eq!(number(false, numbering, &[]), Ok((count, vec![])));
                for len in 1..keys.len() {
                    let (_, found) = number(false, numbering, &keys[..len]).unwrap();
                    assert_eq!(found.len(), len);
                }
                // An overwritten coinbase is never unspent; only one numbering gives it an index.
                let left = match numbering {
                    Numbering::Spendable => spendable - 1,
                    Numbering::All => all,
                };
                assert_eq!(number(true, numbering, &[]), Ok((left, vec![])));
                assert!(number(true, numbering, &keys).is_err());
                // A key of no output of the block, a key twice, a key of an unspendable output.
                for vout in [0, 1, 60_000] {
                    let txid = Hash([0; 32]);
                    let strange = output_key(7, &OutPoint { txid, vout });
                    let with = [&[strange], &keys[..]].concat();
                    assert_eq!(number(false, numbering, &with), Err(strange));
                }
                let twice = [&keys[..1], &keys[..]].concat();
                assert!(number(false, numbering, &twice).is_err());
            }
            let unspendable = output_key(7, &OutPoint { txid: txids[0], vout: 1 });
            assert_eq!(number(false, Numbering::All, &[unspendable]), Err(unspendable));
        }
    }
}
