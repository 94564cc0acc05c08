//! The bodies of the fuzz targets (`fuzz/`), run over their stored corpus and mutations of it.

#[path = "../../../fuzz/src/targets/mod.rs"]
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use apus_testchain::Rng;

use targets::{TARGETS, Target};

/// Number of mutations of stored inputs that each target is given.
const MUTATIONS: usize = 300;

/// The stored inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", dir.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Gives `data`, the stored input at `from` or a mutation of it, to a target. Data that fails is
/// kept in a file.
fn check((target, body): &Target, data: &[u8], from: &Path) {
    if let Err(panic) = catch_unwind(|| body(data)) {
        let kept = std::env::temp_dir().join(format!("apus-fuzz-{target}"));
        fs::write(&kept, data).unwrap();
        eprintln!("{} made from {} fails {target}", kept.display(), from.display());
        std::panic::resume_unwind(panic);
    }
}

#[track_caller]
fn run(name: &str) {
    let target = TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    let corpus = corpus(name);
    for (path, data) in &corpus {
        check(target, data, path);
    }
    let mut random = Rng::new(1, 0);
    for round in 0..MUTATIONS {
        let (path, data) = &corpus[round % corpus.len()];
        let (_, other) = &corpus[below(&mut random, corpus.len())];
        check(target, &mutated(data, other, &mut random), path);
    }
}

/// `data` with some bytes changed, cut out or put in, from nowhere or from `other`.
fn mutated(data: &[u8], other: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..1 + below(random, 4) {
        let at = below(random, data.len() + 1);
        let end = (at + 1 + below(random, 8)).min(data.len());
        match below(random, 6) {
            0 => data.truncate(at),
            1 => drop(data.drain(at..end)),
            2 => data.insert(at, random.next_u64() as u8),
            3 => {
                let from = below(random, other.len() + 1);
                let part = &other[from..(from + below(random, 32)).min(other.len())];
                data.splice(at..end, part.iter().copied());
            }
            _ if at == data.len() => data.push(0xff),
            4 => data[at] = random.next_u64() as u8,
            _ => data[at] ^= 1 << below(random, 8),
        }
    }
    data
}

fn below(random: &mut Rng, n: usize) -> usize {
    random.below(n as u64) as usize
}

/// Makes a test of each target named, and a test that no target is left out.
macro_rules! targets {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            run(stringify!($target));
        })*

        #[test]
        fn every_target_is_run() {
            let names = TARGETS.map(|(name, _)| name);
            assert_eq!(names, [$(stringify!($target)),*]);
        }
    };
}

targets! {
    block_view undo spent_coins index_records snapshot hints_bip456 hints_bitmap hints_compressed
    table manifest log framed_files join_records join_progress options messages peers requests
    script der batch
}
