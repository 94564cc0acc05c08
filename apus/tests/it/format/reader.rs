//! A reader of LevelDB's files that follows the document alone, with its constants and without
//! `apus_leveldb`, and finds everything where the document says.

use std::fs;
use std::path::Path;

use apus_disk::Disk;
use apus_leveldb::{Db, Options};

use super::document::{Document, Hex, Value};

/// The constants of the document.
struct Words(Document);

impl Words {
    fn number(&self, name: &str) -> u64 {
        match &self.0.constants[name] {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("{name} is a byte string"),
        }
    }

    fn size(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    fn bytes(&self, name: &str) -> &[u8] {
        match &self.0.constants[name] {
            Value::Bytes(bytes) => bytes,
            Value::Number(_) => panic!("{name} is a number"),
        }
    }

    fn masked_crc(&self, bytes: &[u8]) -> [u8; 4] {
        let delta = self.number("MASK_DELTA") as u32;
        crc32c::crc32c(bytes).rotate_right(15).wrapping_add(delta).to_le_bytes()
    }
}

fn varint(bytes: &mut &[u8]) -> usize {
    let len = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    number.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f))
}

fn slice<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = varint(bytes);
    let (slice, rest) = bytes.split_at(len);
    *bytes = rest;
    slice
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// A table, read from start to end.
struct Table<'a> {
    words: &'a Words,
    file: &'a [u8],
    /// The offset at which the next block must start, because there are no gaps.
    at: usize,
}

impl<'a> Table<'a> {
    /// The block at a handle, which must be the next one.
    fn block(&mut self, handle: &mut &[u8]) -> &'a [u8] {
        let offset = varint(handle);
        let len = varint(handle);
        assert_eq!(offset, self.at, "no gap between blocks");
        self.at += len + self.words.size("BLOCK_TRAILER_BYTES");
        let (block, trailer) = self.file[offset..self.at].split_at(len);
        assert_eq!(trailer[0], 0, "not compressed");
        assert_eq!(trailer[1..], self.words.masked_crc(&self.file[offset..=offset + len]));
        block
    }

    /// The entries of a block; there is a restart at every `interval`-th.
    fn entries(&self, block: &[u8], interval: usize) -> Vec<Entry> {
        let (rest, count) = block.split_at(block.len() - 4);
        let (mut rest, restarts) = rest.split_at(rest.len() - 4 * number(count));
        let all = rest.len();
        let mut key = Vec::new();
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let start = all - rest.len();
            let shared = varint(&mut rest);
            let further = varint(&mut rest);
            let value = varint(&mut rest);
            if entries.len() % interval == 0 {
                assert_eq!(shared, 0);
                let restart = entries.len() / interval * 4;
                assert_eq!(number(&restarts[restart..restart + 4]), start);
            }
            key.truncate(shared);
            key.extend_from_slice(&rest[..further]);
            entries.push((key.clone(), rest[further..further + value].to_vec()));
            rest = &rest[further + value..];
        }
        assert_eq!(number(count), entries.len().div_ceil(interval).max(1));
        entries
    }
}

fn user_key<'a>(words: &Words, key: &'a [u8]) -> &'a [u8] {
    &key[..key.len() - words.size("TRAILER_BYTES")]
}

/// The entry of the index for the block with this last key.
fn separator(words: &Words, last: &[u8], next: Option<&[u8]>) -> Vec<u8> {
    let user = user_key(words, last);
    let at = match next {
        Some(next) => user.iter().zip(next).position(|(a, b)| a != b),
        None => user.iter().position(|byte| *byte != 0xff),
    };
    let Some(at) = at.filter(|at| at + 1 < user.len() && user[*at] != 0xff) else {
        return last.to_vec();
    };
    if next.is_some_and(|next| user[at] + 1 >= next[at]) {
        return last.to_vec();
    }
    let short = [&user[..at], &[user[at] + 1]].concat();
    let trailer = words.number("SEQUENCE_MAX") * 256 + 1;
    [&short[..], &trailer.to_le_bytes()].concat()
}

fn hash(key: &[u8]) -> u32 {
    let m: u32 = 0xc6a4_a793;
    let mut h = 0xbc9f_1d34 ^ (key.len() as u32).wrapping_mul(m);
    for word in key.chunks(4) {
        h = h.wrapping_add(number(word) as u32).wrapping_mul(m);
        h ^= h >> if word.len() == 4 { 16 } else { 24 };
    }
    h
}

