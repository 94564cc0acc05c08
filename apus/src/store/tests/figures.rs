use std::hint::black_box;
use std::time::{Duration, Instant};

use super::*;
use crate::disk::Disk;

/// The best of some runs.
fn best(runs: usize, mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..runs).map(time).min().unwrap_or_default()
}

/// Core's `ReadRawBlock` takes 55 µs on this block, its `WriteBlock` 0.94 ms.
#[test]
#[cfg_attr(not(shared_data), ignore = "needs a mainnet block that may not be copied")]
fn reading_and_writing_a_large_block() {
    let block = std::fs::read(shared("block413567.raw")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let key = Obfuscation::new([1, 2, 3, 4, 5, 6, 7, 8]);
    let (disk, options) = (Disk::new(), BlockFilesOptions::default());
    let files = BlockFiles::new(&disk, dir.path(), mainnet().magic, key, vec![], options);
    let pos = files.append_block(&block, 413_567, 1).unwrap();
    let write = best(100, || {
        black_box(files.append_block(&block, 413_567, 1).unwrap());
    });
    let read = best(200, || {
        black_box(files.read_block(pos).unwrap());
    });
    let len = block.len() as u32 + STORAGE_HEADER_BYTES;
    let each = best(5, || {
        for number in 0..100 {
            let pos = FlatFilePos { file: 0, pos: pos.pos + number * len };
            black_box(files.read_block(pos).unwrap());
        }
    });
    eprintln!("a hundred of them in turn: read {:?} each", each / 100);
    let mut buffer = Vec::new();
    let read_into = best(200, || files.read_block_into(pos, &mut buffer).unwrap());
    assert_eq!(buffer, block);
    let undo = &block[..300_000];
    let prev = crate::hash::Hash::ZERO;
    let record = UndoRecord { file: 0, height: 1, prev: &prev, payload: undo };
    let undo_pos = FlatFilePos { file: 0, pos: files.append_undo(record).unwrap() };
    let write_undo = best(50, || {
        black_box(files.append_undo(record).unwrap());
    });
    let read_undo = best(50, || {
        black_box(files.read_undo(undo_pos, &prev).unwrap());
    });
    let xor = best(500, || key.apply(black_box(&mut buffer[3..]), 3));
    let gigabytes = buffer.len() as f64 / xor.as_nanos() as f64;
    eprintln!("block 413567: read {read:?}, into a buffer {read_into:?}, write {write:?}");
    eprintln!("300 kB of undo: read {read_undo:?}, write {write_undo:?}; xor {gigabytes:.1} GB/s");

    drop(files);
    let source = BlockSource::open(&dir.path().join("blk00000.dat"), &mainnet());
    assert!(source.is_err(), "no key beside it");
    std::fs::write(dir.path().join("xor.dat"), key.key()).unwrap();
    let source = BlockSource::open(&dir.path().join("blk00000.dat"), &mainnet()).unwrap();
    for (name, headers_only) in [("blocks", false), ("headers", true)] {
        let mut count = 0;
        let scan = best(5, || {
            count = 0;
            for item in if headers_only { source.scan_headers() } else { source.scan() } {
                black_box(item.unwrap());
                count += 1;
            }
        });
        assert_eq!(count, 101);
        let gigabytes = source.len() as f64 / scan.as_nanos() as f64;
        eprintln!("scan for {name}: {:?} a block, {gigabytes:.2} GB/s", scan / 101);
    }
}
