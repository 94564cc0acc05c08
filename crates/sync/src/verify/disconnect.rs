//! Level 3 of a verification: disconnects blocks in memory, from the tip down, and checks that the
//! UTXO set has exactly the coins that the blocks imply.
//!
//! The coins cache holds what differs from the tables. It is never written.

use apus_coins::{Coin, CoinsCache, Lookup, Overwrite, UndoError, complete_heights};
use apus_disk::StoreError;
use apus_node::shared::Shared;
use apus_progress::clock::Stage;
use apus_wire::OutPoint;

use super::examine::{BlockCoins, Examined};
use super::report::{Damage, DamageList, Incomplete};

/// How far blocks are disconnected, and the damage found on the way.
pub(super) struct Disconnector {
    /// Maximum bytes of coins in memory.
    bytes_max: usize,
    /// The height of the lowest block that is disconnected; above the tip at first.
    pub from: u32,
    /// Why no further block is disconnected.
    pub ended: Option<Incomplete>,
    /// The faults of the UTXO set.
    pub damage: DamageList,
}

impl Disconnector {
    /// Begins at the tip, which is at `height`.
    pub fn new(height: u32, bytes_max: usize) -> Self {
        Self { bytes_max, from: height + 1, ended: None, damage: DamageList::default() }
    }

    /// Disconnects blocks, the highest first, until one of them cannot be.
    pub fn disconnect_all(&mut self, shared: &Shared, blocks: Vec<Examined>) {
        let _timer = shared.clock.start(Stage::Connect);
        for block in blocks {
            if self.ended.is_none() {
                self.ended = self.disconnect_next(shared, block);
            }
        }
    }

    /// Disconnects a block, or returns why it cannot be.
    fn disconnect_next(&mut self, shared: &Shared, mut block: Examined) -> Option<Incomplete> {
        if shared.cache.sizes().bytes > self.bytes_max {
            return Some(Incomplete::CacheFull);
        }
        let Some(mut coins) = block.coins.take() else {
            return Some(if block.is_damaged { Incomplete::Damaged } else { Incomplete::NoUndo });
        };
        if let Err(error) = complete(shared, &mut coins) {
            self.note_error(shared, &block, error);
            return Some(Incomplete::Damaged);
        }
        self.disconnect(shared, &block, &coins);
        self.from = block.height;
        None
    }

    fn disconnect(&mut self, shared: &Shared, block: &Examined, coins: &BlockCoins) {
        let Shared { cache, chainstate, .. } = shared;
        let created: Vec<OutPoint> = coins.created.iter().map(|(outpoint, _)| *outpoint).collect();
        let mut only_in_tables = Vec::new();
        for (index, lookup) in cache.spend_batch(&created).into_iter().enumerate() {
            let (outpoint, coin) = &coins.created[index];
            let is_right = match &lookup {
                Lookup::Hit(found) => found == coin,
                Lookup::Spent => false,
                Lookup::Unknown => {
                    only_in_tables.push(*outpoint);
                    coins.is_stored[index]
                }
            };
            if !is_right && index >= coins.excused {
                let found = match lookup {
                    Lookup::Hit(found) => Some(found),
                    Lookup::Spent => None,
                    Lookup::Unknown => chainstate.get(outpoint).ok().flatten(),
                };
                self.note(shared, block, difference(outpoint, coin, found.as_ref()));
            }
        }
        cache.remove_batch(&only_in_tables);
        for (outpoint, is_stored) in coins.inside.iter().zip(&coins.inside_is_stored) {
            if exists(cache, outpoint, *is_stored) {
                self.note(shared, block, is_spent(outpoint));
            }
        }
        self.restore(shared, block, coins);
    }

    /// Restores the coins that the block spent.
    fn restore(&mut self, shared: &Shared, block: &Examined, coins: &BlockCoins) {
        let cache = shared.cache;
        let outpoints: Vec<OutPoint> = coins.spent.iter().map(|(outpoint, _)| *outpoint).collect();
        let mut unknown = cache.unknown(&outpoints).into_iter().peekable();
        let mut fresh = Vec::with_capacity(coins.spent.len());
        for (index, (outpoint, coin)) in coins.spent.iter().enumerate() {
            let is_unknown = unknown.next_if_eq(&index).is_some();
            let is_stored = coins.spent_is_stored[index];
            // A coin that the tables do not hold gets a fresh entry, which is dropped when the coin
            // is removed again.
            if is_unknown && !is_stored {
                fresh.push((*outpoint, coin.clone()));
                continue;
            }
            if exists(cache, outpoint, is_stored) {
                self.note(shared, block, is_spent(outpoint));
            }
            cache.restore(outpoint, coin);
        }
        if let Err(overwritten) = cache.add_batch(&fresh, Overwrite::Never) {
            self.note(shared, block, format!("the block spends a coin twice: {overwritten}"));
        }
    }

    fn note(&mut self, shared: &Shared, block: &Examined, what: String) {
        self.note_error(shared, block, StoreError::new(shared.chainstate.dir(), what));
    }

    fn note_error(&mut self, shared: &Shared, block: &Examined, error: StoreError) {
        let hash = shared.tree.node(block.id).hash;
        self.damage.note(Damage { level: 3, height: block.height, block: hash, error });
    }
}

/// Completes the coins that a block spends with the heights that its undo data lacks.
fn complete(shared: &Shared, coins: &mut BlockCoins) -> Result<(), StoreError> {
    match complete_heights(&mut coins.spent, shared.cache, shared.chainstate)? {
        None => Ok(()),
        Some(coin) => Err(shared.files.undo_error(coins.undo_pos, UndoError::LacksHeight(coin))),
    }
}

/// Returns whether there is a coin at an outpoint. `is_stored` says whether the tables hold one.
fn exists(cache: &CoinsCache, outpoint: &OutPoint, is_stored: bool) -> bool {
    match cache.peek(outpoint) {
        Lookup::Hit(_) => true,
        Lookup::Spent => false,
        Lookup::Unknown => is_stored,
    }
}

fn is_spent(outpoint: &OutPoint) -> String {
    format!("the coin {outpoint} exists, although this block spends it")
}

/// Returns how the coin found at an outpoint differs from the expected one.
fn difference(outpoint: &OutPoint, expected: &Coin, found: Option<&Coin>) -> String {
    let Some(found) = found else { return format!("the coin {outpoint} is missing") };
    let mut differences = Vec::new();
    if found.amount != expected.amount {
        differences.push(format!("amount {} instead of {}", found.amount, expected.amount));
    }
    if found.height != expected.height {
        differences.push(format!("height {} instead of {}", found.height, expected.height));
    }
    if found.is_coinbase != expected.is_coinbase {
        differences.push(format!("coinbase {}", found.is_coinbase));
    }
    if found.script != expected.script {
        differences.push("another script".to_string());
    }
    format!("the coin {outpoint} is not what this block creates: {}", differences.join(", "))
}
