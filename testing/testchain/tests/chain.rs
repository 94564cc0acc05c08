//! Bitcoin Core accepts the chains, and the generator's records agree with the blocks.

mod common;

use std::collections::{HashMap, HashSet};

use apus_testchain::block::encode_block;
use apus_testchain::write::{REGTEST_MAGIC, genesis, write_blk_files, write_framed};
use apus_testchain::{
    ALL_KINDS, Chain, Generator, Kind, MadeBlock, Spec, Spends, Utxo, Wide, WideSpec,
};
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::{Block, OutPoint};
use common::Judge;

fn feed(judge: &Judge, chain: &Chain, from: u32) {
    for (height, block) in (1..).zip(chain.blocks()).filter(|(height, _)| *height >= from) {
        let verdict = judge.process(block);
        assert!(judge.height() >= from as i32 - 1, "{verdict:?}");
        if judge.tip() != chain.block(height).unwrap().hash.to_byte_array() {
            assert!(!verdict.log.contains("rror"), "height {height}: {}", verdict.log);
        }
    }
    assert_eq!(judge.tip(), chain.tip().to_byte_array());
    assert_eq!(judge.height(), chain.height() as i32);
}

#[test]
fn core_accepts_small_chains() {
    for seed in 0..3 {
        feed(&Judge::new(), &Chain::new(Spec::small(seed)), 1);
    }
}

#[test]
fn core_accepts_full_blocks_and_the_mix_of_mainnet() {
    let spec = Spec { empty_blocks_after: 30, keys: 500, ..Spec::mainnet_like(9, 8, 12_000_000) };
    let chain = Chain::new(spec);
    feed(&Judge::new(), &chain, 1);
    let longest = chain.blocks().map(<[u8]>::len).max().unwrap();
    assert!((1_200_000..1_600_000).contains(&longest), "{longest}");
}

/// Takes half a minute: `cargo test --release -p apus-testchain -- --ignored`.
#[test]
#[ignore]
fn core_accepts_a_benchmark_chain() {
    let spec = Spec { empty_blocks_after: 100, ..Spec::mainnet_like(1, 180, 210_000_000) };
    let judge = Judge::new();
    let mut generator = Generator::new(spec);
    for block in generator.by_ref() {
        let verdict = judge.process(&block.bytes);
        assert_eq!(judge.tip(), block.hash.to_byte_array(), "{verdict:?}");
    }
    eprintln!("{:?}", generator.totals());
}

#[test]
fn core_follows_forks() {
    let chain = Chain::new(Spec::small(4));
    let judge = Judge::new();
    feed(&judge, &chain, 1);
    let fork = chain.fork(180, 25, 1);
    assert_eq!(fork.height(), 205);
    assert_eq!(fork.block(180).unwrap().hash, chain.block(180).unwrap().hash);
    assert_ne!(fork.block(181).unwrap().hash, chain.block(181).unwrap().hash);
    feed(&judge, &fork, 181);
    assert_eq!(fork.utxos().count(), fork.replay().len());
}

#[test]
fn core_accepts_hand_made_blocks() {
    let chain = Chain::new(Spec::small(5));
    let judge = Judge::new();
    feed(&judge, &chain, 1);
    let mut parent = chain.parent(chain.height());
    for i in 0..15 {
        let builder = apus_testchain::Builder::block_on(&parent).extra(&[i; 9]);
        let block = if i % 2 == 0 { builder.without_commitment() } else { builder }.finish();
        judge.process(&encode_block(&block));
        parent = parent.child(&block);
        assert_eq!(judge.tip(), block.block_hash().to_byte_array());
    }
}

#[test]
fn the_utxo_set_is_that_of_a_replay() {
    for spec in [Spec::small(6), Spec::mainnet_like(6, 5, 2_000_000)] {
        let chain = Chain::new(spec);
        let remembered: HashMap<_, _> = chain.utxos().map(|utxo| (utxo.outpoint, utxo)).collect();
        assert_eq!(remembered, chain.replay());
        let totals = chain.totals();
        assert_eq!(totals.unspent, remembered.len() as u64);
        assert_eq!(totals.unspent_amount, remembered.values().map(|utxo| utxo.amount).sum());
        assert_eq!(totals.bytes, chain.blocks().map(|block| block.len() as u64).sum());
        let mut counted = [0; 3];
        for height in 1..=chain.height() {
            let block = chain.decoded(height);
            counted[0] += block.txdata.len() as u64;
            counted[1] += block.txdata.iter().skip(1).map(|tx| tx.input.len() as u64).sum::<u64>();
            counted[2] += block.txdata.iter().map(|tx| tx.output.len() as u64).sum::<u64>();
        }
        assert_eq!([totals.txs, totals.inputs, totals.outputs], counted);
    }
}

