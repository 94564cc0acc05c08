//! The bytes of each example in the document, written again by the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use apus_coins::layout::OBFUSCATION_RECORD;
use apus_coins::{
    Coin, CompactScript, compress_amount, decode_coin_key, decompress_amount, put_coin_key,
};
use apus_disk::Disk;
use apus_hash::Hash;
use apus_join::{
    BlockCoins, Created, InputNotes, Spend, SpendSource, TxNotes, put_block_coins, put_late_coin,
    put_spend, put_tx,
};
use apus_leveldb::{Db, Options};
use apus_store::{
    BlockFiles, BlockFilesOptions, FileInfo, IndexDb, IndexEntry, Obfuscation, UndoRecord,
};
use apus_swiftsync::hints::compressed::compress;
use apus_swiftsync::hints::{Format, encoder, open};
use apus_wire::{
    BlockView, Chain, Cursor, Network, OutPoint, genesis_block, put_compact_size, put_varint,
};

use super::assert_same;
use super::document::{Document, Hex, Line, from_hex};
use crate::support::{Place, regtest_chain};

/// Examples of which each line is one value and its bytes.
const LISTS: [&str; 4] = ["compact-size", "varint", "amount", "script"];
/// The key of examples that are obfuscated.
const KEY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

type Examples = BTreeMap<String, Hex>;

#[test]
fn the_code_writes_every_example() {
    let mut code = Examples::new();
    for (name, bytes) in [files(), coins(), records(), tables(), joined(), hints()].concat() {
        assert!(code.insert(name.to_string(), Hex(bytes)).is_none(), "{name} twice");
    }
    assert_same("example", &Document::read().byte_strings(&LISTS), &code);
}

#[test]
fn the_code_reads_every_example_that_stands_alone() {
    let examples = Document::read().byte_strings(&[]);
    let bytes = |name: &str| &examples[name].0[..];
    assert_eq!(Coin::decode(&mut Cursor::new(bytes("coin"))), Ok(coin()));
    assert_eq!(Coin::decode_undo(&mut Cursor::new(bytes("coin-undo"))), Ok(coin()));
    assert_eq!(decode_coin_key(bytes("coin-key")), Ok(outpoint()));
    let genesis = genesis_block(&Network::new(Chain::Regtest));
    let entry = IndexEntry::parse(&bytes("index-block")[33..]).unwrap();
    assert_eq!(entry.hash, BlockView::parse(&genesis).unwrap().hash());
    let info = FileInfo::parse(&bytes("index-file")[5..]).unwrap();
    assert_eq!((info.blocks, info.height_last), (21, 20));
}

#[test]
fn every_line_of_a_list_holds_both_ways() {
    let document = Document::read();
    let lines = |name: &str| &document.examples[name];
    for name in LISTS {
        assert!(lines(name).len() >= 5, "{name} is short");
    }
    let number = |line: &Line| line.said.parse::<u64>().expect("a number");
    for line in lines("compact-size") {
        let mut bytes = Vec::new();
        put_compact_size(&mut bytes, number(line));
        assert_eq!(Hex(bytes), Hex(line.bytes.clone()), "CompactSize of {}", line.said);
    }
    for line in lines("varint") {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number(line));
        assert_eq!(Hex(bytes), Hex(line.bytes.clone()), "VARINT of {}", line.said);
        assert_eq!(Cursor::new(&line.bytes).varint(), Ok(number(line)));
    }
    for line in lines("amount") {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, compress_amount(number(line)));
        assert_eq!(Hex(bytes), Hex(line.bytes.clone()), "amount {}", line.said);
        let compressed = Cursor::new(&line.bytes).varint().unwrap();
        assert_eq!(decompress_amount(compressed), number(line));
    }
    let mut types = Vec::new();
    for line in lines("script") {
        let script = from_hex(&line.said);
        let compressed = Hex(CompactScript::new(&script).as_bytes().to_vec());
        assert_eq!(compressed, Hex(line.bytes.clone()), "script {}", line.said);
        let read = CompactScript::decode(&mut Cursor::new(&line.bytes)).unwrap();
        assert_eq!(Hex(read.to_script()), Hex(script));
        types.push(line.bytes[0]);
    }
    assert!(types.starts_with(&[0, 1, 2, 3, 4, 5]) && types.len() > 6, "all types: {types:?}");
}

