//! Hints made from data directories. For any height, any number of threads and any amount of memory
//! they are those of a directory that stopped at that height, and those of the model; what
//! cannot be made is refused with a reason. Made files next to those of the crate `hintsfile`, and
//! what SwiftSync makes of files in every format, are in `swiftsync/hints_files.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use apus_claims::{HintsSummary, convert_hints, create_hints};
use apus_coins::{Chainstate, Coin};
use apus_disk::Disk;
use apus_hash::Hash;
use apus_node::{Options, SyncError};
use apus_progress::Watch;
use apus_store::BlockStatus;
use apus_swiftsync::Format;
use apus_swiftsync::hints::open;
use apus_sync as sync;
use apus_sync::HintsFile;
use apus_wire::{Chain as Network, OutPoint};

use crate::support::chains::{small, small_fork};
use crate::support::model::Model;
use crate::support::program::{assert_contains, program};
use crate::support::{Place, blocks_of, data, with_genesis};

fn try_create(
    options: &Options,
    height: Option<u32>,
    format: Format,
    out: &Path,
) -> Result<HintsSummary, SyncError> {
    create_hints(options, height, format, out, Watch::default())
}

/// The hints of a place at a height in a format, made in several ways that must not differ.
fn created(place: &Place, height: Option<u32>, format: Format) -> Vec<u8> {
    let out = place.root().join("hints");
    let mut made: Option<Vec<u8>> = None;
    for (threads, memory) in [(1, 450 << 20), (2, 10_000), (3, 50_000), (8, 500_000)] {
        let options = Options { threads, dbcache_bytes: memory, ..place.options() };
        let summary = try_create(&options, height, format, &out).unwrap();
        let bytes = std::fs::read(&out).unwrap();
        assert_eq!(summary.bytes, bytes.len() as u64);
        assert!(!summary.interrupted);
        assert_eq!(made.get_or_insert(bytes.clone()), &bytes, "{threads} threads, {memory} bytes");
    }
    made.unwrap()
}

/// The indices of unspent outputs in a file of hints, by height.
fn unspent(bytes: &[u8]) -> BTreeMap<u32, Vec<u32>> {
    let hints = open(bytes.to_vec()).unwrap();
    let mut unspent = Vec::new();
    let block = |height| {
        hints.unspent(height, &mut unspent).unwrap();
        (height, unspent.clone())
    };
    (1..=hints.height()).map(block).collect()
}

/// Panics unless the hints in all formats are those of the model.
#[track_caller]
fn assert_right(place: &Place, blocks: &[Vec<u8>], height: u32) {
    let model = Model::of(blocks);
    for format in Format::WRITTEN {
        let made = created(place, Some(height), format);
        assert!(made == model.hints_file(height, format), "{format:?}");
    }
}

#[test]
fn of_a_generated_chain_at_any_height_as_in_the_model() {
    let chain = small(5);
    let blocks = with_genesis(chain);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &blocks)]);
    for height in [0, 1, 100, 149, 151, 163, 190, 199, 200] {
        assert_right(&place, &blocks, height);
    }

    // At the tip, the hints name the UTXO set that the generator knows.
    let tip = created(&place, None, Format::Bip456);
    assert_eq!(tip, created(&place, Some(200), Format::Bip456));
    let mut of_block = BTreeMap::new();
    chain.utxos().for_each(|coin| *of_block.entry(coin.height).or_insert(0) += 1);
    let counted = unspent(&tip).into_iter().map(|(height, unspent)| (height, unspent.len()));
    let counted: BTreeMap<u32, usize> = counted.filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, of_block);
    let summary = try_create(&place.options(), None, Format::Bip456, &place.root().join("x"));
    let summary = summary.unwrap();
    assert_eq!((summary.height, summary.blocks), (200, 200));
    assert_eq!(summary.unspent, chain.totals().unspent);
    assert_eq!(summary.best_block, Some(Hash(*chain.tip().as_ref())));
}

