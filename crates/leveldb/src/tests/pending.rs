use std::fs;
use std::sync::Arc;

use apus_disk::{PowerCut, StoreError};
use apus_testchain::rounds;

use super::*;
use crate::{PendingTable, RunKind};

/// The key that a run sets when it is committed, before all other keys.
const MARK: &[u8] = b"B";

const KINDS: [RunKind; 2] = [RunKind::Adds, RunKind::Replaces];

/// The changes of a run, and the expected result.
struct Plan {
    kind: RunKind,
    /// Ascending changes, split into the parts that the writers of the run write.
    parts: Vec<Vec<Change>>,
    before: Map,
    after: Map,
}

/// Writes a few runs to the directory `db` in `dir`, and plans the changes of another.
fn plan(dir: &Path, kind: RunKind) -> Plan {
    let mut random = Random(3);
    let mut change = |count| -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        let changes = changes(&mut random, count, 400).into_iter();
        changes.map(|(key, value)| ([b"k", &key[..]].concat(), value)).collect()
    };
    let mut before = Map::new();
    let db = open(&dir.join("db"), small_options());
    for _ in 0..2 {
        let changes = change(100);
        apply_to(&mut before, &changes);
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
    }
    let changes = change(250);
    let mut after = if kind == RunKind::Adds { before.clone() } else { Map::new() };
    apply_to(&mut after, &changes);
    after.insert(MARK.to_vec(), vec![1]);
    let changes: Vec<Change> = changes.into_iter().collect();
    let parts = changes.chunks(changes.len().div_ceil(4)).map(<[_]>::to_vec).collect();
    Plan { kind, parts, before, after }
}

/// Reads the number of written parts, and their tables, from the progress file.
fn saved(dir: &Path) -> (usize, Vec<PendingTable>) {
    let Ok(bytes) = fs::read(dir.join("progress")) else { return (0, Vec::new()) };
    let mut tables = Vec::new();
    let mut at = 1;
    while at < bytes.len() {
        tables.push(PendingTable::read(&bytes, &mut at).unwrap());
    }
    (bytes[0].into(), tables)
}

fn keeping(tables: &[PendingTable]) -> Options {
    let keep = tables.iter().map(|table| table.number).collect();
    Options { keep, ..small_options() }
}

/// Resumes the run until this many parts are written; after all parts it is committed. Progress is
/// saved after each part.
fn session(disk: &Disk, dir: &Path, plan: &Plan, until: usize) -> Result<(), StoreError> {
    let (done, tables) = saved(dir);
    let db = Db::open(disk.clone(), &dir.join("db"), keeping(&tables))?;
    if db.get(MARK)?.is_some() {
        return Ok(());
    }
    let run = match plan.kind {
        _ if done > 0 => db.resume_run(plan.kind, &tables)?,
        RunKind::Adds => db.new_run()?,
        RunKind::Replaces => db.bulk()?,
    };
    for index in done..until {
        let mut writer = run.writer();
        for (key, value) in &plan.parts[index] {
            match value {
                Some(value) => writer.put(key, value)?,
                None => writer.delete(key)?,
            }
        }
        writer.finish()?;
        let mut progress = vec![index as u8 + 1];
        run.finished()?.iter().for_each(|table| table.put(&mut progress));
        disk.write_atomically(dir.join("progress"), &progress)?;
    }
    if until < plan.parts.len() {
        return run.suspend().map(|_| ());
    }
    let mut writer = run.writer();
    writer.put(MARK, &[1])?;
    writer.finish()?;
    run.commit()
}

/// Writes the run in two sessions, and then removes its progress file.
fn write_run(disk: &Disk, dir: &Path, plan: &Plan) -> Result<(), StoreError> {
    session(disk, dir, plan, plan.parts.len() / 2)?;
    session(disk, dir, plan, plan.parts.len())?;
    disk.remove(dir.join("progress"))?;
    disk.sync_dir(dir)
}

