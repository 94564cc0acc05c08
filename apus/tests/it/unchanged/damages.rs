//! Kinds of damage to a data directory.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use apus_testchain::used_len;

use crate::support::{Place, first_table};

/// Damage of one kind.
pub struct Damage {
    pub name: &'static str,
    pub apply: fn(&Place),
}

const fn damage(name: &'static str, apply: fn(&Place)) -> Damage {
    Damage { name, apply }
}

/// The directory of the block files.
pub fn blocks(place: &Place) -> PathBuf {
    place.network_dir().join("blocks")
}

/// Where the damage `blocks moved` moves the block files.
pub fn moved_blocks(place: &Place) -> PathBuf {
    place.root().join("other/regtest/blocks")
}

fn cut(path: &Path, part: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() * part / 100).unwrap();
}

/// Flips bits in the middle of what was written to a file.
fn flip(path: &Path, percent: u64) {
    let at = used_len(path).unwrap() * percent / 100;
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn zero(path: &Path, from: u64, len: usize) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&vec![0; len], from).unwrap();
}

/// Removes a file or a directory.
fn gone(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
}

fn swap(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(aside, other).unwrap();
}

fn named(dir: &Path, prefix: &str) -> PathBuf {
    let mut paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix)).unwrap()
}

fn last(place: &Place, kind: &str) -> PathBuf {
    let path = |n: u32| blocks(place).join(format!("{kind}{n:05}.dat"));
    let count = (0..).take_while(|n| path(*n).exists()).count() as u32;
    path(count - 1)
}

fn index(place: &Place) -> PathBuf {
    blocks(place).join("index")
}

fn chainstate(place: &Place) -> PathBuf {
    place.network_dir().join("chainstate")
}

fn file(place: &Place, name: &str) -> PathBuf {
    blocks(place).join(name)
}

/// All kinds of damage. The first is none.
pub const DAMAGES: &[Damage] = &[
    damage("none", |_| {}),
    // Block files.
    damage("first block file cut", |p| cut(&file(p, "blk00000.dat"), 50)),
    damage("a block file cut", |p| cut(&file(p, "blk00002.dat"), 30)),
    damage("last block file cut", |p| cut(&last(p, "blk"), 20)),
    damage("a bit of the first block file", |p| flip(&file(p, "blk00000.dat"), 50)),
    damage("a bit of a block file", |p| flip(&file(p, "blk00002.dat"), 40)),
    damage("a bit of the last block file", |p| flip(&last(p, "blk"), 90)),
    damage("a bit of the genesis block", |p| flip(&file(p, "blk00000.dat"), 0)),
    damage("zeros in a block file", |p| zero(&file(p, "blk00001.dat"), 9000, 12_000)),
    damage("a block file is zeros", |p| zero(&file(p, "blk00001.dat"), 0, 65_536)),
    damage("first block file missing", |p| gone(&file(p, "blk00000.dat"))),
    damage("a block file missing", |p| gone(&file(p, "blk00002.dat"))),
    damage("last block file missing", |p| gone(&last(p, "blk"))),
    damage("a block file empty", |p| cut(&file(p, "blk00002.dat"), 0)),
    damage("a block file of another network", |p| {
        let foreign = [&[0xf9, 0xbe, 0xb4, 0xd9, 0, 16, 0, 0][..], &[7; 4096]].concat();
        fs::write(file(p, "blk00001.dat"), foreign).unwrap();
    }),
    damage("block files renumbered", |p| swap(&file(p, "blk00001.dat"), &file(p, "blk00002.dat"))),
    damage("a stray block file", |p| {
        fs::copy(file(p, "blk00001.dat"), file(p, "blk00077.dat")).unwrap();
    }),
    // Undo files.
    damage("an undo file cut", |p| cut(&file(p, "rev00001.dat"), 40)),
    damage("last undo file cut", |p| cut(&last(p, "rev"), 40)),
    damage("a bit of an undo file", |p| flip(&file(p, "rev00001.dat"), 50)),
    damage("a bit of the last undo file", |p| flip(&last(p, "rev"), 80)),
    damage("an undo file missing", |p| gone(&file(p, "rev00001.dat"))),
    damage("last undo file missing", |p| gone(&last(p, "rev"))),
    damage("undo files renumbered", |p| swap(&file(p, "rev00001.dat"), &file(p, "rev00002.dat"))),
    // The key and the settings.
    damage("xor.dat missing", |p| gone(&file(p, "xor.dat"))),
    damage("xor.dat zeros", |p| fs::write(file(p, "xor.dat"), [0; 8]).unwrap()),
    damage("xor.dat short", |p| fs::write(file(p, "xor.dat"), [1; 3]).unwrap()),
    damage("settings.json torn", |p| {
        fs::write(p.network_dir().join("settings.json"), "{\"prune\": ").unwrap();
    }),
    // The block index.
    damage("index missing", |p| gone(&index(p))),
    damage("index without CURRENT", |p| gone(&index(p).join("CURRENT"))),
    damage("index with a wrong CURRENT", |p| {
        fs::write(index(p).join("CURRENT"), "MANIFEST-999999\n").unwrap();
    }),
    damage("index with a torn manifest", |p| cut(&named(&index(p), "MANIFEST"), 60)),
    damage("index with a bad table", |p| flip(&first_table(&index(p)), 50)),
    damage("index without a table", |p| gone(&first_table(&index(p)))),
    // The UTXO set.
    damage("chainstate missing", |p| gone(&chainstate(p))),
    damage("chainstate without CURRENT", |p| gone(&chainstate(p).join("CURRENT"))),
    damage("chainstate with a torn manifest", |p| cut(&named(&chainstate(p), "MANIFEST"), 60)),
    damage("chainstate with a bad table", |p| flip(&first_table(&chainstate(p)), 50)),
    damage("chainstate without a table", |p| gone(&first_table(&chainstate(p)))),
    damage("chainstate and index missing", |p| {
        gone(&chainstate(p));
        gone(&index(p));
    }),
    // Block files elsewhere.
    damage("blocks moved", |p| {
        let to = moved_blocks(p);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(blocks(p), to).unwrap();
    }),
    damage("block files moved, index not", |p| {
        let to = moved_blocks(p);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(blocks(p), &to).unwrap();
        fs::create_dir(blocks(p)).unwrap();
        fs::rename(to.join("index"), index(p)).unwrap();
    }),
];