#[test]
fn hints_below_the_tip_are_as_of_a_directory_that_stopped_there() {
    let source = data("mainnet-0-14131.dat");
    let place = Place::new(Network::Main);
    place.sync(std::slice::from_ref(&source));
    assert_right(&place, &blocks_of(&source), 14_131);
    for height in [1, 170, 5_000, 14_130] {
        let stopped = Place::new(Network::Main);
        let options = Options { stop_at_height: Some(height), ..stopped.options() };
        sync::sync(&options, std::slice::from_ref(&source), Watch::default()).unwrap();
        let format = Format::Bip456;
        assert!(created(&place, Some(height), format) == created(&stopped, None, format));
    }
}

#[test]
fn branches_that_lost_do_not_count() {
    let main = small(5);
    let fork = small_fork(5, 160, 45, 9);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("main", &with_genesis(main))]);
    place.sync(&[place.write("fork", &with_genesis(fork)[161..])]);
    for height in [155, 160, 161, 180, 204, 205] {
        assert_right(&place, &with_genesis(fork), height);
    }
}

#[test]
fn blocks_in_any_order_of_files() {
    let chain = small(5);
    let blocks = with_genesis(chain);
    let mut shuffled = blocks.clone();
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, i * 7919 % (i + 1));
    }
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("shuffled", &shuffled)]);
    for height in [160, 200] {
        assert_right(&place, &blocks, height);
    }
}

#[test]
fn a_format_becomes_another_as_if_it_had_been_made_so() {
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    let input = place.root().join("in");
    let out = place.root().join("out");
    let nowhere = Options { datadir: place.root().join("nowhere"), ..place.options() };
    for height in [0, 150, 200] {
        for from in Format::WRITTEN {
            try_create(&place.options(), Some(height), from, &input).unwrap();
            let hints = HintsFile::open(&input).unwrap();
            for to in Format::WRITTEN {
                let convert =
                    |options: &Options| convert_hints(&hints, options, to, &out, Watch::default());
                let summary = convert(&place.options()).unwrap();
                let expected = created(&place, Some(height), to);
                assert!(std::fs::read(&out).unwrap() == expected, "{from:?} to {to:?}");
                assert_eq!((summary.height, summary.bytes), (height, expected.len() as u64));
                // A conversion needs no blocks only if both formats count the same outputs, and the
                // file has what numbers of outputs the other one holds.
                let alone = convert(&nowhere);
                let alike = from.numbering() == to.numbering();
                let has_counts = from.holds_counts() || !to.holds_counts();
                let is_enough = height == 0 || (alike && has_counts);
                assert_eq!(alone.is_ok(), is_enough, "{from:?} to {to:?}");
            }
        }
    }
}

#[test]
fn hints_for_another_chain_are_not_converted() {
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    let other = Place::new(Network::Regtest);
    other.sync(&[other.write("chain", &with_genesis(small(6)))]);
    let longer = Place::new(Network::Regtest);
    longer.sync(&[longer.write("chain", &with_genesis(small_fork(5, 200, 3, 1)))]);
    let out = place.root().join("out");
    for (source, word) in [(&other, "the hints do not fit the block"), (&longer, "sync it further")]
    {
        for (from, to) in [(Format::Bip456, Format::Booster), (Format::Booster, Format::Bip456)] {
            let input = place.write_bytes("input", &created(source, None, from));
            let hints = HintsFile::open(&input).unwrap();
            let options = place.options();
            let result = convert_hints(&hints, &options, to, &out, Watch::default());
            let text = result.unwrap_err().to_string();
            assert!(text.contains(word) || text.contains("another chain"), "{text}");
            assert!(!out.exists());
        }
    }
}

fn refused(place: &Place, height: Option<u32>) -> String {
    let out = place.root().join("refused");
    let error = try_create(&place.options(), height, Format::Bip456, &out).unwrap_err();
    let beside = std::fs::read_dir(place.root()).unwrap();
    let names: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|n| n.to_string_lossy().starts_with("refused")), "{names:?}");
    error.to_string()
}