fn table_files(dir: &Path) -> usize {
    let names = Disk::new().list(dir).unwrap();
    names.iter().filter(|name| name.ends_with(".ldb")).count()
}

#[test]
fn a_resumed_run_equals_one_written_in_one_go() {
    for kind in KINDS {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let in_one_go = plan(one.path(), kind);
        let plan = plan(two.path(), kind);
        session(&Disk::new(), one.path(), &in_one_go, plan.parts.len()).unwrap();
        for until in 1..=plan.parts.len() {
            session(&Disk::new(), two.path(), &plan, until).unwrap();
        }
        let stats = [one.path(), two.path()].map(|dir| {
            let db = open(&dir.join("db"), small_options());
            check(&db, &plan.after, &mut Random(1));
            assert_eq!(table_files(&dir.join("db")), db.stats().tables());
            db.stats()
        });
        assert_eq!(stats[0], stats[1]);
        let dir = two.path().join("db");
        assert_eq!(super::foreign::their_content(&mut super::foreign::theirs(&dir)), plan.after);
        // The database is still the same after another engine has opened it.
        check(&open(&dir, small_options()), &plan.after, &mut Random(2));
    }
}

#[test]
fn power_cut_while_a_run_is_written_resumed_and_committed() {
    for kind in KINDS {
        let prepared = tempfile::tempdir().unwrap();
        let plan = plan(prepared.path(), kind);
        let mut cut_at = 1;
        let mut resumed = 0;
        loop {
            let mut finished = false;
            let process = Arc::new(PowerCut::at(cut_at));
            let disks = PowerCut::kinds(cut_at, rounds(1)).map(|power| (power, true));
            for (power, lose) in [(process, false)].into_iter().chain(disks) {
                let dir = tempfile::tempdir().unwrap();
                apus_testchain::copy_dir(prepared.path(), dir.path()).unwrap();
                let disk = Disk::with_power_cut(power.clone());
                let result = write_run(&disk, dir.path(), &plan);
                finished = !power.is_off();
                assert_eq!(finished, result.is_ok());
                if lose {
                    power.lose_unsynced().unwrap();
                }
                let (done, tables) = saved(dir.path());
                let db = open(&dir.path().join("db"), keeping(&tables));
                db.verify().unwrap();
                let content = content(&db);
                let is_old = !finished && content == plan.before;
                assert!(content == plan.after || is_old, "{power:?}");
                resumed += u32::from(is_old && done > 0);
                drop(db);
                write_run(&Disk::new(), dir.path(), &plan).unwrap();
                let db = open(&dir.path().join("db"), small_options());
                check(&db, &plan.after, &mut Random(1));
                assert_eq!(table_files(&dir.path().join("db")), db.stats().tables());
            }
            if finished {
                break;
            }
            cut_at += 1;
        }
        assert!(cut_at > 50 && resumed > 50, "{cut_at} cuts, {resumed} runs resumed");
    }
}

