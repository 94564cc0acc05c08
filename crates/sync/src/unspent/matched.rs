//! Finds the outputs of a block that are coins of a snapshot, and compares each coin with what the
//! block creates.

use apus_coins::GroupCoins;
use apus_hash::Hash;
use apus_wire::{OutPoint, OutputView};

use super::by_height::BlockCoins;

/// A coin that a snapshot has of a block, but that differs from what the block creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The block has no such output, the output is unspendable, or the snapshot has the coin twice.
    Unknown(OutPoint),
    /// The block creates the output with another amount or script, or only one of the two is of a
    /// coinbase.
    Changed(OutPoint),
}

/// Compares the coins that a snapshot has of a block with the block's outputs: every coin must be
/// an output of the block, unchanged.
pub struct Matching<'a> {
    coins: &'a BlockCoins,
    height: u32,
    /// Number of transactions with coins that have begun.
    begun: usize,
    txid: Hash,
    /// The coins of the latest such transaction that have not been matched.
    left: GroupCoins<'a>,
    /// The output index of the next coin in `left`.
    next: Option<u32>,
}

impl<'a> Matching<'a> {
    /// Begins the comparison for the block at `height`.
    pub fn new(coins: &'a BlockCoins, height: u32) -> Self {
        let left = GroupCoins::default();
        Self { coins, height, begun: 0, txid: Hash::default(), left, next: None }
    }

    /// Begins the next transaction of the block.
    ///
    /// # Errors
    /// A coin of the previous transaction matches no output.
    #[inline]
    pub fn begin_tx(&mut self, txid: &Hash) -> Result<(), Mismatch> {
        self.end_tx()?;
        if let Some(coins) = self.coins.of_tx(txid) {
            self.txid = *txid;
            self.left = coins;
            self.next = self.left.next_vout();
            self.begun += 1;
        }
        Ok(())
    }

    /// Returns whether the next output, which must be one that becomes a coin, is a coin of the
    /// snapshot.
    ///
    /// # Errors
    /// The coin of the snapshot differs from what the block creates.
    #[inline]
    pub fn meet(
        &mut self,
        vout: u32,
        created: &OutputView,
        is_coinbase: bool,
    ) -> Result<bool, Mismatch> {
        if self.next != Some(vout) {
            return Ok(false);
        }
        let code = self.height << 1 | u32::from(is_coinbase);
        if !self.left.pass_if_same(code, created.value().unsigned_abs(), created.script()) {
            return Err(Mismatch::Changed(OutPoint { txid: self.txid, vout }));
        }
        self.next = self.left.next_vout();
        Ok(true)
    }

    fn end_tx(&self) -> Result<(), Mismatch> {
        match self.next {
            None => Ok(()),
            Some(vout) => Err(Mismatch::Unknown(OutPoint { txid: self.txid, vout })),
        }
    }

    /// Ends the block, whose transactions are `txids`.
    ///
    /// # Errors
    /// A coin matches no output of the block.
    pub fn end(&self, txids: &[Hash]) -> Result<(), Mismatch> {
        self.end_tx()?;
        if self.begun == self.coins.tx_count() {
            return Ok(());
        }
        let unknown = self.coins.txids().find(|txid| !txids.contains(txid));
        let txid = unknown.unwrap_or_default();
        let first = self.coins.of_tx(&txid).and_then(|mut coins| coins.next_vout());
        Err(Mismatch::Unknown(OutPoint { txid, vout: first.unwrap_or(0) }))
    }
}

#[cfg(test)]
mod tests {
    use apus_coins::{Coin, SnapshotCoins, SnapshotError, SnapshotHead, SnapshotPieces};
    use apus_disk::SpillFile;
    use apus_swiftsync::hints::{Numbering, OutputFate, numbered_outputs};
    use apus_testdata::{blocks_of, data};
    use apus_wire::BlockView;

    use super::*;
    use crate::unspent::{CoinsByHeight, HeightCollector};

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

    /// Returns the indices of the outputs that are in `coins`.
    fn match_coins(
        block: &BlockView<&[u8]>,
        overwritten: bool,
        coins: &[(OutPoint, Coin)],
    ) -> Result<Vec<u32>, Mismatch> {
        let coins = loaded(coins);
        let txids = block.txids();
        let mut unspent = Vec::new();
        let mut matching = Matching::new(&coins, HEIGHT);
        for output in numbered_outputs(block, Numbering::Spendable, overwritten) {
            if output.vout == 0 {
                matching.begin_tx(&txids[output.tx])?;
            }
            let created = block.tx(output.tx).output(output.vout as usize);
            if output.number.fate == OutputFate::Coin
                && matching.meet(output.vout, &created, output.tx == 0)?
            {
                unspent.extend(output.number.index);
            }
        }
        matching.end(&txids).map(|()| unspent)
    }

    #[test]
    fn coins_are_compared_with_the_outputs_of_their_block() {
        // Block 170 of mainnet has a coinbase with one output and a payment with two.
        let block = &blocks_of(&data("mainnet-0-14131.dat"))[HEIGHT as usize];
        let block = BlockView::parse(&block[..]).unwrap();
        let txids = block.txids();
        let find = |overwritten, coins: &[_]| match_coins(&block, overwritten, coins);
        let coin = |tx: usize, vout: u32| {
            let view = block.tx(tx).output(vout as usize);
            let amount = view.value().unsigned_abs();
            (OutPoint { txid: txids[tx], vout }, Coin::new(amount, view.script(), HEIGHT, tx == 0))
        };
        let all = [coin(0, 0), coin(1, 0), coin(1, 1)];
        for named in 0..8usize {
            let indices = (0..3).filter(|index| named >> index & 1 == 1);
            let coins: Vec<_> = indices.clone().map(|index| all[index as usize].clone()).collect();
            assert_eq!(find(false, &coins), Ok(indices.collect()));
        }
        // If a later coinbase overwrites it, the coinbase's output has no index, and is no coin.
        assert_eq!(find(true, &all[1..]), Ok(vec![0, 1]));
        assert_eq!(find(true, &all), Err(Mismatch::Unknown(all[0].0)));
        // A coin that occurs twice, one of no output of its transaction, one of no transaction of
        // the block.
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
            |coin| coin.script = apus_coins::CompactScript::new(&[0x51]),
            |coin| {
                let mut script = coin.script.to_script();
                script[5] ^= 1;
                coin.script = apus_coins::CompactScript::new(&script);
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
        // Block 2 of regtest has two outputs, the second of them OP_RETURN.
        let block = &blocks_of(&data("regtest-1-206.dat"))[1];
        let block = BlockView::parse(&block[..]).unwrap();
        let view = block.tx(0).output(1);
        let outpoint = OutPoint { txid: block.txids()[0], vout: 1 };
        let coin = Coin::new(view.value().unsigned_abs(), view.script(), HEIGHT, true);
        let found = match_coins(&block, false, &[(outpoint, coin)]);
        assert_eq!(found, Err(Mismatch::Unknown(outpoint)));
    }
}
