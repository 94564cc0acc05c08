//! The coins that the generator may still spend, and those that it never will.

use bitcoin::hashes::Hash;
use bitcoin::script::ScriptBuf;
use bitcoin::{OutPoint, Txid};

use crate::keys::Ring;
use crate::lock::{Kind, Lock};
use crate::rng::Rng;

/// An unspent output in 56 bytes. Its script follows from its lock.
#[derive(Clone, Copy, Debug)]
pub struct Coin {
    /// Transaction id, in the byte order of the wire.
    pub txid: [u8; 32],
    /// Amount in satoshis.
    pub amount: u64,
    /// Height of its block.
    pub height: u32,
    /// Index of the output.
    pub vout: u16,
    /// Its script.
    pub lock: Lock,
    /// Whether a coinbase created it.
    pub coinbase: bool,
}

/// An entry of the UTXO set, in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utxo {
    /// Transaction id and index.
    pub outpoint: OutPoint,
    /// Amount in satoshis.
    pub amount: u64,
    /// Output script.
    pub script: ScriptBuf,
    /// Height of its block.
    pub height: u32,
    /// Whether a coinbase created it.
    pub coinbase: bool,
}

impl Coin {
    /// Returns the first height at which consensus allows the coin to be spent.
    pub fn spendable_from(&self) -> u32 {
        if self.coinbase {
            self.height + 100
        } else if self.lock.kind == Kind::P2wshCsv {
            self.height + self.lock.csv_blocks()
        } else {
            self.height
        }
    }

    pub fn outpoint(&self) -> OutPoint {
        OutPoint::new(Txid::from_byte_array(self.txid), u32::from(self.vout))
    }

    /// Returns the coin's entry in the UTXO set.
    pub(crate) fn utxo(&self, keys: &Ring<'_>) -> Utxo {
        Utxo {
            outpoint: self.outpoint(),
            amount: self.amount,
            script: self.lock.script_of(keys),
            height: self.height,
            coinbase: self.coinbase,
        }
    }
}

/// All unspent coins, sorted by the height at which they are to be spent. This fixes the ages at
/// which coins are spent, without a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Due now or overdue.
    ready: Vec<Coin>,
    /// Due at a height still to come.
    due: Vec<Vec<Coin>>,
    /// Not to be spent in this chain.
    kept: Vec<Coin>,
}

impl Pool {
    /// Creates a pool for a chain whose last spending block is at `last_height`.
    pub fn new(last_height: u32) -> Self {
        Pool { due: vec![Vec::new(); last_height as usize + 1], ..Pool::default() }
    }

    /// Allows coins to be due up to `last_height`.
    pub fn extend(&mut self, last_height: u32) {
        self.due.resize_with(self.due.len().max(last_height as usize + 1), Vec::new);
    }

    /// Adds a coin to be spent `life` blocks after it becomes spendable, or never.
    pub fn add(&mut self, coin: Coin, life: Option<u32>) {
        let due = life.and_then(|life| coin.spendable_from().checked_add(life));
        match due.and_then(|height| self.due.get_mut(height as usize)) {
            Some(list) => list.push(coin),
            None => self.kept.push(coin),
        }
    }

    /// Moves the coins due at `height` to the ready coins, and, if these are fewer than `wanted`,
    /// coins that would be due soon after.
    pub fn advance(&mut self, height: u32, wanted: usize) {
        let height = height as usize;
        if let Some(list) = self.due.get_mut(height) {
            self.ready.extend(std::mem::take(list));
        }
        for list in self.due.iter_mut().skip(height + 1).take(32) {
            if self.ready.len() >= wanted {
                break;
            }
            let (now, later) =
                list.drain(..).partition(|coin: &Coin| coin.spendable_from() as usize <= height);
            *list = later;
            self.ready.extend::<Vec<_>>(now);
        }
    }

    /// Moves the coins due from height `from` to `height` to the ready coins, except those that
    /// need a signature: these are kept, even if they were ready.
    pub fn advance_keyless(&mut self, from: u32, height: u32) {
        let mut found = std::mem::take(&mut self.ready);
        for list in self.due.iter_mut().take(height as usize + 1).skip(from as usize) {
            found.append(list);
        }
        let (ready, kept) = found.into_iter().partition(|coin: &Coin| coin.lock.kind.is_keyless());
        self.ready = ready;
        self.kept.extend::<Vec<_>>(kept);
    }

    /// Returns how many coins are ready.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes a random ready coin.
    pub fn take(&mut self, rng: &mut Rng) -> Option<Coin> {
        let index = rng.below(self.ready.len() as u64) as usize;
        (index < self.ready.len()).then(|| self.ready.swap_remove(index))
    }

    /// Returns every coin, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Coin> {
        self.ready.iter().chain(self.due.iter().flatten()).chain(&self.kept)
    }
}
