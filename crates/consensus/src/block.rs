use apus_hash::Hash;
use apus_wire::opcodes::{OP_1, OP_16};
use apus_wire::{BlockView, Network, merkle_root};

use super::error::{RuleClass, RuleError};
use super::header::check_header;
use super::limits::{SIGOPS_COST_MAX, WEIGHT_MAX};
use super::signet::{VerifyScript, has_signet_solution};
use super::sigops::{WITNESS_SCALE, legacy_sigops};
use super::tx::{check_transaction, is_final};

/// No chain reaches this height for centuries.
const STATED_HEIGHT_MAX: u32 = 20_000_000;

/// A block that has passed every rule that depends on the block alone; [`check_block`] returns one.
#[derive(Clone)]
pub struct CheckedBlock<B> {
    view: BlockView<B>,
    hash: Hash,
    txids: Vec<Hash>,
    legacy_sigops: Vec<u32>,
}

impl<B: AsRef<[u8]>> CheckedBlock<B> {
    /// Wraps a block that the caller knows to have passed [`check_block`] and
    /// [`check_block_in_context`] before. Its transactions are not hashed again, so txids are left
    /// out.
    pub fn checked_before(view: BlockView<B>, hash: Hash) -> Self {
        let legacy_sigops = view.txs().map(|tx| legacy_sigops(&tx)).collect();
        Self { view, hash, txids: Vec::new(), legacy_sigops }
    }

    /// Returns the block.
    pub fn view(&self) -> &BlockView<B> {
        &self.view
    }

    /// Returns the block's hash.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Returns the txids of all transactions, in order; none for a block
    /// that was [checked before](CheckedBlock::checked_before).
    pub fn txids(&self) -> &[Hash] {
        &self.txids
    }

    /// Returns the txid of the transaction at `index`, and hashes it if necessary.
    pub fn txid(&self, index: usize) -> Hash {
        self.txids.get(index).copied().unwrap_or_else(|| self.view.tx(index).txid())
    }

    /// Returns the number of signature operations of each transaction, in order, without those in
    /// P2SH and witness scripts ([`legacy_sigops`]).
    pub fn legacy_sigops(&self) -> &[u32] {
        &self.legacy_sigops
    }
}

/// The position of a block in its chain: what its rules depend on besides its own bytes and the
/// coins that it spends.
#[derive(Clone, Copy)]
pub struct BlockContext<'a> {
    /// The network.
    pub network: &'a Network,
    /// The block's height.
    pub height: u32,
    /// Median time past of the block's parent ([`Ancestry::median_time_past`]).
    ///
    /// [`Ancestry::median_time_past`]: super::Ancestry::median_time_past
    pub parent_median_time_past: i64,
}

/// Checks the rules that need nothing but the block, in order (Core's `CheckBlock`). Each
/// transaction is hashed once. The challenge of a signet is a script, which `verify` runs.
///
/// # Errors
/// `high-hash`, `bad-signet-blksig`, `bad-txnmrklroot`, `bad-txns-duplicate`, `bad-blk-length`,
/// `bad-cb-missing`, `bad-cb-multiple`, those of a transaction (`bad-txns-…`, `bad-cb-length`),
/// `bad-blk-sigops`
pub fn check_block<B: AsRef<[u8]>>(
    view: BlockView<B>,
    network: &Network,
    verify: VerifyScript,
) -> Result<CheckedBlock<B>, RuleError> {
    let hash = view.hash();
    check_header(view.header(), &hash, network)?;
    let txids = view.txids();
    let committed = merkle_root_matches(&view, &txids);
    // If the header does not commit to these bytes, they say nothing about the block's hash.
    signet_solution(&view, &hash, &txids, network, verify).map_err(|error| match committed {
        Ok(()) => error,
        Err(_) => RuleError { class: RuleClass::Mutated, ..error },
    })?;
    committed?;
    size_in_limit(&view)?;
    coinbase_first_and_only(&view)?;
    for (tx, txid) in view.txs().zip(&txids) {
        check_transaction(&tx).map_err(|reason| RuleError::in_transaction(reason, txid))?;
    }
    let legacy_sigops = legacy_sigops_in_limit(&view)?;
    Ok(CheckedBlock { view, hash, txids, legacy_sigops })
}

