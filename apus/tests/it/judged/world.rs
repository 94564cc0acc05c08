//! The chains that streams consist of: a main chain and forks of it, some a hundred blocks deep.

use apus_consensus::RuleClass;
use apus_testchain::{Break, Chain, Rng, Spec};

/// The height of the blocks that both directories hold before a stream.
pub const BASE_HEIGHT: u32 = 120;

/// A chain and its forks.
pub struct World {
    /// The main chain, and then its forks, which share blocks with it. Each has coins of every
    /// kind.
    pub chains: Vec<Chain>,
    /// For each chain, the height up to which its blocks are the main chain's.
    pub forks_at: Vec<u32>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let spec =
            Spec { quiet_blocks: 105, busy_blocks: 45, busy_bytes: 7_000, ..Spec::small(seed) };
        let main = Chain::new(spec);
        let mut rng = Rng::new(seed, 0x776f_726c_6421);
        let mut forks_at = vec![main.height()];
        let mut chains = vec![main];
        // Deep forks from below the base's height, and shallow ones.
        for (low, high) in [(45, 55), (60, 110), (119, 125), (130, 140), (141, 149)] {
            let at = rng.between(low, high) as u32;
            let tip = rng.between(146, 154) as u32;
            forks_at.push(at);
            chains.push(chains[0].fork(at, tip.max(at + 1) - at, rng.next_u64()));
        }
        Self { chains, forks_at }
    }
}

/// The step of validation that finds the fault of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The block has no fault.
    Sound,
    /// The header is invalid and never gets into a tree of headers.
    Header,
    /// The bytes are not what the header commits to, and say nothing about the block.
    Mutated,
    /// A check of the block without coins finds the fault.
    Body,
    /// Connecting the block finds the fault, in the coins that it spends.
    Coins,
}

/// The step that finds a broken rule, and Core's class for it.
///
/// # Panics
/// If neither the rule nor its reason is listed: a new rule on coins must not pass for one that a
/// block breaks without them.
pub fn fate_of(rule: Break) -> (Fate, RuleClass) {
    use Break as B;
    match rule.reason() {
        "time-too-new" => (Fate::Header, RuleClass::TimeFuture),
        "prev-blk-not-found" => (Fate::Header, RuleClass::MissingPrev),
        "high-hash" | "bad-diffbits" | "time-too-old" => (Fate::Header, RuleClass::InvalidHeader),
        reason if reason.starts_with("bad-version") => (Fate::Header, RuleClass::InvalidHeader),
        "bad-txnmrklroot"
        | "bad-txns-duplicate"
        | "bad-witness-nonce-size"
        | "bad-witness-merkle-match"
        | "unexpected-witness" => (Fate::Mutated, RuleClass::Mutated),
        "bad-txns-BIP30"
        | "bad-txns-inputs-missingorspent"
        | "bad-txns-premature-spend-of-coinbase"
        | "bad-txns-in-belowout"
        | "bad-cb-amount" => (Fate::Coins, RuleClass::Consensus),
        reason if reason.starts_with("block-script") => (Fate::Coins, RuleClass::Consensus),
        "bad-blk-length"
        | "bad-blk-weight"
        | "bad-cb-height"
        | "bad-cb-length"
        | "bad-cb-missing"
        | "bad-cb-multiple"
        | "bad-txns-inputs-duplicate"
        | "bad-txns-prevout-null"
        | "bad-txns-txouttotal-toolarge"
        | "bad-txns-vin-empty"
        | "bad-txns-vout-empty"
        | "bad-txns-vout-negative"
        | "bad-txns-vout-toolarge" => (Fate::Body, RuleClass::Consensus),
        // Reasons that are given without coins for some faults and with coins for others.
        reason => match rule {
            B::BadBlkSigopsLegacy
            | B::BadTxnsNonfinalHeight
            | B::BadTxnsNonfinalTime
            | B::BadTxnsNonfinalCoinbase => (Fate::Body, RuleClass::Consensus),
            B::BadBlkSigopsP2sh
            | B::BadBlkSigopsWitness
            | B::BadTxnsNonfinalBip68Height
            | B::BadTxnsNonfinalBip68Time => (Fate::Coins, RuleClass::Consensus),
            _ => panic!("{rule:?}: list here which step refuses a block for {reason}"),
        },
    }
}
