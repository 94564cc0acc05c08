//! Files of framed records: blk files and bootstrap.dat, and the undo data of rev files.

use std::fs;
use std::path::Path;

use apus::hash::{Hash, sha256d};
use apus::store::{
    BlockSource, FileScan, Obfuscation, STORAGE_HEADER_BYTES, Scanned, SourceFile,
    UNDO_DATA_DISK_OVERHEAD, UndoFile,
};
use apus::wire::{Chain, Network};

use super::input::{flags, scratch};

/// The key under which files are obfuscated where the input wants it.
const KEY: [u8; 8] = [3, 1, 4, 1, 5, 9, 2, 0xf9];
/// The parent of every block whose undo data has its checksum made right.
const PARENT: Hash = Hash([5; 32]);

/// Reads `data` as a blk file, or as a rev file, of regtest, after its first byte: bit 0 chooses
/// which, and bit 1 obfuscation.
pub fn run(data: &[u8]) {
    let (flags, file) = flags(data);
    let obfuscation = match flags & 2 {
        0 => Obfuscation::NONE,
        _ => Obfuscation::new(KEY),
    };
    match flags & 1 {
        0 => blocks(file, obfuscation),
        _ => undo(file.to_vec(), obfuscation),
    }
}

/// What a scan gives: a block's offset, length and bytes, or where a warning is.
type Found = Vec<Result<(u64, u32, Vec<u8>), u64>>;

/// Blocks come in order, as they stand in the file; a scan of headers finds the same ones; and
/// framed anew, the same blocks are found again.
fn blocks(plain: &[u8], obfuscation: Obfuscation) {
    let (dir, network) = (scratch(), Network::new(Chain::Regtest));
    let path = dir.path().join("blk00000.dat");
    let mut hidden = plain.to_vec();
    obfuscation.apply(&mut hidden, 0);
    fs::write(&path, hidden).expect("it is written");
    let scan = || FileScan::open(&path, network.magic, obfuscation).expect("it is opened");
    let found = all(scan());
    let headers = all(scan().headers_only());
    assert_eq!(found.len(), headers.len());
    let mut end = 0;
    for (item, header) in found.iter().zip(&headers) {
        let (Ok((offset, len, bytes)), Ok((_, _, head))) = (item, header) else {
            assert_eq!(item.as_ref().err(), header.as_ref().err());
            continue;
        };
        assert!(*offset >= end + u64::from(STORAGE_HEADER_BYTES));
        end = offset + u64::from(*len);
        assert_eq!(bytes[..], plain[*offset as usize..end as usize]);
        assert_eq!(head[..], bytes[..80]);
        assert_eq!(header.as_ref().map(|(o, l, _)| (o, l)), Ok((offset, len)));
    }
    let framed: Vec<u8> = found
        .iter()
        .flatten()
        .flat_map(|(_, len, bytes)| [&network.magic[..], &len.to_le_bytes(), bytes].concat())
        .collect();
    fs::write(&path, &framed).expect("it is written");
    let again = all(FileScan::open(&path, network.magic, Obfuscation::NONE).expect("it is opened"));
    let bytes = |found: &Found| -> Vec<Vec<u8>> {
        found.iter().flatten().map(|(_, _, bytes)| bytes.clone()).collect()
    };
    assert_eq!(bytes(&again), bytes(&found));
    fs::write(&path, plain).expect("it is written");
    let _ = BlockSource::open(&path, &network).map(|source| source.scan().count());
}

fn all(scan: FileScan) -> Found {
    let item = |scanned| match scanned {
        Scanned::Block { offset, len, bytes } => Ok((offset, len, bytes)),
        Scanned::Warning(warning) => Err(warning.offset()),
    };
    scan.map(|scanned| scanned.map(item).expect("the disk does not fail")).collect()
}

/// Records come in order, inside the file, and those whose checksum is right are read as they stand
/// there.
fn undo(mut plain: Vec<u8>, obfuscation: Obfuscation) {
    let (dir, magic) = (scratch(), Network::new(Chain::Regtest).magic);
    mend_checksums(&mut plain, magic);
    let mut hidden = plain.clone();
    obfuscation.apply(&mut hidden, 0);
    fs::write(dir.path().join("rev00000.dat"), hidden).expect("it is written");
    let path: &Path = &dir.path().join("blk00000.dat");
    let file = SourceFile { path: path.into(), len: 0, obfuscation, number: Some(0) };
    let rev = UndoFile::beside(&file, magic).expect("it is read").expect("it is there");
    let (mut end, mut payload) = (0, Vec::new());
    for (index, record) in rev.records().iter().enumerate() {
        assert!(record.offset >= end + u64::from(STORAGE_HEADER_BYTES));
        end = record.offset + u64::from(record.len) + 32;
        assert!(end <= plain.len() as u64);
        let is_right = rev.read(*record, &PARENT, &mut payload).expect("it is read");
        assert!(is_right, "the checksum was made right");
        assert_eq!(payload[..], plain[record.offset as usize..][..record.len as usize]);
        assert!(!rev.read(*record, &Hash([6; 32]), &mut payload).expect("it is read"));
        assert_eq!(rev.record_at(record.offset), Some(index));
        let txs = record.spending_txs as usize + 1;
        assert_eq!(rev.find(index, &PARENT, txs, &mut payload).ok(), Some(Some(index)));
    }
}

/// Makes the checksums of all records right to which frames lead.
fn mend_checksums(rev: &mut [u8], magic: [u8; 4]) {
    let mut rest = rev;
    while rest.starts_with(&magic) && rest.len() >= UNDO_DATA_DISK_OVERHEAD as usize {
        let len = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
        let Some((record, after)) = rest.split_at_mut_checked(len + 40) else { return };
        let (data, checksum) = record.split_at_mut(len + 8);
        checksum.copy_from_slice(&sha256d(&[&PARENT.0, &data[8..]].concat()).0);
        rest = after;
    }
}