/// The filter block for data blocks that start at these offsets, hold these entries and end at
/// `end`.
fn filter_block(words: &Words, blocks: &[(usize, Vec<Entry>)], end: usize) -> Vec<u8> {
    let window = 1 << words.number("FILTER_WINDOW_LOG2");
    let per_key = words.size("BLOOM_BITS_PER_KEY");
    let mut out = Vec::new();
    let mut offsets = Vec::new();
    for number in 0..(blocks.last().unwrap().0 / window + 1).max(end / window) {
        offsets.push(out.len() as u32);
        let of_window = blocks.iter().filter(|(start, _)| start / window == number);
        let keys: Vec<&[u8]> = of_window
            .flat_map(|(_, entries)| entries.iter().map(|e| user_key(words, &e.0)))
            .collect();
        if keys.is_empty() {
            continue;
        }
        let probes = per_key * 69 / 100;
        assert!((1..=words.size("FILTER_PROBES_MAX")).contains(&probes));
        let bits = (keys.len() * per_key).max(words.size("FILTER_BITS_MIN")).div_ceil(8) * 8;
        let mut filter = vec![0; bits / 8];
        for key in keys {
            let h = hash(key);
            let delta = hash(key).rotate_right(17);
            for probe in 0..probes as u32 {
                let bit = h.wrapping_add(delta.wrapping_mul(probe)) as usize % bits;
                filter[bit / 8] |= 1 << (bit % 8);
            }
        }
        out.extend(filter);
        out.push(probes as u8);
    }
    let end = out.len() as u32;
    out.extend(offsets.iter().chain([&end]).flat_map(|offset| offset.to_le_bytes()));
    out.push(words.number("FILTER_WINDOW_LOG2") as u8);
    out
}

/// Checks every byte of a table, and returns its entries.
fn read_table(words: &Words, file: &[u8]) -> Vec<Entry> {
    let (blocks, footer) = file.split_at(file.len() - words.size("FOOTER_BYTES"));
    let (mut handles, magic) = footer.split_at(footer.len() - 8);
    assert_eq!(magic, words.number("TABLE_MAGIC").to_le_bytes());
    let mut table = Table { words, file, at: varint(&mut { handles }) };
    let metaindex = table.block(&mut handles);
    let [(key, filter)] = &table.entries(metaindex, 1)[..] else { panic!("one entry") };
    assert_eq!(key, words.bytes("FILTER_KEY"));
    let index = table.block(&mut handles);
    let index = table.entries(index, 1);
    assert!(handles.iter().all(|byte| *byte == 0));
    assert_eq!(table.at, blocks.len(), "the index is the last block");

    table.at = 0;
    let mut data: Vec<(usize, Vec<Entry>)> = Vec::new();
    for (number, (_, handle)) in index.iter().enumerate() {
        let start = table.at;
        let block = table.block(&mut &handle[..]);
        let entries = table.entries(block, words.size("RESTART_INTERVAL"));
        let full = words.size("BLOCK_BYTES");
        assert!(block.len() >= full || number + 1 == index.len());
        let (key, value) = entries.last().unwrap();
        assert!(entries.len() == 1 || block.len() < full + key.len() + value.len() + 3 * 3 + 4);
        data.push((start, entries));
    }
    for (number, (key, _)) in index.iter().enumerate() {
        let last = &data[number].1.last().unwrap().0;
        let next = data.get(number + 1).map(|(_, entries)| user_key(words, &entries[0].0));
        assert_eq!(Hex(key.clone()), Hex(separator(words, last, next)));
    }
    let end = table.at;
    let filter = table.block(&mut &filter[..]);
    assert_eq!(Hex(filter.to_vec()), Hex(filter_block(words, &data, end)));
    data.into_iter().flat_map(|(_, entries)| entries).collect()
}

fn written(entries: &[(Vec<u8>, Vec<u8>)], table_bytes_max: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { create_if_missing: true, table_bytes_max, ..Options::default() };
    let db = Db::open(Disk::new(), dir.path(), options).unwrap();
    db.apply(entries.iter().map(|(key, value)| (key, Some(value)))).unwrap();
    dir
}

