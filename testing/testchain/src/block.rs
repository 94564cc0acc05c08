//! Makes blocks from transactions, by the rules of regtest: time, subsidy, coinbase, merkle trees,
//! proof of work.

use bitcoin::block::{Block, Header, Version};
use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::script::PushBytesBuf;
use bitcoin::transaction::{OutPoint, Transaction, TxIn, TxOut};
use bitcoin::{Amount, BlockHash, CompactTarget, ScriptBuf, TxMerkleNode, Witness};

use crate::encode::put_compact;
use crate::opcodes::{OP_HASH160, OP_RETURN};
use crate::rng::Rng;

/// Regtest's proof-of-work limit in compact form. Every second hash is below it.
pub const REGTEST_BITS: u32 = 0x207f_ffff;

/// The time from which block times count: 2020-09-13. At one block every 10 minutes, 270,000 blocks
/// end before the year 2026.
const START_TIME: u32 = 1_600_000_000;

/// The time of regtest's genesis block.
const GENESIS_TIME: u32 = 1_296_688_602;

/// Returns the time of the block at `height` of the chain of `seed`. Blocks are 10 minutes apart,
/// with up to 20 minutes of noise, so that times do not always increase. The first 11 have no
/// noise, because the median of few times must increase too.
pub fn block_time(seed: u64, height: u32) -> u32 {
    if height == 0 {
        return GENESIS_TIME;
    }
    let noise_s = if height > 11 { 1_200 } else { 1 };
    let noise = Rng::new(seed, u64::from(height) ^ 0x7469_6d65).below(noise_s);
    START_TIME + 600 * height + noise as u32
}

/// Returns the median of the last 11 times (BIP 113), of which `times` has 1 to 11.
pub fn median_time(times: &[u32]) -> u32 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

pub fn median_time_past(seed: u64, height: u32) -> u32 {
    let times: Vec<_> = (height.saturating_sub(10)..=height).map(|h| block_time(seed, h)).collect();
    median_time(&times)
}

/// Returns the subsidy of the block at `height` in satoshis: 50 BTC, halved every 150 blocks.
pub fn subsidy(height: u32) -> u64 {
    5_000_000_000u64.checked_shr(height / 150).unwrap_or(0)
}

/// Returns the root of the merkle tree over `leaves`, or zero if there are none.
pub fn merkle_root(mut leaves: Vec<[u8; 32]>) -> [u8; 32] {
    let mut pair = [0; 64];
    while leaves.len() > 1 {
        let parents = leaves.len().div_ceil(2);
        for i in 0..parents {
            pair[..32].copy_from_slice(&leaves[2 * i]);
            pair[32..].copy_from_slice(&leaves[(2 * i + 1).min(leaves.len() - 1)]);
            leaves[i] = sha256d::Hash::hash(&pair).to_byte_array();
        }
        leaves.truncate(parents);
    }
    leaves.first().copied().unwrap_or_default()
}

/// Returns the script of a coinbase input: the height as BIP 34 requires it, then `extra`.
pub fn coinbase_script(height: u32, extra: &[u8]) -> ScriptBuf {
    let extra = PushBytesBuf::try_from(extra.to_vec()).expect("a few bytes can be pushed");
    bitcoin::script::Builder::new().push_int(i64::from(height)).push_slice(extra).into_script()
}

/// Returns a coinbase without a witness commitment.
pub fn coinbase(height: u32, extra: &[u8], outputs: Vec<TxOut>) -> Transaction {
    Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig: coinbase_script(height, extra),
            sequence: bitcoin::Sequence::MAX,
            witness: Witness::new(),
        }],
        output: outputs,
    }
}

/// Adds a witness commitment (BIP 141) to a coinbase, with a reserved value of zeros. `root` is
/// the merkle root over the witness hashes, with zeros for the coinbase's own.
pub fn commit(coinbase: &mut Transaction, root: [u8; 32]) {
    let reserved = [0; 32];
    let hash = sha256d::Hash::hash(&[root, reserved].concat()).to_byte_array();
    let script = [&[OP_RETURN, 0x24, 0xaa, 0x21, OP_HASH160, 0xed][..], &hash].concat();
    coinbase.output.push(TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from(script) });
    if let Some(input) = coinbase.input.first_mut() {
        input.witness = Witness::from_slice(&[reserved]);
    }
}

/// Returns a header without proof of work.
pub fn header(parent: BlockHash, root: [u8; 32], time: u32) -> Header {
    Header {
        version: Version::from_consensus(0x2000_0000),
        prev_blockhash: parent,
        merkle_root: TxMerkleNode::from_byte_array(root),
        time,
        bits: CompactTarget::from_consensus(REGTEST_BITS),
        nonce: 0,
    }
}

/// Finds the first nonce with which the header meets its target (or, for `valid` of false, does
/// not), and returns the hash.
pub fn mine(header: &mut Header, valid: bool) -> BlockHash {
    let target = header.target();
    for nonce in 0..=u32::MAX {
        header.nonce = nonce;
        let hash = header.block_hash();
        if target.is_met_by(hash) == valid {
            return hash;
        }
    }
    unreachable!("every second nonce is good on regtest");
}

/// Encodes a transaction. Unlike the `bitcoin` crate, this encodes one without inputs and outputs
/// as Core reads it.
pub fn encode_transaction(tx: &Transaction) -> Vec<u8> {
    if !tx.input.is_empty() {
        return serialize(tx);
    }
    let mut bytes = tx.version.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&tx.lock_time.to_consensus_u32().to_le_bytes());
    bytes
}

pub fn encode_block(block: &Block) -> Vec<u8> {
    let mut bytes = serialize(&block.header);
    put_compact(block.txdata.len(), &mut bytes);
    for tx in &block.txdata {
        bytes.extend_from_slice(&encode_transaction(tx));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_pass_the_median() {
        for height in 1..2_000 {
            assert!(block_time(5, height) > median_time_past(5, height - 1), "height {height}");
        }
    }

    #[test]
    fn merkle_root_is_that_of_the_bitcoin_crate() {
        for n in 0..20u8 {
            let leaves: Vec<_> = (0..n).map(|i| [i; 32]).collect();
            let theirs = bitcoin::merkle_tree::calculate_root(
                leaves.iter().map(|leaf| sha256d::Hash::from_byte_array(*leaf)),
            );
            assert_eq!(merkle_root(leaves), theirs.map_or([0; 32], |root| root.to_byte_array()));
        }
    }
}
