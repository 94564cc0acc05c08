//! Whole valid chains: blocks, undo data, index and coins are the same in both directories.

use apus_hash::{Hash, sha256d};
use apus_testchain::{Chain, Mix, Spec, Utxo, rounds};
use apus_wire::Chain as Network;
use bitcoin::consensus::serialize;

use super::directory::{Blocks, assert_same_bytes, assert_same_coins};
use crate::support::judge::Judge;
use crate::support::{Place, hash_of, with_genesis};

/// Core's `hash_serialized_3` of the set that the generator remembers, computed with the `bitcoin`
/// crate and without Apus' code.
fn hash_serialized_3(mut utxos: Vec<Utxo>) -> Hash {
    // Core's tables sort output numbers as VARINT, which for these is their order.
    utxos.sort_by_key(|utxo| (serialize(&utxo.outpoint.txid), utxo.outpoint.vout));
    let mut bytes = Vec::new();
    for utxo in &utxos {
        bytes.extend(serialize(&utxo.outpoint));
        bytes.extend(serialize(&(utxo.height << 1 | u32::from(utxo.coinbase))));
        bytes.extend(serialize(&utxo.amount));
        bytes.extend(serialize(&utxo.script));
    }
    sha256d(&bytes)
}

/// Syncs a chain with Apus in one run, gives it to the engine block by block, and compares the
/// results. Returns the number of undo records and of their bytes.
fn both_accept(spec: Spec) -> (usize, usize) {
    let chain = Chain::new(spec);
    let blocks = with_genesis(&chain);
    let ours = Place::new(Network::Regtest);
    let theirs = Place::new(Network::Regtest);
    let summary = ours.sync(&[ours.write("chain", &blocks)]);
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
    let tip = (chain.height(), hash_of(blocks.last().unwrap()));
    assert_eq!((summary.height, summary.best_block), tip);
    {
        let judge = Judge::open(&theirs).unwrap();
        assert_eq!(judge.process(&blocks[1..]), blocks.len() - 1);
        assert_eq!(judge.tip(), tip);
    }
    let (hash, coins) = assert_same_coins(&ours, &theirs);
    assert_eq!((coins, summary.coins), (chain.totals().unspent, Some(coins)));
    assert_eq!(hash, hash_serialized_3(chain.utxos().collect()));

    let our = Blocks::of(&ours);
    let their = Blocks::of(&theirs);
    assert!(our.entries.keys().eq(their.entries.keys()));
    for (hash, entry) in &our.entries {
        // The positions differ, because Core's files have another order.
        assert_eq!(entry.record.status, their.get(hash).unwrap().record.status, "{hash}");
        assert_eq!(entry.record.tx_count, their.get(hash).unwrap().record.tx_count, "{hash}");
    }
    let (records, bytes) = assert_same_bytes(&our, &their);
    assert_eq!(records, blocks.len() - 1, "of every block but genesis");
    (records, bytes)
}

#[test]
fn small_chains_of_random_content() {
    for seed in 11..11 + rounds(1) {
        let (_, bytes) = both_accept(Spec::small(seed));
        assert!(bytes > 100_000, "{bytes}");
    }
}

#[test]
fn a_chain_with_many_spends_inside_blocks() {
    let spec = Spec { in_block_percent: 60, never_spent_percent: 0, ..Spec::small(14) };
    both_accept(spec);
}

#[test]
fn a_chain_like_mainnet() {
    let spec = Spec { empty_blocks_after: 20, ..Spec::mainnet_like(15, 12, 4_000_000) };
    assert_eq!(spec.mix, Mix::mainnet());
    let (_, bytes) = both_accept(spec);
    assert!(bytes > 300_000, "{bytes}");
}
