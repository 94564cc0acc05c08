use apus_disk::{Call, StoreError};

use super::*;

/// Returns the number of syncs when a database is opened, one of its manifest and two of its
/// directory among them.
fn syncs_of_opening(dir: &Path) -> u64 {
    let opens = |fails: u64| {
        let disk = Disk::failing(Call::Sync, fails..fails + 1);
        Db::open(disk, dir, small_options()).is_ok()
    };
    (0..).find(|number| opens(*number)).expect("some number")
}

/// After the sync of a table has failed, its run can be neither synced again nor committed, and
/// none of its entries is visible.
#[test]
fn a_table_whose_sync_failed_is_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), small_options()).apply([(b"a", Some(b"1"))]).unwrap();
    let first = syncs_of_opening(dir.path());
    let disk = Disk::failing(Call::Sync, first..first + 1);
    let db = Db::open(disk, dir.path(), small_options()).unwrap();
    let run = db.new_run().unwrap();
    let mut writer = run.writer();
    writer.put(b"b", b"2").unwrap();
    writer.finish().unwrap();
    let error = run.sync().unwrap_err();
    assert!(error.to_string().contains(".ldb: cannot sync"), "{error}");
    let refused = |error: StoreError| {
        assert!(error.to_string().contains("an earlier sync of a table"), "{error}");
    };
    refused(run.sync().unwrap_err());
    refused(run.finished().unwrap_err());
    refused(run.commit().unwrap_err());
    assert_eq!(content(&db).len(), 1);
    db.apply([(b"c", Some(b"3"))]).unwrap();
    drop(db);
    assert_eq!(content(&open(dir.path(), small_options())).len(), 2);
}

/// After a sync of the manifest has failed, nothing more is written, and reopening the database
/// shows which changes were written.
#[test]
fn a_manifest_whose_sync_failed_takes_no_more_records() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), small_options()).apply([(b"a", Some(b"1"))]).unwrap();
    let first = syncs_of_opening(dir.path());
    // The table, the directory, the manifest.
    let disk = Disk::failing(Call::Sync, first + 2..first + 3);
    let db = Db::open(disk, dir.path(), small_options()).unwrap();
    let error = db.apply([(b"b", Some(b"2"))]).unwrap_err().to_string();
    assert!(error.contains("MANIFEST-") && error.contains("cannot sync"), "{error}");
    let error = db.apply([(b"c", Some(b"3"))]).unwrap_err().to_string();
    assert!(error.contains("an earlier write to the manifest"), "{error}");
    drop(db);
    let found = content(&open(dir.path(), small_options()));
    assert!(found.len() == 1 || found.len() == 2, "{found:?}");
}
