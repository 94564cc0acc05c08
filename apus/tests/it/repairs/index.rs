//! The block index rebuilt from the block files.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use apus_disk::Disk;
use apus_node::Run;
use apus_node::SyncError;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_store::{BlockStatus, FileInfo, IndexDb, IndexEntry};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::{Break, Chain, Spec};
use apus_wire::Chain as Network;

use crate::support::chains::{small, small_fork};
use crate::support::judge::Judge;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_contains, assert_ends};
use crate::support::stop_when::StopWhen;
use crate::support::tree::tree;
use crate::support::{Place, change_file, framed, hash_of, with_genesis};

/// Damage to the files of a directory.
type Damage = fn(&Path);

/// A directory with a chain and two branches that lost, one of which was connected before.
fn with_branches() -> Place {
    let main = small(5);
    let fork = small_fork(5, 190, 15, 9);
    let place = Place::new(Network::Regtest);
    place.sync(&[place.write("main", &with_genesis(main))]);
    place.sync(&[place.write("fork", &with_genesis(fork)[191..])]);
    let stale = with_genesis(small_fork(5, 150, 3, 4));
    place.sync(&[place.write("stale", &stale[151..])]);
    place
}

fn reindex_files(place: &Place, disk: &Disk) -> Result<Summary, SyncError> {
    sync::reindex_files_on(&Run::on(disk, &place.options()), Watch::default())
}

fn index_of(place: &Place) -> PathBuf {
    place.network_dir().join("blocks/index")
}

/// The part of an index that a rebuilt one must repeat: all of the active chain, and of other
/// blocks what does not come from connecting them.
fn comparable(place: &Place) -> (Vec<IndexEntry>, Vec<FileInfo>) {
    let (index, _) = place.blocks();
    let entries = index.entries.into_iter().map(|mut entry| {
        if !entry.record.status.has(BlockStatus::BLOCK_HAVE_DATA) || entry.height == 0 {
            return entry;
        }
        entry.record.status.0 &= !(BlockStatus::BLOCK_VALID_MASK | BlockStatus::BLOCK_HAVE_UNDO);
        entry.record.undo_pos = 0;
        entry
    });
    let files = index.files.into_iter().map(|info| FileInfo { undo_size: 0, ..info });
    (entries.collect(), files.collect())
}

/// Panics unless the engine opens the directory and reads every block and its undo data.
fn assert_whole(place: &Place, summary: &Summary, coins: &(String, u64)) {
    assert_eq!(&place.utxo_hash(), coins);
    let judge = Judge::open(place).expect("the engine opens the result");
    assert_eq!(judge.tip(), (summary.height, summary.best_block));
    judge.read_everything();
}

#[test]
fn the_index_is_the_one_that_a_sync_has_written() {
    let place = with_branches();
    let coins = place.utxo_hash();
    let before = comparable(&place);
    let summary = reindex_files(&place, &Disk::new()).unwrap();
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
    assert_eq!(summary.height, 205);
    assert_eq!(comparable(&place), before);
    let (index, _) = place.blocks();
    let with_undo = index.entries.iter().filter(|e| e.record.undo_pos().is_some()).count();
    assert_eq!(with_undo, 205 + 10, "that of the active chain, and of the branch that it replaced");
    assert_whole(&place, &summary, &coins);
    // The chain then grows as before, and a branch that lost may still win.
    let regrown = with_genesis(small_fork(5, 200, 9, 8));
    let summary = place.sync(&[place.write("more", &regrown)]);
    assert_eq!((summary.height, summary.best_block), (209, hash_of(&regrown[209])));
    assert!(place.try_reindex().unwrap().refusals.is_empty());
    assert!(!place.network_dir().join(apus_node::REBUILD_MARK).exists());
}

