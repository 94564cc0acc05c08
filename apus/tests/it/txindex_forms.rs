//! The two forms of `txindex`: keys that are txids, which every bitcoind reads, and keys with short
//! hashes of txids, which bitcoind writes from v32 on. The tests with a real bitcoind compare the
//! entries with those that it writes.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use apus_disk::Disk;
use apus_leveldb::{self as leveldb, Db};
use apus_node::Options;
use apus_progress::{Phase, Progress, Watch};
use apus_store::{IndexKind, TxIndexForm};
use apus_tools::{IndexReach, index, index_on};
use apus_wire::{BlockView, Chain as Network};
use serde_json::{Value, json};

use crate::server::client::Running;
use crate::support::chains::{small, small_fork};
use crate::support::indexes::entries;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_ends, stdout};
use crate::support::stop_when::StopWhen;
use crate::support::{Place, with_genesis};

const FORMS: [TxIndexForm; 2] = [TxIndexForm::Core31, TxIndexForm::Core32];

/// Indexes the transactions of a place in a form, or in the one that the index has.
pub fn index_txs(place: &Place, form: Option<TxIndexForm>) -> Vec<IndexReach> {
    let kinds = [IndexKind::TxIndex];
    index(&place.options(), &kinds, form, Watch::default()).unwrap().txindex
}

/// Adds to the index of a place, in the form of Core v32, an entry that gives the coinbase at
/// height `at` the short hash of the one at height `of`, and removes the entry of the latter if
/// `alone` is set. Both heights are below 128.
pub fn collide(place: &Place, of: u8, at: u8, alone: bool) {
    let all = entries(&place.network_dir(), IndexKind::TxIndex);
    // The numbers of blocks begin with 0 for the first block after genesis.
    let end = |height: u8| [height - 1, 0, 0, 81];
    let is_of = |key: &&Vec<u8>| key[0] == b'x' && key[6..] == end(of);
    let key = all.keys().find(is_of).expect("the coinbase has an entry");
    let other = [&key[..6], &end(at)].concat();
    let options = leveldb::Options { bloom_bits_per_key: 0, ..leveldb::Options::default() };
    let path = IndexKind::TxIndex.database(&place.network_dir());
    let db = Db::open(Disk::new(), &path, options).unwrap();
    db.apply([(other, Some(&b""[..]))]).unwrap();
    if alone {
        db.apply([(key, None::<&[u8]>)]).unwrap();
    }
}

/// The answer to `getrawtransaction`.
fn answer(running: &Running, txid: &str) -> Value {
    running.ask("getrawtransaction", json!([txid, 1]))
}

/// Panics unless Apus finds each transaction of the chain in its block.
fn assert_answers(place: &Place, blocks: &[Vec<u8>]) {
    let running = Running::start(place, &["serve", "--bind=127.0.0.1", "--port=0"]);
    for block in &blocks[1..] {
        let view = BlockView::parse(&block[..]).unwrap();
        let hash = view.hash().to_string();
        let txids = view.txs().map(|tx| tx.txid().to_string());
        let calls: Value = txids
            .map(|txid| json!({"method": "getrawtransaction", "params": [txid, 1], "id": txid}))
            .collect();
        let (_, answers) = running.post(&calls.to_string());
        let answers: Vec<Value> = serde_json::from_str(&answers).unwrap();
        assert_eq!(answers.len(), view.tx_count());
        for answer in answers {
            let found = &answer["result"];
            assert_eq!(found["blockhash"], hash.as_str(), "{answer}");
            assert_eq!(found["txid"], answer["id"]);
        }
    }
}

/// What `apus status` says of the index: the form and the height of each kind of entries.
fn reached(place: &Place) -> Vec<(u64, u64)> {
    let status: Value = serde_json::from_str(&stdout(&apus(place, &["status", "--json"]))).unwrap();
    let indexes = status["indexes"].as_array().unwrap().iter();
    indexes
        .map(|index| {
            assert_eq!(index["name"], "txindex");
            (index["form"].as_u64().unwrap(), index["height"].as_u64().unwrap())
        })
        .collect()
}

/// Either form is begun below a block that is disconnected, and continued in either.
#[test]
fn each_form_is_continued_and_read() {
    let begun = Place::new(Network::Regtest);
    begun.sync_blocks("main", &with_genesis(small(5))[..166]);
    let fork = with_genesis(small_fork(5, 150, 20, 3));
    for first in FORMS {
        let place = begun.copy();
        let height = Some(165);
        assert_eq!(index_txs(&place, Some(first)), [IndexReach { form: first, height }]);
        place.sync_blocks("fork", &fork[151..]);
        for next in [None, Some(TxIndexForm::Core31), Some(TxIndexForm::Core32)] {
            let place = place.copy();
            index_txs(&place, next);
            assert_answers(&place, &fork);
            let expected = match (first, next.unwrap_or(first)) {
                (TxIndexForm::Core31, TxIndexForm::Core31) => vec![(31, 170)],
                (TxIndexForm::Core31, TxIndexForm::Core32) => vec![(31, 165), (32, 170)],
                (TxIndexForm::Core32, TxIndexForm::Core31) => vec![(31, 170), (32, 165)],
                (TxIndexForm::Core32, TxIndexForm::Core32) => vec![(32, 170)],
            };
            assert_eq!(reached(&place), expected);
            // The one that reaches highest is continued; the reorganisation is undone.
            place.sync_blocks("main", &with_genesis(small(5))[..173]);
            let last = index_txs(&place, None);
            assert_eq!(last.len(), expected.len());
            assert_answers(&place, &with_genesis(small(5))[..173]);
        }
    }
}

