//! Numbered parts in one object, and their index in another.

use std::ops::Range;

use apus_disk::{Result, StoreError};

use super::{Objects, Upload};

/// First bytes of an index; the last byte is the version.
const MAGIC: [u8; 8] = *b"apuspk\0\x01";
/// The suffix of the name of an index.
const DONE: &str = ".done";
/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 8 << 20;
/// Small pieces are read together, up to this many bytes.
const READ_BYTES: u64 = 16 << 20;
/// Bytes of an index besides its pieces and its note.
const HEAD_BYTES: usize = 8 + 32 + 8;

/// Bytes of a part that were appended together, and are read together.
#[derive(Clone, Copy)]
struct Piece {
    part: u32,
    len: u32,
    crc: u32,
}

/// Writes a pack: parts in ascending order, then a note.
pub struct PackWriter<'a> {
    objects: &'a Objects,
    name: String,
    owner: [u8; 32],
    upload: Box<dyn Upload>,
    buffer: Vec<u8>,
    pieces: Vec<Piece>,
}

impl<'a> PackWriter<'a> {
    /// Begins a pack of this owner. It replaces any other of this name when it is finished.
    pub fn begin(objects: &'a Objects, name: &str, owner: [u8; 32]) -> Result<Self> {
        let (name, upload) = (name.to_string(), objects.begin(name)?);
        Ok(Self { objects, name, owner, upload, buffer: Vec::new(), pieces: Vec::new() })
    }

