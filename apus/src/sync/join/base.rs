//! The UTXO set that a join begins with, where spends find the coins that no block of the join has
//! made.

use crate::coins::{Chainstate, Coin, key_order};
use crate::disk::StoreError;
use crate::join::Spend;
use crate::wire::{OutPoint, varint_len};

/// How many coins are looked up at a time.
const LOOK_UPS: usize = 8192;

/// The coins at the height at which the join begins.
#[derive(Clone, Copy)]
pub(super) struct Base<'a>(&'a Chainstate);

/// A coin of the base with the spends that want it.
pub(super) struct Wanted<'a> {
    pub outpoint: OutPoint,
    /// `None` if there is no such coin.
    pub coin: Option<Coin>,
    /// In the order of the chain: only the first can have the coin.
    pub spends: &'a [Spend],
}

impl<'a> Base<'a> {
    /// The coins of `chainstate`; `None` if there are none.
    pub fn of(chainstate: &'a Chainstate) -> Option<Self> {
        (!chainstate.is_empty()).then_some(Self(chainstate))
    }

    /// The coins that exist of `outpoints`.
    pub fn existing(&self, outpoints: &[OutPoint]) -> Result<Vec<(OutPoint, Coin)>, StoreError> {
        let mut found = Vec::new();
        for outpoints in outpoints.chunks(LOOK_UPS) {
            let coins = self.0.get_many(outpoints)?;
            found.extend(outpoints.iter().zip(coins).filter_map(|(o, coin)| Some((*o, coin?))));
        }
        Ok(found)
    }

    /// Looks up what `spends` want, and calls `each` with every outpoint once, in the order of the
    /// tables.
    pub fn look_up(
        &self,
        spends: &mut [Spend],
        mut each: impl FnMut(Wanted) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        spends.sort_unstable_by(|a, b| {
            let order = key_order(&a.outpoint, &b.outpoint);
            order.then((a.height, a.place).cmp(&(b.height, b.place)))
        });
        let groups: Vec<&[Spend]> = spends.chunk_by(|a, b| a.outpoint == b.outpoint).collect();
        for groups in groups.chunks(LOOK_UPS) {
            let outpoints: Vec<OutPoint> = groups.iter().map(|group| group[0].outpoint).collect();
            let coins = self.0.get_many(&outpoints)?;
            for ((outpoint, coin), spends) in outpoints.into_iter().zip(coins).zip(groups) {
                each(Wanted { outpoint, coin, spends })?;
            }
        }
        Ok(())
    }
}

/// Amount and script of a coin in compressed form.
pub(super) fn output_of(coin: &Coin) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(coin.encoded_len());
    coin.encode(&mut bytes);
    bytes.drain(..varint_len(coin.parts().code.into()));
    bytes
}
