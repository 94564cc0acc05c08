use std::fs;

use super::*;

/// Creates a database with several levels, and returns its content and files.
fn example(dir: &Path) -> (Map, Vec<(String, Vec<u8>)>) {
    let mut random = Random(77);
    let mut map = Map::new();
    let db = open(dir, small_options());
    for i in 0..7 {
        let changes = changes(&mut random, 60, 200);
        apply_to(&mut map, &changes);
        db.apply(changes.iter().map(|(k, v)| (k, v.as_ref()))).unwrap();
        if i == 4 {
            db.merge().unwrap();
        }
    }
    drop(db);
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let read = |name: String| (name.clone(), fs::read(dir.join(name)).unwrap());
    (map, names.filter(|name| name != "LOCK").map(read).collect())
}

/// Reads everything in all ways. The result is right, or an error names a file of the database.
fn read_all(dir: &Path, map: &Map) -> Result<(), apus_disk::StoreError> {
    let db = Db::open(Disk::new(), dir, Options { read_only: true, ..small_options() })?;
    let mut first = None;
    for (key, value) in map {
        match db.get(key) {
            Ok(read) => assert_eq!(read.as_ref(), Some(value), "wrong data was read"),
            Err(e) => first = first.or(Some(e)),
        }
    }
    let mut cursor = db.scan(&[], None)?;
    let mut expected = map.iter();
    let scanned = loop {
        match cursor.next_entry() {
            Ok(Some((k, v))) => {
                assert_eq!(expected.next().map(|(k, v)| (&k[..], &v[..])), Some((k, v)));
            }
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    if scanned.is_ok() {
        assert!(expected.next().is_none(), "an entry is missing");
    }
    let verified = db.verify();
    first.map_or(scanned, Err)?;
    verified.map(|_| ())
}

#[test]
fn a_flipped_byte_is_an_error_and_never_data() {
    let dir = tempfile::tempdir().unwrap();
    let (map, files) = example(dir.path());
    read_all(dir.path(), &map).unwrap();
    let mut random = Random(1);
    for (name, bytes) in &files {
        let path = dir.path().join(name);
        for at in 0..bytes.len() {
            let every = if name.ends_with(".ldb") { 9 } else { 2 };
            if random.below(every) > 0 {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            fs::write(&path, &damaged).unwrap();
            // Some bytes do not matter: the padding of a footer may be anything.
            let padding = bytes.len().saturating_sub(48)..bytes.len().saturating_sub(8);
            match read_all(dir.path(), &map) {
                Err(error) => assert!(error.path.starts_with(dir.path()), "{error}"),
                Ok(()) => assert!(name.ends_with(".ldb") && padding.contains(&at), "{name} {at}"),
            }
        }
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn a_cut_or_missing_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (map, files) = example(dir.path());
    for (name, bytes) in &files {
        let path = dir.path().join(name);
        let table = name.ends_with(".ldb");
        for len in (0..bytes.len()).step_by(if table { 97 } else { 1 }) {
            fs::write(&path, &bytes[..len]).unwrap();
            let result = Db::open(Disk::new(), dir.path(), small_read_only());
            // A truncated manifest gives an older state, or names removed tables.
            assert!(result.is_err() || name.starts_with("MANIFEST"), "{name} {len}");
        }
        fs::remove_file(&path).unwrap();
        assert!(Db::open(Disk::new(), dir.path(), small_read_only()).is_err(), "{name}");
        assert!(Db::open(Disk::new(), dir.path(), small_options()).is_err(), "{name}");
        fs::write(&path, bytes).unwrap();
    }
    read_all(dir.path(), &map).unwrap();
}

fn small_read_only() -> Options {
    Options { read_only: true, ..small_options() }
}

/// Blocks with random content and matching checksums give errors and no panics.
#[test]
fn forged_blocks_do_not_panic() {
    use crate::block::{Block, BlockCursor};
    let mut random = Random(3);
    for round in 0..apus_testchain::rounds(50_000) {
        let len = random.below(64) as usize;
        let mut bytes = random.bytes(len);
        if round % 2 == 0 {
            bytes.iter_mut().for_each(|byte| *byte %= 6);
        }
        if round % 4 < 2 && len > 8 {
            let restarts = random.below(3) as u32;
            bytes[len - 4..].copy_from_slice(&restarts.to_le_bytes());
        }
        let Ok(block) = Block::open(&bytes, 0..len) else { continue };
        let mut cursor = BlockCursor::default();
        let key = random.bytes(3);
        if cursor.seek(&bytes, block, &key) == Ok(true) {
            assert!(cursor.value().end <= len);
        }
        cursor.reset(block);
        while cursor.advance(&bytes) == Ok(true) {
            assert!(cursor.value().end <= len);
        }
    }
}

/// Tables with changed indexes, metaindexes and filters, and matching checksums.
#[test]
fn forged_tables_do_not_panic() {
    use crate::format::{BLOCK_TRAILER_BYTES, Footer, get_u32, mask, read_footer};
    let dir = tempfile::tempdir().unwrap();
    let (map, files) = example(dir.path());
    let mut random = Random(4);
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".ldb")) {
        let Footer { metaindex, index } = read_footer(&bytes[bytes.len() - 48..]).unwrap();
        let blocks = [metaindex, index].map(|h| (h.offset as usize, (h.offset + h.size) as usize));
        let filter = (0, metaindex.offset as usize - BLOCK_TRAILER_BYTES);
        for _ in 0..apus_testchain::rounds(60) {
            let mut forged = bytes.clone();
            let (start, end) =
                *[blocks[0], blocks[1], filter].get(random.below(3) as usize).unwrap();
            let at = end - 1 - random.below((end - start).min(300) as u64) as usize;
            forged[at] = random.next() as u8;
            let ends = [blocks[0], blocks[1]];
            for (start, end) in ends {
                let crc = mask(crc32c::crc32c(&forged[start..=end]));
                forged[end + 1..end + 5].copy_from_slice(&crc.to_le_bytes());
            }
            assert!(get_u32(&forged, 0).is_some());
            fs::write(dir.path().join(name), &forged).unwrap();
            let Ok(db) = Db::open(Disk::new(), dir.path(), small_read_only()) else { continue };
            for key in map.keys() {
                let _ = db.get(key);
            }
            let _ = db.get_many(&map.keys().collect::<Vec<_>>(), |_, _| {});
            let _ = db.verify();
            let _ = db.snapshot().split(5);
            let Ok(mut cursor) = db.scan(&[], None) else { continue };
            while let Ok(Some(_)) = cursor.next_entry() {}
        }
        fs::write(dir.path().join(name), bytes).unwrap();
    }
}

#[test]
fn a_table_whose_first_key_is_above_its_last_is_refused() {
    use crate::log;
    use crate::log::LogReader;
    use crate::manifest::Edit;
    let dir = tempfile::tempdir().unwrap();
    let (_, files) = example(dir.path());
    let (name, manifest) = files.iter().find(|(name, _)| name.starts_with("MANIFEST")).unwrap();
    let path = dir.path().join(name);
    let mut records = LogReader::new(&path, manifest);
    let mut forged = Vec::new();
    while let Some(record) = records.next_record().unwrap() {
        let mut edit = Edit::decode(record, &path, 0).unwrap();
        for file in &mut edit.new {
            std::mem::swap(&mut file.keys.smallest, &mut file.keys.largest);
        }
        let offset = forged.len() as u64;
        log::put_record(&mut forged, offset, &edit.encode());
    }
    fs::write(&path, forged).unwrap();
    let error = Db::open(Disk::new(), dir.path(), small_read_only()).err().unwrap();
    assert!(error.path == path && error.what.contains("first key"), "{error}");
}
