//! Answers from indexes that do not reach the tip, while others follow it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_disk::Disk;
use apus_node::Run;
use apus_node::opened::{Coins, Node};
use apus_node::options::{AssumeValid, Options};
use apus_node::view::View;
use apus_progress::Method;
use apus_progress::Watch;
use apus_query::{AtRest, Source, Waiting, call, find, rest};
use apus_store::IndexKind;
use apus_testchain::{Chain, Spec};
use apus_wire::{BlockView, Network, genesis_block};
use serde_json::{Value, json};

/// The height at which the indexes end.
const INDEXED: usize = 180;

static NEVER: AtomicBool = AtomicBool::new(false);

fn options(directory: &Path, indexes: &[IndexKind]) -> Options {
    let network = Network::new(apus_wire::Chain::Regtest);
    let mut options = Options::new(directory.join("datadir"), network);
    options.assumevalid = AssumeValid::Nothing;
    options.method = Some(Method::InOrder);
    options.threads = 2;
    options.indexes = indexes.to_vec();
    options
}

fn all_blocks() -> Vec<Vec<u8>> {
    let chain = Chain::new(Spec::small(9));
    let mut blocks = vec![genesis_block(&Network::new(apus_wire::Chain::Regtest))];
    blocks.extend(chain.blocks().map(<[u8]>::to_vec));
    blocks
}

fn sync(directory: &Path, options: &Options, blocks: &[Vec<u8>]) {
    let mut framed = Vec::new();
    for block in blocks {
        framed.extend_from_slice(&options.network.magic);
        framed.extend_from_slice(&(block.len() as u32).to_le_bytes());
        framed.extend_from_slice(block);
    }
    let source = directory.join("blocks.dat");
    std::fs::write(&source, framed).unwrap();
    apus_sync::sync(options, &[source], Watch::default()).unwrap();
}

/// Shows the directory of `options` as `apus serve` does.
fn view(options: &Options) -> Arc<View> {
    let view = Arc::new(View::default());
    let run = Run::new(options).shown_in(Some(Arc::clone(&view)));
    let keep = |_: &Disk, _: &Options| Ok(Vec::new());
    drop(Node::open(&run, Coins::ReadOnly, keep).unwrap());
    view
}

fn ask(source: &Source, method: &str, params: Value) -> Result<Value, String> {
    let answer = call(
        source,
        find(method).unwrap(),
        params.as_array().unwrap(),
        (&NEVER, &Waiting::never()),
    );
    answer.map(|json| serde_json::from_str(json.get()).unwrap()).map_err(|error| error.message)
}

fn error(source: &Source, path: &str) -> String {
    let answer = rest(source, path, None, &[], (&NEVER, &Waiting::never())).unwrap();
    assert_eq!(answer.status, 404);
    String::from_utf8(answer.body).unwrap().trim_end().to_string()
}

