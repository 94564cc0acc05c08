//! Which outputs of a block a snapshot has as coins, each compared with what the block creates.

use super::by_height::BlockCoins;
use crate::coins::{CoinParts, GroupCoins, is_compressed_form};
use crate::hash::Hash;
use crate::swiftsync::hints::{Numbering, OutputFate, numbered_outputs};
use crate::wire::{BlockView, OutPoint, OutputView};

/// A coin that a snapshot has of a block, and the block does not create so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The block has no such output, or nobody can spend it, or the snapshot has it twice.
    Unknown(OutPoint),
    /// The block creates it with another amount or script, or it is of a coinbase in one alone.
    Changed(OutPoint),
}

/// Puts the indices of those outputs of a block that `coins` has into `unspent`, ascending, in the
/// place of what it held. All coins have to be of this block, which is at `height`, and the same as
/// it creates them. `overwritten` says whether the coinbase's outputs never become coins.
///
/// # Errors
/// The first coin that is not as the block creates it.
pub fn match_coins<B: AsRef<[u8]>>(
    (block, txids): (&BlockView<B>, &[Hash]),
    (height, overwritten): (u32, bool),
    coins: &BlockCoins,
    unspent: &mut Vec<u32>,
) -> Result<(), Mismatch> {
    unspent.clear();
    let (mut left, mut known) = (Left::default(), 0);
    for output in numbered_outputs(block, Numbering::Spendable, overwritten) {
        if output.vout == 0 {
            left.end()?;
            let txid = &txids[output.tx];
            if let Some(coins) = coins.of_tx(txid) {
                left = Left::of(*txid, coins);
                known += 1;
            }
        }
        let (Some(index), OutputFate::Coin) = (output.number.index, output.number.fate) else {
            continue;
        };
        if let Some(coin) = left.take(output.vout) {
            let code = height << 1 | u32::from(output.tx == 0);
            let created = block.tx(output.tx).output(output.vout as usize);
            if !is_same(&coin, code, &created) {
                return Err(Mismatch::Changed(OutPoint { txid: left.txid, vout: output.vout }));
            }
            unspent.push(index);
        }
    }
    left.end()?;
    match known == coins.tx_count() {
        true => Ok(()),
        false => Err(Mismatch::Unknown(stranger(coins, txids))),
    }
}

/// The coins of a transaction that have not been met.
#[derive(Default)]
struct Left<'a> {
    txid: Hash,
    next: Option<(u32, CoinParts<'a>)>,
    after: Option<GroupCoins<'a>>,
}

impl<'a> Left<'a> {
    fn of(txid: Hash, mut coins: GroupCoins<'a>) -> Self {
        Self { txid, next: coins.next(), after: Some(coins) }
    }

    /// The coin of an output, if it is the next one.
    #[inline]
    fn take(&mut self, vout: u32) -> Option<CoinParts<'a>> {
        let (_, coin) = self.next.filter(|(next, _)| *next == vout)?;
        self.next = self.after.as_mut().and_then(Iterator::next);
        Some(coin)
    }

    /// An error if there is one left.
    fn end(&self) -> Result<(), Mismatch> {
        match self.next {
            None => Ok(()),
            Some((vout, _)) => Err(Mismatch::Unknown(OutPoint { txid: self.txid, vout })),
        }
    }
}

fn is_same(coin: &CoinParts, code: u32, created: &OutputView) -> bool {
    coin.code == code
        && coin.amount == created.value().unsigned_abs()
        && is_compressed_form(coin.script, created.script())
}

