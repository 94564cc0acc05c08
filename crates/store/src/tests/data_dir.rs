use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use apus_disk::{Disk, StoreError};

use super::*;

fn open(root: &Path, network: &Network, options: DataDirOptions) -> Result<DataDir> {
    DataDir::open(&Disk::new(), root, network, options)
}

fn refusal(result: Result<DataDir>) -> String {
    result.err().map(|e: StoreError| e.to_string()).expect("it must be refused")
}

#[test]
fn everything_missing_is_made() {
    for (chain, below) in [(Chain::Main, ""), (Chain::Signet, "signet")] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new");
        let data = open(&root, &Network::new(chain), DataDirOptions::default()).unwrap();
        let net = root.join(below);
        for name in ["blocks/index", "chainstate"] {
            assert!(net.join(name).is_dir(), "{name}");
        }
        for name in [".lock", "blocks/.lock"] {
            assert_eq!(fs::metadata(net.join(name)).unwrap().len(), 0, "{name}");
        }
        assert_eq!(fs::read(net.join("blocks/xor.dat")).unwrap(), data.obfuscation().key());
        assert!(!data.obfuscation().is_none());
        let (db, index, files) = data.open_blocks().unwrap();
        assert!(index.entries.is_empty());
        files.append_block(&[0; 80], 0, 0).unwrap();
        db.write(&files.flush().unwrap(), &[]).unwrap();
        let key = data.obfuscation();
        drop((data, db));
        let data = open(&root, &Network::new(chain), DataDirOptions::default()).unwrap();
        assert_eq!(data.obfuscation(), key);
        assert_eq!(data.open_blocks().unwrap().1.files[0].size, 88);
    }
}

#[test]
fn the_key_follows_cores_rules() {
    let key_after = |prepare: &dyn Fn(&Path), use_xor| {
        let dir = tempfile::tempdir().unwrap();
        let blocks = dir.path().join("blocks");
        fs::create_dir_all(&blocks).unwrap();
        prepare(&blocks);
        let options = DataDirOptions { use_xor, ..DataDirOptions::default() };
        open(dir.path(), &mainnet(), options).map(|data| data.obfuscation())
    };
    assert!(!key_after(&|_| {}, true).unwrap().is_none());
    assert!(key_after(&|_| {}, false).unwrap().is_none());
    assert!(
        !key_after(&|blocks| fs::write(blocks.join(".hidden"), []).unwrap(), true)
            .unwrap()
            .is_none()
    );
    let old = |blocks: &Path| fs::write(blocks.join("blk00000.dat"), [0; 100]).unwrap();
    assert!(key_after(&old, true).unwrap().is_none());
    let index = |blocks: &Path| fs::create_dir(blocks.join("index")).unwrap();
    assert!(key_after(&index, true).unwrap().is_none());
    let stored = |blocks: &Path| fs::write(blocks.join("xor.dat"), [7; 8]).unwrap();
    assert_eq!(key_after(&stored, true).unwrap().key(), [7; 8]);
    assert!(key_after(&stored, false).is_err());
    let short = |blocks: &Path| fs::write(blocks.join("xor.dat"), [7; 5]).unwrap();
    assert!(key_after(&short, true).is_err());
}

#[test]
fn mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let record = flat_file::block_record(Network::new(Chain::Testnet4).magic, &[0; 80]);
    fs::create_dir_all(root.join("blocks")).unwrap();
    fs::write(root.join("blocks/blk00000.dat"), record).unwrap();
    let error = refusal(open(root, &mainnet(), DataDirOptions::default()));
    assert!(error.contains("testnet4") && error.contains("--chain=testnet4"), "{error}");

    fs::remove_file(root.join("blocks/blk00000.dat")).unwrap();
    let elsewhere = Some(root.join("missing"));
    let options = DataDirOptions { blocks_dir: elsewhere, ..DataDirOptions::default() };
    assert!(refusal(open(root, &mainnet(), options)).contains("does not exist"));

    let data = open(root, &mainnet(), DataDirOptions::default()).unwrap();
    let (db, _, _) = data.open_blocks().unwrap();
    db.write_pruned().unwrap();
    drop(db);
    let refused = data.open_blocks().err().unwrap().to_string();
    assert!(refused.contains("were pruned") && refused.contains("--datadir"), "{refused}");
    drop(data);
    let options = DataDirOptions { prune: true, ..DataDirOptions::default() };
    assert!(open(root, &mainnet(), options).unwrap().open_blocks().unwrap().1.pruned);
}

