//! Block files as old or other programs left them: with zeros between blocks, with gaps in their
//! numbers, with stray and with missing files. What `bitcoind -reindex` takes, Apus takes.

use std::path::PathBuf;

use apus_disk::Disk;
use apus_wire::Chain as Network;

use crate::support::chains::small;
use crate::support::program::{apus, assert_ends, stderr, stdout};
use crate::support::{Place, blocks_of, data, framed, with_genesis};

const FILES: usize = 4;

/// A directory without index, with the blocks in several files, and the UTXO set of these blocks.
struct Loose {
    place: Place,
    blocks: Vec<Vec<u8>>,
    coins: (String, u64),
}

impl Loose {
    fn new() -> Self {
        let blocks = with_genesis(small(5));
        let synced = Place::new(Network::Regtest);
        synced.sync_blocks("chain", &blocks);
        let loose = Self { place: Place::new(Network::Regtest), coins: synced.utxo_hash(), blocks };
        std::fs::create_dir_all(loose.path(0).parent().unwrap()).unwrap();
        for (number, part) in loose.blocks.chunks(loose.blocks.len().div_ceil(FILES)).enumerate() {
            std::fs::write(loose.path(number), framed(&loose.place.network, part)).unwrap();
        }
        loose
    }

    fn path(&self, number: usize) -> PathBuf {
        self.place.network_dir().join(format!("blocks/blk{number:05}.dat"))
    }

    /// Reads the files as a source, and rebuilds the index from them.
    fn assert_taken(&self, status: i32, words: &[&str]) {
        let from = self.place.datadir().display().to_string();
        let other = Place::new(Network::Regtest);
        let synced = apus(&other, &["sync", "--from", &from, "--connect=0"]);
        assert_ends(&synced, status, words);
        assert_eq!(other.utxo_hash(), self.coins);
        let rebuilt = apus(&self.place, &["reindex", "--index"]);
        assert_ends(&rebuilt, 0, &[]);
        assert_eq!(self.place.utxo_hash(), self.coins);
    }
}

#[test]
fn zeros_before_blocks_are_a_note() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("chain", &blocks);
    let coins = place.utxo_hash();
    let frame = |block: &Vec<u8>| framed(&place.network, [block]);
    let gap = |len| {
        let first = [frame(&blocks[0]), vec![0; len]].concat();
        [first, framed(&place.network, &blocks[1..])].concat()
    };
    let between: Vec<u8> =
        blocks.iter().flat_map(|block| [frame(block), vec![0; 8]].concat()).collect();
    let head = [vec![0; 17 << 20], framed(&place.network, &blocks)].concat();
    for (name, bytes, said) in [
        ("gap", gap(293), "293 zeros before blocks were passed over (gaps: 1)"),
        ("between", between, "1,600 zeros before blocks were passed over (gaps: 200)"),
        ("head", head, "17,825,792 zeros before blocks were passed over (gaps: 1)"),
    ] {
        let new = Place::new(Network::Regtest);
        let file = new.write_bytes(name, &bytes).display().to_string();
        let args = ["sync", "--from", &file, "--connect=0", "--then=echo started"];
        let synced = apus(&new, &args);
        assert_ends(&synced, 0, &[said]);
        assert!(!stderr(&synced).contains("Refused"), "{name}");
        assert!(stdout(&synced).contains("started"), "{name}");
        assert_eq!(new.utxo_hash(), coins, "{name}");
    }
    let zeros = place.write_bytes("zeros", &[0; 1000]).display().to_string();
    let refused = apus(&Place::new(Network::Regtest), &["sync", "--from", &zeros, "--connect=0"]);
    assert_ends(&refused, 1, &["this file holds only zeros"]);
}

#[test]
fn stray_files_above_the_last_are_passed_over() {
    for (number, bytes) in [(7, &b""[..]), (4, &[0; 600]), (7, b"no blocks here"), (70, &[9; 900])]
    {
        let loose = Loose::new();
        std::fs::write(loose.path(number), bytes).unwrap();
        let has_junk = bytes.iter().any(|byte| *byte != 0) && number > FILES;
        loose.assert_taken(0, if has_junk { &["passed over, as by bitcoind"] } else { &[] });
    }
    // Blocks of the chain, of another one, and of one whose parents are nowhere.
    let other = with_genesis(small(6));
    let loose = Loose::new();
    for blocks in [&loose.blocks[50..60], &other[1..20], &other[30..40]] {
        std::fs::write(loose.path(7), framed(&loose.place.network, blocks)).unwrap();
        loose.assert_taken(0, &[]);
    }
    // Without a UTXO set, blocks that lie above a missing file may be those of the chain.
    let loose = Loose::new();
    std::fs::rename(loose.path(2), loose.path(7)).unwrap();
    let refused = apus(&loose.place, &["reindex", "--index"]);
    assert_ends(&refused, 1, &["blk00002.dat", "this block file is missing"]);
}

#[test]
fn an_empty_file_is_not_a_gap() {
    let loose = Loose::new();
    for number in [3, 2, 1] {
        std::fs::rename(loose.path(number), loose.path(number + 1)).unwrap();
    }
    std::fs::write(loose.path(1), b"").unwrap();
    loose.assert_taken(0, &[]);
}

