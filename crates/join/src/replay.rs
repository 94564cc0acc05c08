//! Replays transactions that are created more than once, as was possible before BIP34, in the order
//! of the chain.

use std::collections::BTreeMap;

use super::record::{Created, Spend};

/// What a block may do to a transaction that exists already (BIP30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// It must not create an output that exists and is unspent.
    LookUp,
    /// It is one of the two blocks of mainnet whose coinbase replaces an earlier one.
    Repeat,
    /// No valid chain creates a transaction again here.
    Once,
}

/// One transaction's creations and spends.
#[derive(Debug, Default)]
pub(super) struct Replay {
    creations: Vec<Creation>,
    spends: Vec<Spend>,
    coins: BTreeMap<u32, ReplayedCoin>,
}

#[derive(Debug)]
struct Creation {
    created: Created,
    outputs: Vec<(u32, Vec<u8>)>,
}

/// An unspent output of a replayed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedCoin {
    /// 2 × height + coinbase.
    pub code: u32,
    /// Amount and script in compressed form.
    pub output: Vec<u8>,
    /// Whether the UTXO set that the join began with has the coin.
    pub is_base: bool,
}

/// The outcome of a replay.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The coins that were spent, each with its index and the height and place of its spend.
    pub taken: Vec<(u32, u32, u32, ReplayedCoin)>,
    /// The coins that are unspent at the end, by their index.
    pub left: BTreeMap<u32, ReplayedCoin>,
    /// Number of coins that a later creation has replaced.
    pub overwritten: u64,
    /// The replaced coins that were in the UTXO set that the join began with, by their index.
    pub overwritten_base: Vec<u32>,
    /// The height of the first invalid block.
    pub fault: Option<u32>,
}

impl Replay {
    /// Adds a coin of the UTXO set that the join began with.
    pub fn add_base(&mut self, vout: u32, code: u32, output: Vec<u8>) {
        self.coins.insert(vout, ReplayedCoin { code, output, is_base: true });
    }

    /// Adds a creation of the transaction, with those outputs that are not matched already.
    pub fn create(&mut self, created: Created, outputs: Vec<(u32, Vec<u8>)>) {
        self.creations.push(Creation { created, outputs });
    }

    /// Adds a spend.
    pub fn spend(&mut self, spend: Spend) {
        self.spends.push(spend);
    }

    /// Replays all creations and spends in order of height and place.
    pub fn run(mut self, kind: impl Fn(u32) -> BlockKind) -> Replayed {
        let mut replayed = Replayed::default();
        self.creations.sort_by_key(|creation| (creation.created.height, place_of(creation)));
        self.spends.sort_by_key(|spend| (spend.height, spend.place));
        let mut spends = self.spends.into_iter().peekable();
        let mut last_height = None;
        for creation in self.creations {
            let height = creation.created.height;
            let at = (height, place_of(&creation));
            // BIP30 is about the UTXO set before the block.
            while let Some(spend) = spends.next_if(|spend| spend.height < height) {
                take(&mut self.coins, &spend, &mut replayed);
            }
            let again_in_block = last_height == Some(height);
            let is_first = last_height.is_none() && self.coins.is_empty();
            let is_right = match kind(height) {
                BlockKind::LookUp => self.coins.is_empty() && !again_in_block,
                BlockKind::Repeat => !again_in_block,
                BlockKind::Once => is_first && self.coins.is_empty(),
            };
            while let Some(spend) = spends.next_if(|spend| (spend.height, spend.place) < at) {
                take(&mut self.coins, &spend, &mut replayed);
            }
            if !is_right {
                replayed.note_fault(height);
            }
            for (vout, output) in creation.outputs {
                let coin = ReplayedCoin { code: creation.created.code(), output, is_base: false };
                if let Some(before) = self.coins.insert(vout, coin) {
                    replayed.overwritten += 1;
                    if before.is_base {
                        replayed.overwritten_base.push(vout);
                    }
                }
            }
            last_height = Some(height);
        }
        for spend in spends {
            take(&mut self.coins, &spend, &mut replayed);
        }
        replayed.left = self.coins;
        replayed
    }
}

impl Replayed {
    fn note_fault(&mut self, height: u32) {
        self.fault = Some(self.fault.map_or(height, |lowest| lowest.min(height)));
    }
}