/// Checks the rules that need the block's ancestors but not the coins that it spends, in order
/// (Core's `ContextualCheckBlock`). Transactions with witnesses are hashed once more.
///
/// # Errors
/// `bad-txns-nonfinal`, `bad-cb-height`, `bad-witness-nonce-size`, `bad-witness-merkle-match`,
/// `unexpected-witness`, `bad-blk-weight`
pub fn check_block_in_context<B: AsRef<[u8]>>(
    block: &CheckedBlock<B>,
    context: &BlockContext,
) -> Result<(), RuleError> {
    let view = block.view();
    in_context_without_witnesses(view, context)?;
    witness_committed(view, context)?;
    weight_in_limit(view)
}

/// Does what [`check_block_in_context`] does for a block that was requested from a peer without its
/// witnesses: its weight, and its commitment to the witnesses, cannot be checked. A block that
/// arrives with witnesses is checked in full.
///
/// # Errors
/// `bad-txns-nonfinal`, `bad-cb-height`; for a block with witnesses, those of
/// [`check_block_in_context`]
pub fn check_stripped_block_in_context<B: AsRef<[u8]>>(
    block: &CheckedBlock<B>,
    context: &BlockContext,
) -> Result<(), RuleError> {
    let view = block.view();
    if view.has_witness() {
        check_block_in_context(block, context)
    } else {
        in_context_without_witnesses(view, context)
    }
}

fn in_context_without_witnesses<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    context: &BlockContext,
) -> Result<(), RuleError> {
    transactions_final(view, context)?;
    coinbase_has_height(view, context)
}

/// A signet block MUST solve the network's challenge (BIP325).
fn signet_solution<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    hash: &Hash,
    txids: &[Hash],
    network: &Network,
    verify: VerifyScript,
) -> Result<(), RuleError> {
    let Some(challenge) = &network.signet_challenge else { return Ok(()) };
    if *hash == network.genesis_hash || has_signet_solution(view, txids, challenge, verify) {
        return Ok(());
    }
    Err(RuleError::consensus("bad-signet-blksig", "signet block signature validation failure"))
}

/// The header's merkle root MUST be that of the block's txids, and no transactions at the end may
/// be repeated in a way that leaves the root unchanged (CVE-2012-2459).
fn merkle_root_matches<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    txids: &[Hash],
) -> Result<(), RuleError> {
    let merkle = merkle_root(&mut txids.to_vec());
    if merkle.root != view.header().merkle_root {
        return Err(RuleError::mutated("bad-txnmrklroot", "hashMerkleRoot mismatch"));
    }
    if merkle.mutated {
        return Err(RuleError::mutated("bad-txns-duplicate", "duplicate transaction"));
    }
    Ok(())
}

/// A block MUST have a transaction, and MUST NOT be larger than 1,000,000 bytes without its
/// witnesses.
fn size_in_limit<B: AsRef<[u8]>>(view: &BlockView<B>) -> Result<(), RuleError> {
    let scale = WITNESS_SCALE as usize;
    if view.tx_count() == 0
        || view.tx_count() * scale > WEIGHT_MAX
        || view.base_size() * scale > WEIGHT_MAX
    {
        return Err(RuleError::consensus("bad-blk-length", "size limits failed"));
    }
    Ok(())
}

/// The first transaction MUST be a coinbase, and no other.
fn coinbase_first_and_only<B: AsRef<[u8]>>(view: &BlockView<B>) -> Result<(), RuleError> {
    let mut coinbases = view.txs().map(|tx| tx.is_coinbase());
    if coinbases.next() != Some(true) {
        return Err(RuleError::consensus("bad-cb-missing", "first tx is not coinbase"));
    }
    if coinbases.any(|is_coinbase| is_coinbase) {
        return Err(RuleError::consensus("bad-cb-multiple", "more than one coinbase"));
    }
    Ok(())
}

/// A block MUST NOT have more than 20,000 signature operations, not counting those in P2SH and
/// witness scripts. Returns the count of each transaction.
fn legacy_sigops_in_limit<B: AsRef<[u8]>>(view: &BlockView<B>) -> Result<Vec<u32>, RuleError> {
    let sigops: Vec<u32> = view.txs().map(|tx| legacy_sigops(&tx)).collect();
    let total: u64 = sigops.iter().map(|&count| u64::from(count)).sum();
    if total * u64::from(WITNESS_SCALE) > SIGOPS_COST_MAX {
        return Err(RuleError::consensus("bad-blk-sigops", "out-of-bounds SigOpCount"));
    }
    Ok(sigops)
}