/// The examples of blocks and undo data in their files.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let network = Network::new(Chain::Regtest);
    let written = |key| {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let options = BlockFilesOptions::default();
        let magic = network.magic;
        let files = BlockFiles::new(&disk, dir.path(), magic, key, vec![], options);
        files.append_block(&[0xaa, 0xbb, 0xcc], 1, 0).unwrap();
        let prev = &network.genesis_hash;
        files.append_undo(UndoRecord { file: 0, height: 1, prev, payload: &[0] }).unwrap();
        let info = files.infos()[0];
        let read = |path, len| fs::read(path).unwrap()[..len as usize].to_vec();
        (read(files.block_path(0), info.size), read(files.undo_path(0), info.undo_size))
    };
    let (block, undo) = written(Obfuscation::NONE);
    let (hidden, _) = written(Obfuscation::new(KEY));
    vec![("blk", block), ("blk-hidden", hidden), ("rev", undo)]
}

/// A coin of one and a half bitcoins that pays to a public key hash.
fn coin() -> Coin {
    let script = [&[0x76, 0xa9, 20][..], &[0x11; 20], &[0x88, 0xac]].concat();
    Coin::new(150_000_000, &script, 100_000, true)
}

fn outpoint() -> OutPoint {
    OutPoint { txid: Hash([0x22; 32]), vout: 300 }
}

fn coins() -> Vec<(&'static str, Vec<u8>)> {
    let mut value = Vec::new();
    let mut undo = Vec::new();
    let mut key = Vec::new();
    coin().encode(&mut value);
    coin().encode_undo(&mut undo);
    put_coin_key(&mut key, &outpoint());
    vec![("coin", value), ("coin-undo", undo), ("coin-key", key)]
}

/// The records of a join.
fn joined() -> Vec<(&'static str, Vec<u8>)> {
    let OutPoint { txid, vout } = outpoint();
    let Coin { height, is_coinbase, .. } = coin();
    let mut encoded = Vec::new();
    coin().encode(&mut encoded);
    let (code, output) = (height << 1 | u32::from(is_coinbase), &encoded[3..]);
    let mut outputs = Vec::new();
    let mut spend = Vec::new();
    let created = Created { height, is_coinbase, ready: Some(5) };
    put_tx(&mut outputs, &txid, created, 1, [(vout, output)].into_iter());
    let height = 100_100;
    let place = 5;
    put_spend(&mut spend, &Spend { outpoint: outpoint(), height, place });
    let early = SpendSource::Early { code, output };
    let mut sources = Vec::new();
    SpendSource::Late.put(&mut sources);
    early.put(&mut sources);
    let coinbase = TxNotes { inputs: 0, value_out: 5_000, sigop_cost: 4, has_locks: false };
    let tx = TxNotes { inputs: 2, has_locks: true, ..coinbase };
    let first = InputNotes { sequence: 1, sigop_costs: [4, 0], source: SpendSource::Late };
    let second = InputNotes { sequence: 0, sigop_costs: [0, 0], source: early };
    let mut notes = vec![2];
    coinbase.put(&mut notes);
    tx.put(&mut notes);
    [first, second].iter().for_each(|input| input.put(&tx, &mut notes));
    let mut block = Vec::new();
    let mut noted = Vec::new();
    let mut late = Vec::new();
    let coins = BlockCoins { height, digest: Some([0x33; 16]), list: &sources };
    put_block_coins(&mut block, &coins);
    put_block_coins(&mut noted, &BlockCoins { digest: None, list: &notes, ..coins });
    put_late_coin(&mut late, height, place, code, output);
    vec![
        ("join-outputs", outputs),
        ("join-spend", spend),
        ("join-block", block),
        ("join-noted", noted),
        ("join-coin", late),
    ]
}