#[test]
fn a_lost_or_damaged_index_comes_back() {
    let whole = with_branches();
    let coins = whole.utxo_hash();
    let before = comparable(&whole);
    let kinds: [(&str, Damage); 7] = [
        ("missing", |dir| std::fs::remove_dir_all(dir).unwrap()),
        ("empty", |dir| {
            std::fs::remove_dir_all(dir).unwrap();
            std::fs::create_dir(dir).unwrap();
        }),
        ("without CURRENT", |dir| std::fs::remove_file(dir.join("CURRENT")).unwrap()),
        ("without its tables", |dir| remove(dir, "ldb")),
        ("all flipped", |dir| change_all(dir, |bytes| bytes.iter_mut().for_each(|b| *b ^= 0x55))),
        ("all cut", |dir| change_all(dir, |bytes| bytes.truncate(bytes.len() / 2))),
        ("all empty", |dir| change_all(dir, Vec::clear)),
    ];
    for (kind, damage) in kinds {
        let place = whole.copy();
        damage(&index_of(&place));
        let error = place.try_sync(&[]).expect_err(kind);
        assert_contains(&error, &["`apus reindex --index`"]);
        let summary = reindex_files(&place, &Disk::new());
        let summary = summary.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(comparable(&place), before, "{kind}");
        assert_whole(&place, &summary, &coins);
        assert_eq!(place.sync(&[]).counts.blocks, 0, "{kind}");
    }
}

fn remove(dir: &Path, extension: &str) {
    for path in tree(dir).into_keys().filter(|p| p.extension().is_some_and(|e| e == extension)) {
        std::fs::remove_file(path).unwrap();
    }
}

fn change_all(dir: &Path, change: impl Fn(&mut Vec<u8>)) {
    tree(dir).keys().filter(|path| path.is_file()).for_each(|path| change_file(path, &change));
}

#[test]
fn what_cannot_be_indexed_is_refused_by_name_and_left_alone() {
    let place = Place::new(Network::Regtest);
    let summary = place.sync(&[place.write("main", &with_genesis(small(5)))]);
    assert_eq!(summary.height, 200);
    let blocks = |place: &Place, name: &str| place.network_dir().join("blocks").join(name);
    let kinds: [(&str, Damage, &[&str]); 3] = [
        (
            "neither the key nor the first block",
            |dir| {
                std::fs::remove_file(dir.join("xor.dat")).unwrap();
                change_file(&dir.join("blk00000.dat"), |bytes| bytes[..100].fill(0x33));
            },
            &["xor.dat: this file is missing", "`apus sync --from`"],
        ),
        (
            "pruned",
            |dir| std::fs::rename(dir.join("blk00000.dat"), dir.join("blk00001.dat")).unwrap(),
            &["blk00000.dat", "missing", "pruned", "`apus sync --from`"],
        ),
        (
            "no files",
            |dir| std::fs::remove_file(dir.join("blk00000.dat")).unwrap(),
            &["no block files"],
        ),
    ];
    for (kind, damage, words) in kinds {
        let place = place.copy();
        damage(&blocks(&place, ""));
        let before = tree(&place.datadir());
        let error = reindex_files(&place, &Disk::new()).expect_err(kind);
        assert_contains(&error, words);
        assert!(tree(&place.datadir()) == before, "{kind}: something was changed");
    }
    let nowhere = Place::new(Network::Regtest);
    assert_contains(&reindex_files(&nowhere, &Disk::new()).unwrap_err(), &["`apus sync`"]);
    assert!(!nowhere.datadir().exists());
}