/// An index in both forms has all entries of either form.
#[test]
fn an_index_may_have_all_of_both_forms() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &blocks[..150]);
    let alone = FORMS.map(|form| {
        let place = place.copy();
        index_txs(&place, Some(form));
        entries(&place.network_dir(), IndexKind::TxIndex)
    });
    index_txs(&place, Some(TxIndexForm::Core32));
    index_txs(&place, Some(TxIndexForm::Core31));
    let both = entries(&place.network_dir(), IndexKind::TxIndex);
    assert_eq!(both.len(), alone[0].len() + alone[1].len());
    assert!(alone[0].iter().all(|(key, value)| both.get(key) == Some(value)));
    assert_answers(&place, &blocks[..150]);
}

/// Two transactions with the same short hash are told apart.
#[test]
fn transactions_with_one_short_hash_are_told_apart() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &blocks[..121]);
    index_txs(&place, Some(TxIndexForm::Core32));
    for (of, at) in [(50, 60), (60, 50), (7, 7)] {
        let place = place.copy();
        collide(&place, of, at, false);
        assert_answers(&place, &blocks[..121]);
        collide(&place, of, if at == of { at + 1 } else { at }, true);
        let running = Running::start(&place, &["serve", "--bind=127.0.0.1", "--port=0"]);
        let txid = BlockView::parse(&blocks[usize::from(of)][..]).unwrap().tx(0).txid();
        let answer = answer(&running, &txid.to_string());
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with("No such mempool or blockchain transaction"), "{message}");
    }
}

/// What was collected for one form serves that form alone.
#[test]
fn an_interrupted_run_is_continued_in_its_form() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &blocks);
    for first in FORMS {
        for next in FORMS {
            let place = place.copy();
            let little =
                Options { dbcache_bytes: 4 << 10, save_every: Duration::ZERO, ..place.options() };
            let stop = AtomicBool::new(false);
            let lowest = AtomicU32::new(u32::MAX);
            let is_read = |progress: &Progress| {
                let is_reading = progress.phase == Phase::ReadingForIndexes;
                if is_reading {
                    lowest.fetch_min(progress.height, Relaxed);
                }
                is_reading && progress.height >= 100
            };
            let until = StopWhen(&stop, is_read);
            let kinds = [IndexKind::TxIndex];
            let begun = index(&little, &kinds, Some(first), Watch::new(&until, &stop)).unwrap();
            assert!(begun.interrupted && begun.txindex.is_empty());
            lowest.store(u32::MAX, Relaxed);
            let never = AtomicBool::new(false);
            let watched = StopWhen(&never, |progress: &Progress| {
                is_read(progress);
                false
            });
            index(&little, &kinds, Some(next), Watch::new(&watched, &never)).unwrap();
            assert_eq!(lowest.into_inner() > 100, first == next, "{first:?} and then {next:?}");
            assert_eq!(reached(&place), [(u64::from(next.core_version()), 200)]);
            assert_answers(&place, &blocks);
        }
    }
}

/// The entries of a block that were durable before the power failed are not there twice.
#[test]
fn power_may_fail_at_any_step_of_the_newer_form() {
    let blocks = with_genesis(small(5));
    let begun = Place::new(Network::Regtest);
    begun.sync_blocks("begin", &blocks[..151]);
    index_txs(&begun, Some(TxIndexForm::Core32));
    begun.sync_blocks("blocks", &blocks[..171]);
    begun.shrink();
    let run = |place: &Place, disk: &Disk| {
        index_on(disk, &place.options(), &[IndexKind::TxIndex], None, Watch::default())
    };
    let (disk, counter) = counted();
    let whole = begun.copy();
    run(&whole, &disk).unwrap();
    let expected = entries(&whole.network_dir(), IndexKind::TxIndex);
    let mut cuts = 0;
    for power in power_cuts(1..=counter.steps(), 5) {
        let place = begun.copy();
        let _ = run(&place, &failing(&power));
        power.lose_unsynced().unwrap();
        run(&place, &Disk::new()).unwrap();
        assert!(entries(&place.network_dir(), IndexKind::TxIndex) == expected, "{power:?}");
        cuts += 1;
    }
    println!("{cuts} power cuts, of {} steps", counter.steps());
}

#[test]
fn the_form_is_that_of_the_index_and_is_named() {
    let place = Place::new(Network::Regtest);
    place.sync_blocks("main", &with_genesis(small(5))[..121]);
    let in_form = |place: &Place, args: &[&str], words: &[&str]| {
        let output = apus(place, &[&["index"], args].concat());
        assert_ends(&output, 0, &[]);
        let text = stdout(&output);
        words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    };
    in_form(&place, &["txindex"], &["form of Core 31", "every bitcoind reads it"]);
    in_form(&place, &["txindex", "--core=31"], &["Complete already", "form of Core 31"]);
    // Every version reads what is there.
    in_form(&place, &["txindex", "--core=32"], &["Complete already", "form of Core 31"]);
    let other = place.copy();
    remove(&other.network_dir().join("indexes"));
    in_form(&other, &["txindex", "--core=32"], &["form of Core 32", "before v32 does not"]);
    in_form(&other, &["txindex"], &["Complete already", "form of Core 32"]);
    let status = stdout(&apus(&other, &["status"]));
    let line = "index       txindex up to height 120 in the form of Core 32: bitcoind before v32";
    assert!(status.contains(line), "{status}");
    assert_ends(&apus(&place, &["index", "coinstatsindex", "--core=32"]), 2, &["txindex"]);
}

fn remove(directory: &Path) {
    std::fs::remove_dir_all(directory).unwrap();
}
