use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use apus_testdata::Random;

use super::extent::PAGE_BYTES;
use super::{PartBuffer, Parts, SavedParts};
use crate::{Caching, Disk, PowerCut, StoreError};

/// The pieces of each part, in order of arrival.
type Pieces = Vec<Vec<Vec<u8>>>;

fn append(parts: &Parts, expected: &mut Pieces, part: usize, bytes: Vec<u8>) {
    parts.append(part, &bytes).expect("appended");
    expected[part].push(bytes);
}

/// Checks that each part has these pieces, whichever way they are read.
fn check(parts: &Parts, expected: &Pieces) {
    assert_eq!(parts.parts(), expected.len());
    let mut buffer = PartBuffer::new();
    for (part, pieces) in expected.iter().enumerate() {
        let all = pieces.concat();
        assert_eq!(parts.bytes(part), all.len() as u64);
        let mut ends = vec![0];
        ends.extend(pieces.iter().scan(0, |end, piece| {
            *end += piece.len();
            Some(*end)
        }));
        let whole = |found: &[u8], so_far: &[u8]| {
            assert!(!found.is_empty() && ends.binary_search(&so_far.len()).is_ok());
        };
        let mut found = Vec::new();
        parts
            .with_part(part, &mut buffer, |bytes, ranges| {
                for range in ranges {
                    found.extend_from_slice(&bytes[range.clone()]);
                    whole(&bytes[range.clone()], &found);
                }
            })
            .expect("read");
        assert!(found == all, "part {part} at once");
        found.clear();
        let each = |bytes: &[u8]| -> Result<(), StoreError> {
            found.extend_from_slice(bytes);
            whole(bytes, &found);
            Ok(())
        };
        parts.for_each_piece(part, &mut buffer, each).expect("read");
        assert!(found == all, "part {part} piece by piece");
    }
}

fn through_bytes(saved: &SavedParts) -> SavedParts {
    let mut bytes = b"before".to_vec();
    saved.put(&mut bytes);
    bytes.extend_from_slice(b"after");
    let mut rest = &bytes[6..];
    let read = SavedParts::read(&mut rest).expect("the same");
    assert_eq!(rest, b"after");
    read
}

#[test]
fn each_part_has_what_was_appended_and_not_forgotten() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Disk::new();
        let path = dir.path().join("new").join("parts");
        let mut random = Random(seed << 32);
        let part_bytes = random.one_of(&[0, 5000, 3 * PAGE_BYTES, 1 << 20]);
        let count = random.one_of(&[1, 3, 20]);
        let mut parts = Parts::new(&disk, path.clone(), count, part_bytes, Caching::Direct);
        let mut expected = vec![Vec::new(); count];
        let mut saved = parts.save().expect("nothing");
        let mut saved_pieces = expected.clone();
        for _ in 0..400 {
            let part = random.below(count);
            match random.below(40u32) {
                0 => {
                    parts.forget(part);
                    expected[part].clear();
                }
                1 => check(&parts, &expected),
                2 => {
                    let room = parts.take_forgotten();
                    saved = through_bytes(&parts.save().expect("saved"));
                    saved_pieces.clone_from(&expected);
                    parts.release(room).expect("released");
                }
                3 => {
                    drop(parts);
                    parts = Parts::resume(&disk, path.clone(), part_bytes, &saved, Caching::Direct)
                        .expect("again");
                    expected.clone_from(&saved_pieces);
                }
                _ => {
                    let len = random.one_of(&[1, 100, 1000, PAGE_BYTES, 9000]);
                    append(&parts, &mut expected, part, random.bytes(len));
                }
            }
        }
        check(&parts, &expected);
        assert!(parts.bytes_written() > 0 && parts.path() == path);
        parts.destroy().expect("deleted");
        assert!(!path.exists());
    }
}

#[test]
fn what_fits_in_memory_stays_there_and_is_not_copied() {
    let path = Path::new("no such directory").join("parts");
    let parts = Parts::new(&Disk::new(), path.clone(), 2, 2 * PAGE_BYTES, Caching::Direct);
    let mut expected = vec![Vec::new(); 2];
    append(&parts, &mut expected, 1, vec![7; PAGE_BYTES]);
    append(&parts, &mut expected, 1, vec![8; PAGE_BYTES]);
    check(&parts, &expected);
    let with = |bytes: &mut [u8], _: &[_]| {
        bytes[0] = 9;
        append(&parts, &mut expected, 0, vec![1; 100]);
    };
    parts.with_part(1, &mut PartBuffer::new(), with).expect("in memory");
    expected[1][0][0] = 9;
    check(&parts, &expected);
    assert!(parts.bytes_written() == 0 && !path.exists());
    parts.destroy().expect("nothing to delete");
}