/// Returns the index of the first input of its block that can spend what the creation creates.
fn place_of(creation: &Creation) -> u32 {
    creation.created.ready.unwrap_or(u32::MAX)
}

fn take(coins: &mut BTreeMap<u32, ReplayedCoin>, spend: &Spend, replayed: &mut Replayed) {
    let vout = spend.outpoint.vout;
    match coins.remove(&vout) {
        Some(coin) => replayed.taken.push((vout, spend.height, spend.place, coin)),
        None => replayed.note_fault(spend.height),
    }
}

#[cfg(test)]
mod tests {
    use apus_hash::Hash;
    use apus_wire::OutPoint;

    use super::*;

    fn created(height: u32, ready: u32) -> Created {
        Created { height, is_coinbase: true, ready: Some(ready) }
    }

    fn spend(height: u32, place: u32) -> Spend {
        let outpoint = OutPoint { txid: Hash::ZERO, vout: 0 };
        Spend { outpoint, height, place }
    }

    fn run(creations: &[(u32, u32)], spends: &[(u32, u32)], kind: BlockKind) -> Replayed {
        let mut replay = Replay::default();
        for (height, ready) in creations {
            replay.create(created(*height, *ready), vec![(0, vec![*height as u8])]);
        }
        spends.iter().for_each(|(height, place)| replay.spend(spend(*height, *place)));
        replay.run(|_| kind)
    }

    fn codes(replayed: &Replayed) -> (Vec<u32>, Vec<u32>) {
        let height = |coin: &ReplayedCoin| coin.code >> 1;
        let taken = replayed.taken.iter().map(|(.., coin)| height(coin)).collect();
        (taken, replayed.left.values().map(height).collect())
    }

    #[test]
    fn a_second_creation_is_allowed_once_the_first_is_spent() {
        let spent = run(&[(5, 0), (9, 0)], &[(7, 3)], BlockKind::LookUp);
        assert_eq!((spent.fault, codes(&spent)), (None, (vec![5], vec![9])));
        let unspent = run(&[(5, 0), (9, 0)], &[(9, 3)], BlockKind::LookUp);
        assert_eq!(unspent.fault, Some(9), "spent in the same block is too late");
        let anywhere_else = run(&[(5, 0), (9, 0)], &[(7, 3)], BlockKind::Once);
        assert_eq!(anywhere_else.fault, Some(9));
    }

    #[test]
    fn a_spend_takes_the_newest_creation_before_it() {
        let replaced = run(&[(5, 0), (9, 0)], &[(10, 0)], BlockKind::Repeat);
        assert_eq!((replaced.fault, replaced.overwritten), (None, 1));
        assert_eq!(codes(&replaced), (vec![9], vec![]));
        let both = run(&[(5, 0), (9, 4)], &[(9, 3), (9, 4)], BlockKind::Repeat);
        assert_eq!((both.fault, codes(&both)), (None, (vec![5, 9], vec![])));
    }

    #[test]
    fn a_spend_of_nothing_is_the_spenders_fault() {
        assert_eq!(run(&[(5, 0)], &[(6, 0), (8, 0)], BlockKind::LookUp).fault, Some(8));
        assert_eq!(run(&[(5, 2)], &[(5, 1)], BlockKind::LookUp).fault, Some(5));
        assert_eq!(run(&[(5, 2)], &[(4, 1)], BlockKind::LookUp).fault, Some(4));
        assert_eq!(run(&[(5, 1), (5, 2)], &[], BlockKind::LookUp).fault, Some(5));
    }

    #[test]
    fn coins_that_were_there_before_count() {
        let mut replay = Replay::default();
        replay.add_base(0, 6, vec![3]);
        replay.create(created(9, 0), vec![(0, vec![9])]);
        assert_eq!(replay.run(|_| BlockKind::LookUp).fault, Some(9));
        let mut replay = Replay::default();
        replay.add_base(0, 6, vec![3]);
        replay.create(created(9, 0), vec![(0, vec![9])]);
        let replayed = replay.run(|_| BlockKind::Repeat);
        assert_eq!((replayed.fault, &replayed.overwritten_base[..]), (None, &[0][..]));
    }
}
