use super::block::{BlockContext, CheckedBlock};
use super::scripts::script_flags;
use super::sigops::{WITNESS_SCALE, input_sigop_cost};
use super::tx::sequence_locks_passed;
use super::{COIN, RuleError, SIGOPS_COST_MAX, money_range};
use crate::hash::Hash;
use crate::wire::{Network, OutPoint, ScriptFlags, TxView};

/// Blocks that a coinbase's outputs wait for (Core's `COINBASE_MATURITY`).
const COINBASE_MATURITY: i64 = 100;

/// The coin that an input spends.
#[derive(Clone, Copy, Debug)]
pub struct Prevout<'a> {
    /// Amount in satoshi.
    pub amount: i64,
    /// The scriptPubKey.
    pub script: &'a [u8],
    /// Height of the block that created it.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}

/// The rules on what a block spends and how much it may create, transaction by transaction and in
/// order (Core's `ConnectBlock`). That every coin exists is the caller's to find out
/// ([`RuleError::missing_or_spent`]), as are BIP30 ([`bip30_applies`]) and scripts
/// ([`TxScripts`]).
///
/// [`TxScripts`]: super::TxScripts
///
/// ```ignore
/// let mut spends = BlockSpends::new(&block, context);
/// for index in 1..block.view().tx_count() {
///     spends.tx(index, prevouts_of(index)?, median_time_past_at)?;
/// }
/// spends.finish()?;
/// ```
pub struct BlockSpends<'a, B> {
    block: &'a CheckedBlock<B>,
    context: BlockContext<'a>,
    flags: ScriptFlags,
    fees: i64,
    sigop_cost: u64,
}

impl<'a, B: AsRef<[u8]>> BlockSpends<'a, B> {
    /// Starts with the coinbase.
    pub fn new(block: &'a CheckedBlock<B>, context: BlockContext<'a>) -> Self {
        let flags = script_flags(context.network, context.height, block.hash());
        let sigop_cost = u64::from(block.legacy_sigops()[0]) * u64::from(WITNESS_SCALE);
        Self { block, context, flags, fees: 0, sigop_cost }
    }

    /// The flags that the block's scripts are checked with.
    pub fn script_flags(&self) -> ScriptFlags {
        self.flags
    }

    /// Adds the transaction at `index`, which is not the coinbase, and says its fee.
    /// `median_time_past_at` answers for ancestors of the block by height and is asked only for
    /// relative locks in time.
    ///
    /// # Errors
    /// `bad-txns-premature-spend-of-coinbase`, `bad-txns-inputvalues-outofrange`,
    /// `bad-txns-in-belowout`, `bad-txns-fee-outofrange`, `bad-txns-accumulated-fee-outofrange`,
    /// `bad-txns-nonfinal`, `bad-blk-sigops`
    ///
    /// # Panics
    /// If `prevouts` are not as many as the transaction's inputs.
    pub fn tx(
        &mut self,
        index: usize,
        prevouts: &[Prevout],
        median_time_past_at: impl Fn(u32) -> i64,
    ) -> Result<i64, RuleError> {
        let tx = self.block.view().tx(index);
        let txid = &self.block.txids()[index];
        assert_eq!(prevouts.len(), tx.input_count(), "a prevout for each input");
        let fee = check_tx_inputs(&tx, prevouts, self.context.height).map_err(|mut error| {
            error.debug = format!("{} in transaction {txid}", error.debug);
            error
        })?;
        self.fees = self.fees.saturating_add(fee);
        accumulated_fees_in_range(self.fees)?;
        self.sequence_locks(&tx, txid, prevouts, median_time_past_at)?;
        let inputs: u64 = tx
            .inputs()
            .zip(prevouts)
            .map(|(input, prevout)| u64::from(input_sigop_cost(&input, prevout.script, self.flags)))
            .sum();
        let legacy = u64::from(self.block.legacy_sigops()[index]) * u64::from(WITNESS_SCALE);
        self.sigop_cost += legacy + inputs;
        sigop_cost_in_limit(self.sigop_cost)?;
        Ok(fee)
    }

    /// After the last transaction: checks what the coinbase claims and says the sum of all fees.
    ///
    /// # Errors
    /// `bad-blk-sigops`, `bad-cb-amount`
    pub fn finish(self) -> Result<i64, RuleError> {
        sigop_cost_in_limit(self.sigop_cost)?;
        let claimed = value_out(&self.block.view().tx(0));
        let limit = self.fees + subsidy(self.context.height, self.context.network);
        coinbase_amount_in_limit(claimed, limit)?;
        Ok(self.fees)
    }

    /// From BIP68 on, the relative locks of a transaction's inputs MUST have passed.
    fn sequence_locks(
        &self,
        tx: &TxView,
        txid: &Hash,
        prevouts: &[Prevout],
        median_time_past_at: impl Fn(u32) -> i64,
    ) -> Result<(), RuleError> {
        let context = &self.context;
        if context.height < context.network.csv_height
            || sequence_locks_passed(
                tx,
                prevouts.iter().map(|prevout| prevout.height),
                context.height,
                context.parent_median_time_past,
                median_time_past_at,
            )
        {
            return Ok(());
        }
        Err(RuleError::consensus(
            "bad-txns-nonfinal",
            format!("contains a non-BIP68-final transaction {txid}"),
        ))
    }
}