/// A lost `xor.dat` is written again by every command that writes, and not needed by those that
/// read.
#[test]
fn a_lost_key_is_found_again() {
    let whole = Place::new(Network::Regtest);
    whole.sync(&[whole.write("main", &with_genesis(small(5)))]);
    let coins = whole.utxo_hash();
    let key = |place: &Place| place.network_dir().join("blocks/xor.dat");
    let original = std::fs::read(key(&whole)).unwrap();
    assert_ne!(original, [0; 8]);
    let place = whole.copy();
    std::fs::remove_file(key(&place)).unwrap();
    assert_eq!(place.utxo_hash(), coins);
    let status = apus(&place, &["status"]);
    assert_ends(&status, 0, &["xor.dat is missing", "`apus sync` restores it"]);
    assert!(!key(&place).exists(), "reading writes nothing");
    for command in 0..3 {
        let _ = std::fs::remove_file(key(&place));
        let restored = match command {
            0 => place.try_sync(&[]),
            1 => place.try_reindex(),
            _ => reindex_files(&place, &Disk::new()),
        };
        assert_eq!(restored.unwrap().height, 200);
        assert_eq!(std::fs::read(key(&place)).unwrap(), original);
        assert_eq!(place.utxo_hash(), coins);
    }
    // The files are a source too, whatever lies next to them.
    for wrong in [None, Some([0; 8]), Some([9; 8])] {
        match wrong {
            Some(bytes) => std::fs::write(key(&place), bytes).unwrap(),
            None => std::fs::remove_file(key(&place)).unwrap(),
        }
        for from in [place.datadir(), place.network_dir().join("blocks/blk00000.dat")] {
            assert_eq!(Place::new(Network::Regtest).sync(&[from]).height, 200);
        }
    }
    // A wrong key is named, and not replaced.
    let error = place.try_sync(&[]).unwrap_err();
    assert_contains(&error, &["xor.dat: this is not the key", "remove this file"]);
    assert_eq!(std::fs::read(key(&place)).unwrap(), [9; 8]);
    std::fs::remove_file(key(&place)).unwrap();
    assert_eq!(place.sync(&[]).height, 200);
}

/// Block files with blocks in any order and twice, damaged copies before good ones, stale and
/// invalid blocks, orphans, junk, and a last block that is cut.
#[test]
fn any_order_and_junk_in_the_files_does_no_harm() {
    let main = small(5);
    let fork = small_fork(5, 190, 4, 9);
    let chain = with_genesis(main);
    let reference = Place::new(Network::Regtest);
    let coins = {
        reference.sync(&[reference.write("main", &chain)]);
        reference.utxo_hash()
    };
    let mut damaged = chain[100].clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let orphan = with_genesis(small_fork(5, 198, 3, 3))[200].clone();
    let frames = |blocks: &[Vec<u8>]| framed(&reference.network, blocks);
    let mut second: Vec<Vec<u8>> = chain[1..120].to_vec();
    second.reverse();
    second.insert(0, damaged);
    second.extend(with_genesis(fork)[191..].iter().cloned());
    second.push(main.broken(Break::BadCbAmount).block);
    second.push(main.broken(Break::BadTxnsNonfinalHeight).block);
    second.push(orphan);
    let files = [
        [frames(&chain[100..150]), vec![7; 300], frames(&chain[150..])].concat(),
        frames(&second),
        [frames(&chain[..30]), frames(&chain[5..6])[..100].to_vec()].concat(),
    ];
    let place = Place::new(Network::Regtest);
    let blocks = place.network_dir().join("blocks");
    std::fs::create_dir_all(&blocks).unwrap();
    for (number, bytes) in files.iter().enumerate() {
        std::fs::write(blocks.join(format!("blk{number:05}.dat")), bytes).unwrap();
    }
    let summary = reindex_files(&place, &Disk::new()).unwrap();
    let said: Vec<String> = summary.refusals.iter().map(ToString::to_string).collect();
    let count = |word: &str| said.iter().filter(|line| line.contains(word)).count();
    let words = ["300 bytes belong to no block", "ends inside", "nonfinal", "cb-amount", "parent"];
    assert_eq!(words.map(count), [1, 1, 1, 1, 1], "{said:#?}");
    assert_eq!((summary.height, said.len()), (200, 5), "{said:#?}");
    assert_whole(&place, &summary, &coins);
    for (number, bytes) in files.iter().enumerate() {
        let now = std::fs::read(blocks.join(format!("blk{number:05}.dat"))).unwrap();
        assert!(now.starts_with(&bytes[..bytes.len().min(now.len())]), "file {number}");
    }
    // New blocks are appended after everything that was in the files.
    let more = with_genesis(small_fork(5, 200, 3, 8));
    let summary = place.sync(&[place.write("more", &more[201..])]);
    assert_eq!((summary.height, summary.refusals.len()), (203, 0));
    assert!(place.try_reindex().unwrap().refusals.is_empty());
}

