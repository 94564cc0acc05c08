//! Databases in LevelDB's format: tables, manifests and logs.
//!
//! Each target puts one file from the fuzzer into a database whose other files are valid.

use std::fs;

use apus_disk::{Disk, StoreError};
use apus_leveldb::layout::{
    BLOCK_TRAILER_BYTES, COMPARATOR, FOOTER_BYTES, LOG_BLOCK_BYTES, LOG_FULL, LOG_HEADER_BYTES,
    MASK_DELTA, TAG_COMPARATOR, TAG_LAST_SEQUENCE, TAG_LOG_NUMBER, TAG_NEW_FILE, TAG_NEXT_FILE,
};
use apus_leveldb::{Db, Options};
use tempfile::TempDir;

use super::input::{flags, scratch};

/// Tables that Apus once wrote, under the numbers that stored manifests name.
const TABLES: [(u64, &[u8]); 3] = [
    (3, include_bytes!("../../../apus/tests/golden/regtest-20/blocks/index/000003.ldb")),
    (4, include_bytes!("../../../apus/tests/golden/regtest-20/blocks/index/000004.ldb")),
    (5, include_bytes!("../../../apus/tests/golden/regtest-20/chainstate/000005.ldb")),
];

/// The largest number of entries that are compared; a forged table can name one block many times.
const ENTRIES_MAX: usize = 20_000;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads `data` after its first byte as a table. Of that byte, bit 0 says whether checksums are
/// corrected, and bits 1 and 2 are the level of the table.
pub fn table(data: &[u8]) {
    let (flags, table) = file_of(data, mend_table);
    let dir = scratch();
    write(&dir, "000003.ldb", &table);
    let mut new = vec![TAG_NEW_FILE as u8, flags >> 1 & 3, 3];
    put_varint(&mut new, table.len() as u64);
    put_slice(&mut new, &internal_key(&[]));
    put_slice(&mut new, &internal_key(&[0xff; 64]));
    write_manifest(&dir, &manifest_with(&new));
    check_database(&dir);
}

/// Reads `data` after its first byte as a manifest. The lowest bit of that byte says whether
/// checksums are corrected. The tables that the manifest may name exist.
pub fn manifest(data: &[u8]) {
    let (_, manifest) = file_of(data, mend_log);
    let dir = scratch();
    for (number, bytes) in TABLES {
        write(&dir, &format!("{number:06}.ldb"), bytes);
    }
    write_manifest(&dir, &manifest);
    check_database(&dir);
}

/// Reads `data` after its first byte as the log of a database without tables. The lowest bit of
/// that byte says whether checksums are corrected.
pub fn log(data: &[u8]) {
    let (_, log) = file_of(data, mend_log);
    let dir = scratch();
    write(&dir, "000003.log", &log);
    write_manifest(&dir, &manifest_with(&[]));
    check_database(&dir);
}

/// Splits an input into its flags and its file, whose checksums `mend` corrects if bit 0 is set.
fn file_of(data: &[u8], mend: fn(&mut [u8])) -> (u8, Vec<u8>) {
    let (flags, file) = flags(data);
    let mut file = file.to_vec();
    if flags & 1 != 0 {
        mend(&mut file);
    }
    (flags, file)
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) {
    fs::write(dir.path().join(name), bytes).expect("a temporary file can be written");
}

/// Opens the database and reads all of it, first as it is and then after it was opened for writing,
/// which rewrites its manifest; then adds to it and merges it.
///
/// The content of a database stays the same. A damaged one is refused both times.
fn check_database(dir: &TempDir) {
    let read_only = Options { read_only: true, lock: false, ..Options::default() };
    let opened = Db::open(Disk::new(), dir.path(), read_only.clone());
    let before = opened.as_ref().ok().map(|db| (db.stats().bytes(), read_all(db)));
    drop(opened);
    let writable = Db::open(Disk::new(), dir.path(), Options::default());
    assert_eq!(writable.is_ok(), before.is_some(), "{:?}", writable.err());
    let (Ok(db), Some((_, entries))) = (writable, before) else { return };
    assert_same(&read_all(&db), &entries);
    drop(db);
    let db =
        Db::open(Disk::new(), dir.path(), read_only).expect("a database that was written opens");
    assert_same(&read_all(&db), &entries);
    drop(db);
    let db = Db::open(Disk::new(), dir.path(), Options::default())
        .expect("a database that was written opens");
    change(&db);
}

/// Writes to a database, and merges it. A damaged table may be detected only now.
fn change(db: &Db) {
    if let Err(error) = db.apply([(b"apus", Some(b"flies"))]) {
        // It is added whatever the other tables contain, unless their sequence numbers are
        // exhausted.
        assert!(error.to_string().contains("sequence numbers"), "{error}");
        return;
    }
    if let Ok(found) = db.get(b"apus") {
        assert_eq!(found.as_deref(), Some(&b"flies"[..]));
    }
    if db.merge_all().is_ok() {
        let found = db.get(b"apus").expect("what was merged is read");
        assert_eq!(found.as_deref(), Some(&b"flies"[..]));
        read_all(db).expect("what was merged is read");
    }
}

