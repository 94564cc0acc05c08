use apus_hash::Hash;
use apus_wire::{OutPoint, Prevout, ScriptFlags, TxView};

use super::amount::{Money, money_range, subsidy};
use super::block::{BlockContext, CheckedBlock};
use super::error::RuleError;
use super::limits::SIGOPS_COST_MAX;
use super::script_flags::script_flags;
use super::sequence_locks::sequence_locks_passed;
use super::sigops::{WITNESS_SCALE, input_sigop_cost};

/// The number of blocks after which a coinbase's outputs can be spent (Core's
/// `COINBASE_MATURITY`).
const COINBASE_MATURITY: i64 = 100;

/// The rules on what a block spends and creates, checked transaction by transaction and in order
/// (Core's `ConnectBlock`).
///
/// A SwiftSync checks these rules only in the last of the blocks that are assumed valid. Each rule
/// belongs to a group of `RuleGroup` in apus-node, by which reports name what was not checked.
///
/// The caller finds out whether each coin exists ([`RuleError::missing_or_spent`]) and whether the
/// block obeys BIP30 ([`bip30_check`]), and checks scripts (`TxScripts` of apus-scripts).
///
/// [`FactSpends`](super::FactSpends) checks the same rules without the block, with facts noted from
/// it.
///
/// [`bip30_check`]: super::bip30_check
///
/// ```
/// use apus_consensus::{BlockContext, BlockSpends, CheckedBlock, RuleError};
/// use apus_wire::Prevout;
///
/// /// Checks the spends of a block. `prevouts` are the coins that each transaction spends; the
/// /// first transaction is the coinbase and spends none.
/// fn check_spends(
///     block: &CheckedBlock<Vec<u8>>,
///     context: BlockContext,
///     prevouts: &[Vec<Prevout>],
///     median_time_past_at: impl Fn(u32) -> i64,
/// ) -> Result<i64, RuleError> {
///     let mut spends = BlockSpends::new(block, context);
///     for (index, prevouts) in prevouts.iter().enumerate().skip(1) {
///         spends.tx(index, prevouts, &median_time_past_at)?;
///     }
///     spends.finish()
/// }
/// ```
pub struct BlockSpends<'a, B> {
    block: &'a CheckedBlock<B>,
    context: BlockContext<'a>,
    flags: ScriptFlags,
    sums: BlockSums,
}

impl<'a, B: AsRef<[u8]>> BlockSpends<'a, B> {
    /// Starts with the coinbase; the other transactions follow with [`BlockSpends::tx`].
    pub fn new(block: &'a CheckedBlock<B>, context: BlockContext<'a>) -> Self {
        let flags = script_flags(context.network, context.height, block.hash());
        Self { block, context, flags, sums: BlockSums::new(legacy_sigop_cost(block, 0)) }
    }

    /// Returns the flags with which the block's scripts are checked ([`script_flags`]).
    pub fn script_flags(&self) -> ScriptFlags {
        self.flags
    }

    /// Checks the transaction at `index`, which must be the next one and not the coinbase, and
    /// returns its fee. `prevouts` are the coins that it spends, in the order of its inputs.
    /// `median_time_past_at` returns the median time past of an ancestor of the block by height,
    /// and is called only for relative locks in time.
    ///
    /// # Errors
    /// `bad-txns-premature-spend-of-coinbase`, `bad-txns-inputvalues-outofrange`,
    /// `bad-txns-in-belowout`, `bad-txns-fee-outofrange`, `bad-txns-accumulated-fee-outofrange`,
    /// `bad-txns-nonfinal`, `bad-blk-sigops`
    ///
    /// # Panics
    /// If there are not as many `prevouts` as the transaction has inputs.
    pub fn tx(
        &mut self,
        index: usize,
        prevouts: &[Prevout],
        median_time_past_at: impl Fn(u32) -> i64,
    ) -> Result<i64, RuleError> {
        let tx = self.block.view().tx(index);
        assert_eq!(prevouts.len(), tx.input_count(), "a prevout for each input");
        let fee = check_tx_inputs(&tx, prevouts, self.context.height).map_err(|mut error| {
            let txid = self.block.txid(index);
            error.debug = format!("{} in transaction {txid}", error.debug);
            error
        })?;
        self.sums.add_fee(fee)?;
        self.sequence_locks(index, prevouts, median_time_past_at)?;
        let inputs: u64 = tx
            .inputs()
            .zip(prevouts)
            .map(|(input, prevout)| u64::from(input_sigop_cost(&input, prevout.script, self.flags)))
            .sum();
        self.sums.add_sigops(legacy_sigop_cost(self.block, index) + inputs)?;
        Ok(fee)
    }