/// The coinbases of the first blocks of mainnet begin with a number that is no height.
#[test]
fn a_file_that_is_missing_is_named_with_the_block_after_it() {
    let blocks = blocks_of(&data("mainnet-0-14131.dat"));
    let place = Place::new(Network::Main);
    let part = place.root().join("part/blocks");
    std::fs::create_dir_all(&part).unwrap();
    std::fs::write(part.join("blk00001.dat"), framed(&place.network, &blocks[3000..3100])).unwrap();
    let from = part.parent().unwrap().display().to_string();
    let sync = || apus(&place, &["sync", "--from", &from, "--connect=0"]);
    let first = crate::support::hash_of(&blocks[3000]).to_string();
    assert_ends(&sync(), 1, &["has no blocks below block", &first, "blk00000.dat is missing"]);
    std::fs::write(part.join("blk00000.dat"), [0; 100_000]).unwrap();
    assert_ends(
        &sync(),
        1,
        &["has no blocks below block", &first, "blk00000.dat holds only zeros"],
    );
    std::fs::write(part.join("blk00000.dat"), framed(&place.network, &blocks[..2000])).unwrap();
    std::fs::rename(part.join("blk00001.dat"), part.join("blk00003.dat")).unwrap();
    // Those up to the gap are connected.
    assert_ends(&sync(), 0, &["blk00003.dat", "blk00001.dat is missing", "99 more blocks"]);
    assert_ends(&sync(), 1, &["has no blocks below block", &first, "blk00001.dat is missing"]);
}

#[test]
fn a_missing_file_is_repaired_in_place() {
    let loose = Loose::new();
    assert_ends(&apus(&loose.place, &["reindex", "--index"]), 0, &[]);
    let whole = loose.place.root().join("whole.dat");
    std::fs::write(&whole, framed(&loose.place.network, &loose.blocks)).unwrap();
    let half = loose.place.root().join("half.dat");
    let second = loose.blocks.len() / 2;
    std::fs::write(&half, framed(&loose.place.network, &loose.blocks[..second - 20])).unwrap();
    let whole = whole.display().to_string();
    let half = half.display().to_string();
    let undo = loose.place.undo();
    for number in [1, 0, 3] {
        std::fs::remove_file(loose.path(number)).unwrap();
        let refused = apus(&loose.place, &["sync", "--connect=0"]);
        assert_ends(&refused, 1, &["the file is missing", "`apus sync --from` a node or a file"]);
        if number == 1 {
            let refused = apus(&loose.place, &["sync", "--from", &half, "--connect=0"]);
            assert_ends(&refused, 1, &["blk00001.dat", "no good copy of 22 of its blocks"]);
        }
        let repaired = apus(&loose.place, &["sync", "--from", &whole, "--connect=0"]);
        // The other run has stored some.
        let said = if number == 1 { "was replaced by" } else { "blocks were stored again" };
        assert_ends(&repaired, 0, &[said]);
        assert!(loose.path(number).exists());
        assert_ends(&apus(&loose.place, &["verify", "--level=4", "--blocks=0"]), 0, &[]);
        assert_eq!(loose.place.utxo_hash(), loose.coins);
        assert_eq!(loose.place.undo(), undo);
    }
}

/// Bitcoin Core before 0.17 kept `txindex` in the block index, and every version has left flags
/// there that the next one no longer reads.
#[test]
fn an_old_txindex_in_the_block_index_is_named_and_harmless() {
    let blocks = with_genesis(small(5));
    let place = Place::new(Network::Regtest);
    place.sync_blocks("chain", &blocks);
    let coins = place.utxo_hash();
    let index = place.network_dir().join("blocks/index");
    let db = apus_leveldb::Db::open(Disk::new(), &index, apus_leveldb::Options::default()).unwrap();
    let flag = |name: &str| [&[b'F', name.len() as u8], name.as_bytes()].concat();
    let transaction = |n: u8| [&[b't'][..], &[n; 32]].concat();
    let mut old: Vec<(Vec<u8>, Option<Vec<u8>>)> =
        (0..200).map(|n| (transaction(n), Some(vec![0, n & 0x7f, 1]))).collect();
    // An index that was begun and given up has a second key.
    old.extend([(flag("txindex"), Some(vec![b'1'])), (flag("a later flag"), Some(vec![b'1']))]);
    old.push((b"T".to_vec(), Some(vec![0; 40])));
    old.sort();
    db.apply(old).unwrap();
    drop(db);
    for args in [
        &["status"][..],
        &["sync", "--connect=0"],
        &["verify", "--level=4", "--blocks=0"],
        &["rewind", "--height=190"],
        &["sync", "--connect=0"],
        &["reindex"],
    ] {
        assert_ends(&apus(&place, args), 0, &[]);
    }
    assert_eq!(place.utxo_hash(), coins);
    crate::support::judge::Judge::open(&place).unwrap().read_everything();
    let built = ["has left its txindex in blocks/index", "`apus reindex --index` frees"];
    assert_ends(&apus(&place, &["index", "txindex"]), 0, &built);
    assert_ends(&apus(&place, &["reindex", "--index"]), 0, &[]);
    let built = apus(&place, &["index", "txindex"]);
    assert_ends(&built, 0, &[]);
    assert!(!stderr(&built).contains("0.17"), "{}", stderr(&built));
    assert_eq!(place.utxo_hash(), coins);
}
