//! What kind of chain to make.

use crate::keys::KEYS_MAX;
use crate::lock::{ALL_KINDS, KINDS, Kind};
use crate::rng::Rng;

/// A chain in a few numbers. The same numbers give the same bytes, on any number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The seed of everything random.
    pub seed: u64,
    /// Blocks at the start with only a coinbase; at least 101, so that coins mature.
    pub quiet_blocks: u32,
    /// Blocks full of transactions, after the quiet ones.
    pub busy_blocks: u32,
    /// Bytes that a busy block is filled up to, if weight and signature operations allow it.
    pub busy_bytes: u64,
    /// Maximum number of transactions in a busy block, besides its coinbase.
    pub busy_txs_max: u32,
    /// Blocks with only a coinbase at the end (2,100 make assumevalid apply).
    pub empty_blocks_after: u32,
    /// Blocks full of transactions after the empty ones. They spend and create only outputs that
    /// need no signature, so that they are cheap to verify where assumevalid does not cover them.
    pub top_blocks: u32,
    /// Number of keys: at least 3, at most [`KEYS_MAX`]. While there are unused keys, two of three
    /// outputs get one; then all keys are used again, in the same order.
    pub keys: u32,
    /// Percentage of inputs that spend an output of their own block.
    pub in_block_percent: u8,
    /// Percentage of outputs, change aside, that are never spent.
    pub never_spent_percent: u8,
    /// How often each kind of output script occurs.
    pub mix: Mix,
}

impl Spec {
    /// Returns a chain for tests: 150 quiet blocks and 50 of about 60 kB, every kind of script
    /// often.
    pub fn small(seed: u64) -> Self {
        Spec {
            seed,
            quiet_blocks: 150,
            busy_blocks: 50,
            busy_bytes: 60_000,
            busy_txs_max: u32::MAX,
            empty_blocks_after: 0,
            top_blocks: 0,
            keys: 64,
            in_block_percent: 10,
            never_spent_percent: 20,
            mix: Mix::varied(),
        }
    }

    /// Returns a chain for tests of scripts: like [`Spec::small`], but two of three outputs are of
    /// [`Kind::Odd`].
    pub fn odd(seed: u64) -> Self {
        Spec { keys: 4_096, mix: Mix::odd(), ..Spec::small(seed) }
    }

    /// Returns a chain for benchmarks: shaped like mainnet, `bytes` in `blocks` busy blocks, 2,100
    /// empty ones after them.
    pub fn mainnet_like(seed: u64, blocks: u32, bytes: u64) -> Self {
        Spec {
            seed,
            quiet_blocks: 150,
            busy_blocks: blocks,
            busy_bytes: bytes / u64::from(blocks.max(1)),
            busy_txs_max: u32::MAX,
            empty_blocks_after: 2_100,
            top_blocks: 0,
            keys: KEYS_MAX,
            in_block_percent: 10,
            never_spent_percent: 44,
            mix: Mix::mainnet(),
        }
    }

    /// Returns the height of the last block.
    pub fn height(&self) -> u32 {
        self.top_start().saturating_add(self.top_blocks)
    }

    /// Returns the height of the last block below the topmost busy ones.
    pub fn top_start(&self) -> u32 {
        self.busy_end().saturating_add(self.empty_blocks_after)
    }

    /// Returns the height of the last busy block below the empty ones.
    pub fn busy_end(&self) -> u32 {
        self.quiet_blocks.saturating_add(self.busy_blocks)
    }

    /// Returns whether the block at `height` is filled with transactions.
    pub fn is_busy(&self, height: u32) -> bool {
        (height > self.quiet_blocks && height <= self.busy_end()) || self.is_top(height)
    }

    /// Returns whether the block at `height` is one of the busy ones after the empty ones.
    pub fn is_top(&self, height: u32) -> bool {
        height > self.top_start() && height <= self.height()
    }

    /// Returns the percentage of outputs, among those that are not spent below the topmost blocks,
    /// that are created for these to spend: some two thousand for each of them.
    pub(crate) fn for_top_percent(&self) -> u64 {
        let top = u64::from(self.top_blocks);
        (120 * top).div_ceil(u64::from(self.busy_blocks.max(1))).min(100)
    }
}