    /// Appends bytes to a part, which must not be lower than that of the last call.
    ///
    /// # Panics
    /// There are 4 GiB or more.
    pub fn append(&mut self, part: u32, bytes: &[u8]) -> Result<()> {
        debug_assert!(self.pieces.last().is_none_or(|last| last.part <= part));
        let len = u32::try_from(bytes.len()).expect("a piece has less than 4 GiB");
        if len > 0 {
            self.pieces.push(Piece { part, len, crc: crc32c::crc32c(bytes) });
            self.buffer.extend_from_slice(bytes);
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.upload.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the last bytes, and then the index with `note`, from which on the pack exists.
    pub fn finish(mut self, note: &[u8]) -> Result<()> {
        self.flush()?;
        self.upload.finish()?;
        let mut index = MAGIC.to_vec();
        index.extend_from_slice(&self.owner);
        index.extend_from_slice(&(self.pieces.len() as u64).to_le_bytes());
        for Piece { part, len, crc } in &self.pieces {
            [part, len, crc].iter().for_each(|n| index.extend_from_slice(&n.to_le_bytes()));
        }
        index.extend_from_slice(note);
        index.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
        self.objects.write(&done(&self.name), &index)
    }
}

/// The index of a pack.
pub struct Pack {
    name: String,
    /// The note that was written last.
    pub note: Vec<u8>,
    pieces: Vec<Piece>,
    /// Where each piece begins in the object, and where the last one ends.
    starts: Vec<u64>,
}

impl Pack {
    /// Opens a pack; `None` if there is none of this name, it is not finished, or its index is
    /// damaged, so that it is to be written again.
    ///
    /// # Errors
    /// The pack belongs to another owner or another version of Apus, or cannot be read.
    pub fn open(objects: &Objects, name: &str, owner: &[u8; 32]) -> Result<Option<Self>> {
        let Some(index) = objects.read(&done(name))? else { return Ok(None) };
        let whole = index.split_last_chunk();
        let whole =
            whole.filter(|(content, crc)| crc32c::crc32c(content) == u32::from_le_bytes(**crc));
        let Some((content, _)) = whole else {
            tracing::warn!(
                "{} is damaged, and counts as no result",
                objects.path(&done(name)).display()
            );
            return Ok(None);
        };
        let error = |what: &str| Err(StoreError::new(objects.path(&done(name)), what));
        if content.len() < HEAD_BYTES || content[..8] != MAGIC {
            return error("this is not an index, or one of another version of Apus");
        }
        if content[8..40] != *owner {
            return error(
                "this object belongs to another job: remove it, and run the same command again",
            );
        }
        let (count, rest) = content[40..].split_first_chunk().expect("it has a whole head");
        let (pieces, note) = match usize::try_from(u64::from_le_bytes(*count)) {
            Ok(count) if count <= rest.len() / 12 => rest.split_at(12 * count),
            _ => return error("this index is damaged: it ends too early"),
        };
        let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut starts = vec![0];
        let mut at = 0;
        let pieces: Vec<Piece> = pieces
            .chunks_exact(12)
            .map(|bytes| {
                let part = number(bytes);
                let len = number(&bytes[4..]);
                at += u64::from(len);
                starts.push(at);
                Piece { part, len, crc: number(&bytes[8..]) }
            })
            .collect();
        Ok(Some(Self { name: name.to_string(), note: note.to_vec(), pieces, starts }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn bytes_of(&self, parts: Range<u32>) -> u64 {
        let range = self.range(parts);
        self.starts[range.end] - self.starts[range.start]
    }

    /// Reads a range of parts, and calls `each` with the number of a part and the bytes of one call
    /// to [`PackWriter::append`], in the order in which they were written.
    ///
    /// # Errors
    /// The bytes cannot be read, have changed since they were written, or `each` fails.
    pub fn read<E: From<StoreError>>(
        &self,
        objects: &Objects,
        parts: Range<u32>,
        mut each: impl FnMut(u32, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut range = self.range(parts);
        while !range.is_empty() {
            // Many small pieces are read at once.
            let first = range.start;
            let mut end = range.start + 1;
            let most = self.starts[first] + READ_BYTES;
            while end < range.end && self.starts[end + 1] <= most {
                end += 1;
            }
            let bytes = objects.read_range(&self.name, self.starts[first]..self.starts[end])?;
            let mut at = 0;
            for (index, piece) in (first..).zip(&self.pieces[first..end]) {
                let bytes = &bytes[at..at + piece.len as usize];
                self.check(objects, index, bytes)?;
                each(piece.part, bytes)?;
                at += bytes.len();
            }
            range.start = end;
        }
        Ok(())
    }

    fn range(&self, parts: Range<u32>) -> Range<usize> {
        let first = |part: u32| self.pieces.partition_point(|piece| piece.part < part);
        first(parts.start)..first(parts.end)
    }

    fn check(&self, objects: &Objects, index: usize, bytes: &[u8]) -> Result<()> {
        let found = crc32c::crc32c(bytes);
        let due = self.pieces[index].crc;
        if found == due {
            return Ok(());
        }
        let what = format!(
            "the {} bytes that were written here are damaged: their CRC-32C was {due:08x} and is \
             {found:08x}",
            bytes.len()
        );
        Err(StoreError::corrupt(objects.path(&self.name), self.starts[index], what))
    }
}

fn done(name: &str) -> String {
    format!("{name}{DONE}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use apus_disk::{Call, Disk};
    use apus_testdata::Random;

    use super::*;

    const OWNER: [u8; 32] = [7; 32];

    fn objects(path: &Path) -> Objects {
        Objects::open(path.to_str().unwrap(), &Disk::new()).unwrap()
    }

    fn write(objects: &Objects, name: &str, parts: &[(u32, Vec<u8>)]) -> Result<()> {
        let mut writer = PackWriter::begin(objects, name, OWNER)?;
        for (part, bytes) in parts {
            writer.append(*part, bytes)?;
        }
        writer.finish(b"note")
    }

    fn read(objects: &Objects, pack: &Pack, parts: Range<u32>) -> Result<Vec<(u32, Vec<u8>)>> {
        let mut found = Vec::new();
        pack.read(objects, parts, |part, bytes| {
            found.push((part, bytes.to_vec()));
            Ok::<(), StoreError>(())
        })?;
        Ok(found)
    }

    #[test]
    fn parts_come_back_in_any_range_and_with_their_note() {
        let place = tempfile::tempdir().unwrap();
        let objects = objects(&place.path().join("job"));
        assert!(Pack::open(&objects, "p", &OWNER).unwrap().is_none());
        let mut random = Random(4);
        let mut parts: Vec<(u32, Vec<u8>)> =
            (0..40).map(|at| (at / 3 * 2, random.bytes(at as usize * 50))).collect();
        parts.push((90, random.bytes(READ_BYTES as usize + 5)));
        write(&objects, "p", &parts).unwrap();
        let pack = Pack::open(&objects, "p", &OWNER).unwrap().unwrap();
        assert_eq!(pack.note, b"note");
        for range in [0..91, 0..1, 1..2, 4..9, 26..90] {
            let is_due =
                |(part, bytes): &&(u32, Vec<u8>)| range.contains(part) && !bytes.is_empty();
            let due: Vec<_> = parts.iter().filter(is_due).cloned().collect();
            let bytes: usize = due.iter().map(|(_, bytes)| bytes.len()).sum();
            assert_eq!(pack.bytes_of(range.clone()), bytes as u64);
            assert!(read(&objects, &pack, range.clone()).unwrap() == due, "{range:?}");
        }
    }

    #[test]
    fn a_pack_of_another_owner_or_with_damage_is_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let objects = objects(place.path());
        write(&objects, "p", &[(0, vec![1; 100]), (1, vec![2; 100])]).unwrap();
        let error = Pack::open(&objects, "p", &[8; 32]).err().unwrap().to_string();
        assert!(error.contains("p.done") && error.contains("another job"), "{error}");
        let index = place.path().join("p.done");
        let data = place.path().join("p");
        let flip = |path: &Path, at: usize| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes[at] ^= 1;
            std::fs::write(path, bytes).unwrap();
        };
        let whole = std::fs::read(&index).unwrap();
        for at in 0..whole.len() {
            flip(&index, at);
            assert!(Pack::open(&objects, "p", &OWNER).unwrap().is_none(), "{at}");
            flip(&index, at);
            std::fs::write(&index, &whole[..at]).unwrap();
            assert!(Pack::open(&objects, "p", &OWNER).unwrap().is_none(), "{at}");
            std::fs::write(&index, &whole).unwrap();
        }
        flip(&data, 150);
        let pack = Pack::open(&objects, "p", &OWNER).unwrap().unwrap();
        assert_eq!(read(&objects, &pack, 0..1).unwrap().len(), 1);
        let error = read(&objects, &pack, 0..2).unwrap_err();
        assert_eq!((error.offset, error.path.as_path()), (Some(100), data.as_path()));
    }

    #[test]
    fn a_pack_is_compared_with_what_would_be_written() {
        let place = tempfile::tempdir().unwrap();
        let objects = objects(place.path());
        let parts: Vec<(u32, Vec<u8>)> =
            [(0, 100), (3, BUFFER_BYTES), (9, 5)].map(|(part, len)| (part, vec![1; len])).into();
        let error = write(&objects.compared(), "p", &parts).unwrap_err();
        assert!(error.path.ends_with("p"), "{error}");
        write(&objects, "p", &parts).unwrap();
        write(&objects.compared(), "p", &parts).unwrap();
        let mut other = parts.clone();
        other[2].1[3] = 2;
        let error = write(&objects.compared(), "p", &other).unwrap_err();
        let offset = Some(100 + BUFFER_BYTES as u64 + 3);
        assert_eq!((error.offset, error.path), (offset, place.path().join("p")));
        for other in [&parts[..2], &[&parts[..2], &[(8, vec![1; 5])]].concat()] {
            let error = write(&objects.compared(), "p", other).unwrap_err();
            assert_eq!(error.path, place.path().join("p.done"));
        }
        let pack = Pack::open(&objects, "p", &OWNER).unwrap().unwrap();
        assert!(read(&objects, &pack, 0..10).unwrap() == parts);
        assert_eq!(objects.names().unwrap().len(), 2);
    }

    #[test]
    fn a_pack_is_absent_or_whole_whichever_call_fails() {
        let parts = [(0, vec![1; 100]), (3, vec![2; 9])];
        let mut failures = 0;
        for call in [Call::Open, Call::Write, Call::Sync, Call::Rename] {
            for number in 0..6 {
                let place = tempfile::tempdir().unwrap();
                let url = place.path().to_str().unwrap();
                let disk = Disk::failing(call, number..number + 1);
                failures +=
                    u32::from(write(&Objects::open(url, &disk).unwrap(), "p", &parts).is_err());
                let objects = objects(place.path());
                if let Some(pack) = Pack::open(&objects, "p", &OWNER).unwrap() {
                    assert!(read(&objects, &pack, 0..9).unwrap() == parts, "{call:?} {number}");
                }
                let names = objects.names().unwrap();
                assert!(names.iter().all(|name| name.starts_with('p')), "{call:?} {number}");
                write(&objects, "p", &parts).unwrap();
                assert!(Pack::open(&objects, "p", &OWNER).unwrap().is_some());
            }
        }
        assert!(failures > 8, "{failures} failures");
    }
}