/// The examples from a sync of the regtest chain: undo data of block 205, and the records of block
/// index and chainstate after 20 blocks.
fn records() -> Vec<(&'static str, Vec<u8>)> {
    let place = Place::new(Chain::Regtest);
    let whole = Place::new(Chain::Regtest);
    for place in [&place, &whole] {
        let blocks = place.network_dir().join("blocks");
        fs::create_dir_all(&blocks).unwrap();
        fs::write(blocks.join("xor.dat"), [0; 8]).unwrap();
    }
    // Without its block index, a chainstate would count as one whose blocks are on a disk that is
    // not mounted.
    drop(database(&place.network_dir().join("blocks/index")));
    let chainstate = place.network_dir().join("chainstate");
    let record = [&[8][..], &KEY].concat();
    database(&chainstate).apply([(OBFUSCATION_RECORD, Some(record))]).unwrap();
    let chain = regtest_chain();
    place.sync(&[place.write("blocks", &chain[..21])]);
    whole.sync(&[whole.write("blocks", &chain)]);

    let index = place.network_dir().join("blocks/index");
    let db = IndexDb::open(&Disk::new(), &index).unwrap();
    db.write_pruned().unwrap();
    db.write_reindexing(true).unwrap();
    drop(db);
    let genesis = [b"b", &place.network.genesis_hash.0[..]].concat();
    let mut coinbase = Vec::new();
    let first = BlockView::parse(&chain[1]).unwrap();
    put_coin_key(&mut coinbase, &OutPoint { txid: first.txids()[0], vout: 0 });
    vec![
        ("undo", undo_of(&whole, 205)),
        ("index-block", record_of(&index, &genesis)),
        ("index-file", record_of(&index, b"f\0\0\0\0")),
        ("index-last", record_of(&index, b"l")),
        ("index-flag", record_of(&index, b"F\x10prunedblockfiles")),
        ("index-reindex", record_of(&index, b"R")),
        ("chainstate-key", record_of(&chainstate, OBFUSCATION_RECORD)),
        ("chainstate-best", record_of(&chainstate, b"B")),
        ("chainstate-coin", record_of(&chainstate, &coinbase)),
    ]
}

/// Undo data of the block at `height`, in a directory without obfuscation.
fn undo_of(place: &Place, height: u32) -> Vec<u8> {
    let bytes = fs::read(place.network_dir().join("blocks/rev00000.dat")).unwrap();
    let mut rest = &bytes[..];
    for _ in 1..height {
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        rest = &rest[8 + len + 32..];
    }
    let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
    rest[8..8 + len].to_vec()
}

fn database(path: &Path) -> Db {
    let options = Options { create_if_missing: true, ..Options::default() };
    Db::open(Disk::new(), path, options).unwrap()
}

/// A key followed by its value.
fn record_of(path: &Path, key: &[u8]) -> Vec<u8> {
    let value = database(path).get(key).unwrap().expect("the key is there");
    [key, &value].concat()
}

/// The files of a new database with one run of two entries.
fn tables() -> Vec<(&'static str, Vec<u8>)> {
    let dir = tempfile::tempdir().unwrap();
    let entries = [("apus", Some("a swift")), ("apuses", None)];
    database(dir.path()).apply(entries).unwrap();
    let read = |name| fs::read(dir.path().join(name)).unwrap();
    vec![
        ("table", read("000003.ldb")),
        ("manifest", read("MANIFEST-000002")),
        ("current", read("CURRENT")),
    ]
}

/// The undo data of the example consists of the coins of the document.
/// Four blocks of hints, compressed.
fn hints() -> Vec<(&'static str, Vec<u8>)> {
    let encoder = encoder(Format::Bip456);
    let mut file = Vec::new();
    encoder.put_head(4, &mut file);
    for unspent in [&[0][..], &[], &[3, 7, 12], &[0, 40]] {
        encoder.put_block(unspent, 41, &mut file).unwrap();
    }
    let hints = open(file).unwrap();
    vec![("compressed-hints", compress(hints.as_ref()).unwrap())]
}

#[test]
fn undo_data_is_counts_and_coins() {
    let examples = Document::read().byte_strings(&LISTS);
    let mut cursor = Cursor::new(&examples["undo"].0);
    let mut coins = 0;
    for _ in 0..cursor.compact_size().unwrap() {
        for _ in 0..cursor.compact_size().unwrap() {
            let coin = Coin::decode_undo(&mut cursor).unwrap();
            assert!(coin.height <= 206 && coin.amount <= 5_000_000_000);
            coins += 1;
        }
    }
    assert_eq!(cursor.remaining(), 0);
    assert!(coins > 0);
}