#[test]
fn a_small_chain_has_everything() {
    let chain = Chain::new(Spec::small(7));
    for kind in ALL_KINDS {
        assert_eq!(kind.is_spendable(), !chain.spendable(kind).is_empty(), "{kind:?}");
    }
    let blocks: Vec<_> = (151..=200).map(|height| chain.decoded(height)).collect();
    let scripts = blocks.iter().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    assert!(scripts.clone().any(|output| output.script_pubkey.len() > 10_000));
    assert!(scripts.clone().any(|output| output.script_pubkey.is_op_return()));
    let totals = chain.totals();
    assert!(totals.inputs_in_block * 20 > totals.inputs, "{totals:?}");
    assert!(totals.inputs_in_block * 5 < totals.inputs, "{totals:?}");
    assert!(chain.spendable(Kind::P2wpkh)[0].amount > 10_000);
}

#[test]
fn threads_make_no_difference() {
    let digest = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut engine = sha256::HashEngine::default();
            Generator::new(Spec::small(8)).for_each(|block| engine.input(&block.bytes));
            sha256::Hash::from_engine(engine)
        })
    };
    assert_eq!(digest(1), digest(2));
    assert_eq!(digest(1), digest(5));
}

#[test]
fn files_hold_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let spec = Spec { quiet_blocks: 120, busy_blocks: 5, ..Spec::small(1) };
    let path = directory.path().join("chain");
    let size = write_framed(&path, Generator::new(spec.clone())).unwrap();
    let whole = std::fs::read(path).unwrap();
    assert_eq!(whole.len() as u64, size);
    assert_eq!(&whole[8..8 + genesis().len()], genesis());
    let mut at = 0;
    let mut blocks = 0;
    while at < whole.len() {
        assert_eq!(whole[at..at + 4], REGTEST_MAGIC);
        at += 8 + u32::from_le_bytes(whole[at + 4..at + 8].try_into().unwrap()) as usize;
        blocks += 1;
    }
    assert_eq!(blocks, 126);
    write_blk_files(directory.path(), Generator::new(spec), 200_000).unwrap();
    let mut joined = Vec::new();
    for n in 0.. {
        let Ok(part) = std::fs::read(directory.path().join(format!("blk{n:05}.dat"))) else {
            assert!(n > 1);
            break;
        };
        assert!(part.len() <= 200_000);
        joined.extend(part);
    }
    assert_eq!(joined, whole);
}

/// Returns the UTXO set of the blocks, computed by applying them to a map.
fn replay(blocks: &[MadeBlock]) -> HashMap<OutPoint, Utxo> {
    let mut set = HashMap::new();
    for made in blocks {
        let block: Block = deserialize(&made.bytes).unwrap();
        for (index, tx) in block.txdata.iter().enumerate() {
            for input in tx.input.iter().filter(|_| index > 0) {
                assert!(set.remove(&input.previous_output).is_some());
            }
            let txid = tx.compute_txid();
            let outputs =
                (0..).zip(&tx.output).filter(|(_, out)| !out.script_pubkey.is_op_return());
            for (vout, output) in outputs {
                let outpoint = OutPoint::new(txid, vout);
                let utxo = Utxo {
                    outpoint,
                    amount: output.value.to_sat(),
                    script: output.script_pubkey.clone(),
                    height: made.height,
                    coinbase: index == 0,
                };
                set.insert(outpoint, utxo);
            }
        }
    }
    set
}

/// Returns for each block the heights of the blocks that created the coins that it spends.
fn spent_heights(blocks: &[MadeBlock]) -> Vec<Vec<u32>> {
    let mut heights = HashMap::new();
    let mut spent = Vec::new();
    for made in blocks {
        let block: Block = deserialize(&made.bytes).unwrap();
        heights.extend(block.txdata.iter().map(|tx| (tx.compute_txid(), made.height)));
        let inputs = block.txdata.iter().skip(1).flat_map(|tx| &tx.input);
        spent.push(inputs.map(|input| heights[&input.previous_output.txid]).collect());
    }
    spent
}