#[test]
fn an_index_below_the_tip_answers_what_it_has() {
    let blocks = all_blocks();
    let directory = tempfile::tempdir().unwrap();
    let indexed = options(directory.path(), &IndexKind::ALL);
    sync(directory.path(), &indexed, &blocks[..=INDEXED]);
    let source = Source::at_rest(view(&indexed), &indexed, at_rest());
    let below = json!({ "synced": true, "best_block_height": INDEXED });
    assert_eq!(ask(&source, "getindexinfo", json!(["txindex"])).unwrap()["txindex"], below);
    sync(directory.path(), &options(directory.path(), &[]), &blocks);
    let plain = options(directory.path(), &[]);
    let source = Source::at_rest(view(&plain), &plain, at_rest());

    let behind = json!({ "synced": false, "best_block_height": INDEXED });
    let all = ask(&source, "getindexinfo", json!([])).unwrap();
    assert!(all.as_object().unwrap().values().all(|state| *state == behind), "{all}");
    let [old, new] = [INDEXED, 200].map(|at| BlockView::parse(&blocks[at][..]).unwrap());
    let [old_txid, new_txid] = [&old, &new].map(|block| block.txids()[1].to_string());
    let found = ask(&source, "getrawtransaction", json!([old_txid, 2])).unwrap();
    assert_eq!((&found["confirmations"], found["fee"].is_number()), (&json!(21), true));
    assert_eq!(
        ask(&source, "getrawtransaction", json!([new_txid])).unwrap_err(),
        "No such mempool transaction. Blockchain transactions are still in the process of being \
         indexed. Use gettransaction for wallet transactions."
    );
    let [old_spent, new_spent] = [&old, &new].map(|block| {
        let spent = block.tx(1).inputs().next().unwrap().outpoint();
        json!([[{ "txid": spent.txid.to_string(), "vout": spent.vout }]])
    });
    let spender = ask(&source, "gettxspendingprevout", old_spent).unwrap();
    assert_eq!(spender[0]["blockhash"], old.hash().to_string());
    assert_eq!(
        ask(&source, "gettxspendingprevout", new_spent).unwrap_err(),
        "Mempool lacks a relevant spend, and txospenderindex is unavailable."
    );
    assert!(ask(&source, "getblockfilter", json!([old.hash().to_string()])).is_ok());
    let missing = "Filter not found. Block filters are still in the process of being indexed.";
    let hash = new.hash().to_string();
    assert_eq!(ask(&source, "getblockfilter", json!([hash])).unwrap_err(), missing);
    assert_eq!(error(&source, &format!("blockfilter/basic/{hash}.json")), missing);
    assert_eq!(error(&source, &format!("blockfilterheaders/basic/{hash}.hex")), missing);
    let stats = |height| ask(&source, "gettxoutsetinfo", json!(["muhash", height]));
    assert_eq!(stats(INDEXED).unwrap()["bestblock"], old.hash().to_string());
    assert_eq!(
        stats(200).unwrap_err(),
        "Unable to get data because coinstatsindex is still syncing. Current height: 180"
    );
    let counted = ask(&source, "gettxoutsetinfo", json!(["none", null, false])).unwrap();
    assert!(counted["transactions"].is_number());
}

#[test]
fn a_call_that_waits_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = all_blocks();
    let options = options(directory.path(), &[]);
    sync(directory.path(), &options, &blocks);
    let source = Source::at_rest(view(&options), &options, at_rest());
    let tip = ask(&source, "getbestblockhash", json!([])).unwrap();
    let other = blocks[1].clone();
    let high = blocks.len();
    let other = BlockView::parse(other).unwrap().hash().to_string();
    let stop = AtomicBool::new(false);
    let again = |method: &str, params: Value| {
        let waiting = Waiting::new();
        let params = params.as_array().unwrap();
        let answer = call(&source, find(method).unwrap(), params, (&stop, &waiting));
        waiting.take().inspect(|_| assert!(answer.is_err()))
    };
    for (method, params) in [
        ("waitfornewblock", json!([])),
        ("waitfornewblock", json!([0, tip])),
        ("waitforblock", json!([other, 3_600_000])),
        ("waitforblockheight", json!([high + 1])),
    ] {
        let patience = again(method, params.clone()).unwrap();
        assert!(patience > Duration::ZERO && patience <= Duration::from_secs(60), "{method}");
        let at_once = ask(&source, method, params).unwrap();
        assert_eq!(at_once["hash"], tip, "{method}");
    }
    assert!(again("waitforblockheight", json!([high + 1, 5])) <= Some(Duration::from_millis(5)));
    assert_eq!(again("waitfornewblock", json!([0, other])), None);
    assert_eq!(again("waitforblock", json!([tip])), None);
    stop.store(true, Relaxed);
    assert_eq!(again("waitfornewblock", json!([])), None);
}

/// Work that no call of these tests needs.
fn at_rest() -> AtRest {
    AtRest {
        verify: Box::new(|_, _, _| panic!("nothing is verified here")),
        create_snapshot: Box::new(|_, _, _| panic!("no snapshot is made here")),
    }
}