#[test]
fn interrupted_it_changes_nothing_or_carries_on() {
    let place = Place::new(Network::Regtest);
    let chain = Chain::new(Spec { empty_blocks_after: 300, ..Spec::small(5) });
    let synced = place.sync(&[place.write("main", &with_genesis(&chain))]);
    let coins = place.utxo_hash();
    let before = tree(&place.datadir());
    let stop = AtomicBool::new(false);
    let observer = StopWhen(&stop, |progress: &Progress| progress.phase == Phase::Headers);
    let early = sync::reindex_files(&place.options(), Watch::new(&observer, &stop));
    assert_contains(&early.unwrap_err(), &["interrupted", "nothing was changed"]);
    assert!(tree(&place.datadir()) == before, "something was changed");

    let stop = AtomicBool::new(false);
    let observer = StopWhen(&stop, |progress: &Progress| {
        progress.phase == Phase::Connecting && progress.blocks >= 20
    });
    let begun = sync::reindex_files(&place.options(), Watch::new(&observer, &stop)).unwrap();
    assert!(begun.interrupted && begun.height >= 20 && begun.height < synced.height);
    assert_eq!(place.utxo_hash(), coins, "the old coins are still there");
    let rest = reindex_files(&place, &Disk::new()).unwrap();
    assert_eq!(rest.counts.blocks, u64::from(synced.height - begun.height), "it carried on");
    assert_whole(&place, &rest, &coins);
    // A finished rebuild is finished: asked again, it starts from the beginning.
    assert_eq!(
        reindex_files(&place, &Disk::new()).unwrap().counts.blocks,
        u64::from(synced.height)
    );
    assert_whole(&place, &rest, &coins);
}

/// An index that Core has not finished rebuilding can be rebuilt.
#[test]
fn what_core_has_left_half_done_is_done() {
    let place = with_branches();
    let coins = place.utxo_hash();
    IndexDb::open(&Disk::new(), &index_of(&place)).unwrap().write_reindexing(true).unwrap();
    assert_contains(&place.try_sync(&[]).unwrap_err(), &["`apus reindex --index`"]);
    let summary = reindex_files(&place, &Disk::new()).unwrap();
    assert_whole(&place, &summary, &coins);
}

/// Cuts the power at every ninth step from the step `first`.
fn cut_from(first: u64, before: &Place, expected: &Summary, coins: &(String, u64)) {
    let (disk, counter) = counted();
    reindex_files(&before.copy(), &disk).unwrap();
    assert!(counter.steps() > 30, "there is something to cut: {}", counter.steps());
    for power in power_cuts(first..=counter.steps(), 19) {
        let place = before.copy();
        if reindex_files(&place, &failing(&power)).is_ok() {
            continue;
        }
        power.lose_unsynced().unwrap();
        let summary = reindex_files(&place, &Disk::new());
        let summary = summary.unwrap_or_else(|error| panic!("{power:?}: {error}"));
        assert_eq!(summary.best_block, expected.best_block, "{power:?}");
        assert_eq!(&place.utxo_hash(), coins, "{power:?}");
        if power.cut_at() % 4 == 0 {
            assert_whole(&place, &summary, coins);
        }
    }
}

#[test]
fn power_may_fail_at_any_step() {
    let chain = with_genesis(small(5))[..24].to_vec();
    let place = Place::new(Network::Regtest);
    let summary = place.sync(&[place.write("chain", &chain)]);
    place.shrink();
    let coins = place.utxo_hash();
    cut_from(1, &place, &summary, &coins);
    cut_from(4, &place, &summary, &coins);
    // A damaged index, which is removed before the new one is written.
    std::fs::write(index_of(&place).join("CURRENT"), "nothing\n").unwrap();
    cut_from(7, &place, &summary, &coins);
}