/// The first coin of none of the transactions; there is one.
fn stranger(coins: &BlockCoins, txids: &[Hash]) -> OutPoint {
    let unknown = coins.txids().find(|txid| !txids.contains(txid));
    let txid = unknown.unwrap_or_default();
    let vout = coins.of_tx(&txid).and_then(|mut coins| coins.next()).map_or(0, |(vout, _)| vout);
    OutPoint { txid, vout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coins::{Coin, SnapshotCoins, SnapshotError, SnapshotHead, SnapshotPieces};
    use crate::disk::SpillFile;
    use crate::sync::unspent::{CoinsByHeight, HeightCollector};
    use crate::testdata::{blocks_of, data};

    const HEIGHT: u32 = 170;

    fn loaded(coins: &[(OutPoint, Coin)]) -> BlockCoins {
        let mut written = SnapshotCoins::default();
        coins.iter().for_each(|(outpoint, coin)| written.push(outpoint, coin));
        let (bytes, coins) = written.finish();
        let head = SnapshotHead { network: [0; 4], base: Hash([0; 32]), coins };
        let bytes = [head.to_bytes(), bytes].concat();
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile::unlinked(&dir.path().join("out"), ".test");
        let mut collector = HeightCollector::new(&bytes, spill, HEIGHT, 1 << 20);
        let mut pieces = SnapshotPieces::new(&bytes, &head);
        while let Some(piece) = pieces.next_piece().unwrap() {
            let pushed = piece.for_each_group(|group| -> Result<(), SnapshotError> {
                collector.push(group).unwrap();
                Ok(())
            });
            pushed.unwrap();
        }
        let mut loaded = BlockCoins::default();
        assert!(CoinsByHeight::new(vec![collector]).load(HEIGHT, &mut loaded).unwrap());
        loaded
    }

    #[test]
    fn coins_are_compared_with_the_outputs_of_their_block() {
        // Block 170 of mainnet has a coinbase with one output and a payment with two.
        let block = &blocks_of(&data("mainnet-0-14131.dat"))[HEIGHT as usize];
        let block = BlockView::parse(&block[..]).unwrap();
        let txids = block.txids();
        let mut unspent = Vec::new();
        let mut find = |overwritten, coins: &[(OutPoint, Coin)]| {
            let (of_block, at) = ((&block, &txids[..]), (HEIGHT, overwritten));
            match_coins(of_block, at, &loaded(coins), &mut unspent).map(|()| unspent.clone())
        };
        let coin = |tx: usize, vout: u32| {
            let (view, tx) = (block.tx(tx).output(vout as usize), tx);
            let amount = view.value().unsigned_abs();
            (OutPoint { txid: txids[tx], vout }, Coin::new(amount, view.script(), HEIGHT, tx == 0))
        };
        let all = [coin(0, 0), coin(1, 0), coin(1, 1)];
        for named in 0..8usize {
            let indices = (0..3).filter(|index| named >> index & 1 == 1);
            let coins: Vec<_> = indices.clone().map(|index| all[index as usize].clone()).collect();
            assert_eq!(find(false, &coins), Ok(indices.collect()));
        }
        // The coinbase's output has no index if a later one overwrites it, and is no coin.
        assert_eq!(find(true, &all[1..]), Ok(vec![0, 1]));
        assert_eq!(find(true, &all), Err(Mismatch::Unknown(all[0].0)));
        // A coin twice; of no output of the transaction; of no transaction of the block.
        let twice = [all[1].clone(), all[1].clone(), all[2].clone()];
        assert_eq!(find(false, &twice), Err(Mismatch::Unknown(all[1].0)));
        for (txid, vout) in [(txids[1], 2), (txids[0], 1), (Hash([0; 32]), 0), (Hash([255; 32]), 7)]
        {
            let strange = OutPoint { txid, vout };
            let with = [&all[..], &[(strange, all[0].1.clone())]].concat();
            assert_eq!(find(false, &with), Err(Mismatch::Unknown(strange)));
        }
        let changes: [fn(&mut Coin); 4] = [
            |coin| coin.amount += 1,
            |coin| coin.is_coinbase = !coin.is_coinbase,
            |coin| coin.script = crate::coins::CompactScript::new(&[0x51]),
            |coin| {
                let mut script = coin.script.to_script();
                script[5] ^= 1;
                coin.script = crate::coins::CompactScript::new(&script);
            },
        ];
        for change in changes {
            for at in 0..3 {
                let mut coins = all.clone();
                change(&mut coins[at].1);
                assert_eq!(find(false, &coins), Err(Mismatch::Changed(coins[at].0)));
            }
        }
    }

    #[test]
    fn an_output_that_nobody_can_spend_is_no_coin() {
        // Height 2 of regtest has two outputs, of which the second is OP_RETURN.
        let block = &blocks_of(&data("regtest-1-206.dat"))[1];
        let block = BlockView::parse(&block[..]).unwrap();
        let view = block.tx(0).output(1);
        let outpoint = OutPoint { txid: block.txids()[0], vout: 1 };
        let coin = Coin::new(view.value().unsigned_abs(), view.script(), HEIGHT, true);
        let coins = loaded(&[(outpoint, coin)]);
        let of_block = (&block, &block.txids()[..]);
        let found = match_coins(of_block, (HEIGHT, false), &coins, &mut Vec::new());
        assert_eq!(found, Err(Mismatch::Unknown(outpoint)));
    }
}
