//! A data directory that Apus wrote when the format was first described: blocks 0 to 20 of the
//! regtest chain, without the space reserved in the block files.

use std::fs;
use std::path::{Path, PathBuf};

use apus_testchain::{copy_dir, used_len};
use apus_wire::{BlockView, Chain};

use crate::support::judge::Judge;
use crate::support::{Place, regtest_chain};

/// The height of its tip.
const HEIGHT: usize = 20;
/// The MuHash of its UTXO set, as recorded when the directory was made.
const MUHASH: &str = "cdc0bf7914ca87052458eec45b6dd55b3d546d755b28c7b6037aac7abd144807";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/regtest-20")
}

/// A copy of the directory that a test may change.
fn opened() -> Place {
    let place = Place::new(Chain::Regtest);
    copy_dir(&golden(), &place.network_dir()).unwrap();
    place
}

#[test]
fn a_directory_made_earlier_opens_and_is_extended() {
    let place = opened();
    assert_eq!(place.muhash(), (MUHASH.to_string(), HEIGHT as u64));
    let chain = regtest_chain();
    let extended = place.sync(&[place.write("blocks", &chain)]);
    assert_eq!((extended.height, extended.counts.blocks), (206, 206 - HEIGHT as u64));

    let anew = Place::new(Chain::Regtest);
    anew.sync(&[anew.write("blocks", &chain)]);
    assert_eq!(place.utxo_hash(), anew.utxo_hash());
}

#[test]
fn a_directory_made_earlier_is_rebuilt_from_its_blocks() {
    let place = opened();
    fs::remove_dir_all(place.network_dir().join("chainstate")).unwrap();
    assert_eq!(place.try_reindex().unwrap().height, HEIGHT as u32);
    assert_eq!(place.muhash().0, MUHASH);
}

#[test]
fn the_engine_reads_a_directory_made_earlier() {
    let place = opened();
    let judge = Judge::open(&place).expect("the engine opens it");
    let tip = BlockView::parse(&regtest_chain()[HEIGHT]).unwrap().hash();
    assert_eq!(judge.tip(), (HEIGHT as u32, tip));
    judge.read_everything();
}

/// With the same key, today's code writes the same blocks as the same bytes.
#[test]
fn block_files_made_earlier_are_written_again() {
    let place = Place::new(Chain::Regtest);
    let blocks = place.network_dir().join("blocks");
    fs::create_dir_all(&blocks).unwrap();
    fs::copy(golden().join("blocks/xor.dat"), blocks.join("xor.dat")).unwrap();
    place.sync(&[place.write("blocks", &regtest_chain()[..=HEIGHT])]);
    for name in ["blk00000.dat", "rev00000.dat"] {
        let now = fs::read(blocks.join(name));
        let then = fs::read(golden().join("blocks").join(name));
        let now = now.unwrap();
        let then = then.unwrap();
        assert!(then.len() > 800, "{name} was cut");
        assert!(now.starts_with(&then), "{name} differs");
        assert!(now[then.len()..].iter().all(|byte| *byte == 0), "{name} has more");
    }
}

/// Makes the directory. It is run by hand, and only when the format changes on purpose.
#[test]
#[ignore = "writes tests/golden"]
fn make_the_directory() {
    assert!(std::env::var_os("APUS_MAKE_GOLDEN").is_some(), "APUS_MAKE_GOLDEN is not set");
    let place = Place::new(Chain::Regtest);
    place.sync(&[place.write("blocks", &regtest_chain()[..=HEIGHT])]);
    println!("{:?}", place.muhash());
    copy_dir(&place.network_dir(), &golden()).unwrap();
    for name in ["blk00000.dat", "rev00000.dat"] {
        let path = golden().join("blocks").join(name);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(used_len(&path).unwrap()).unwrap();
    }
}
