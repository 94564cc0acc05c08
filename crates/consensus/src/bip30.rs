use apus_hash::Hash;
use apus_wire::Network;

use super::error::RuleError;

/// A block by height and hash.
#[derive(PartialEq, Eq)]
struct BlockAt {
    height: u32,
    hash: Hash,
}

impl BlockAt {
    const fn new(height: u32, hash: &str) -> Self {
        Self { height, hash: Hash::from_hex(hash) }
    }

    fn is(&self, height: u32, hash: &Hash) -> bool {
        self.height == height && self.hash == *hash
    }
}

/// Two blocks with the same coinbase transaction, from before BIP30.
struct Twins {
    /// The first block, whose coinbase cannot be spent after the second one.
    overwritten: BlockAt,
    /// The block whose coinbase overwrites that of the first.
    repeat: BlockAt,
}

/// All pairs of blocks that BIP30 exempts.
const TWINS: [Twins; 2] = [
    Twins {
        overwritten: BlockAt::new(
            91_722,
            "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e",
        ),
        repeat: BlockAt::new(
            91_880,
            "00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721",
        ),
    },
    Twins {
        overwritten: BlockAt::new(
            91_812,
            "00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f",
        ),
        repeat: BlockAt::new(
            91_842,
            "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec",
        ),
    },
];

/// The lowest height that a coinbase from before BIP34 may already state, so that from here on
/// BIP34 no longer implies BIP30 (Core's `BIP34_IMPLIES_BIP30_LIMIT`).
const BIP34_IMPLIES_BIP30_LIMIT: u32 = 1_983_702;

/// How to find out whether a block creates a coin that exists, which it MUST NOT (BIP30;
/// [`RuleError::bip30`]). Core does so before it checks any other rule on coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bip30Check {
    /// Do not check: Core exempts this block.
    Exempt,
    /// Core looks up each output, but no valid block can break the rule at this height of this
    /// network. An invalid block that repeats a transaction also spends a missing coin, or depends
    /// on a transaction that does. To refuse it for Core's reason, outputs need to be looked up
    /// only where a coin is missing.
    ///
    /// A transaction can be repeated only if the transactions that it spends are repeated, and so,
    /// in the end, a coinbase. Where BIP34 is active from block 1, each coinbase except that of the
    /// genesis block (which creates no coin) begins with a push of its block's height, and so
    /// differs from all others.
    Implied,
    /// Look up each output before any coin is spent.
    LookUp,
}

/// Returns how to find out whether a block obeys BIP30. `bip34_ancestor_matches` says whether the
/// block's parent is, or descends from, a block at [`Network::bip34_height`] with the hash
/// [`Network::bip34_hash`].
pub fn bip30_check(
    network: &Network,
    height: u32,
    hash: &Hash,
    bip34_ancestor_matches: bool,
) -> Bip30Check {
    let is_above_limit = height >= BIP34_IMPLIES_BIP30_LIMIT;
    if !is_above_limit && (is_bip30_repeat(height, hash) || bip34_ancestor_matches) {
        Bip30Check::Exempt
    } else if !is_above_limit && network.bip34_height <= 1 {
        Bip30Check::Implied
    } else {
        Bip30Check::LookUp
    }
}

/// Returns whether this is one of the two blocks whose coinbase overwrites an earlier one (Core's
/// `IsBIP30Repeat`).
pub fn is_bip30_repeat(height: u32, hash: &Hash) -> bool {
    TWINS.iter().any(|twins| twins.repeat.is(height, hash))
}

/// Returns whether this is one of the two blocks whose coinbase is overwritten later (Core's
/// `IsBIP30Unspendable`).
pub fn is_bip30_unspendable(height: u32, hash: &Hash) -> bool {
    TWINS.iter().any(|twins| twins.overwritten.is(height, hash))
}

/// Returns the heights of two blocks with the same coinbase if the chain has only the first of them
/// up to `height`, where its coinbase is still a coin like any other. `hash_at` returns the hash of
/// the chain's block at a height.
pub fn bip30_overwritten_after(
    height: u32,
    hash_at: impl Fn(u32) -> Option<Hash>,
) -> Option<(u32, u32)> {
    let is_between = |twins: &&Twins| {
        let first = &twins.overwritten;
        (first.height..twins.repeat.height).contains(&height)
            && hash_at(first.height).is_some_and(|hash| hash == first.hash)
    };
    let twins = TWINS.iter().find(is_between)?;
    Some((twins.overwritten.height, twins.repeat.height))
}

impl RuleError {
    /// Returns the error for a block that creates a coin which already exists: `bad-txns-BIP30`.
    #[cold]
    pub fn bip30() -> Self {
        Self::consensus("bad-txns-BIP30", "tried to overwrite transaction")
    }
}