#[test]
fn what_cannot_be_made_is_refused_with_a_reason() {
    let place = Place::new(Network::Regtest);
    assert!(refused(&place, None).contains("there is no such directory"));
    assert!(!place.datadir().exists());
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    assert!(refused(&place, Some(201)).contains("the chainstate is at height 200"));

    // Damage to a block, and damage to undo data.
    let blocks = place.network_dir().join("blocks");
    let chain = with_genesis(small(5));
    let in_coinbase = chain[..200].iter().map(|block| block.len() + 8).sum::<usize>() + 8 + 130;
    for (name, at, height, words) in [
        ("blk00000.dat", in_coinbase, Some(200), ["blk00000.dat at byte", "not block 200"]),
        ("rev00000.dat", 30_000, Some(150), ["rev00000.dat at byte", "checksum"]),
    ] {
        let whole = std::fs::read(blocks.join(name)).unwrap();
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(blocks.join(name), &damaged).unwrap();
        let text = refused(&place, height);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        std::fs::write(blocks.join(name), &whole).unwrap();
    }
    assert!(
        try_create(&place.options(), Some(150), Format::Bip456, &place.root().join("x")).is_ok()
    );
    std::fs::remove_file(blocks.join("rev00000.dat")).unwrap();
    assert!(refused(&place, Some(150)).contains("rev00000.dat"));
    assert!(try_create(&place.options(), None, Format::Bip456, &place.root().join("x")).is_ok());
    std::fs::remove_file(blocks.join("blk00000.dat")).unwrap();
    assert!(refused(&place, None).contains("blk00000.dat"));
}

#[test]
fn blocks_and_undo_data_that_are_missing_are_reported() {
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    place.change_index(|entry| {
        if entry.height == 180 {
            entry.record.status.0 &= !BlockStatus::BLOCK_HAVE_UNDO;
        }
    });
    let text = refused(&place, Some(170));
    assert!(text.contains("block 180 has no undo data") && text.contains("height 180"), "{text}");
    let out = place.root().join("x");
    assert!(try_create(&place.options(), Some(180), Format::Bip456, &out).is_ok());
    place.change_index(|entry| {
        if entry.height < 100 {
            entry.record.forget_data();
        }
    });
    let text = refused(&place, None);
    assert!(text.contains("is not stored here, since its file was pruned"), "{text}");
}

#[test]
fn a_chainstate_that_does_not_fit_the_blocks_is_reported() {
    let place = Place::new(Network::Regtest);
    let chain = small(5);
    place.sync(&[place.write("chain", &with_genesis(chain))]);
    let best = Hash(*chain.tip().as_ref());
    let coinbase = chain.decoded(7).txdata[0].compute_txid();
    let known = Hash(*coinbase.as_ref());
    for (txid, vout, height, word) in [
        (Hash([7; 32]), 0, 7, "block 7 has no output 0 of a transaction"),
        (known, 60_000, 7, "block 7 has no output 60000"),
        (known, 0, 8, "block 8 has no output 0"),
        (known, 0, 0, "of block 0, which creates no coins"),
        (known, 0, 999, "of block 999, which creates no coins"),
    ] {
        let options = apus_leveldb::Options::default();
        let path = place.network_dir().join("chainstate");
        let chainstate = Chainstate::open(Disk::new(), &path, options).unwrap();
        let bulk = chainstate.bulk().unwrap();
        let mut writer = bulk.writer();
        let coin = Coin::new(1, &[0x51], height, false);
        writer.put(&OutPoint { txid, vout }, &coin.parts()).unwrap();
        writer.finish().unwrap();
        bulk.commit(&best).unwrap();
        drop(chainstate);
        let text = refused(&place, None);
        assert!(text.contains(word) && text.contains("apus reindex"), "{text}");
    }
}

fn apus_hints(args: &[&str]) -> Output {
    program().arg("hints").args(args).output().unwrap()
}

#[track_caller]
fn says(output: &Output, code: i32, words: &[&str]) {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_contains(&text, words);
}

