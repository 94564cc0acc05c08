//! Statistics of the UTXO set after each block (Core's `coinstatsindex`): what one block changes,
//! and the totals up to a block.

use apus_coins::{bogosize, put_hashed_coin};
use apus_consensus::{is_bip30_unspendable, subsidy};
use apus_hash::{Elements, Hash, MuHash};
use apus_wire::{Cursor, Network, ParseError, is_unspendable};

use super::block::Block;
use super::own_coins::OwnCoins;

/// Length in bytes of the value of an entry, after the block's hash.
pub const VALUE_BYTES: usize = 192;

/// Numbers of this many bits are more than any chain can have, and their sums do not overflow.
const NUMBER_BITS: u32 = 60;
/// The same for sums of amounts, which may be spent again and again.
const SUM_BITS: u32 = 120;

/// A block's change of the statistics.
pub struct Change {
    /// The coins that the block creates and the coins that it spends, without coins that it both
    /// creates and spends.
    pub coins: MuHash,
    totals: Totals,
}

/// Totals of all blocks up to one, as in Core's `CoinStatsIndex`, in satoshis unless the unit is
/// another. In a `Change`, those of one block.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Number of coins.
    pub txouts: i64,
    /// Their size, which does not depend on the database.
    pub bogosize: i64,
    /// Their amount.
    pub amount: i64,
    pub subsidy: i64,
    /// Amount of all coins that were spent.
    pub prevouts_spent: u128,
    /// Amount of all coins that were created, but for those of coinbases.
    pub new_outputs: u128,
    /// Amount of all coins that coinbases created.
    pub coinbase: u128,
    /// Subsidy of the genesis block, which cannot be spent.
    pub unspendable_genesis: i64,
    /// Subsidies of coinbases that were overwritten (BIP30).
    pub unspendable_bip30: i64,
    /// Amount of outputs whose script cannot be satisfied.
    pub unspendable_scripts: i64,
    /// Rewards that miners have not claimed.
    pub unclaimed_rewards: i64,
}

/// Reads a number of which four can be added.
fn read_number(cursor: &mut Cursor) -> Result<i64, ParseError> {
    let number = cursor.u64()? as i64;
    if number.unsigned_abs() < 1 << NUMBER_BITS {
        Ok(number)
    } else {
        Err(cursor.error("a number is larger than any chain can have"))
    }
}

impl Change {
    pub fn of(block: &Block, network: &Network) -> Self {
        let mut change = Self { coins: MuHash::new(), totals: Totals::default() };
        change.totals.subsidy = subsidy(block.stored.height, network);
        match block.stored.height {
            0 => change.totals.unspendable_genesis = change.totals.subsidy,
            _ => change.count(block),
        }
        change
    }

    fn count(&mut self, block: &Block) {
        let mut created = Elements::default();
        let mut spent = Elements::default();
        let totals = &mut self.totals;
        let height = block.stored.height;
        let mut coins = 0;
        let mut outputs = 0;
        let own = OwnCoins::of(block);
        for (position, tx) in block.view.txs().enumerate() {
            let first_output = outputs;
            outputs += tx.output_count();
            let is_coinbase = position == 0;
            if is_coinbase && is_bip30_unspendable(height, &block.stored.hash) {
                totals.unspendable_bip30 += totals.subsidy;
                continue;
            }
            let code = height << 1 | u32::from(is_coinbase);
            let mut outpoint = [0; 36];
            outpoint[..32].copy_from_slice(&block.txids[position].0);
            for (vout, out) in tx.outputs().enumerate() {
                let amount = out.value();
                let script = out.script();
                if is_unspendable(script) {
                    totals.unspendable_scripts += amount;
                    continue;
                }
                if !own.has_output(first_output + vout) {
                    outpoint[32..].copy_from_slice(&(vout as u32).to_le_bytes());
                    created.push_with(|to| {
                        put_hashed_coin(to, &outpoint, code, amount as u64, script);
                    });
                }
                let of_kind =
                    if is_coinbase { &mut totals.coinbase } else { &mut totals.new_outputs };
                *of_kind += amount as u128;
                totals.add_coin(1, amount, script.len());
            }
            if is_coinbase {
                continue;
            }
            for input in tx.inputs() {
                let coin = &block.spent[coins];
                let script = block.spent_scripts.get(coins);
                if !own.has_spent(coins) {
                    let code = coin.parts().code;
                    spent.push_with(|to| {
                        put_hashed_coin(to, input.outpoint_bytes(), code, coin.amount, script);
                    });
                }
                coins += 1;
                totals.prevouts_spent += u128::from(coin.amount);
                totals.add_coin(-1, (coin.amount as i64).wrapping_neg(), script.len());
            }
        }
        self.coins.insert_many(created.len(), |i| created.get(i));
        self.coins.remove_many(spent.len(), |i| spent.get(i));
    }
}

