use std::fs;
use std::sync::Arc;

use apus_disk::PowerCut;
use apus_testchain::rounds;

use super::*;

/// Cuts the power at each change to the disk during `work`, which starts with the content `before`.
/// Then the database must hold the content `before` or `after`, whether only the process died or
/// unsynced changes were lost as well.
fn cut_at_every_step(
    prepare: impl Fn(&Path),
    work: impl Fn(Disk, &Path) -> Result<(), apus_disk::StoreError>,
    before: &Map,
    after: &Map,
) {
    let prepared = tempfile::tempdir().unwrap();
    prepare(prepared.path());
    let mut cut_at = 1;
    loop {
        let mut finished = false;
        // First, only the process dies.
        let process = Arc::new(PowerCut::at(cut_at));
        let disks = PowerCut::kinds(cut_at, rounds(4)).map(|power| (power, true));
        for (power, lose) in [(process, false)].into_iter().chain(disks) {
            let dir = tempfile::tempdir().unwrap();
            apus_testchain::copy_dir(prepared.path(), dir.path()).unwrap();
            let result = work(Disk::with_power_cut(power.clone()), dir.path());
            finished = !power.is_off();
            assert!(!finished || result.is_ok());
            if lose {
                power.lose_unsynced().unwrap();
                eprintln!("{power:?}");
            }
            let db = open(dir.path(), small_options());
            db.verify().unwrap();
            let content = content(&db);
            assert!(content == *after || (!finished && content == *before), "{power:?}");
            // The database can still be written.
            db.apply([(b"new", Some(b"1"))]).unwrap();
            db.merge_all().unwrap();
            drop(db);
            let files = fs::read_dir(dir.path()).unwrap().count();
            assert!(files < 100, "{files} files");
        }
        if finished {
            break;
        }
        cut_at += 1;
    }
    assert!(cut_at > 5);
}

fn some_runs(dir: &Path, runs: usize) -> Map {
    let mut random = Random(9);
    let mut map = Map::new();
    let db = open(dir, small_options());
    for _ in 0..runs {
        let changes = changes(&mut random, 80, 150);
        apply_to(&mut map, &changes);
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
    }
    map
}

fn map_of(runs: usize) -> Map {
    some_runs(tempfile::tempdir().unwrap().path(), runs)
}

#[test]
fn power_cut_while_a_database_is_made() {
    let work = |disk, dir: &Path| Db::open(disk, dir, small_options()).map(|_| ());
    cut_at_every_step(|_| {}, work, &Map::new(), &Map::new());
}

#[test]
fn power_cut_during_apply() {
    let before = map_of(3);
    let changes = changes(&mut Random(10), 100, 150);
    let mut after = before.clone();
    apply_to(&mut after, &changes);
    let work = |disk, dir: &Path| {
        let db = Db::open(disk, dir, small_options())?;
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref())))
    };
    cut_at_every_step(|dir| drop(some_runs(dir, 3)), work, &before, &after);
}

#[test]
fn power_cut_during_merge() {
    let map = map_of(5);
    let work = |disk, dir: &Path| {
        let db = Db::open(disk, dir, small_options())?;
        db.merge()?;
        db.merge_all()
    };
    cut_at_every_step(|dir| drop(some_runs(dir, 5)), work, &map, &map);
}

#[test]
fn power_cut_during_bulk_load() {
    let before = map_of(2);
    let after: Map = (0..200u32).map(|i| (i.to_be_bytes().to_vec(), vec![1; 20])).collect();
    let work = |disk, dir: &Path| {
        let db = Db::open(disk, dir, small_options())?;
        let run = db.bulk()?;
        for part in after.iter().collect::<Vec<_>>().chunks(60) {
            let mut writer = run.writer();
            part.iter().try_for_each(|(key, value)| writer.put(key, value))?;
            writer.finish()?;
        }
        run.commit()
    };
    cut_at_every_step(|dir| drop(some_runs(dir, 2)), work, &before, &after);
}

#[test]
fn power_cut_while_logs_are_recovered() {
    let prepare = |dir: &Path| drop(super::foreign::with_logs(dir));
    let scratch = tempfile::tempdir().unwrap();
    let map = super::foreign::with_logs(scratch.path());
    let work = |disk, dir: &Path| Db::open(disk, dir, small_options()).map(|_| ());
    cut_at_every_step(prepare, work, &map, &map);
}

#[test]
fn power_cut_during_destroy() {
    let before = map_of(3);
    let work = |disk: Disk, dir: &Path| Db::destroy(&disk, dir);
    cut_at_every_step(|dir| drop(some_runs(dir, 3)), work, &before, &Map::new());
}

#[test]
fn power_cut_during_adoption() {
    let before = map_of(2);
    let mut after = map_of(4);
    after.insert(b"only here".to_vec(), b"1".to_vec());
    let prepare = |dir: &Path| {
        some_runs(dir, 2);
        // The other database has more runs, so that its file numbers collide with those of the
        // first.
        let from = dir.join("from");
        some_runs(&from, 4);
        open(&from, small_options()).apply([(b"only here", Some(b"1"))]).unwrap();
    };
    let work = |disk: Disk, dir: &Path| Db::adopt(&disk, dir, &dir.join("from"));
    cut_at_every_step(prepare, work, &before, &after);
}

#[test]
fn adoption_keeps_which_table_is_newer_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    some_runs(dir.path(), 7);
    let from = dir.path().join("from");
    let map = some_runs(&from, 3);
    Db::adopt(&Disk::new(), dir.path(), &from).unwrap();
    assert_eq!(fs::read_dir(&from).unwrap().count(), 0);
    let db = open(dir.path(), small_options());
    assert_eq!(content(&db), map);
    let tables = db.stats().tables();
    drop(db);
    let names = Disk::new().list(dir.path()).unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".ldb")).count(), tables, "{names:?}");
    // If there was no database, the adopted one is the first.
    let empty = dir.path().join("empty");
    let map = some_runs(&from, 5);
    Db::adopt(&Disk::new(), &empty, &from).unwrap();
    assert_eq!(content(&open(&empty, small_options())), map);
    assert!(Db::adopt(&Disk::new(), &empty, &from).is_err(), "the database was moved");
    assert_eq!(content(&open(&empty, small_options())), map);
}