/// Hash types other than SIGHASH_ALL. The last five have no name in Core: consensus accepts them in
/// scripts before Taproot.
const HASH_TYPES: [u8; 10] = [0x81, 0x83, 0x82, 0x03, 0x02, 0x00, 0x04, 0x80, 0x1f, 0xff];

/// How often each kind of output script and each kind of signature occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: [u32; KINDS],
    total: u64,
    /// Number of inputs out of a thousand whose hash type is not the usual one.
    hash_types_permille: u16,
    /// How many of [`HASH_TYPES`] these inputs choose from.
    hash_types: u8,
}

impl Mix {
    /// Creates a mix from the weights of kinds; kinds not named do not occur. One input in a
    /// hundred has a hash type other than SIGHASH_ALL and SIGHASH_DEFAULT, as on mainnet.
    ///
    /// # Panics
    /// If no spendable kind has a weight.
    pub fn new(weights: &[(Kind, u32)]) -> Self {
        let mut mix = Mix { weights: [0; KINDS], total: 0, hash_types_permille: 10, hash_types: 5 };
        for &(kind, weight) in weights {
            mix.weights[kind as usize] += weight;
            mix.total += u64::from(weight);
        }
        assert!(
            ALL_KINDS.iter().any(|&k| k.is_spendable() && mix.weights[k as usize] > 0),
            "a chain needs a kind of output that can be spent"
        );
        mix
    }

    /// Returns a mix with about the shares of mainnet in 2025.
    pub fn mainnet() -> Self {
        Mix::new(&[
            (Kind::P2wpkh, 40_500),
            (Kind::P2trKey, 26_500),
            (Kind::P2pkh, 14_500),
            (Kind::OpReturn, 5_000),
            (Kind::P2shP2wpkh, 6_500),
            (Kind::P2wshMultisig, 3_000),
            (Kind::P2shMultisig, 2_000),
            (Kind::P2trScript, 1_000),
            (Kind::P2pkhUncompressed, 300),
            (Kind::Multisig, 150),
            (Kind::P2wshCltv, 100),
            (Kind::P2wshCsv, 100),
            (Kind::P2pk, 100),
            (Kind::P2pkUncompressed, 50),
            (Kind::Anchor, 100),
            (Kind::OpTrue, 50),
            (Kind::Empty, 50),
        ])
    }

    /// Returns a mix of every kind in about equal shares, except that the oversized one is rare,
    /// and of every hash type, including those without a name.
    pub fn varied() -> Self {
        Mix::varied_with(1_000, 1_000)
    }

    /// Returns a mix like [`Mix::varied`], but most outputs that can be spent need no signature:
    /// for tests whose subject is not scripts.
    pub fn few_signatures() -> Self {
        Mix::varied_with(1_000, 10_000)
    }

    /// Returns a mix like [`Mix::varied`], but with two thirds of [`Kind::Odd`].
    pub fn odd() -> Self {
        Mix::varied_with(2_000 * KINDS as u32, 1_000)
    }

    /// Returns a mix of every kind, with a weight of 1,000 except for odd ones, those that need no
    /// signature, and the oversized one.
    fn varied_with(odd: u32, keyless: u32) -> Self {
        let weight = |kind: Kind| match kind {
            Kind::Oversized => 3,
            Kind::Odd => odd,
            _ if kind.is_keyless() => keyless,
            _ => 1_000,
        };
        let mix = Mix::new(&ALL_KINDS.map(|kind| (kind, weight(kind))));
        Mix { hash_types_permille: 250, hash_types: HASH_TYPES.len() as u8, ..mix }
    }

    /// Returns the hash type of an input's signatures; `None` for the usual one.
    pub(crate) fn draw_hash_type(&self, rng: &mut Rng) -> Option<u8> {
        let unusual = rng.below(1_000) < u64::from(self.hash_types_permille);
        unusual.then(|| HASH_TYPES[rng.below(u64::from(self.hash_types)) as usize])
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> Kind {
        let mut left = rng.below(self.total);
        for kind in ALL_KINDS {
            let weight = u64::from(self.weights[kind as usize]);
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Kind::OpTrue
    }

    /// Returns a kind at random that can be spent.
    pub(crate) fn draw_spendable(&self, rng: &mut Rng) -> Kind {
        loop {
            let kind = self.draw(rng);
            if kind.is_spendable() {
                return kind;
            }
        }
    }
}
