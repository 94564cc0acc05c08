//! Readers ask while a sync runs: no answer shows half a commit, and no sync waits for them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use apus_node::Run;
use apus_node::options::{AssumeValid, Options, Prune};
use apus_node::view::{Committed, View};
use apus_progress::{Method, Watch};
use apus_query::{Source, Waiting, call, find, rest};
use apus_testchain::{Chain, Spec, Spends, Wide, WideSpec};
use apus_wire::{BlockView, Network, OutPoint, genesis_block};
use serde_json::{Value, json};

fn network() -> Network {
    Network::new(apus_wire::Chain::Regtest)
}

fn options(directory: &Path, method: Method) -> Options {
    let mut options = Options::new(directory.join("datadir"), network());
    options.assumevalid = AssumeValid::Nothing;
    options.method = Some(method);
    options.threads = 2;
    // Little, so that there are many commits.
    options.dbcache_bytes = 1_500_000;
    options
}

fn sync(directory: &Path, (options, view): (&Options, &Arc<View>), blocks: &[Vec<u8>]) -> u32 {
    let mut framed = Vec::new();
    for block in blocks {
        framed.extend_from_slice(&network().magic);
        framed.extend_from_slice(&(block.len() as u32).to_le_bytes());
        framed.extend_from_slice(block);
    }
    let source = directory.join("blocks.dat");
    std::fs::write(&source, framed).unwrap();
    let run = Run::new(options).shown_in(Some(Arc::clone(view)));
    apus_sync::sync_on(&run, &[source], Watch::default()).unwrap().height
}

fn with_genesis(chain: &Chain) -> Vec<Vec<u8>> {
    let mut blocks = vec![genesis_block(&network())];
    blocks.extend(chain.blocks().map(<[u8]>::to_vec));
    blocks
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
        let options = options(directory.path(), method);
        beside_readers(&view, &options, || {
            assert_eq!(sync(directory.path(), (&options, &view), &blocks), 240);
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
    let options = options(directory.path(), Method::InOrder);
    for chain in [&chain, &longer] {
        beside_readers(&view, &options, || {
            assert_eq!(
                sync(directory.path(), (&options, &view), &with_genesis(chain)),
                chain.height()
            );
        });
    }
    let tips = view.look(|committed| {
        assert_whole(committed);
        committed.tip().hash.to_string()
    });
    assert_eq!(tips, Some(longer.tip().to_string()));
}

/// A call with its parameters, or a path of REST without any.
type Question = (String, Vec<Value>);

/// The answers to questions, or their errors.
fn answers(source: &Source, questions: &[Question]) -> Vec<String> {
    let stop = AtomicBool::new(false);
    let answer = |(name, params): &Question| {
        let how = (&stop, &Waiting::never());
        match find(name) {
            Some(method) => match call(source, method, params, how) {
                // The tables may be merged at any time.
                Ok(answer) => answer.get().split("\"disk_size\"").next().unwrap().to_string(),
                Err(error) => format!("{} {}", error.code, error.message),
            },
            None => {
                let answer = rest(source, name, None, &[], how).expect("a path of REST");
                format!("{} {:x?}", answer.status, answer.body)
            }
        }
    };
    questions.iter().map(answer).collect()
}

/// Ends the readers, also if the work panics.
struct RaiseOnDrop<'a>(&'a AtomicBool);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs `work` while readers ask, and panics unless each answer is one that was also given before
/// the work, after a commit, or after the work, when nothing changed.
fn assert_answers_of_one_commit(
    view: &Arc<View>,
    options: &Options,
    questions: Vec<Question>,
    work: impl FnOnce(),
) {
    let source = Arc::new(Source::of_sync(Arc::clone(view), options, || None));
    let questions = Arc::new(questions);
    let known = Arc::new(Mutex::new(vec![answers(&source, &questions)]));
    let record = {
        let source = Arc::clone(&source);
        let questions = Arc::clone(&questions);
        let known = Arc::clone(&known);
        // The thread that commits asks, so that there is no commit meanwhile.
        move || known.lock().unwrap().push(answers(&source, &questions))
    };
    view.on_commit(record);
    let done = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let ask = || {
            let mut all = Vec::new();
            while !done.load(Relaxed) {
                all.push(answers(&source, &questions));
            }
            all
        };
        let readers = [scope.spawn(ask), scope.spawn(ask)];
        {
            let _end = RaiseOnDrop(&done);
            work();
        }
        readers.map(|reader| reader.join().unwrap()).concat()
    });
    let mut known = known.lock().unwrap();
    known.push(answers(&source, &questions));
    assert_ne!(known.first(), known.last());
    eprintln!("{} states, {} rounds of questions", known.len(), asked.len());
    for (index, question) in questions.iter().enumerate() {
        let right: HashSet<&String> = known.iter().map(|all| &all[index]).collect();
        for round in &asked {
            assert!(right.contains(&round[index]), "{question:?}: {}", round[index]);
        }
    }
}