    /// Checks what the coinbase claims, after the last transaction, and returns the sum of all
    /// fees.
    ///
    /// # Errors
    /// `bad-blk-sigops`, `bad-cb-amount`
    pub fn finish(self) -> Result<i64, RuleError> {
        self.sums.finish(value_out(&self.block.view().tx(0)), &self.context)
    }

    /// From BIP68 on, the relative locks of a transaction's inputs MUST have passed.
    fn sequence_locks(
        &self,
        index: usize,
        prevouts: &[Prevout],
        median_time_past_at: impl Fn(u32) -> i64,
    ) -> Result<(), RuleError> {
        let tx = self.block.view().tx(index);
        let heights = prevouts.iter().map(|prevout| prevout.height);
        if sequence_locks_passed(&tx, heights, &self.context, median_time_past_at) {
            return Ok(());
        }
        Err(RuleError::consensus(
            "bad-txns-nonfinal",
            format!("contains a non-BIP68-final transaction {}", self.block.txid(index)),
        ))
    }
}

/// The sums over a block's transactions, with the rules on them.
pub(super) struct BlockSums {
    fees: i64,
    sigop_cost: u64,
}

impl BlockSums {
    /// Starts the sums with a coinbase whose signature operations cost this much.
    pub fn new(sigop_cost: u64) -> Self {
        Self { fees: 0, sigop_cost }
    }

    /// Adds a transaction's fee.
    pub fn add_fee(&mut self, fee: i64) -> Result<(), RuleError> {
        self.fees = self.fees.saturating_add(fee);
        accumulated_fees_in_range(self.fees)
    }

    /// Adds the cost of a transaction's signature operations.
    pub fn add_sigops(&mut self, cost: u64) -> Result<(), RuleError> {
        self.sigop_cost += cost;
        sigop_cost_in_limit(self.sigop_cost)
    }

    /// Checks what the coinbase claims, after the last transaction, and returns the sum of all
    /// fees.
    pub fn finish(self, claimed: i64, context: &BlockContext) -> Result<i64, RuleError> {
        sigop_cost_in_limit(self.sigop_cost)?;
        let limit = self.fees + subsidy(context.height, context.network);
        coinbase_amount_in_limit(claimed, limit)?;
        Ok(self.fees)
    }
}

/// The total value of a transaction's inputs, with the rules on it (Core's `CheckTxInputs`).
#[derive(Default)]
pub(super) struct ValueIn(i64);

impl ValueIn {
    /// Adds a coin that is spent in a block at this height.
    #[inline]
    pub fn add(
        &mut self,
        amount: i64,
        created_at: u32,
        is_coinbase: bool,
        height: u32,
    ) -> Result<(), RuleError> {
        if is_coinbase {
            coinbase_mature(created_at, height)?;
        }
        self.0 = self.0.saturating_add(amount);
        input_amounts_in_range(amount, self.0)
    }

    /// Returns the fee of a transaction whose outputs have the sum `value_out`.
    #[inline]
    pub fn fee(self, value_out: i64) -> Result<i64, RuleError> {
        inputs_cover_outputs(self.0, value_out)?;
        let fee = self.0 - value_out;
        fee_in_range(fee)?;
        Ok(fee)
    }
}