impl Totals {
    fn add_coin(&mut self, count: i64, amount: i64, script_bytes: usize) {
        self.txouts += count;
        self.bogosize += count * bogosize(script_bytes) as i64;
        // Undo data is not validated: it may hold any amount.
        self.amount = self.amount.wrapping_add(amount);
    }

    /// Returns the amount that cannot be spent.
    pub fn unspendable(&self) -> i64 {
        self.unspendable_genesis
            + self.unspendable_bip30
            + self.unspendable_scripts
            + self.unclaimed_rewards
    }

    /// Adds what the next block changes, and counts as unclaimed what it could have claimed and did
    /// not.
    ///
    /// # Errors
    /// The amounts do not fit together, so that blocks or undo data must be damaged.
    pub fn add(&mut self, change: &Change) -> Result<(), &'static str> {
        let more = &change.totals;
        self.txouts += more.txouts;
        self.bogosize += more.bogosize;
        self.amount = self.amount.wrapping_add(more.amount);
        self.subsidy += more.subsidy;
        self.prevouts_spent += more.prevouts_spent;
        self.new_outputs += more.new_outputs;
        self.coinbase += more.coinbase;
        self.unspendable_genesis += more.unspendable_genesis;
        self.unspendable_bip30 += more.unspendable_bip30;
        self.unspendable_scripts += more.unspendable_scripts;
        let unspendable = self.unspendable();
        let came = self.prevouts_spent as i128 + i128::from(self.subsidy);
        let went = (self.new_outputs + self.coinbase) as i128 + i128::from(unspendable);
        let unclaimed = i64::try_from(came - went).ok().filter(|unclaimed| *unclaimed >= 0);
        self.unclaimed_rewards += unclaimed.ok_or("more is created than spent and mined")?;
        Ok(())
    }

    /// Returns the value of an entry: the hash of the UTXO set, and these totals (Core's `DBVal` of
    /// `coinstatsindex.cpp`).
    pub fn to_bytes(self, muhash: &Hash) -> [u8; VALUE_BYTES] {
        let mut out = Vec::with_capacity(VALUE_BYTES);
        out.extend_from_slice(&muhash.0);
        for number in [self.txouts, self.bogosize, self.amount, self.subsidy] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.prevouts_spent, self.new_outputs, self.coinbase] {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&[0; 16]);
        }
        let Self { unspendable_genesis, unspendable_bip30, .. } = self;
        let Self { unspendable_scripts, unclaimed_rewards, .. } = self;
        for number in
            [unspendable_genesis, unspendable_bip30, unspendable_scripts, unclaimed_rewards]
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.try_into().expect("the length of a value")
    }

    /// Reads the value that [`Totals::to_bytes`] wrote: the hash of the UTXO set, and the totals.
    ///
    /// # Errors
    /// The value has another length, or a number is larger than any chain can have.
    pub fn read(bytes: &[u8]) -> Result<(Hash, Self), ParseError> {
        let mut cursor = Cursor::new(bytes);
        let muhash = Hash(cursor.array()?);
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = read_number(&mut cursor)?;
        }
        let mut sums = [0; 3];
        for sum in &mut sums {
            *sum = u128::from_le_bytes(cursor.array()?);
            if cursor.array::<16>()? != [0; 16] || *sum >= 1 << SUM_BITS {
                return Err(cursor.error("a sum of amounts is larger than any chain can have"));
            }
        }
        let mut unspendable = [0; 4];
        for number in &mut unspendable {
            *number = read_number(&mut cursor)?;
        }
        if cursor.remaining() > 0 {
            return Err(cursor.error("bytes follow after the statistics"));
        }
        let [txouts, bogosize, amount, subsidy] = numbers;
        let [prevouts_spent, new_outputs, coinbase] = sums;
        let [unspendable_genesis, unspendable_bip30, unspendable_scripts, unclaimed_rewards] =
            unspendable;
        let totals = Self {
            txouts,
            bogosize,
            amount,
            subsidy,
            prevouts_spent,
            new_outputs,
            coinbase,
            unspendable_genesis,
            unspendable_bip30,
            unspendable_scripts,
            unclaimed_rewards,
        };
        Ok((muhash, totals))
    }
}