/// Returns the entries in order, looked up in every way; the first error ends it.
fn read_all(db: &Db) -> Result<Entries, StoreError> {
    let snapshot = db.snapshot();
    let _ = (db.verify(), snapshot.split(4));
    for key in [&b""[..], b"C", b"apus", &[0xff; 9]] {
        let _ = (db.get(key), db.scan(key, None).and_then(|mut c| c.next_entry().map(|_| ())));
    }
    let mut entries = Entries::new();
    for entry in db.scan(&[], None)?.into_iter().take(ENTRIES_MAX) {
        entries.push(entry?);
    }
    if entries.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        let keys: Vec<_> = entries.iter().map(|(key, _)| key).collect();
        let _ = db.get_many(&keys, |index, _| assert!(index < keys.len()));
    }
    for (key, _) in entries.iter().take(100) {
        let _ = snapshot.get(key);
    }
    Ok(entries)
}

fn assert_same(one: &Result<Entries, StoreError>, other: &Result<Entries, StoreError>) {
    assert_eq!(one.is_ok(), other.is_ok(), "{:?}, {:?}", one.as_ref().err(), other.as_ref().err());
    if let (Ok(one), Ok(other)) = (one, other) {
        assert!(one == other, "the entries have changed");
    }
}

/// Returns a manifest of one record, with what every manifest contains and then `more`.
fn manifest_with(more: &[u8]) -> Vec<u8> {
    let mut record = vec![TAG_COMPARATOR as u8];
    put_slice(&mut record, COMPARATOR);
    record.extend([TAG_LOG_NUMBER as u8, 3, TAG_NEXT_FILE as u8, 9, TAG_LAST_SEQUENCE as u8, 99]);
    record.extend_from_slice(more);
    let mut manifest = vec![0; 4];
    manifest.extend_from_slice(&(record.len() as u16).to_le_bytes());
    manifest.push(LOG_FULL);
    manifest.extend_from_slice(&record);
    mend_log(&mut manifest);
    manifest
}

/// Writes a manifest, and the file CURRENT that names it.
fn write_manifest(dir: &TempDir, manifest: &[u8]) {
    write(dir, "MANIFEST-000002", manifest);
    write(dir, "CURRENT", b"MANIFEST-000002\n");
}

/// Returns a user key in the form of tables and manifests: with a sequence number, 1, and its kind,
/// a value.
fn internal_key(user: &[u8]) -> Vec<u8> {
    [user, &[1, 1, 0, 0, 0, 0, 0, 0]].concat()
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn get_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Returns a checksum in its stored form.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA).to_le_bytes()
}

/// Corrects the checksum of every piece of a log, as far as lengths lead from one to the next.
fn mend_log(log: &mut [u8]) {
    for block in log.chunks_mut(LOG_BLOCK_BYTES) {
        let mut rest = block;
        while rest.len() >= LOG_HEADER_BYTES {
            let end = LOG_HEADER_BYTES + usize::from(u16::from_le_bytes([rest[4], rest[5]]));
            let Some((piece, after)) = rest.split_at_mut_checked(end) else { break };
            let crc = masked(&piece[6..]);
            piece[..4].copy_from_slice(&crc);
            rest = after;
        }
    }
}

/// Corrects the checksum of every block of a table that its footer and index lead to.
fn mend_table(table: &mut [u8]) {
    let Some(footer) = table.len().checked_sub(FOOTER_BYTES) else { return };
    let mut at = footer;
    for _ in 0..2 {
        let Some(block) = mend_block(table, &mut at) else { return };
        for mut handle in values(table, block) {
            mend_block(table, &mut handle);
        }
    }
}

/// Corrects the checksum of the block whose handle is at `at`, and moves `at` after the handle.
/// Returns the range of the block.
fn mend_block(table: &mut [u8], at: &mut usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(get_varint(table, at)?).ok()?;
    let end = start.checked_add(usize::try_from(get_varint(table, at)?).ok()?)?;
    let crc = masked(table.get(start..end.checked_add(1)?)?);
    table.get_mut(end + 1..end + BLOCK_TRAILER_BYTES)?.copy_from_slice(&crc);
    Some(start..end)
}

/// Returns where the values of a block's entries start.
fn values(table: &[u8], block: std::ops::Range<usize>) -> Vec<usize> {
    let mut values = Vec::new();
    let mut at = block.start;
    while at < block.end {
        let mut number = || get_varint(table, &mut at).and_then(|n| usize::try_from(n).ok());
        let (Some(_), Some(unshared), Some(len)) = (number(), number(), number()) else { break };
        let Some(value) = at.checked_add(unshared) else { break };
        values.push(value);
        let Some(next) = value.checked_add(len) else { break };
        at = next;
    }
    values
}