fn question(name: &str, params: Value) -> Question {
    (name.to_string(), params.as_array().unwrap().clone())
}

#[test]
fn answers_during_commits_are_of_one_commit() {
    let chain = Chain::new(Spec::small(3));
    let blocks = with_genesis(&chain);
    let directory = tempfile::tempdir().unwrap();
    let view = Arc::<View>::default();
    let options = options(directory.path(), Method::InOrder);
    sync(directory.path(), (&options, &view), &blocks[..=50]);
    // Those that say nothing of headers, which may be newer.
    let mut questions: Vec<Question> =
        ["getbestblockhash", "getblockcount", "gettxoutsetinfo", "getchaintxstats"]
            .map(|name| question(name, json!([])))
            .into();
    for height in [1, 49] {
        let view = BlockView::parse(&blocks[height][..]).unwrap();
        let hash = view.hash().to_string();
        let txid = view.txids()[0].to_string();
        questions.push(question("getblock", json!([hash, 1])));
        questions.push(question("gettxout", json!([txid, 0])));
        questions.push((format!("getutxos/{txid}-0.json"), Vec::new()));
    }
    for height in [60, 150, 200] {
        questions.push(question("getblockhash", json!([height])));
    }
    assert_answers_of_one_commit(&view, &options, questions, || {
        assert_eq!(sync(directory.path(), (&options, &view), &blocks), chain.height());
    });
}

#[test]
fn answers_during_a_reorganisation_are_of_one_chain() {
    let chain = Chain::new(Spec { busy_bytes: 10_000, ..Spec::small(3) });
    let longer = chain.fork(150, 60, 9);
    let directory = tempfile::tempdir().unwrap();
    let view = Arc::<View>::default();
    let options = Options { dbcache_bytes: 64 << 20, ..options(directory.path(), Method::InOrder) };
    sync(directory.path(), (&options, &view), &with_genesis(&chain));
    let mut questions: Vec<Question> = [
        "getbestblockhash",
        "getblockcount",
        "gettxoutsetinfo",
        "getchaintxstats",
        "getdifficulty",
    ]
    .map(|name| question(name, json!([])))
    .into();
    for height in [100, 149, 150, 151, 199, 205] {
        questions.push(question("getblockhash", json!([height])));
        questions.push((format!("blockhashbyheight/{height}.bin"), Vec::new()));
    }
    for block in with_genesis(&chain).iter().skip(148).step_by(13) {
        let view = BlockView::parse(&block[..]).unwrap();
        let hash = view.hash().to_string();
        let txid = view.txids()[0].to_string();
        for verbosity in 0..4 {
            questions.push(question("getblock", json!([hash, verbosity])));
        }
        questions.push(question("getblockheader", json!([hash])));
        questions.push(question("getblockstats", json!([hash])));
        questions.push(question("gettxout", json!([txid, 0])));
        questions.push(question("getrawtransaction", json!([txid, 2, hash])));
        questions.push(question("gettxoutproof", json!([[txid], hash])));
        questions.push((format!("getutxos/{txid}-0.json"), Vec::new()));
        questions.push((format!("headers/5/{hash}.hex"), Vec::new()));
    }
    assert_answers_of_one_commit(&view, &options, questions, || {
        assert_eq!(
            sync(directory.path(), (&options, &view), &with_genesis(&longer)),
            longer.height()
        );
    });
    let tip = view.look(|it| it.tip().hash.to_string());
    assert_eq!(tip, Some(longer.tip().to_string()));
}