#[cfg(test)]
mod tests {
    use apus_wire::{BlockView, Chain, genesis_block};

    use crate::block::StoredBlock;

    use super::*;

    /// Returns what a block with this height and hash changes, whose coinbase has one output of 50
    /// bitcoins.
    fn change_at(height: u32, hash: &str) -> Change {
        let network = Network::new(Chain::Main);
        let bytes = genesis_block(&network);
        let view = BlockView::parse(&bytes[..]).unwrap();
        let hash = hash.parse().unwrap();
        let stored = StoredBlock { height, hash, block: None, undo: None, tx_count: 1 };
        let txids = view.txids();
        let spent = Vec::new();
        let spent_scripts = Elements::default();
        Change::of(&Block { stored: &stored, view, txids, spent, spent_scripts }, &network)
    }

    /// The two coinbases that mainnet has twice: as in Core, the subsidy of the first block of each
    /// pair is unspendable, and the coin is that of the second.
    #[test]
    fn overwritten_coinbases_are_unspendable() {
        const SUBSIDY: i64 = 50 * 100_000_000;
        const FIRST: [(u32, &str); 2] = [
            (91_722, "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e"),
            (91_812, "00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f"),
        ];
        const SECOND: [(u32, &str); 2] = [
            (91_842, "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec"),
            (91_880, "00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721"),
        ];
        let mut totals = Totals::default();
        for (height, hash) in FIRST {
            let change = change_at(height, hash);
            totals.add(&change).unwrap();
            assert_eq!(change.coins.finalize(), MuHash::new().finalize());
        }
        let overwritten =
            Totals { subsidy: 2 * SUBSIDY, unspendable_bip30: 2 * SUBSIDY, ..Totals::default() };
        assert_eq!(totals, overwritten);
        for (height, hash) in SECOND {
            totals.add(&change_at(height, hash)).unwrap();
        }
        let added = Totals {
            txouts: 2,
            bogosize: 2 * bogosize(67) as i64,
            amount: 2 * SUBSIDY,
            subsidy: 4 * SUBSIDY,
            coinbase: 2 * SUBSIDY as u128,
            ..overwritten
        };
        assert_eq!(totals, added);
        // Core's entry has the amount after those of genesis.
        let bytes = totals.to_bytes(&Hash::ZERO);
        assert_eq!(bytes[168..176], (2 * SUBSIDY).to_le_bytes());
        // On another chain, blocks of these heights are like all others.
        let other = change_at(91_722, FIRST[1].1).totals;
        assert_eq!((other.unspendable_bip30, other.txouts), (0, 1));
    }

    #[test]
    fn totals_are_read_as_they_were_written() {
        let totals = Totals {
            txouts: 1,
            bogosize: 2,
            amount: 3,
            subsidy: 4,
            prevouts_spent: (1 << SUM_BITS) - 1,
            new_outputs: 6,
            coinbase: 7,
            unspendable_genesis: 8,
            unspendable_bip30: 9,
            unspendable_scripts: 10,
            unclaimed_rewards: 11,
        };
        let bytes = totals.to_bytes(&Hash([5; 32]));
        assert_eq!(Totals::read(&bytes), Ok((Hash([5; 32]), totals)));
        assert!(Totals::read(&bytes[1..]).is_err());
        assert!(Totals::read(&[&bytes[..], &[0]].concat()).is_err());
        for at in [32 + 7, 64 + 15, 64 + 31, 160 + 7] {
            let mut large = bytes;
            large[at] |= 0x40;
            assert!(Totals::read(&large).is_err(), "a large number at {at}");
        }
    }

    #[test]
    fn what_is_created_from_nothing_is_an_error() {
        let mut change = Change { coins: MuHash::new(), totals: Totals::default() };
        (change.totals.subsidy, change.totals.coinbase) = (50, 45);
        let mut totals = Totals::default();
        totals.add(&change).unwrap();
        assert_eq!(totals.unclaimed_rewards, 5);
        change.totals.coinbase = 51;
        assert!(totals.add(&change).is_err());
    }
}
