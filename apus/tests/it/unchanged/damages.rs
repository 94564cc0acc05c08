//! Kinds of damage to a data directory.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::support::{Place, first_table};

/// Damage of one kind.
pub struct Damage {
    pub name: &'static str,
    pub apply: fn(&Place),
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
fn flip(path: &Path, percent: usize) {
    let bytes = fs::read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let at = used * percent / 100;
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[bytes[at] ^ 0x10], at as u64).unwrap();
}

fn zero(path: &Path, from: u64, len: usize) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&vec![0; len], from).unwrap();
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
    Damage { name: "none", apply: |_| {} },
    // Block files.
    Damage { name: "first block file cut", apply: |p| cut(&file(p, "blk00000.dat"), 50) },
    Damage { name: "a block file cut", apply: |p| cut(&file(p, "blk00002.dat"), 30) },
    Damage { name: "last block file cut", apply: |p| cut(&last(p, "blk"), 20) },
    Damage { name: "a bit of the first block file", apply: |p| flip(&file(p, "blk00000.dat"), 50) },
    Damage { name: "a bit of a block file", apply: |p| flip(&file(p, "blk00002.dat"), 40) },
    Damage { name: "a bit of the last block file", apply: |p| flip(&last(p, "blk"), 90) },
    Damage { name: "a bit of the genesis block", apply: |p| flip(&file(p, "blk00000.dat"), 0) },
    Damage {
        name: "zeros in a block file",
        apply: |p| zero(&file(p, "blk00001.dat"), 9000, 12_000),
    },
    Damage { name: "a block file is zeros", apply: |p| zero(&file(p, "blk00001.dat"), 0, 65_536) },
    Damage {
        name: "first block file missing",
        apply: |p| fs::remove_file(file(p, "blk00000.dat")).unwrap(),
    },
    Damage {
        name: "a block file missing",
        apply: |p| fs::remove_file(file(p, "blk00002.dat")).unwrap(),
    },
    Damage { name: "last block file missing", apply: |p| fs::remove_file(last(p, "blk")).unwrap() },
    Damage { name: "a block file empty", apply: |p| cut(&file(p, "blk00002.dat"), 0) },
    Damage {
        name: "a block file of another network",
        apply: |p| {
            let foreign = [&[0xf9, 0xbe, 0xb4, 0xd9, 0, 16, 0, 0][..], &[7; 4096]].concat();
            fs::write(file(p, "blk00001.dat"), foreign).unwrap();
        },
    },
    Damage {
        name: "block files renumbered",
        apply: |p| swap(&file(p, "blk00001.dat"), &file(p, "blk00002.dat")),
    },
    Damage {
        name: "a stray block file",
        apply: |p| {
            fs::copy(file(p, "blk00001.dat"), file(p, "blk00077.dat")).unwrap();
        },
    },
    // Undo files.
    Damage { name: "an undo file cut", apply: |p| cut(&file(p, "rev00001.dat"), 40) },
    Damage { name: "last undo file cut", apply: |p| cut(&last(p, "rev"), 40) },
    Damage { name: "a bit of an undo file", apply: |p| flip(&file(p, "rev00001.dat"), 50) },
    Damage { name: "a bit of the last undo file", apply: |p| flip(&last(p, "rev"), 80) },
    Damage {
        name: "an undo file missing",
        apply: |p| fs::remove_file(file(p, "rev00001.dat")).unwrap(),
    },
    Damage { name: "last undo file missing", apply: |p| fs::remove_file(last(p, "rev")).unwrap() },
    Damage {
        name: "undo files renumbered",
        apply: |p| swap(&file(p, "rev00001.dat"), &file(p, "rev00002.dat")),
    },
    // The key and the settings.
    Damage { name: "xor.dat missing", apply: |p| fs::remove_file(file(p, "xor.dat")).unwrap() },
    Damage { name: "xor.dat zeros", apply: |p| fs::write(file(p, "xor.dat"), [0; 8]).unwrap() },
    Damage { name: "xor.dat short", apply: |p| fs::write(file(p, "xor.dat"), [1; 3]).unwrap() },
    Damage {
        name: "settings.json torn",
        apply: |p| fs::write(p.network_dir().join("settings.json"), "{\"prune\": ").unwrap(),
    },
    // The block index.
    Damage { name: "index missing", apply: |p| fs::remove_dir_all(index(p)).unwrap() },
    Damage {
        name: "index without CURRENT",
        apply: |p| fs::remove_file(index(p).join("CURRENT")).unwrap(),
    },
    Damage {
        name: "index with a wrong CURRENT",
        apply: |p| fs::write(index(p).join("CURRENT"), "MANIFEST-999999\n").unwrap(),
    },
    Damage {
        name: "index with a torn manifest",
        apply: |p| cut(&named(&index(p), "MANIFEST"), 60),
    },
    Damage { name: "index with a bad table", apply: |p| flip(&first_table(&index(p)), 50) },
    Damage {
        name: "index without a table",
        apply: |p| fs::remove_file(first_table(&index(p))).unwrap(),
    },
    // The UTXO set.
    Damage { name: "chainstate missing", apply: |p| fs::remove_dir_all(chainstate(p)).unwrap() },
    Damage {
        name: "chainstate without CURRENT",
        apply: |p| fs::remove_file(chainstate(p).join("CURRENT")).unwrap(),
    },
    Damage {
        name: "chainstate with a torn manifest",
        apply: |p| cut(&named(&chainstate(p), "MANIFEST"), 60),
    },
    Damage {
        name: "chainstate with a bad table",
        apply: |p| flip(&first_table(&chainstate(p)), 50),
    },
    Damage {
        name: "chainstate without a table",
        apply: |p| fs::remove_file(first_table(&chainstate(p))).unwrap(),
    },
    // Block files elsewhere.
    Damage {
        name: "blocks moved",
        apply: |p| {
            let to = moved_blocks(p);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::rename(blocks(p), to).unwrap();
        },
    },
    Damage {
        name: "block files moved, index not",
        apply: |p| {
            let to = moved_blocks(p);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::rename(blocks(p), &to).unwrap();
            fs::create_dir(blocks(p)).unwrap();
            fs::rename(to.join("index"), index(p)).unwrap();
        },
    },
];
