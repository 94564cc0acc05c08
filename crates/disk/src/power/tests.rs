use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::{Call, Disk, PowerCut, StoreError};

const SECTOR: usize = 512;

/// Returns what is left of the files `names` (relative to the directory) after a power cut right
/// after `work`, once for each seed.
fn outcomes(
    work: impl Fn(&Disk, &Path) -> Result<(), StoreError>,
    names: &[&str],
    seeds: u64,
) -> Vec<Vec<Option<Vec<u8>>>> {
    let left = (0..seeds).map(|seed| {
        let dir = tempfile::tempdir().unwrap();
        let power = Arc::new(PowerCut::torn(u64::MAX, seed));
        work(&Disk::with_power_cut(Arc::clone(&power)), dir.path()).unwrap();
        power.lose_unsynced().unwrap();
        names.iter().map(|name| std::fs::read(dir.path().join(name)).ok()).collect()
    });
    left.collect()
}

/// Returns the byte that fills each sector.
fn sectors(content: &[u8]) -> Vec<u8> {
    let filled = content.chunks(SECTOR).map(|sector| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is written whole");
        sector[0]
    });
    filled.collect()
}

#[test]
fn unsynced_writes_survive_by_sectors_and_lengths() {
    let work = |disk: &Disk, dir: &Path| {
        let file = disk.create(dir.join("file"))?;
        file.write_all_at(&[1; 4 * SECTOR], 0)?;
        file.sync()?;
        disk.sync_dir(dir)?;
        file.write_all_at(&[2; 4 * SECTOR], 0)?;
        file.write_all_at(&[3; 2 * SECTOR], 2 * SECTOR as u64)?;
        file.write_all_at(&[4; 4 * SECTOR], 4 * SECTOR as u64)
    };
    let mut seen = vec![BTreeSet::new(); 8];
    let mut lens = BTreeSet::new();
    for left in outcomes(work, &["file"], 300) {
        let content = left[0].as_ref().expect("its name is synced");
        lens.insert(content.len());
        for (seen, byte) in seen.iter_mut().zip(sectors(content)) {
            seen.insert(byte);
        }
    }
    let old = [1, 2].into();
    let changed = [1, 2, 3].into();
    let new = [0, 4].into();
    let expected = [&old, &old, &changed, &changed, &new, &new, &new, &new];
    assert!(seen.iter().eq(expected), "{seen:?}");
    assert!(lens.into_iter().eq((4..=8).map(|sectors| sectors * SECTOR)));
}

#[test]
fn what_follows_a_lost_cut_is_lost_with_it() {
    let work = |disk: &Disk, dir: &Path| {
        let file = disk.create(dir.join("file"))?;
        file.write_all_at(&[1; 4 * SECTOR], 0)?;
        file.sync()?;
        disk.sync_dir(dir)?;
        file.set_len(SECTOR as u64)?;
        file.write_all_at(&[5; 2 * SECTOR], SECTOR as u64)?;
        file.allocate(3 * SECTOR as u64, 2 * SECTOR as u64)
    };
    let mut lens = BTreeSet::new();
    for left in outcomes(work, &["file"], 300) {
        let found = sectors(left[0].as_ref().expect("its name is synced"));
        lens.insert(found.len());
        assert_eq!(found[0], 1);
        let is_uncut = found == [1; 4];
        let is_cut = found[1..].iter().zip([5, 5, 0, 0]).all(|(byte, new)| [0, new].contains(byte));
        assert!(is_uncut || is_cut, "{found:?}");
    }
    assert!(lens.into_iter().eq(1..=5));
}