/// Every transaction's lock time MUST have passed (BIP113: measured by median time past).
fn transactions_final<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    context: &BlockContext,
) -> Result<(), RuleError> {
    let cutoff = if context.height >= context.network.csv_height {
        context.parent_median_time_past
    } else {
        i64::from(view.header().time)
    };
    if view.txs().all(|tx| is_final(&tx, context.height, cutoff)) {
        Ok(())
    } else {
        Err(RuleError::consensus("bad-txns-nonfinal", "non-final transaction"))
    }
}

/// The coinbase's scriptSig MUST start with the block's height (BIP34).
fn coinbase_has_height<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    context: &BlockContext,
) -> Result<(), RuleError> {
    if context.height < context.network.bip34_height {
        return Ok(());
    }
    let (push, len) = push_height(context.height);
    if view.tx(0).input(0).script_sig().starts_with(&push[..len]) {
        return Ok(());
    }
    Err(RuleError::consensus("bad-cb-height", "block height mismatch in coinbase"))
}

/// Returns the height that the coinbase states, if it is one at which BIP34 is in force, and the
/// block has a version that BIP34 allows. Other coinbases may begin with any number: the first
/// blocks of mainnet begin with their `nBits`.
pub fn stated_height<B: AsRef<[u8]>>(view: &BlockView<B>, network: &Network) -> Option<u32> {
    let is_possible = |height: &u32| (network.bip34_height..=STATED_HEIGHT_MAX).contains(height);
    let height = first_number(view).filter(is_possible)?;
    (view.header().version >= 2).then_some(height)
}

/// Returns the number with which the coinbase begins, if it is in the form of a height.
fn first_number<B: AsRef<[u8]>>(view: &BlockView<B>) -> Option<u32> {
    let script = view.txs().next()?.inputs().next()?.script_sig();
    let height = match *script.first()? {
        op @ OP_1..=OP_16 => u32::from(op - OP_1) + 1,
        len @ 1..=4 => {
            let mut bytes = [0; 4];
            let len = usize::from(len);
            bytes[..len].copy_from_slice(script.get(1..=len)?);
            u32::from_le_bytes(bytes)
        }
        _ => return None,
    };
    let (push, len) = push_height(height);
    script.starts_with(&push[..len]).then_some(height)
}

/// Returns the script that pushes a height in the only form that BIP34 allows (Core's
/// `CScript() << nHeight`), padded to six bytes, and its length.
fn push_height(height: u32) -> ([u8; 6], usize) {
    let mut push = [0; 6];
    match height {
        0 => (push, 1),
        1..=16 => {
            push[0] = OP_1 - 1 + height as u8;
            (push, 1)
        }
        _ => {
            // Little endian, with room for the sign bit, which is always clear.
            let len = (32 - height.leading_zeros()) as usize / 8 + 1;
            push[0] = len as u8;
            push[1..5].copy_from_slice(&height.to_le_bytes());
            (push, len + 1)
        }
    }
}

/// From segwit on, a witness commitment in the coinbase MUST match the block's witnesses; a block
/// without such a commitment MUST NOT have witnesses (BIP141; Core's `CheckWitnessMalleation`).
fn witness_committed<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    context: &BlockContext,
) -> Result<(), RuleError> {
    let active = context.height >= context.network.segwit_height;
    if let Some(commitment) = active.then(|| view.witness_commitment()).flatten() {
        let mut stack = view.tx(0).input(0).witness();
        let reserved = match (stack.next(), stack.next()) {
            (Some(item), None) => <&[u8; 32]>::try_from(item).ok(),
            _ => None,
        };
        let Some(reserved) = reserved else {
            return Err(RuleError::mutated(
                "bad-witness-nonce-size",
                "CheckWitnessMalleation : invalid witness reserved value size",
            ));
        };
        let root = view.witness_merkle_root().root;
        if BlockView::<B>::expected_commitment(&root, reserved) != commitment {
            return Err(RuleError::mutated(
                "bad-witness-merkle-match",
                "CheckWitnessMalleation : witness merkle commitment mismatch",
            ));
        }
        return Ok(());
    }
    if view.has_witness() {
        return Err(RuleError::mutated(
            "unexpected-witness",
            "CheckWitnessMalleation : unexpected witness data found",
        ));
    }
    Ok(())
}

/// A block's weight MUST NOT exceed 4,000,000 (BIP141).
fn weight_in_limit<B: AsRef<[u8]>>(view: &BlockView<B>) -> Result<(), RuleError> {
    if view.weight() > WEIGHT_MAX {
        return Err(RuleError::consensus(
            "bad-blk-weight",
            "ContextualCheckBlock : weight limit failed",
        ));
    }
    Ok(())
}
