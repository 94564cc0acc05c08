//! The coins that hints, undo data or a snapshot are wrong about, for reports.

use std::fmt;

use apus_coins::Coin;
use apus_hash::hex;
use apus_wire::OutPoint;

/// Maximum number of coins that the text of an error names.
const NAMED_IN_TEXT_MAX: usize = 20;

/// Coins that hints, undo data or a snapshot are wrong about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The coins, in order of height and outpoint.
    pub coins: Vec<CoinDifference>,
    /// Whether there are more, in groups that were not examined.
    pub are_more: bool,
}

/// A coin that hints, undo data or a snapshot are wrong about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinDifference {
    /// The outpoint of the coin.
    pub outpoint: OutPoint,
    /// The height of the block that creates the coin; `None` if no block up to the claim's height
    /// does.
    pub height: Option<u32>,
    /// The difference.
    pub kind: DifferenceKind,
}

/// A fault of hints, undo data or a snapshot in a coin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The coin is unspent, but the claim does not have it.
    Missing,
    /// The claim has the coin as unspent, but the block at this height spends it.
    Spent(u32),
    /// The hints have the output as unspent, but its script can never be spent.
    Unspendable,
    /// The claim has the coin, but no block creates it.
    NeverCreated,
    /// The snapshot has the coin more than once.
    Repeated,
    /// The undo data of the block that spends the coin has other values than the chain.
    Undo {
        /// The height of the block that spends it.
        height: u32,
        /// The coin as the chain creates it.
        chain: Coin,
        /// The coin of the undo data; `None` if that cannot be used.
        undo: Option<Coin>,
    },
    /// The snapshot has other values than the chain. They are named as in Core: height, coinbase,
    /// value, scriptPubKey.
    Changed {
        /// The coin as the chain leaves it.
        chain: Coin,
        /// The coin of the snapshot.
        snapshot: Coin,
    },
}

impl fmt::Display for Differences {
    /// Writes a line for each coin, and one for those left out; nothing if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for coin in self.coins.iter().take(NAMED_IN_TEXT_MAX) {
            write!(f, "\n  {coin}")?;
        }
        let more = self.coins.len().saturating_sub(NAMED_IN_TEXT_MAX);
        match (more, self.are_more) {
            (0, false) => Ok(()),
            (0, true) => write!(f, "\n  and others"),
            (more, false) => write!(f, "\n  and {more} others"),
            (more, true) => write!(f, "\n  and more than {more} others"),
        }
    }
}

impl DifferenceKind {
    /// Returns the kind in one word, for `--json`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Spent(_) => "spent",
            Self::Unspendable => "unspendable",
            Self::NeverCreated => "never_created",
            Self::Repeated => "repeated",
            Self::Undo { .. } => "undo",
            Self::Changed { .. } => "changed",
        }
    }
}

impl fmt::Display for CoinDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outpoint)?;
        if let Some(height) = self.height {
            write!(f, " of block {height}")?;
        }
        match &self.kind {
            DifferenceKind::Missing => write!(f, ": missing, although no block spends it"),
            DifferenceKind::Spent(height) => {
                write!(f, ": named as unspent, but block {height} spends it")
            }
            DifferenceKind::Unspendable => {
                write!(f, ": named as unspent, but its script can never be spent")
            }
            DifferenceKind::NeverCreated => {
                write!(f, ": named as unspent, but no block creates it")
            }
            DifferenceKind::Repeated => write!(f, ": listed more than once"),
            DifferenceKind::Undo { height, chain, undo } => {
                write!(f, ", spent by block {height}")?;
                match undo {
                    Some(undo) => write_changes(f, chain, undo),
                    None => write!(f, ": not in the undo data, which cannot be used"),
                }
            }
            DifferenceKind::Changed { chain, snapshot } => write_changes(f, chain, snapshot),
        }
    }
}

/// Writes the fields in which a coin differs from that of the chain.
fn write_changes(f: &mut fmt::Formatter<'_>, chain: &Coin, other: &Coin) -> fmt::Result {
    let mut separator = ": ";
    let mut differ = |name: &str, ours: String, theirs: String| {
        if ours == theirs {
            return Ok(());
        }
        write!(f, "{separator}{name} {theirs}, but the chain has {ours}")?;
        separator = "; ";
        Ok(())
    };
    let pair = [chain, other];
    let [ours, theirs] = pair.map(|coin| coin.height.to_string());
    differ("height", ours, theirs)?;
    let [ours, theirs] = pair.map(|coin| coin.is_coinbase.to_string());
    differ("coinbase", ours, theirs)?;
    let [ours, theirs] = pair.map(|coin| format!("{} satoshi", coin.amount));
    differ("value", ours, theirs)?;
    let [ours, theirs] = pair.map(|coin| hex(&coin.script.to_script()));
    differ("scriptPubKey", ours, theirs)
}