#[test]
fn many_threads_append_and_read_at_the_same_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let parts = Parts::new(&Disk::new(), dir.path().join("parts"), 4, PAGE_BYTES, Caching::Direct);
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let parts = &parts;
            scope.spawn(move || {
                for i in 0..1000u32 {
                    let piece = [&[thread][..], &i.to_le_bytes(), &[thread; 35]].concat();
                    parts.append(i as usize % 4, &piece).expect("appended");
                    if i % 100 == 99 {
                        let with = |_: &mut [u8], pieces: &[_]| assert!(!pieces.is_empty());
                        parts
                            .with_part(i as usize % 4, &mut PartBuffer::new(), with)
                            .expect("read");
                    }
                }
            });
        }
    });
    for part in 0..4u32 {
        let mut next = [part; 8];
        let each = |bytes: &[u8]| -> Result<(), StoreError> {
            for piece in bytes.chunks_exact(40) {
                let next = &mut next[usize::from(piece[0])];
                assert_eq!(piece[1..5], next.to_le_bytes());
                assert!(piece[5..].iter().all(|byte| *byte == piece[0]));
                *next += 4;
            }
            Ok(())
        };
        parts.for_each_piece(part as usize, &mut PartBuffer::new(), each).expect("read");
        assert_eq!(next, [1000 + part; 8]);
    }
}

#[test]
fn room_that_is_released_is_free() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = Disk::new();
    let path = dir.path().join("parts");
    let mut parts = Parts::new(&disk, path.clone(), 3, 0, Caching::Direct);
    let mut expected = vec![Vec::new(); 3];
    let fill = |parts: &Parts, expected: &mut Pieces| {
        for i in 0..300 {
            append(parts, expected, i % 3, vec![i as u8; PAGE_BYTES - i]);
        }
    };
    fill(&parts, &mut expected);
    let saved = parts.save().expect("saved");
    let used = || 512 * std::fs::metadata(&path).expect("a file").blocks();
    let full = used();
    assert!(full >= 300 * PAGE_BYTES as u64);

    parts.forget(1);
    check(&parts, &vec![expected[0].clone(), Vec::new(), expected[2].clone()]);
    drop(parts);
    parts = Parts::resume(&disk, path.clone(), 0, &saved, Caching::Direct).expect("resumed");
    check(&parts, &expected);

    parts.forget(1);
    expected[1].clear();
    let room = parts.take_forgotten();
    let saved = parts.save().expect("saved");
    parts.forget(0);
    parts.release(room).expect("released");
    assert!(used() <= full * 3 / 4, "{} of {full}", used());
    drop(parts);

    // What was forgotten after the last save is back; what was forgotten before it is released now.
    parts = Parts::resume(&disk, path.clone(), 0, &saved, Caching::Direct).expect("resumed");
    check(&parts, &expected);
    parts.forget(0);
    expected[0].clear();
    let room = parts.take_forgotten();
    let saved = parts.save().expect("saved");
    drop((parts, room));
    parts = Parts::resume(&disk, path.clone(), 0, &saved, Caching::Direct).expect("resumed");
    parts.release(parts.take_forgotten()).expect("released");
    assert!(used() <= full / 2, "{} of {full}", used());
    check(&parts, &expected);
    fill(&parts, &mut expected);
    check(&parts, &expected);
}

#[test]
fn damage_to_the_file_is_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("parts");
    let parts = Parts::new(&Disk::new(), path.clone(), 2, 0, Caching::Direct);
    let mut expected = vec![Vec::new(); 2];
    for len in [4000, 200, 9000] {
        append(&parts, &mut expected, 1, vec![1; len]);
    }
    let saved = parts.save().expect("saved");
    drop(parts);
    let whole = std::fs::read(&path).expect("read");
    let mut bytes = whole.clone();
    bytes[PAGE_BYTES + 100] ^= 1;
    std::fs::write(&path, &bytes).expect("written");
    let resume = || Parts::resume(&Disk::new(), path.clone(), 0, &saved, Caching::Direct);
    let parts = resume().expect("resumed");
    let mut buffer = PartBuffer::new();
    let at_once = parts.with_part(1, &mut buffer, |_, _| ());
    let mut seen = 0;
    let one_by_one = parts.for_each_piece(1, &mut buffer, |_| -> Result<(), StoreError> {
        seen += 1;
        Ok(())
    });
    assert_eq!(seen, 1);
    for error in [at_once.expect_err("damaged"), one_by_one.expect_err("damaged")] {
        assert_eq!(error.offset, Some(PAGE_BYTES as u64));
        assert!(error.to_string().contains("parts at byte 4096: the 200 bytes"), "{error}");
    }
    bytes[PAGE_BYTES + 100] ^= 1;
    bytes[PAGE_BYTES + 200] ^= 1;
    std::fs::write(&path, &bytes).expect("written");
    check(&resume().expect("resumed"), &expected);
    std::fs::write(&path, &whole[..whole.len() - 1]).expect("written");
    assert!(resume().is_err(), "cut short");
    std::fs::remove_file(&path).expect("removed");
    assert!(resume().is_err(), "gone");
}