/// Checks the amounts of a transaction that spends these coins in a block at this height, and
/// returns its fee.
fn check_tx_inputs(tx: &TxView, prevouts: &[Prevout], height: u32) -> Result<i64, RuleError> {
    let mut value_in = ValueIn::default();
    for prevout in prevouts {
        value_in.add(prevout.amount, prevout.height, prevout.is_coinbase, height)?;
    }
    value_in.fee(value_out(tx))
}

/// Returns the cost of the signature operations in the scriptSigs and scriptPubKeys of a block's
/// transaction.
pub(super) fn legacy_sigop_cost<B: AsRef<[u8]>>(block: &CheckedBlock<B>, index: usize) -> u64 {
    u64::from(block.legacy_sigops()[index]) * u64::from(WITNESS_SCALE)
}

/// A block MUST NOT spend a coinbase output less than 100 blocks old.
fn coinbase_mature(created_at: u32, height: u32) -> Result<(), RuleError> {
    let depth = i64::from(height) - i64::from(created_at);
    if depth < COINBASE_MATURITY {
        return Err(RuleError::consensus(
            "bad-txns-premature-spend-of-coinbase",
            format!("tried to spend coinbase at depth {depth}"),
        ));
    }
    Ok(())
}

/// The amounts that a transaction spends MUST be from 0 to 21 million bitcoins, alone and together.
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
    let value_in = Money(value_in);
    let value_out = Money(value_out);
    Err(RuleError::consensus(
        "bad-txns-in-belowout",
        format!("value in ({value_in}) < value out ({value_out})"),
    ))
}

/// A fee MUST be from 0 to 21 million bitcoins. It always is if the rules before this one hold.
fn fee_in_range(fee: i64) -> Result<(), RuleError> {
    if money_range(fee) { Ok(()) } else { Err(RuleError::consensus("bad-txns-fee-outofrange", "")) }
}

/// The sum of a block's fees MUST NOT exceed 21 million bitcoins.
fn accumulated_fees_in_range(fees: i64) -> Result<(), RuleError> {
    if money_range(fees) {
        return Ok(());
    }
    Err(RuleError::consensus(
        "bad-txns-accumulated-fee-outofrange",
        "accumulated fee in the block out of range",
    ))
}

/// A block's signature operations MUST NOT cost more than 80,000, at 4 each and 1 for those in
/// witnesses (BIP141).
fn sigop_cost_in_limit(cost: u64) -> Result<(), RuleError> {
    if cost > SIGOPS_COST_MAX {
        return Err(RuleError::consensus("bad-blk-sigops", "too many sigops"));
    }
    Ok(())
}

/// A coinbase MUST NOT claim more than the subsidy and the fees.
fn coinbase_amount_in_limit(claimed: i64, limit: i64) -> Result<(), RuleError> {
    if claimed > limit {
        return Err(RuleError::consensus(
            "bad-cb-amount",
            format!("coinbase pays too much (actual={claimed} vs limit={limit})"),
        ));
    }
    Ok(())
}

/// Returns the sum of a transaction's outputs, whose range [`check_block`] has checked.
///
/// [`check_block`]: super::check_block
#[inline]
pub(super) fn value_out(tx: &TxView) -> i64 {
    tx.outputs().fold(0, |sum: i64, output| sum.saturating_add(output.value()))
}

impl RuleError {
    /// Returns the error for a block that spends a coin that does not exist, or is already spent:
    /// `bad-txns-inputs-missingorspent`.
    #[cold]
    pub fn missing_or_spent(txid: &Hash, outpoint: &OutPoint) -> Self {
        Self::consensus(
            "bad-txns-inputs-missingorspent",
            format!(
                "CheckTxInputs: inputs missing/spent in transaction {txid} (spending {outpoint})"
            ),
        )
    }
}