#[test]
fn two_readings_of_a_file_are_named_and_one_is_chosen() {
    let place = Place::new(Network::Regtest);
    // One block, whose bits 10101001 can be read from either end.
    let file = [&b"UTXO"[..], &[0, 1, 0, 0, 0, 0, 4, 4, 0b1010_1001]].concat();
    let file = place.write_bytes("unsure.hints", &file).to_str().unwrap().to_string();
    let out = place.root().join("sure.aphc").to_str().unwrap().to_string();
    says(&apus_hints(&["info", &file]), 1, &["block 1", "apus hints compress --bit-order"]);
    for (order, expected) in [("lsb", [0, 2, 3, 4]), ("msb", [0, 1, 2, 4])] {
        let compress = ["compress", "--bit-order", order, &file, "-o", &out, "--force"];
        says(&apus_hints(&compress), 0, &["Hints for height 1"]);
        assert_eq!(unspent(&std::fs::read(&out).unwrap())[&1], expected, "{order}");
        says(&apus_hints(&["info", &out]), 0, &["compressed"]);
    }
}

#[test]
fn on_the_command_line() {
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    let datadir = format!("--datadir={}", place.datadir().display());
    let path = |name: &str| place.root().join(name).to_str().unwrap().to_string();
    let out = path("a.hints");
    let bitmap = path("a.bitmap");
    let back = path("back.hints");
    let create = |more: &[&str]| {
        apus_hints(&[&["create", "--regtest", &datadir, "-o", &out][..], more].concat())
    };
    let words = ["Hints for height 200, block", "outputs unspent", &out, "peak memory"];
    says(&create(&[]), 0, &words);
    says(&create(&[]), 1, &["exists already", "--force"]);
    let json = create(&["--force", "--json", "--height=170", "--par=1"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["height"], &json["format"]), (&170.into(), &"bip456".into()));
    assert_eq!(json["bytes"], std::fs::metadata(&out).unwrap().len());
    let peak = json["peak_memory"].as_u64();
    let mapped = json.get("peak_memory_mapped");
    assert!(peak.is_some_and(|bytes| bytes > 0) && mapped.is_some(), "{json}");
    says(&create(&["--force", "--height=201"]), 1, &["is at height 200"]);

    says(&apus_hints(&["info", &out]), 0, &["bip456", "170", "bits per output", "minimum size"]);
    let info: serde_json::Value =
        serde_json::from_slice(&apus_hints(&["info", "--json", &out]).stdout).unwrap();
    assert_eq!((&info["unspent"], &info["bytes"]), (&json["unspent"], &json["bytes"]));

    let to_booster = ["convert", &out, "--format=booster", "-o", &bitmap, "--regtest"];
    let nowhere = format!("--datadir={}", path("nowhere"));
    says(
        &apus_hints(&[&to_booster[..], &[&nowhere]].concat()),
        1,
        &["needs the blocks", "--datadir", "height 170"],
    );
    says(&apus_hints(&[&to_booster[..], &[&datadir]].concat()), 0, &["Hints for height 170"]);
    says(&apus_hints(&["info", &bitmap]), 0, &["booster"]);
    says(&apus_hints(&["convert", &bitmap, "-o", &back, "--regtest", &datadir]), 0, &["Hints for"]);
    assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(&out).unwrap());

    says(&apus_hints(&["info", &path("chain")]), 1, &["this is not a hints file"]);
    says(&apus_hints(&["info", &path("nothing")]), 1, &["nothing"]);
    std::fs::write(&back, []).unwrap();
    says(&apus_hints(&["info", &back]), 1, &["this is not a hints file"]);
    let bytes = std::fs::read(&out).unwrap();
    std::fs::write(&back, &bytes[..bytes.len() - 1]).unwrap();
    says(&apus_hints(&["info", &back]), 1, &["back.hints: "]);
    says(&apus_hints(&["create", "--help"]), 0, &["hints need no trust", "Examples"]);
    says(&apus_hints(&["convert", "--help"]), 0, &["count outputs in different ways"]);
    says(&apus_hints(&["create"]), 2, &["--output"]);
}