#[test]
fn a_wide_chain_spends_new_coins_old_ones_or_those_of_one_block() {
    let spent = |spends| {
        let spec = WideSpec { busy_blocks: 220, spends, ..small_wide_spec() };
        let blocks: Vec<_> = Wide::new(spec).collect();
        // From here on, no coinbase with many outputs is among the newest hundred blocks.
        let spent: Vec<_> = (1..).zip(spent_heights(&blocks)).skip(240).take(100).collect();
        spent
    };
    let new_percent = |spent: &[(u32, Vec<u32>)]| {
        let all = spent.iter().flat_map(|(height, of)| of.iter().map(move |made| height - made));
        let ages: Vec<u32> = all.collect();
        ages.iter().filter(|age| **age < 100).count() * 100 / ages.len()
    };
    let mixed = new_percent(&spent(Spends::Mixed));
    let old = new_percent(&spent(Spends::Old));
    assert!(mixed > 50 && old < 30, "{mixed} and {old} % are of the newest hundred blocks");
    for (height, of) in spent(Spends::Bursts) {
        let different = of.iter().collect::<HashSet<_>>().len();
        match height % 4 {
            0 => assert!(of.len() == 400 && different < 20, "{height}: {different} blocks"),
            _ => assert!(of.len() == 20, "{height}: {} inputs", of.len()),
        }
    }
}

fn small_wide_spec() -> WideSpec {
    WideSpec {
        seed: 3,
        quiet_blocks: 120,
        busy_blocks: 105,
        txs: 20,
        spends: Spends::Mixed,
        empty_blocks_after: 5,
        top_blocks: 4,
    }
}

#[test]
fn core_accepts_a_wide_chain_and_finds_the_same_coins() {
    for spends in [Spends::Mixed, Spends::Old, Spends::Bursts] {
        core_finds_the_same_coins(WideSpec { spends, ..small_wide_spec() });
    }
}

fn core_finds_the_same_coins(spec: WideSpec) {
    let judge = Judge::new();
    let mut wide = Wide::new(spec.clone());
    let blocks: Vec<_> = wide.by_ref().collect();
    for block in &blocks {
        let verdict = judge.process(&block.bytes);
        assert_eq!(judge.tip(), block.hash.to_byte_array(), "{verdict:?}");
    }
    assert_eq!(judge.height(), 234);
    let set = replay(&blocks);
    let totals = wide.totals();
    // Of the 109 busy blocks, those at a multiple of four spend more if there are bursts.
    let inputs = if spec.spends == Spends::Bursts { 27 * 400 + 82 * 20 } else { 109 * 100 };
    assert_eq!((totals.inputs, totals.unspent), (inputs, set.len() as u64));
    assert!(totals.inputs_in_block > 20 || spec.spends != Spends::Mixed, "{totals:?}");
    assert_eq!(totals.unspent_amount, set.values().map(|utxo| utxo.amount).sum());
    assert_eq!(wide.utxos().map(|utxo| (utxo.outpoint, utxo)).collect::<HashMap<_, _>>(), set);
    assert!(Wide::new(spec).map(|block| block.hash).eq(blocks.iter().map(|block| block.hash)));
}

#[test]
fn core_accepts_busy_blocks_on_top_that_need_no_signatures() {
    let spec = Spec { empty_blocks_after: 20, top_blocks: 12, keys: 50, ..Spec::small(6) };
    let chain = Chain::new(spec.clone());
    feed(&Judge::new(), &chain, 1);
    assert_eq!(chain.height(), 232);
    let replayed = chain.replay();
    assert!(chain.utxos().all(|utxo| replayed.get(&utxo.outpoint) == Some(&utxo)));
    assert_eq!(replayed.len() as u64, chain.totals().unspent);
    let below: HashMap<_, _> = (1..=220)
        .flat_map(|height| chain.decoded(height).txdata)
        .map(|tx| (tx.compute_txid(), tx))
        .collect();
    let mut old = 0;
    for block in (221..=232).map(|height| chain.decoded(height)) {
        assert!(block.txdata.len() > 10, "{}", block.txdata.len());
        for input in block.txdata.iter().skip(1).flat_map(|tx| &tx.input) {
            assert!(input.witness.is_empty() && input.script_sig.len() < 2);
            old += usize::from(below.contains_key(&input.previous_output.txid));
        }
    }
    assert!(old > 500, "{old}");
}

#[test]
fn full_blocks_of_a_wide_chain_take_less_than_a_megabyte() {
    for spends in [Spends::Mixed, Spends::Bursts] {
        let size = WideSpec::of_size(1, 0, 1);
        let spec = WideSpec { busy_blocks: 2, empty_blocks_after: 0, spends, ..size };
        let judge = Judge::new();
        for block in Wide::new(spec) {
            judge.process(&block.bytes);
            assert_eq!(judge.tip(), block.hash.to_byte_array());
            assert!(block.bytes.len() < 1_000_000, "{}", block.bytes.len());
        }
    }
}
