//! Messages about damage: each names a command, which then repairs it.

use std::path::{Path, PathBuf};

use apus_node as node;
use apus_progress::Watch;
use apus_sync as sync;
use apus_testchain::copy_dir;
use apus_tools as tools;
use apus_tools::UtxoHash;
use apus_wire::Chain as Network;

use crate::support::chains::small;
use crate::support::program::assert_contains;
use crate::support::{Place, first_table, hash_of, with_genesis};

/// Damage to the files of a directory.
type Damage = fn(&Path);

fn flip_all(path: &Path) {
    let bytes: Vec<u8> = std::fs::read(path).unwrap().iter().map(|byte| byte ^ 0x10).collect();
    std::fs::write(path, bytes).unwrap();
}

fn named_file(dir: &Path, prefix: &str) -> PathBuf {
    let mut files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.find(|p| p.file_name().unwrap().to_string_lossy().starts_with(prefix)).unwrap()
}

/// The errors of reading the UTXO set, of a sync and of a reindex.
fn messages(place: &Place) -> [String; 2] {
    let options = place.options();
    let read = tools::txoutset_info(&options, UtxoHash::None, Watch::default());
    let synced = place.try_sync(&[]);
    [read.err().map(|error| error.to_string()), synced.err().map(|error| error.to_string())]
        .map(Option::unwrap_or_default)
}

#[test]
fn damaged_tables_name_the_command_that_rebuilds_them() {
    let whole = Place::new(Network::Regtest);
    whole.sync(&[whole.write("chain", &with_genesis(small(5)))]);
    let coins = whole.utxo_hash();
    let kinds: [(&str, Damage); 5] = [
        ("a flipped table", |dir| flip_all(&first_table(dir))),
        ("a missing table", |dir| std::fs::remove_file(first_table(dir)).unwrap()),
        ("a missing CURRENT", |dir| std::fs::remove_file(dir.join("CURRENT")).unwrap()),
        ("a flipped CURRENT", |dir| flip_all(&dir.join("CURRENT"))),
        ("a flipped manifest", |dir| flip_all(&named_file(dir, "MANIFEST"))),
    ];
    for (kind, damage) in kinds {
        let place = whole.copy();
        damage(&place.network_dir().join("chainstate"));
        let [read, _] = messages(&place);
        assert!(read.contains("`apus reindex` "), "{kind}: {read}");
        let repaired = place.try_reindex();
        assert!(repaired.is_ok(), "{kind}: {repaired:?}");
        assert_eq!(place.utxo_hash(), coins, "{kind}");
    }
}

#[test]
fn a_missing_block_file_names_what_can_be_done() {
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    std::fs::remove_file(place.network_dir().join("blocks/blk00000.dat")).unwrap();
    for text in messages(&place) {
        assert!(
            text.contains("is their disk mounted") && text.contains("`apus sync --from`"),
            "{text}"
        );
    }
}

#[test]
fn a_utxo_set_above_the_block_index_is_named_by_its_height() {
    let place = Place::new(Network::Regtest);
    let blocks = with_genesis(small(5));
    place.sync(&[place.write("old", &blocks[..151])]);
    let old = place.copy();
    place.sync(&[place.write("chain", &blocks)]);
    // The blocks of an older state, with the UTXO set of the newer one.
    let directory = place.network_dir().join("blocks");
    std::fs::remove_dir_all(&directory).unwrap();
    copy_dir(&old.network_dir().join("blocks"), &directory).unwrap();
    let best = hash_of(&blocks[200]).to_string();
    let created = apus_claims::create_hints(
        &place.options(),
        None,
        apus_swiftsync::Format::Bip456,
        &place.root().join("x"),
        Watch::default(),
    );
    let [read, synced] = messages(&place);
    for text in [read, synced, created.unwrap_err().to_string()] {
        let remedy = "`apus reindex --index`";
        let words = [&best, ", at about height 200,", "which ends at height 150", remedy];
        assert_contains(&text, &words);
    }
    let refused = place.try_reindex().unwrap_err().to_string();
    assert!(refused.contains(&best) && refused.contains(", at about height 200,"), "{refused}");
    let options = node::Options { allow_shrink: true, ..place.options() };
    let built = sync::reindex(&options, Watch::default()).unwrap();
    assert_eq!((built.height, place.utxo_hash()), (150, old.utxo_hash()));
}

/// No command is named where the system refuses access, or where another process uses the
/// directory.
#[test]
fn what_is_no_damage_names_no_repair() {
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("chain", &with_genesis(small(5)))]);
    let chainstate = place.network_dir().join("chainstate");
    let lock = apus_disk::Disk::new().lock(chainstate.join("LOCK")).unwrap();
    for text in messages(&place) {
        assert!(text.contains("in use") && !text.contains("reindex"), "{text}");
    }
    drop(lock);
    let table = first_table(&chainstate);
    std::fs::remove_file(&table).unwrap();
    std::fs::create_dir(&table).unwrap();
    for text in messages(&place) {
        assert!(!text.is_empty(), "a directory is no table");
    }
}
