//! Two transactions disguised as one: bytes with a block's header and merkle root that are not that
//! block.
//!
//! The two hashes of a pair in the merkle tree are 64 bytes, and these may parse as a transaction.
//! A block of that transaction alone, which is no coinbase, has the same merkle root. To
//! `CheckBlock` this is not a mutation but a broken rule. Core nevertheless accepts the real block
//! later, because `ProcessNewBlock` does not remember what fails in `CheckBlock`.

use apus_consensus::RuleClass;
use apus_testchain::block::encode_block;
use apus_testchain::{Builder, Parent};
use apus_wire::Chain as Network;
use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};

use crate::support::judge::{Judge, Verdict};
use crate::support::{Place, hash_of};

/// An amount for which the second txid fits, found by trying.
const AMOUNT: u64 = 2_903_488;

/// Spends a coin that anybody may spend to another such coin.
fn second(coinbase: OutPoint, amount: u64) -> Transaction {
    let output = |amount| TxOut {
        value: Amount::from_sat(amount),
        script_pubkey: ScriptBuf::from(vec![0x51]),
    };
    Transaction {
        version: bitcoin::transaction::Version::ONE,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: coinbase,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![output(amount)],
    }
}

/// Whether 32 bytes can be the first half of a transaction of 64 bytes: one input.
fn fits_first(txid: &[u8; 32]) -> bool {
    txid[4] == 1
}

/// Whether 32 bytes can be the second half: a short script, one output, a short script.
fn fits_second(txid: &[u8; 32]) -> bool {
    let script_sig = usize::from(txid[9]);
    script_sig <= 4
        && txid[14 + script_sig] == 1
        && usize::from(txid[23 + script_sig]) == 4 - script_sig
}

/// A chain of 101 blocks, and one of two transactions on it.
fn chain() -> (Vec<Vec<u8>>, Block) {
    let mut blocks = vec![apus_testchain::write::genesis()];
    let genesis: Block = bitcoin::consensus::deserialize(&blocks[0]).unwrap();
    let mut tip = Parent::new(genesis.block_hash(), 0, vec![1_600_000_000]);
    let mut coin = OutPoint::null();
    for height in 1..=101 {
        let block = Builder::block_on(&tip).finish();
        if height == 1 {
            coin = OutPoint::new(block.txdata[0].compute_txid(), 0);
        }
        tip = tip.child(&block);
        blocks.push(encode_block(&block));
    }
    let blocks_of = |extra: u32| {
        let builder = Builder::block_on(&tip).without_commitment().extra(&extra.to_le_bytes());
        builder.tx(second(coin, AMOUNT)).finish()
    };
    let fits = |block: &Block| fits_first(&block.txdata[0].compute_txid().to_byte_array());
    let block = (0..).map(blocks_of).find(fits).unwrap();
    (blocks, block)
}

#[test]
fn a_block_is_taken_after_its_hashes_came_as_a_transaction() {
    let (blocks, block) = chain();
    let whole = encode_block(&block);
    let hashes: Vec<u8> =
        block.txdata.iter().flat_map(|tx| tx.compute_txid().to_byte_array()).collect();
    assert!(fits_second(hashes[32..].try_into().unwrap()));
    let mutant = [&whole[..80], &[1], &hashes].concat();
    let hash = hash_of(&whole);

    let theirs = Place::new(Network::Regtest);
    let judge = Judge::open(&theirs).unwrap();
    judge.process(&blocks[1..]);
    let refused = Verdict { block: hash, fault: Some(RuleClass::Consensus) };
    assert_eq!(judge.judge(&mutant), Some(vec![refused]), "bad-cb-missing");
    assert_eq!(judge.judge(&whole), Some(vec![Verdict { block: hash, fault: None }]));
    assert_eq!(judge.tip(), (102, hash));

    // The blocks come in one source, in two sources, and in two runs.
    let ours = Place::new(Network::Regtest);
    let chain = ours.write("chain", &blocks);
    let [first, second] = [("mutant", &mutant), ("whole", &whole)].map(|(n, b)| ours.write(n, [b]));
    ours.sync(&[chain]);
    let alone = ours.sync(std::slice::from_ref(&first));
    assert_eq!((alone.height, alone.refusals.len()), (101, 1));
    assert!(alone.refusals[0].reason.starts_with("bad-cb-missing"), "{}", alone.refusals[0]);
    let again = ours.copy().sync(&[first, second.clone()]);
    assert_eq!((again.height, again.best_block), (102, hash));
    let after = ours.sync(&[second]);
    assert_eq!((after.height, after.best_block), (102, hash));
}
