//! Blocks that break one rule each, together with the sound twin: a block that differs little and
//! breaks no rule.
//!
//! A new [`Break`] gets a line in `breaks!` with Core's reject reason, and a case in the file for
//! its part of a block:
//!
//! - `blocks.rs`: the header, the block as a whole, its coinbase, transactions by themselves, the
//!   witness commitment;
//! - `spends.rs`: the coins that a block spends: existence, age, amounts, lock times;
//! - `sigops.rs`: the limit of signature operations;
//! - `unlocks.rs`: what spends the common kinds of outputs: signatures, keys, witnesses, locks;
//! - `scripts.rs`: scripts that fail, of outputs made and spent in the block.
//!
//! Every test over [`Break::ALL`] then covers it, including those against Bitcoin Core's engine.
//!
//! The chains are regtest chains, where every rule is active from block 1. So nothing here shows
//! that a rule is inactive below its height: only `crates/scripts/src/tests` does.

mod blocks;
mod scripts;
mod sigops;
mod site;
mod spends;
mod unlocks;

use bitcoin::block::Block;

use crate::block::encode_block;
use crate::chain::Chain;
use site::Site;

/// A block that breaks a rule, made for the tip of a chain.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The bytes of the block that breaks the rule.
    pub block: Vec<u8>,
    /// The reject reason that Bitcoin Core v31.99 gives.
    pub reason: &'static str,
    /// The bytes of a block that keeps the rule as narrowly as possible.
    pub sound: Vec<u8>,
}

/// The sound block and the broken one.
struct Case {
    sound: Block,
    broken: Block,
}

impl Chain {
    /// Returns a next block that breaks the given rule. The small chains of [`crate::Spec::small`]
    /// have all coins that it needs.
    ///
    /// # Panics
    /// If the chain lacks a coin of the kind that the rule is about.
    pub fn broken(&self, rule: Break) -> Broken {
        let site = Site::new(self);
        let case = blocks::case(&site, rule)
            .or_else(|| spends::case(&site, rule))
            .or_else(|| sigops::case(&site, rule))
            .or_else(|| unlocks::case(&site, rule))
            .or_else(|| scripts::case(&site, rule))
            .expect("every rule has a case, as a test holds");
        Broken {
            block: encode_block(&case.broken),
            reason: rule.reason(),
            sound: encode_block(&case.sound),
        }
    }
}

/// Core's reject reason for a script that fails.
macro_rules! script {
    ($error:literal) => {
        concat!("block-script-verify-flag-failed (", $error, ")")
    };
}