#[test]
fn locations_that_no_file_can_have_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let parts = Parts::new(&Disk::new(), dir.path().join("parts"), 2, 0, Caching::Direct);
    let mut expected = vec![Vec::new(); 2];
    append(&parts, &mut expected, 0, vec![1; 5000]);
    append(&parts, &mut expected, 1, vec![2; 5000]);
    let saved = parts.save().expect("saved");
    let mut bytes = Vec::new();
    saved.put(&mut bytes);
    assert_eq!((bytes.len(), saved.parts()), (12 + 2 * 16, 2));
    assert_eq!(SavedParts::read(&mut &bytes[..]), Some(saved));
    for end in 0..bytes.len() {
        assert_eq!(SavedParts::read(&mut &bytes[..end]), None, "{end} bytes");
    }
    // Length of the file, number of parts, number of extents, page, and length of an extent, too
    // large or too small; the last change makes two extents overlap.
    for (at, value) in [
        (0, 1),
        (1, 0x30),
        (8, 3),
        (11, 0xff),
        (12, 2),
        (15, 0xff),
        (16, 3),
        (19, 0xff),
        (21, 0x30),
    ] {
        let mut bytes = bytes.clone();
        assert_ne!(std::mem::replace(&mut bytes[at], value), value);
        assert_eq!(SavedParts::read(&mut &bytes[..]), None, "byte {at}");
    }
}

/// After any power failure the last save is intact, also if space was released since.
#[test]
fn a_power_cut_loses_only_what_was_not_saved() {
    let mut resumed = 0;
    for power in (1..).flat_map(|step| PowerCut::kinds(step, 2)) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("parts");
        let disk = Disk::with_power_cut(power.clone());
        let mut durable: Option<(SavedParts, Pieces)> = None;
        let work = || -> Result<(), StoreError> {
            let parts = Parts::new(&disk, path.clone(), 3, 0, Caching::Direct);
            let mut expected = vec![Vec::new(); 3];
            for round in 0..4u8 {
                for (part, pieces) in expected.iter_mut().enumerate() {
                    for len in [3000, 2000, 6000] {
                        pieces.push(vec![16 * round + part as u8 + 1; len]);
                        parts.append(part, &pieces[pieces.len() - 1])?;
                    }
                }
                let part = usize::from(round) % 3;
                parts.forget(part);
                expected[part].clear();
                let room = parts.take_forgotten();
                durable = Some((parts.save()?, expected.clone()));
                parts.forget((part + 1) % 3);
                expected[(part + 1) % 3].clear();
                parts.release(room)?;
            }
            Ok(())
        };
        let result = { work }();
        power.lose_unsynced().expect("the power is gone");
        if let Some((saved, mut expected)) = durable {
            resumed += 1;
            let parts =
                Parts::resume(&Disk::new(), path, 0, &saved, Caching::Direct).expect("resumed");
            check(&parts, &expected);
            parts.release(parts.take_forgotten()).expect("released");
            append(&parts, &mut expected, 0, vec![0xff; 5000]);
            check(&parts, &expected);
        }
        if result.is_ok() {
            break;
        }
    }
    assert!(resumed > 20, "{resumed}");
}

/// A hole that was punched without a sync may or may not be there after a power cut.
#[test]
fn a_power_cut_may_undo_a_hole() {
    let mut found = Vec::new();
    for step in 5..8 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let power = Arc::new(PowerCut::at(step));
        let disk = Disk::with_power_cut(power.clone());
        let work = || -> Result<(), StoreError> {
            let file = disk.create(&path)?;
            file.write_all_at(&[7; 3 * PAGE_BYTES], 0)?;
            file.sync()?;
            disk.sync_dir(dir.path())?;
            file.punch_hole(PAGE_BYTES as u64, PAGE_BYTES as u64)?;
            file.write_all_at(&[8], 0)
        };
        assert_eq!(power.steps(), 0);
        let is_done = { work }().is_ok();
        assert_eq!(is_done, step == 7, "the hole is the fifth change of six");
        power.lose_unsynced().expect("the power is gone");
        let bytes = std::fs::read(&path).expect("read");
        let pages: Vec<u8> = bytes.chunks(PAGE_BYTES).map(|page| page[0]).collect();
        assert!(bytes.chunks(PAGE_BYTES).all(|page| page.iter().all(|byte| *byte == page[0])));
        found.push(pages);
    }
    assert_eq!(found, [[7, 0, 7], [7, 7, 7], [7, 0, 7]]);
}