/// The fee of a transaction that spends these coins in a block of this height (Core's
/// `CheckTxInputs`).
fn check_tx_inputs(tx: &TxView, prevouts: &[Prevout], height: u32) -> Result<i64, RuleError> {
    let mut value_in = 0i64;
    for prevout in prevouts {
        coinbase_mature(prevout, height)?;
        value_in = value_in.saturating_add(prevout.amount);
        input_amounts_in_range(prevout.amount, value_in)?;
    }
    let value_out = value_out(tx);
    inputs_cover_outputs(value_in, value_out)?;
    let fee = value_in - value_out;
    fee_in_range(fee)?;
    Ok(fee)
}

/// A block MUST NOT spend a coinbase output less than 100 blocks old.
fn coinbase_mature(prevout: &Prevout, height: u32) -> Result<(), RuleError> {
    let depth = i64::from(height) - i64::from(prevout.height);
    if prevout.is_coinbase && depth < COINBASE_MATURITY {
        return Err(RuleError::consensus(
            "bad-txns-premature-spend-of-coinbase",
            format!("tried to spend coinbase at depth {depth}"),
        ));
    }
    Ok(())
}

/// What a transaction spends MUST be from 0 to 21 million bitcoins, each coin and all together.
fn input_amounts_in_range(amount: i64, total: i64) -> Result<(), RuleError> {
    if money_range(amount) && money_range(total) {
        Ok(())
    } else {
        Err(RuleError::consensus("bad-txns-inputvalues-outofrange", ""))
    }
}

/// A transaction MUST NOT create more than it spends.
fn inputs_cover_outputs(value_in: i64, value_out: i64) -> Result<(), RuleError> {
    if value_in >= value_out {
        return Ok(());
    }
    let (value_in, value_out) = (Money(value_in), Money(value_out));
    Err(RuleError::consensus(
        "bad-txns-in-belowout",
        format!("value in ({value_in}) < value out ({value_out})"),
    ))
}

/// A fee MUST be an amount of money; it is wherever the rules before it hold.
fn fee_in_range(fee: i64) -> Result<(), RuleError> {
    if money_range(fee) { Ok(()) } else { Err(RuleError::consensus("bad-txns-fee-outofrange", "")) }
}

/// A block's fees together MUST NOT exceed 21 million bitcoins.
fn accumulated_fees_in_range(fees: i64) -> Result<(), RuleError> {
    if money_range(fees) {
        return Ok(());
    }
    Err(RuleError::consensus(
        "bad-txns-accumulated-fee-outofrange",
        "accumulated fee in the block out of range",
    ))
}

/// A block's signature operations MUST NOT cost more than 80,000 (BIP141): 4 each, those in
/// witnesses 1.
fn sigop_cost_in_limit(cost: u64) -> Result<(), RuleError> {
    if cost > SIGOPS_COST_MAX {
        return Err(RuleError::consensus("bad-blk-sigops", "too many sigops"));
    }
    Ok(())
}

/// A coinbase MUST NOT claim more than subsidy and fees.
fn coinbase_amount_in_limit(claimed: i64, limit: i64) -> Result<(), RuleError> {
    if claimed > limit {
        return Err(RuleError::consensus(
            "bad-cb-amount",
            format!("coinbase pays too much (actual={claimed} vs limit={limit})"),
        ));
    }
    Ok(())
}

/// Sum of a transaction's outputs, whose range the rules before have checked.
fn value_out(tx: &TxView) -> i64 {
    tx.outputs().fold(0, |sum: i64, output| sum.saturating_add(output.value()))
}

/// What a block of this height may create beside its fees, in satoshi (Core's `GetBlockSubsidy`).
pub fn subsidy(height: u32, network: &Network) -> i64 {
    (50 * COIN).checked_shr(height / network.halving_interval).unwrap_or(0)
}

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
    /// An input's coin does not exist, or no more: `bad-txns-inputs-missingorspent`.
    #[cold]
    pub fn missing_or_spent(txid: &Hash, outpoint: &OutPoint) -> Self {
        Self::consensus(
            "bad-txns-inputs-missingorspent",
            format!(
                "CheckTxInputs: inputs missing/spent in transaction {txid} (spending {outpoint})"
            ),
        )
    }

    /// A block creates a coin that exists: `bad-txns-BIP30`.
    #[cold]
    pub fn bip30() -> Self {
        Self::consensus("bad-txns-BIP30", "tried to overwrite transaction")
    }
}

/// An amount as Core shows it (`FormatMoney`): in bitcoins, at least two decimals.
struct Money(i64);

impl std::fmt::Display for Money {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) =
            (self.0.unsigned_abs() / COIN as u64, self.0.unsigned_abs() % COIN as u64);
        let digits = format!("{part:08}");
        let (cents, rest) = digits.split_at(2);
        write!(f, "{sign}{whole}.{cents}{}", rest.trim_end_matches('0'))
    }
}