#[test]
fn a_table_is_what_the_document_says() {
    let words = Words(Document::read());
    // Keys with runs of ff and with equal beginnings; some values fill a block.
    let mut entries: Vec<Entry> = (0..5000u32)
        .map(|n| {
            let key =
                [&n.wrapping_mul(0x9e37_79b9).to_be_bytes()[..], &[0xff; 5][..n as usize % 6]];
            (key.concat(), vec![n as u8; if n % 500 == 0 { 5000 } else { n as usize % 60 }])
        })
        .collect();
    entries.extend((0..500u32).map(|n| ([&[0xff; 3][..], &n.to_be_bytes()].concat(), vec![7; 30])));
    entries.sort();
    let table_bytes_max = words.number("TABLE_BYTES_MAX");
    let dir = written(&entries, table_bytes_max);
    let file = fs::read(dir.path().join("000003.ldb")).unwrap();
    let internal =
        |(key, value): &Entry| ([&key[..], &257u64.to_le_bytes()].concat(), value.clone());
    let expected: Vec<Entry> = entries.iter().map(internal).collect();
    assert!(read_table(&words, &file) == expected, "sequence number 1, and a value");
}

/// The records of a manifest.
fn read_log(words: &Words, file: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut types = Vec::new();
    let header = words.size("LOG_HEADER_BYTES");
    for mut block in file.chunks(words.size("LOG_BLOCK_BYTES")) {
        while block.len() >= header {
            let (head, rest) = block.split_at(header);
            let len = number(&head[4..6]);
            assert_eq!(head[..4], words.masked_crc(&block[6..header + len]));
            record.extend_from_slice(&rest[..len]);
            types.push(head[6]);
            if [words.number("LOG_FULL"), words.number("LOG_LAST")].contains(&head[6].into()) {
                records.push(std::mem::take(&mut record));
            }
            block = &rest[len..];
        }
        assert!(block.iter().all(|byte| *byte == 0));
    }
    assert!(record.is_empty());
    (records, types)
}

#[test]
fn a_manifest_is_what_the_document_says() {
    let words = Words(Document::read());
    // Keys so long that the record is split into pieces of every type.
    let entries = [(vec![1; 20_000], vec![]), (vec![2; 20_000], vec![])];
    let dir = written(&entries, 1);
    let len = |number| fs::metadata(table(dir.path(), number)).unwrap().len() as usize;
    let file = fs::read(dir.path().join("MANIFEST-000002")).unwrap();
    let (records, types) = read_log(&words, &file);
    let expected = ["LOG_FULL", "LOG_FIRST", "LOG_MIDDLE", "LOG_LAST"];
    assert_eq!(types, expected.map(|name| words.number(name) as u8));
    let [first, second] = &records[..] else { panic!("two records") };

    let mut first = &first[..];
    let tag = |record: &mut &[u8], name| assert_eq!(varint(record), words.size(name));
    tag(&mut first, "TAG_COMPARATOR");
    assert_eq!(slice(&mut first), words.bytes("COMPARATOR"));
    for (name, value) in [
        ("TAG_LOG_NUMBER", 1),
        ("TAG_PREV_LOG_NUMBER", 0),
        ("TAG_NEXT_FILE", 3),
        ("TAG_LAST_SEQUENCE", 0),
    ] {
        tag(&mut first, name);
        assert_eq!(varint(&mut first), value, "{name}");
    }
    assert!(first.is_empty());

    let mut second = &second[..];
    for (name, value) in [("TAG_NEXT_FILE", 5), ("TAG_LAST_SEQUENCE", 1)] {
        tag(&mut second, name);
        assert_eq!(varint(&mut second), value, "{name}");
    }
    for (number, (key, _)) in [3, 4].into_iter().zip(&entries) {
        tag(&mut second, "TAG_NEW_FILE");
        let place = [varint(&mut second), varint(&mut second), varint(&mut second)];
        assert_eq!(place, [0, number, len(number)]);
        let internal = [&key[..], &257u64.to_le_bytes()].concat();
        assert_eq!((slice(&mut second), slice(&mut second)), (&internal[..], &internal[..]));
    }
    assert!(second.is_empty());
}

fn table(dir: &Path, number: usize) -> std::path::PathBuf {
    dir.join(format!("{number:06}.ldb"))
}
