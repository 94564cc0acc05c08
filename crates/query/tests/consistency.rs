//! Readers ask while a sync runs: no answer shows half a commit, and no sync waits for them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use apus_node::options::{AssumeValid, Options};
use apus_node::view::{Committed, View};
use apus_progress::Method;
use apus_progress::Watch;
use apus_query::{Source, Waiting, call, find};
use apus_testchain::{Chain, Spec, Spends, Wide, WideSpec};
use apus_wire::{Network, OutPoint, genesis_block};
use serde_json::{Value, json};

fn network() -> Network {
    Network::new(apus_wire::Chain::Regtest)
}

fn options(directory: &Path, method: Method, view: &Arc<View>) -> Options {
    let mut options = Options::new(directory.join("datadir"), network());
    options.assumevalid = AssumeValid::Nothing;
    options.method = Some(method);
    options.threads = 2;
    // Little, so that there are many commits.
    options.dbcache_bytes = 1_500_000;
    options.view = Some(Arc::clone(view));
    options
}

fn sync(directory: &Path, options: &Options, blocks: &[Vec<u8>]) -> u32 {
    let mut framed = Vec::new();
    for block in blocks {
        framed.extend_from_slice(&network().magic);
        framed.extend_from_slice(&(block.len() as u32).to_le_bytes());
        framed.extend_from_slice(block);
    }
    let source = directory.join("blocks.dat");
    std::fs::write(&source, framed).unwrap();
    apus_sync::sync(options, &[source], Watch::default()).unwrap().height
}

/// Panics unless chain, blocks, transactions and coins are those of one commit.
fn assert_whole(committed: &Committed) {
    let tree = &committed.tree;
    let tip = committed.tip();
    let best = committed.coins.best_block().unwrap();
    // Before the first commit there are no coins.
    assert!(best == Some(tip.hash) || best.is_none() && tip.height == 0, "{best:?} {}", tip.height);
    let mut count = 0;
    for height in 0..=tip.height {
        let id = committed.active.at(height).unwrap();
        let record = committed.record(id);
        assert!(record.block_pos().is_some() && (height == 0 || record.undo_pos().is_some()));
        count += u64::from(record.tx_count);
        assert_eq!(committed.transactions(height), count);
        assert_eq!(
            tree.node(id).prev,
            height.checked_sub(1).and_then(|at| committed.active.at(at))
        );
    }
    assert!(tree.node(tree.best_header()).work >= tip.work);
}

/// Asks until `done`; returns how often.
fn ask(source: &Source, view: &View, done: &AtomicBool) -> u64 {
    let stop = AtomicBool::new(false);
    let ask = |method: &str, params: &[Value]| -> Value {
        let answer = call(source, find(method).unwrap(), params, (&stop, &Waiting::never()));
        serde_json::from_str(answer.unwrap_or_else(|e| panic!("{method} {params:?}: {e}")).get())
            .unwrap()
    };
    let mut rounds = 0;
    while !done.load(Relaxed) {
        let Some(tip) = view.look(|committed| {
            assert_whole(committed);
            committed.tip()
        }) else {
            continue;
        };
        let hash = json!(tip.hash.to_string());
        let block = ask("getblock", &[hash.clone(), json!(3)]);
        assert_eq!(block["height"], tip.height);
        let txid = block["tx"][0]["txid"].as_str().unwrap();
        let coin = view.look(|committed| {
            let is_tip = committed.tip().hash == tip.hash;
            is_tip.then(|| committed.coins.clone())
        });
        // The coinbase of the tip is not spent yet; the genesis block's is no coin.
        if let Some(coins) = coin.flatten().filter(|_| tip.height > 0) {
            let outpoint = OutPoint { txid: txid.parse().unwrap(), vout: 0 };
            assert_eq!(coins.get(&outpoint).unwrap().map(|coin| coin.height), Some(tip.height));
        }
        let info = ask("getblockchaininfo", &[]);
        assert!(info["headers"].as_u64() >= info["blocks"].as_u64());
        ask("getchaintips", &[]);
        rounds += 1;
    }
    rounds
}

/// Runs `work` while two readers ask.
fn beside_readers(view: &Arc<View>, options: &Options, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    let source = Source::of_sync(Arc::clone(view), options, || None);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| rounds.fetch_add(ask(&source, view, &done), Relaxed));
        }
        work();
        done.store(true, Relaxed);
    });
    eprintln!("{} rounds of questions", rounds.load(Relaxed));
}

#[test]
fn no_reader_sees_half_a_commit() {
    let spec = WideSpec {
        seed: 7,
        quiet_blocks: 120,
        busy_blocks: 120,
        txs: 100,
        spends: Spends::Mixed,
        empty_blocks_after: 0,
        top_blocks: 0,
    };
    let mut blocks = vec![genesis_block(&network())];
    blocks.extend(Wide::new(spec).map(|block| block.bytes));
    for method in [Method::InOrder, Method::Join] {
        let directory = tempfile::tempdir().unwrap();
        let view = Arc::<View>::default();
        let options = options(directory.path(), method, &view);
        beside_readers(&view, &options, || {
            assert_eq!(sync(directory.path(), &options, &blocks), 240);
        });
        assert_eq!(view.look(|committed| committed.tip().height), Some(240));
    }
}

#[test]
fn readers_follow_a_reorganisation() {
    let chain = Chain::new(Spec::small(3));
    let longer = chain.fork(150, 60, 9);
    let directory = tempfile::tempdir().unwrap();
    let view = Arc::<View>::default();
    let options = options(directory.path(), Method::InOrder, &view);
    for chain in [&chain, &longer] {
        let mut blocks = vec![genesis_block(&network())];
        blocks.extend(chain.blocks().map(<[u8]>::to_vec));
        beside_readers(&view, &options, || {
            assert_eq!(sync(directory.path(), &options, &blocks), chain.height());
        });
    }
    let tips = view.look(|committed| {
        assert_whole(committed);
        committed.tip().hash.to_string()
    });
    assert_eq!(tips, Some(longer.tip().to_string()));
}