macro_rules! breaks {
    ($($(#[$doc:meta])+ $name:ident = $reason:expr,)+) => {
        /// A way to break a rule. No block on regtest can break some rules, because another comes
        /// first: bad-txns-oversize (bad-blk-length does), bad-txns-inputvalues-outofrange,
        /// bad-txns-fee-outofrange and bad-txns-accumulated-fee-outofrange (there is too little
        /// money), time-timewarp-attack (not active by default), and bad-blk-length by the number
        /// of transactions (their size does).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Break {
            $($(#[$doc])+ $name,)+
        }

        impl Break {
            /// All ways to break a rule.
            pub const ALL: &[Break] = &[$(Break::$name,)+];

            /// Returns Core's reject reason.
            pub fn reason(self) -> &'static str {
                match self {
                    $(Break::$name => $reason,)+
                }
            }
        }
    };
}

breaks! {
    /// The hash is above the target.
    HighHash = "high-hash",
    /// The target is not the one that the chain requires.
    BadDiffbits = "bad-diffbits",
    /// The time is the median time past, not later.
    TimeTooOld = "time-too-old",
    /// The time is in the year 2106.
    TimeTooNew = "time-too-new",
    /// Version 1, after BIP 34.
    BadVersion1 = "bad-version(0x00000001)",
    /// Version 2, after BIP 66.
    BadVersion2 = "bad-version(0x00000002)",
    /// Version 3, after BIP 65.
    BadVersion3 = "bad-version(0x00000003)",
    /// The version is negative.
    BadVersionNegative = "bad-version(0x80000000)",
    /// The parent is unknown.
    PrevBlkNotFound = "prev-blk-not-found",
    /// The header has another merkle root.
    BadTxnmrklroot = "bad-txnmrklroot",
    /// The last transaction comes twice, which does not change the merkle root (CVE-2012-2459).
    BadTxnsDuplicate = "bad-txns-duplicate",
    /// No transactions at all.
    BadBlkLengthEmpty = "bad-blk-length",
    /// More than a million bytes without witnesses.
    BadBlkLength = "bad-blk-length",
    /// The coinbase is missing.
    BadCbMissing = "bad-cb-missing",
    /// A second coinbase.
    BadCbMultiple = "bad-cb-multiple",
    /// The coinbase's script has 1 byte.
    BadCbLengthShort = "bad-cb-length",
    /// The coinbase's script has 101 bytes.
    BadCbLengthLong = "bad-cb-length",
    /// The coinbase's script starts with the next height.
    BadCbHeight = "bad-cb-height",
    /// The height is encoded with a byte too many.
    BadCbHeightNotMinimal = "bad-cb-height",
    /// A transaction without inputs.
    BadTxnsVinEmpty = "bad-txns-vin-empty",
    /// A transaction without outputs.
    BadTxnsVoutEmpty = "bad-txns-vout-empty",
    /// An amount of -1.
    BadTxnsVoutNegative = "bad-txns-vout-negative",
    /// An amount of 21 million BTC and a satoshi.
    BadTxnsVoutToolarge = "bad-txns-vout-toolarge",
    /// Two amounts that are above 21 million BTC together.
    BadTxnsTxouttotalToolarge = "bad-txns-txouttotal-toolarge",
    /// A transaction that spends a coin twice (CVE-2018-17144).
    BadTxnsInputsDuplicate = "bad-txns-inputs-duplicate",
    /// A coinbase's input as the second input of a transaction.
    BadTxnsPrevoutNull = "bad-txns-prevout-null",
    /// The witness reserved value has 31 bytes.
    BadWitnessNonceSize = "bad-witness-nonce-size",
    /// The coinbase has no witness.
    BadWitnessNonceMissing = "bad-witness-nonce-size",
    /// The coinbase has two witness items.
    BadWitnessNonceTwo = "bad-witness-nonce-size",
    /// The commitment is to another reserved value.
    BadWitnessMerkleMatch = "bad-witness-merkle-match",
    /// The witness of a transaction changed after the commitment.
    BadWitnessMerkleMatchTx = "bad-witness-merkle-match",
    /// Of two commitments the last, which counts, is wrong.
    BadWitnessMerkleMatchLast = "bad-witness-merkle-match",
    /// Witnesses, but no commitment.
    UnexpectedWitness = "unexpected-witness",
    /// A witness in the coinbase only, but no commitment.
    UnexpectedWitnessCoinbase = "unexpected-witness",
    /// More than 4,000,000 weight units, of fewer than a million bytes without witnesses.
    BadBlkWeight = "bad-blk-weight",

    /// 20,001 signature operations in an output.
    BadBlkSigopsLegacy = "bad-blk-sigops",
    /// 20,001 signature operations in redeem scripts.
    BadBlkSigopsP2sh = "bad-blk-sigops",
    /// 80,001 signature operations in witness scripts.
    BadBlkSigopsWitness = "bad-blk-sigops",

    /// The lock time is the height, not below it.
    BadTxnsNonfinalHeight = "bad-txns-nonfinal",
    /// The lock time is the median time past (BIP 113), not below it.
    BadTxnsNonfinalTime = "bad-txns-nonfinal",
    /// The coinbase's lock time is the height.
    BadTxnsNonfinalCoinbase = "bad-txns-nonfinal",
    /// A relative lock one block too long (BIP 68).
    BadTxnsNonfinalBip68Height = "bad-txns-nonfinal",
    /// A relative lock one time unit too long (BIP 68).
    BadTxnsNonfinalBip68Time = "bad-txns-nonfinal",
    /// Spends an output of a transaction that does not exist.
    MissingNeverExisted = "bad-txns-inputs-missingorspent",
    /// Spends an output that its transaction does not have.
    MissingVout = "bad-txns-inputs-missingorspent",
    /// Spends a coin that an earlier block spent.
    SpentInEarlierBlock = "bad-txns-inputs-missingorspent",
    /// Two transactions of the block spend the same coin.
    SpentTwiceInBlock = "bad-txns-inputs-missingorspent",
    /// Spends an output of a later transaction in the block.
    SpendsLaterTx = "bad-txns-inputs-missingorspent",
    /// Spends an OP_RETURN output.
    SpendsOpReturn = "bad-txns-inputs-missingorspent",
    /// Spends an output whose script has 10,001 bytes.
    SpendsOversized = "bad-txns-inputs-missingorspent",
    /// Spends the genesis block's coinbase.
    SpendsGenesis = "bad-txns-inputs-missingorspent",
    /// Repeats a transaction of an earlier block that has an unspent output (BIP 30).
    RepeatsUnspent = "bad-txns-BIP30",
    /// Repeats such a transaction after one that spends a coinbase output 99 blocks old; BIP 30 is
    /// checked first.
    RepeatsUnspentAfterFault = "bad-txns-BIP30",
    /// Repeats a transaction that has an unspent output after one that spends an output of a later
    /// one.
    RepeatsUnspentAfterLater = "bad-txns-BIP30",
    /// Repeats a transaction of an earlier block that has no unspent output.
    RepeatsSpent = "bad-txns-inputs-missingorspent",
    /// Spends a coinbase output 99 blocks old.
    PrematureSpendOfCoinbase = "bad-txns-premature-spend-of-coinbase",
    /// Spends the coinbase of its own block.
    PrematureSpendOfOwnCoinbase = "bad-txns-premature-spend-of-coinbase",
    /// Creates a satoshi more than it spends.
    BadTxnsInBelowout = "bad-txns-in-belowout",
    /// The coinbase claims a satoshi more than subsidy and fees.
    BadCbAmount = "bad-cb-amount",

    /// P2PKH: the signature is for something else.
    P2pkhSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2PKH of an uncompressed key: the signature is for something else.
    P2pkhUncompressedSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2PK: the signature is for something else.
    P2pkSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// Bare multisig: the signature is for something else.
    MultisigSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2SH multisig: the signatures are for something else.
    P2shMultisigSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2WPKH: the signature is for something else.
    P2wpkhSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2SH-P2WPKH: the signature is for something else.
    P2shP2wpkhSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2WSH multisig: the signatures are for something else.
    P2wshMultisigSignature = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// Taproot key path: the signature is for something else.
    P2trKeySignature = script!("Invalid Schnorr signature"),
    /// Taproot script path: the signature is for something else.
    P2trScriptSignature = script!("Invalid Schnorr signature"),
    /// P2PKH: a signature with a superfluous zero byte in R (BIP 66).
    P2pkhNotDer = script!("Non-canonical DER signature"),
    /// P2WPKH: a signature with a superfluous zero byte in R (BIP 66).
    P2wpkhNotDer = script!("Non-canonical DER signature"),
    /// P2PKH: another key.
    P2pkhKey = script!("Script failed an OP_EQUALVERIFY operation"),
    /// P2WPKH: another key.
    P2wpkhKey = script!("Script failed an OP_EQUALVERIFY operation"),
    /// Bare multisig: the extra item is not empty (BIP 147).
    MultisigNullDummy = script!("Dummy CHECKMULTISIG argument must be zero"),
    /// P2SH multisig: the extra item is not empty (BIP 147).
    P2shMultisigNullDummy = script!("Dummy CHECKMULTISIG argument must be zero"),
    /// P2WSH multisig: the extra item is not empty (BIP 147).
    P2wshMultisigNullDummy = script!("Dummy CHECKMULTISIG argument must be zero"),
    /// P2SH: a redeem script with another hash.
    P2shRedeemScript = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// P2SH: an OP_NOP in the input's script.
    P2shNotPushOnly = script!("Only push operators allowed in signatures"),
    /// P2WSH: a witness script with another hash.
    P2wshWitnessScript = script!("Witness program hash mismatch"),
    /// P2WSH: no witness.
    P2wshWitnessEmpty = script!("Witness program was passed an empty witness"),
    /// P2WPKH: three witness items.
    P2wpkhWitnessItems = script!("Witness program hash mismatch"),
    /// P2WPKH: no witness.
    P2wpkhWitnessEmpty = script!("Witness program hash mismatch"),
    /// P2WPKH: something in the input's script.
    WitnessMalleated = script!("Witness requires empty scriptSig"),
    /// P2SH-P2WPKH: something besides the redeem script in the input's script.
    WitnessMalleatedP2sh = script!("Witness requires only-redeemscript scriptSig"),
    /// P2PKH: a witness.
    WitnessUnexpected = script!("Witness provided for non-witness script"),
    /// OP_CHECKLOCKTIMEVERIFY: a lock time one block too low (BIP 65).
    CltvHeight = script!("Locktime requirement not satisfied"),
    /// OP_CHECKLOCKTIMEVERIFY: a lock time in seconds for one in blocks.
    CltvTimeForHeight = script!("Locktime requirement not satisfied"),
    /// OP_CHECKLOCKTIMEVERIFY: a final sequence number.
    CltvFinal = script!("Locktime requirement not satisfied"),
    /// OP_CHECKSEQUENCEVERIFY: a sequence number one too low (BIP 112).
    CsvHeight = script!("Locktime requirement not satisfied"),
    /// OP_CHECKSEQUENCEVERIFY: a transaction of version 1.
    CsvVersion = script!("Locktime requirement not satisfied"),
    /// OP_CHECKSEQUENCEVERIFY: a sequence number without a relative lock.
    CsvDisabled = script!("Locktime requirement not satisfied"),
    /// Taproot: no witness.
    P2trWitnessEmpty = script!("Witness program was passed an empty witness"),
    /// Taproot: a signature of 63 bytes.
    P2trSignatureSize = script!("Invalid Schnorr signature size"),
    /// Taproot: the default hash type, spelt out.
    P2trHashType = script!("Invalid Schnorr signature hash type"),
    /// Taproot: a control block with a byte too many.
    P2trControlSize = script!("Invalid Taproot control block size"),
    /// Taproot: a control block with the other parity.
    P2trCommitment = script!("Witness program hash mismatch"),
    /// Taproot: a leaf that is not in the tree.
    P2trLeaf = script!("Witness program hash mismatch"),

    /// A script executes OP_RETURN.
    ScriptOpReturn = script!("OP_RETURN was encountered"),
    /// OP_VERIFY of 0.
    ScriptVerify = script!("Script failed an OP_VERIFY operation"),
    /// OP_NUMEQUALVERIFY of 1 and 2.
    ScriptNumEqualVerify = script!("Script failed an OP_NUMEQUALVERIFY operation"),
    /// OP_CHECKSIGVERIFY of an empty signature.
    ScriptCheckSigVerify = script!("Script failed an OP_CHECKSIGVERIFY operation"),
    /// OP_CHECKMULTISIGVERIFY of an empty signature.
    ScriptCheckMultisigVerify = script!("Script failed an OP_CHECKMULTISIGVERIFY operation"),
    /// A script that ends with 0.
    ScriptFalse = script!(
        "Script evaluated without error but finished with a false/empty top stack element"
    ),
    /// OP_DROP of nothing.
    ScriptStackUnderflow = script!("Operation not valid with the current stack size"),
    /// OP_FROMALTSTACK of nothing.
    ScriptAltStackUnderflow = script!("Operation not valid with the current altstack size"),
    /// OP_IF without OP_ENDIF.
    ScriptUnbalanced = script!("Invalid OP_IF construction"),
    /// OP_CAT.
    ScriptDisabledOpcode = script!("Attempted to use a disabled opcode"),
    /// A script executes OP_RESERVED.
    ScriptBadOpcode = script!("Opcode missing or not understood"),
    /// A push of 521 bytes.
    ScriptPushSize = script!("Push value size limit exceeded"),
    /// 202 operations.
    ScriptOpCount = script!("Operation limit exceeded"),
    /// An input's script of 10,001 bytes.
    ScriptSize = script!("Script is too big"),
    /// 1,001 items on the stack.
    ScriptStackSize = script!("Stack size limit exceeded"),
    /// OP_CHECKMULTISIG of 21 keys.
    ScriptPubkeyCount = script!("Pubkey count negative or limit exceeded"),
    /// OP_CHECKMULTISIG of 1 signature and 0 keys.
    ScriptSigCount = script!("Signature count negative or greater than pubkey count"),
    /// A number of 5 bytes.
    ScriptNumber = script!("Script number overflowed or is non-minimally encoded"),
    /// OP_CHECKLOCKTIMEVERIFY of -1.
    CltvNegative = script!("Negative locktime"),
    /// OP_CHECKSEQUENCEVERIFY of -1.
    CsvNegative = script!("Negative locktime"),
    /// A P2WSH script that leaves two items.
    WitnessCleanStack = script!("Stack size must be exactly one after execution"),
    /// A witness item of 521 bytes.
    WitnessPushSize = script!("Push value size limit exceeded"),
    /// A witness script of 10,001 bytes.
    WitnessScriptSize = script!("Script is too big"),
    /// A program of version 0 and 10 bytes.
    WitnessProgramLength = script!("Witness program has incorrect length"),
    /// OP_CHECKMULTISIG in tapscript (BIP 342).
    TapscriptMultisig =
        script!("OP_CHECKMULTISIG(VERIFY) is not available in tapscript"),
    /// OP_IF of 2 in tapscript.
    TapscriptMinimalIf = script!("OP_IF/NOTIF argument must be minimal in tapscript"),
    /// OP_CHECKSIG with an empty key in tapscript.
    TapscriptEmptyPubkey = script!("Empty public key in tapscript"),
    /// More signature checks than the witness pays for in tapscript.
    TapscriptValidationWeight =
        script!("Too much signature validation relative to witness weight"),
    /// A tapscript that leaves two items.
    TapscriptCleanStack = script!("Stack size must be exactly one after execution"),
}
