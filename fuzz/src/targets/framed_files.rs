//! Files of framed records: blk files and bootstrap.dat, and the undo data of rev files.

use std::fs;
use std::path::Path;

use apus_hash::{Hash, sha256d};
use apus_store::{
    BlockSource, FileScan, Obfuscation, STORAGE_HEADER_BYTES, Scanned, SourceFile,
    UNDO_DATA_DISK_OVERHEAD, UndoFile,
};
use apus_wire::{Chain, HEADER_BYTES, Network};

use super::input::{flags, scratch};

/// The key with which files are obfuscated if the input says so.
const KEY: [u8; 8] = [3, 1, 4, 1, 5, 9, 2, 0xf9];
/// The parent of every block whose undo data has its checksum corrected.
const PARENT: Hash = Hash([5; 32]);

/// Reads `data` after its first byte as a blk file or a rev file of regtest. Of that byte, bit 0
/// chooses between them, and bit 1 chooses obfuscation.
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

/// Checks that blocks are returned in order and as they are in the file, that a scan for headers
/// finds the same ones, and that the blocks are found again after they were framed again.
fn blocks(plain: &[u8], obfuscation: Obfuscation) {
    let dir = scratch();
    let network = Network::new(Chain::Regtest);
    let path = dir.path().join("blk00000.dat");
    let mut hidden = plain.to_vec();
    obfuscation.apply(&mut hidden, 0);
    write(&path, &hidden);
    let open =
        |obfuscation| FileScan::open(&path, network.magic, obfuscation).expect("the file opens");
    let found = all(open(obfuscation));
    let headers = all(open(obfuscation).headers_only());
    assert_eq!(found.len(), headers.len());
    let mut end = 0;
    let mut framed = Vec::new();
    for (item, header) in found.iter().zip(&headers) {
        let Scanned::Block { offset, len, bytes } = item else {
            assert_eq!(item, header);
            continue;
        };
        assert!(*offset >= end + u64::from(STORAGE_HEADER_BYTES));
        end = offset + u64::from(*len);
        assert_eq!(bytes[..], plain[*offset as usize..end as usize]);
        let head = bytes[..HEADER_BYTES].to_vec();
        assert_eq!(*header, Scanned::Block { offset: *offset, len: *len, bytes: head });
        framed.extend_from_slice(&[&network.magic[..], &len.to_le_bytes(), bytes].concat());
    }
    write(&path, &framed);
    assert!(blocks_of(&all(open(Obfuscation::NONE))).eq(blocks_of(&found)));
    write(&path, plain);
    let _ = BlockSource::open(&path, &network).map(|source| source.scan().count());
}

fn all(scan: FileScan) -> Vec<Scanned> {
    scan.collect::<Result<_, _>>().expect("the file can be read")
}

fn blocks_of(found: &[Scanned]) -> impl Iterator<Item = &[u8]> {
    found.iter().filter_map(|item| match item {
        Scanned::Block { bytes, .. } => Some(&bytes[..]),
        Scanned::Warning(_) => None,
    })
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a temporary file can be written");
}

/// Checks that undo data is returned in order and inside the file, and is read unchanged if its
/// checksum matches the parent.
fn undo(mut plain: Vec<u8>, obfuscation: Obfuscation) {
    let dir = scratch();
    let magic = Network::new(Chain::Regtest).magic;
    mend_checksums(&mut plain, magic);
    let mut hidden = plain.clone();
    obfuscation.apply(&mut hidden, 0);
    write(&dir.path().join("rev00000.dat"), &hidden);
    let path: &Path = &dir.path().join("blk00000.dat");
    let file = SourceFile { path: path.into(), len: 0, obfuscation, number: Some(0) };
    let rev =
        UndoFile::beside(&file, magic).expect("the file can be read").expect("the file exists");
    let mut end = 0;
    let mut payload = Vec::new();
    for (index, record) in rev.records().iter().enumerate() {
        assert!(record.offset >= end + u64::from(STORAGE_HEADER_BYTES));
        end = record.offset + u64::from(record.len) + 32;
        assert!(end <= plain.len() as u64);
        let is_right = rev.read(*record, &PARENT, &mut payload).expect("the file can be read");
        assert!(is_right, "the checksum was made right");
        assert_eq!(payload[..], plain[record.offset as usize..][..record.len as usize]);
        assert!(!rev.read(*record, &Hash([6; 32]), &mut payload).expect("the file can be read"));
        assert_eq!(rev.record_at(record.offset), Some(index));
        let txs = record.spending_txs as usize + 1;
        assert_eq!(rev.find(index, &PARENT, txs, &mut payload).ok(), Some(Some(index)));
    }
}

/// Corrects the checksums of all records that frames lead to.
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
