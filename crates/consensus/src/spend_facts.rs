//! The rules on spends for a block whose coins become known later than its bytes: the facts that
//! the rules need are noted from the bytes, and checked with the coins after the bytes were
//! dropped.

use apus_hash::Hash;
use apus_wire::ScriptFlags;

use super::block::{BlockContext, CheckedBlock};
use super::error::RuleError;
use super::script_flags::script_flags;
use super::sequence_locks::{has_sequence_locks, sequence_lock_passed};
use super::sigops::{SigopCosts, SpentAs};
use super::spend::{BlockSums, ValueIn, legacy_sigop_cost, value_out};

/// The facts that [`BlockSpends`](super::BlockSpends) needs from one transaction's bytes, without
/// its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxFacts {
    /// The sum of the outputs, in satoshi; for a coinbase, the amount that it claims.
    pub value_out: i64,
    /// The cost of the signature operations in scriptSigs and scriptPubKeys.
    pub sigop_cost: u64,
    /// Whether the sequence number of any input is a lock in this block (BIP68).
    pub has_locks: bool,
}

impl TxFacts {
    /// Collects the facts about the transaction at `index` of a block.
    #[inline]
    pub fn of<B: AsRef<[u8]>>(
        block: &CheckedBlock<B>,
        index: usize,
        context: &BlockContext,
    ) -> Self {
        let tx = block.view().tx(index);
        Self {
            value_out: value_out(&tx),
            sigop_cost: legacy_sigop_cost(block, index),
            has_locks: index > 0 && has_sequence_locks(&tx, context),
        }
    }
}

/// The facts that the rules need from an input's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputFacts {
    /// The sequence number; it counts only with [`TxFacts::has_locks`].
    pub sequence: u32,
    /// The cost of the signature operations in P2SH and witness scripts.
    pub sigops: SigopCosts,
}

/// The facts that the rules need about a spent coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpentCoin {
    /// Amount in satoshi.
    pub amount: i64,
    /// Height of the block that created the coin.
    pub height: u32,
    /// Whether a coinbase created the coin.
    pub is_coinbase: bool,
    /// How its script is spent.
    pub spent_as: SpentAs,
}

/// The rules of [`BlockSpends`](super::BlockSpends), checked with facts: the same blocks pass, but
/// errors do not name transactions.
pub struct FactSpends<'a> {
    context: BlockContext<'a>,
    flags: ScriptFlags,
    sums: BlockSums,
    claimed: i64,
}

impl<'a> FactSpends<'a> {
    /// Starts with the coinbase of the block with this hash; the other transactions follow with
    /// [`FactSpends::tx`].
    pub fn new(hash: &Hash, context: BlockContext<'a>, coinbase: &TxFacts) -> Self {
        let flags = script_flags(context.network, context.height, hash);
        let sums = BlockSums::new(coinbase.sigop_cost);
        let claimed = coinbase.value_out;
        Self { context, flags, sums, claimed }
    }

    /// Checks the next transaction, given its inputs in order, each with its coin.
    /// `median_time_past_at` is the same as for [`BlockSpends::tx`](super::BlockSpends::tx).
    ///
    /// # Errors
    /// Those of [`BlockSpends::tx`](super::BlockSpends::tx); if the transaction breaks several
    /// rules, perhaps the error of another one.
    #[inline]
    pub fn tx(
        &mut self,
        tx: &TxFacts,
        inputs: impl Iterator<Item = (InputFacts, SpentCoin)>,
        median_time_past_at: impl Fn(u32) -> i64,
    ) -> Result<(), RuleError> {
        let mut value_in = ValueIn::default();
        let mut sigop_cost = tx.sigop_cost;
        for (input, coin) in inputs {
            value_in.add(coin.amount, coin.height, coin.is_coinbase, self.context.height)?;
            let sequence = input.sequence;
            let created_at = coin.height;
            if tx.has_locks
                && !sequence_lock_passed(sequence, created_at, &self.context, &median_time_past_at)
            {
                return Err(RuleError::consensus("bad-txns-nonfinal", ""));
            }
            sigop_cost += u64::from(input.sigops.cost(coin.spent_as, self.flags));
        }
        self.sums.add_fee(value_in.fee(tx.value_out)?)?;
        self.sums.add_sigops(sigop_cost)
    }

    /// Checks what the coinbase claims, after the last transaction.
    ///
    /// # Errors
    /// `bad-blk-sigops`, `bad-cb-amount`
    pub fn finish(self) -> Result<(), RuleError> {
        self.sums.finish(self.claimed, &self.context).map(|_| ())
    }
}