#[test]
fn only_what_is_named_survives() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), RunKind::Adds);
    let path = dir.path().join("db");
    let base = open(&path, small_options()).stats().tables();
    let put = |run: &crate::RunBuilder, key: &[u8]| {
        let mut writer = run.writer();
        writer.put(key, &[7; 50]).unwrap();
        writer.finish().unwrap();
    };
    let db = open(&path, small_options());
    let run = db.new_run().unwrap();
    put(&run, b"a");
    drop(run);
    assert_eq!(table_files(&path), base, "nothing was named");
    let run = db.new_run().unwrap();
    put(&run, b"b");
    let named = run.finished().unwrap();
    put(&run, b"a");
    let mut unfinished = run.writer();
    unfinished.put(b"c", b"1").unwrap();
    drop(unfinished);
    drop(run);
    assert_eq!((named.len(), table_files(&path)), (1, base + 1));
    let run = db.resume_run(RunKind::Adds, &named).unwrap();
    put(&run, b"c");
    assert_eq!(run.suspend().unwrap().len(), 2);
    assert_eq!(table_files(&path), base + 2);
    drop(db);

    // Files that are not named are removed, and numbers that are to be kept are not reused.
    let db = open(&path, keeping(&named));
    assert_eq!((table_files(&path), content(&db)), (base + 1, plan.before));
    let run = db.resume_run(RunKind::Adds, &named).unwrap();
    put(&run, b"c");
    assert!(run.finished().unwrap().iter().skip(1).all(|table| table.number > named[0].number));
    run.discard();
    assert_eq!(table_files(&path), base);
    let far = PendingTable { number: 1_000_000, ..named[0].clone() };
    drop(db);
    let db = open(&path, keeping(&[far]));
    db.apply([(b"d", Some(b"1"))]).unwrap();
    assert!(path.join("1000003.ldb").exists(), "{:?}", Disk::new().list(&path));
}

#[test]
#[should_panic(expected = "keys of two parts of a run overlap")]
fn new_parts_do_not_overlap_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), RunKind::Adds);
    session(&Disk::new(), dir.path(), &plan, 1).unwrap();
    let (_, tables) = saved(dir.path());
    let db = open(&dir.path().join("db"), keeping(&tables));
    let run = db.resume_run(RunKind::Adds, &tables).unwrap();
    let mut writer = run.writer();
    writer.put(&plan.parts[0][3].0, b"1").unwrap();
    writer.finish().unwrap();
    let _ = run.commit();
}

#[test]
fn a_run_whose_tables_are_not_as_they_were_is_refused() {
    let prepared = tempfile::tempdir().unwrap();
    let plan = plan(prepared.path(), RunKind::Replaces);
    session(&Disk::new(), prepared.path(), &plan, 2).unwrap();
    let (_, tables) = saved(prepared.path());
    assert!(tables.len() > 2);
    let file = |dir: &Path| dir.join(format!("{:06}.ldb", tables[1].number));
    let resume = |spoil: &dyn Fn(&Path), tables: &[PendingTable]| {
        let dir = tempfile::tempdir().unwrap();
        apus_testchain::copy_dir(&prepared.path().join("db"), dir.path()).unwrap();
        spoil(dir.path());
        let db = open(dir.path(), keeping(tables));
        let files = table_files(dir.path());
        let error = db.resume_run(RunKind::Replaces, tables).err().map(|e| e.to_string());
        assert_eq!(table_files(dir.path()), files, "nothing is removed");
        db.apply([(b"new", Some(b"1"))]).unwrap();
        assert!(db.resume_run(RunKind::Replaces, tables).is_err(), "the database has changed");
        error
    };
    assert_eq!(resume(&|_| {}, &tables), None);
    let twice = [&tables[..], &tables[1..2]].concat();
    let cut = |dir: &Path| {
        let bytes = fs::read(file(dir)).unwrap();
        fs::write(file(dir), &bytes[..bytes.len() - 1]).unwrap();
    };
    let zeros = |dir: &Path| fs::write(file(dir), vec![0; tables[1].bytes as usize]).unwrap();
    let mut other = tables.clone();
    other[1].smallest[1] ^= 1;
    for (spoil, tables, expected) in [
        (&(|dir: &Path| fs::remove_file(file(dir)).unwrap()) as &dyn Fn(&Path), &tables, "missing"),
        (&cut, &tables, "bytes"),
        (&zeros, &tables, ""),
        (&|_| {}, &other, "first key of the table"),
        (&|_| {}, &twice, "overlap"),
        (
            &|dir| open(dir, keeping(&tables)).apply([(b"k", Some(b"1"))]).unwrap(),
            &tables,
            "changed since",
        ),
    ] {
        let error = resume(spoil, tables).expect("refused");
        assert!(error.contains(expected), "{error}");
    }
}