/// Whichever network is asked for, the answer is the same, and does what it says.
#[test]
fn the_directory_of_a_network_is_no_data_directory() {
    for chain in Chain::ALL.into_iter().filter(|chain| *chain != Chain::Main) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let network = Network::new(chain);
        let data = open(&root, &network, DataDirOptions::default()).unwrap();
        let (db, _, files) = data.open_blocks().unwrap();
        drop((data, db));
        let own = root.join(network.subdirectory);
        let moved = root.join("moved");
        for has_blocks in [false, true] {
            if has_blocks {
                files.append_block(&[0; 80], 0, 0).unwrap();
                files.flush().unwrap();
            }
            for other in Chain::ALL.map(Network::new) {
                let options = DataDirOptions { read_only: true, ..DataDirOptions::default() };
                let error = refusal(open(&own, &other, options));
                let told = format!("use --datadir={} --chain={}", root.display(), chain.name());
                assert!(error.ends_with(&told), "{:?}: {error}", other.chain);
            }
        }
        open(&root, &network, DataDirOptions::default()).unwrap();
        fs::rename(&own, &moved).unwrap();
        let error = refusal(open(&moved, &mainnet(), DataDirOptions::default()));
        assert!(error.contains(&format!("move it to DIR/{}", network.subdirectory)), "{error}");
        assert!(!moved.join(network.subdirectory).exists() && !moved.join(".lock").is_dir());
    }
}

/// A disk that is not mounted must be named, and nothing made in its place.
#[test]
fn links_that_lead_nowhere_and_files_are_named() {
    let kinds = ["", "regtest", "regtest/blocks", "regtest/blocks/index", "regtest/chainstate"];
    for kind in kinds {
        for is_link in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("root");
            let at = root.join(kind);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            // The path of the root itself ends with a slash.
            let at = if kind.is_empty() { root.clone() } else { at };
            if is_link {
                std::os::unix::fs::symlink(dir.path().join("ssd/there"), &at).unwrap()
            } else {
                fs::write(&at, "").unwrap()
            }
            for read_only in [true, false] {
                let options = DataDirOptions { read_only, ..DataDirOptions::default() };
                let error = refusal(open(&root, &Network::new(Chain::Regtest), options));
                assert!(error.starts_with(&at.display().to_string()), "{error}");
                let words = if is_link { "ssd/there (mount its disk" } else { "not a directory" };
                assert!(error.contains(words), "{error}");
            }
            assert!(!dir.path().join("ssd").exists());
        }
    }
}

/// A power cut soon after a directory was created may leave a block file whose first sector was
/// never written.
#[test]
fn a_torn_first_file_is_no_foreign_file() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), &mainnet(), DataDirOptions::default()).unwrap();
    let path = dir.path().join("blocks/blk00000.dat");
    let mut bytes = noise(1, 2048);
    fs::write(&path, &bytes).unwrap();
    let refused = refusal(open(dir.path(), &mainnet(), DataDirOptions::default()));
    assert!(refused.contains("not a file of mainnet blocks"), "{refused}");
    bytes[..512].fill(0);
    fs::write(&path, &bytes).unwrap();
    open(dir.path(), &mainnet(), DataDirOptions::default()).unwrap();
}

#[test]
fn blocks_may_be_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let blocks_dir = Some(other.path().to_path_buf());
    let options = DataDirOptions { blocks_dir, ..DataDirOptions::default() };
    let data = open(dir.path(), &Network::new(Chain::Regtest), options).unwrap();
    let (_, _, files) = data.open_blocks().unwrap();
    files.append_block(&[0; 80], 0, 0).unwrap();
    assert!(other.path().join("regtest/blocks/blk00000.dat").exists());
    assert!(other.path().join("regtest/blocks/.lock").exists());
    assert!(dir.path().join("regtest/blocks/index/CURRENT").exists());
}

#[test]
fn one_holder_at_a_time_in_this_process() {
    let dir = tempfile::tempdir().unwrap();
    let data = open(dir.path(), &mainnet(), DataDirOptions::default()).unwrap();
    for _ in 0..2 {
        let error = refusal(open(dir.path(), &mainnet(), DataDirOptions::default()));
        assert!(error.contains("cannot obtain a lock on this directory"), "{error}");
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
    }
    // Another network in the same root uses another directory.
    open(dir.path(), &Network::new(Chain::Regtest), DataDirOptions::default()).unwrap();
    drop(data);
    open(dir.path(), &mainnet(), DataDirOptions::default()).unwrap();
}

/// What [`hold_the_lock`] prints once it holds the lock.
const HELD: &str = "the lock is held";

/// Holds the lock for `one_holder_at_a_time_among_processes`, which runs this in another process.
#[test]
#[ignore = "run by one_holder_at_a_time_among_processes in another process"]
fn hold_the_lock() {
    let Some(root) = std::env::var_os("APUS_TEST_LOCK_ROOT") else { return };
    let data = open(Path::new(&root), &mainnet(), DataDirOptions::default()).unwrap();
    // Past the capture of what tests print.
    std::io::stdout().write_all(format!("{HELD}\n").as_bytes()).unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(data);
}

#[test]
fn one_holder_at_a_time_among_processes() {
    let dir = tempfile::tempdir().unwrap();
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("{module}::hold_the_lock")])
        .env("APUS_TEST_LOCK_ROOT", dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains(HELD)), "it ended without the lock");
    for _ in 0..2 {
        let error = refusal(open(dir.path(), &mainnet(), DataDirOptions::default()));
        let words = format!("(process {})", child.id());
        assert!(error.contains("a lock on this directory: it is in use by"), "{error}");
        assert!(error.contains(&words), "{error}");
    }
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    open(dir.path(), &mainnet(), DataDirOptions::default()).unwrap();
}
