use super::error::RuleError;
use crate::hash::Hash;
use crate::wire::Network;

/// Heights and hashes of the two blocks that overwrote a coinbase before BIP30.
const BIP30_REPEATS: [(u32, Hash); 2] = [
    (91_842, Hash::from_hex("00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec")),
    (91_880, Hash::from_hex("00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721")),
];

/// Heights and hashes of the two blocks whose coinbases were overwritten.
const BIP30_UNSPENDABLE: [(u32, Hash); 2] = [
    (91_722, Hash::from_hex("00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e")),
    (91_812, Hash::from_hex("00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f")),
];

/// From here on heights in old coinbases could come true, so that BIP34 no longer implies BIP30
/// (Core's `BIP34_IMPLIES_BIP30_LIMIT`).
const BIP34_IMPLIES_BIP30_LIMIT: u32 = 1_983_702;

/// Whether the block's outputs are to be looked up before it is connected, since it MUST NOT
/// create a coin that exists (BIP30; [`RuleError::bip30`]). `bip34_ancestor_matches`: whether the
/// block's parent is or has an ancestor at [`Network::bip34_height`], and that is
/// [`Network::bip34_hash`].
pub fn bip30_applies(height: u32, hash: &Hash, bip34_ancestor_matches: bool) -> bool {
    (!is_bip30_repeat(height, hash) && !bip34_ancestor_matches)
        || height >= BIP34_IMPLIES_BIP30_LIMIT
}

/// Whether BIP30 cannot be broken at this height of this network, so that the look-ups which
/// [`bip30_applies`] asks for, and Core makes, can only find nothing.
///
/// A transaction comes twice only if those that it spends do, and so in the end a coinbase. Where
/// BIP34 is enforced from block 1, the script of every coinbase but genesis' (which is no coin)
/// starts with a push of its own block's height, and no two heights' pushes are the same.
pub fn bip34_implies_bip30(network: &Network, height: u32) -> bool {
    network.bip34_height <= 1 && height < BIP34_IMPLIES_BIP30_LIMIT
}

/// Whether this is one of the two blocks that overwrite an earlier coinbase (Core's
/// `IsBIP30Repeat`).
pub fn is_bip30_repeat(height: u32, hash: &Hash) -> bool {
    BIP30_REPEATS.contains(&(height, *hash))
}

/// The height of the block whose coinbase overwrites that of this one, if this is one of the two
/// that were overwritten.
pub fn bip30_repeat_of(height: u32, hash: &Hash) -> Option<u32> {
    let overwritten = BIP30_UNSPENDABLE.iter().position(|block| *block == (height, *hash))?;
    // The first repeat is of the second one.
    Some(BIP30_REPEATS[1 - overwritten].0)
}

/// Whether this is one of the two blocks whose coinbase is overwritten later (Core's
/// `IsBIP30Unspendable`).
pub fn is_bip30_unspendable(height: u32, hash: &Hash) -> bool {
    BIP30_UNSPENDABLE.contains(&(height, *hash))
}

impl RuleError {
    /// A block creates a coin that exists: `bad-txns-BIP30`.
    #[cold]
    pub fn bip30() -> Self {
        Self::consensus("bad-txns-BIP30", "tried to overwrite transaction")
    }
}