/// A block that is being pruned is there or not, and never half.
#[test]
fn answers_during_a_prune_are_whole() {
    let spec = Spec { busy_bytes: 6_000, busy_blocks: 590, quiet_blocks: 110, ..Spec::small(41) };
    let blocks = with_genesis(&Chain::new(spec));
    let directory = tempfile::tempdir().unwrap();
    let view = Arc::<View>::default();
    let options = Options {
        fast_prune: true,
        dbcache_bytes: 64 << 20,
        ..options(directory.path(), Method::InOrder)
    };
    sync(directory.path(), (&options, &view), &blocks[..=450]);
    let mut questions = Vec::new();
    // The answers do not depend on the tip.
    for block in blocks[1..=450].iter().step_by(37) {
        let view = BlockView::parse(&block[..]).unwrap();
        let hash = view.hash().to_string();
        let txid = view.txids()[0].to_string();
        questions.push(question("getblock", json!([hash, 0])));
        questions.push(question("getblockstats", json!([hash, ["txs", "totalfee"]])));
        questions.push(question("getrawtransaction", json!([txid, 0, hash])));
        questions.push(question("gettxoutproof", json!([[txid], hash])));
        questions.push((format!("block/{hash}.bin"), Vec::new()));
        questions.push((format!("spenttxouts/{hash}.json"), Vec::new()));
    }
    let pruning = Options {
        prune: Some(Prune::Target(17 << 20)),
        allow_delete_blocks: true,
        ..options.clone()
    };
    assert_answers_of_one_commit(&view, &options, questions, || {
        assert_eq!(sync(directory.path(), (&pruning, &view), &blocks), 700);
    });
}

#[test]
fn a_scan_finds_the_coins_of_a_script_and_ends_when_it_is_asked_to() {
    let chain = Chain::new(Spec::small(3));
    let directory = tempfile::tempdir().unwrap();
    let view = Arc::<View>::default();
    let options = options(directory.path(), Method::InOrder);
    let blocks = with_genesis(&chain);
    sync(directory.path(), (&options, &view), &blocks);
    let source = Source::of_sync(Arc::clone(&view), &options, || None);
    let stop = AtomicBool::new(false);
    let ask = |name: &str, params: &[Value]| {
        let answer = call(&source, find(name).unwrap(), params, (&stop, &Waiting::never()));
        answer.map(|answer| serde_json::from_str::<Value>(answer.get()).unwrap())
    };
    let last = BlockView::parse(&blocks.last().unwrap()[..]).unwrap();
    let script = apus_query::json::hex(last.tx(0).output(0).script());
    let start = [json!("start"), json!([format!("raw({script})"), "raw(51)"])];
    let found = ask("scantxoutset", &start).unwrap();
    let statistics = ask("gettxoutsetinfo", &[json!("none")]).unwrap();
    assert_eq!((&found["success"], &found["txouts"]), (&json!(true), &statistics["txouts"]));
    let txid = last.txids()[0].to_string();
    let unspents = found["unspents"].as_array().unwrap();
    assert!(unspents.iter().any(|it| it["txid"] == txid && it["blockhash"] == found["bestblock"]));
    for unspent in unspents {
        let coin = ask("gettxout", &[unspent["txid"].clone(), unspent["vout"].clone()]).unwrap();
        assert_eq!(coin["value"], unspent["amount"]);
        assert_eq!(coin["scriptPubKey"]["hex"], unspent["scriptPubKey"]);
        assert_eq!(coin["confirmations"], unspent["confirmations"]);
    }
    assert_eq!(ask("scantxoutset", &[json!("status")]), Ok(Value::Null));
    assert_eq!(ask("scantxoutset", &[json!("abort")]), Ok(json!(false)));
    stop.store(true, Relaxed);
    assert!(ask("scantxoutset", &start).is_err());
    stop.store(false, Relaxed);
    assert_eq!(ask("scantxoutset", &start), Ok(found), "the next scan may begin");
    // Whether it runs already is not known, hence again until one has ended early.
    let is_whole = |found: Result<Value, _>| found.unwrap()["success"] == true;
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _end = RaiseOnDrop(&has_ended);
            while is_whole(ask("scantxoutset", &start)) {}
        });
        while !has_ended.load(Relaxed) {
            ask("scantxoutset", &[json!("abort")]).unwrap();
        }
    });
}