#[test]
fn names_survive_in_any_order_and_no_file_is_lost_by_a_rename() {
    let rename = |disk: &Disk, dir: &Path| {
        disk.write_atomically(dir.join("a"), b"old")?;
        let file = disk.create(dir.join("b"))?;
        file.write_all_at(b"new", 0)?;
        file.sync()?;
        disk.rename(dir.join("b"), dir.join("a"))?;
        disk.create(dir.join("c"))?;
        disk.write_atomically(dir.join("elsewhere").join("d"), b"d")
    };
    let is = |found: &Option<Vec<u8>>, expected: &[u8]| found.as_deref() == Some(expected);
    let in_directories = |disk: &Disk, dir: &Path| {
        disk.create_dir_all(dir.join("elsewhere"))?;
        rename(disk, dir)
    };
    let mut seen = BTreeSet::new();
    for left in outcomes(in_directories, &["a", "b", "c", "elsewhere/d"], 200) {
        let [a, b, c, d] = &left[..] else { unreachable!() };
        assert!(is(d, b"d"), "its directory was synced");
        let is_renamed = is(a, b"new");
        assert!(is_renamed != is(a, b"old") && !(is_renamed && b.is_some()), "{left:?}");
        seen.insert((is_renamed, b.is_some(), c.is_some()));
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
    let synced = |disk: &Disk, dir: &Path| {
        in_directories(disk, dir)?;
        disk.sync_dir(dir)?;
        disk.remove(dir.join("a"))
    };
    let left = outcomes(synced, &["a", "b", "c"], 50);
    assert!(left.iter().all(|left| left[1].is_none() && left[2] == Some(Vec::new())));
    assert!(left.iter().all(|left| left[0].is_none() || is(&left[0], b"new")));
    assert!(left.iter().any(|left| left[0].is_some()) && left.iter().any(|l| l[0].is_none()));
}

/// A file that moves to another directory is in one of the two, whichever of them is synced.
#[test]
fn a_file_that_moves_is_not_lost() {
    for synced in ["from", "to"] {
        let work = |disk: &Disk, dir: &Path| {
            for name in ["from", "to"] {
                disk.create_dir_all(dir.join(name))?;
            }
            disk.write_atomically(dir.join("from").join("file"), b"bytes")?;
            disk.rename(dir.join("from").join("file"), dir.join("to").join("file"))?;
            disk.sync_dir(dir.join(synced))
        };
        for left in outcomes(work, &["from/file", "to/file"], 50) {
            assert!(left[1].as_deref() == Some(b"bytes"), "{left:?}");
        }
    }
}

/// Any part of the write that the power failure interrupts may survive, and nothing written after
/// it.
#[test]
fn the_last_write_is_torn() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [1; 3 * SECTOR]).unwrap();
        let power = Arc::new(PowerCut::torn(1, seed));
        let disk = Disk::with_power_cut(Arc::clone(&power));
        let file = disk.open(&path).unwrap();
        assert!(file.write_all_at(&[2; 3 * SECTOR], 0).is_err() && power.is_off());
        assert!(file.write_all_at(&[3; 3 * SECTOR], 0).is_err() && file.sync().is_err());
        drop(file);
        power.lose_unsynced().unwrap();
        seen.insert(sectors(&std::fs::read(&path).unwrap()));
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}

/// Writes whose sync failed are lost even if a later sync succeeds; on the same handle no later
/// sync does.
#[test]
fn a_sync_that_failed_is_not_made_good_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let power = Arc::new(PowerCut::at(u64::MAX));
    let fails = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&fails);
    let hook = move |call, path: &Path| {
        if call == Call::Sync && path.ends_with("file") && asked.load(Relaxed) {
            Err(std::io::ErrorKind::Other.into())
        } else {
            Ok(())
        }
    };
    let disk = Disk::with_power_cut(Arc::clone(&power)).with_hook(Arc::new(hook));
    let file = disk.create(&path).unwrap();
    disk.sync_dir(dir.path()).unwrap();
    file.write_all_at(&[1; SECTOR], 0).unwrap();
    fails.store(true, Relaxed);
    let error = file.sync().unwrap_err();
    assert_eq!(error.path, path);
    fails.store(false, Relaxed);
    let error = file.sync().unwrap_err().to_string();
    assert!(error.contains("an earlier sync of this file failed"), "{error}");
    let again = disk.open(&path).unwrap();
    again.write_all_at(&[2; SECTOR], SECTOR as u64).unwrap();
    again.sync().unwrap();
    drop((file, again));
    power.lose_unsynced().unwrap();
    assert_eq!(sectors(&std::fs::read(&path).unwrap()), [0, 2]);
}
