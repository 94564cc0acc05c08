use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;

use apus_disk::Disk;
use apus_hash::Hash;

use super::power::{Promises, blocks, cut_at_every_step, options, undo_of};
use super::write_undo;
use super::*;

const KEY: [u8; 8] = [0xa0, 1, 2, 3, 4, 5, 6, 7];

fn open(dir: &Path, infos: Vec<FileInfo>) -> BlockFiles {
    let options = BlockFilesOptions { fast_prune: true, ..Default::default() };
    let key = Obfuscation::new(KEY);
    BlockFiles::new(&Disk::new(), dir, mainnet().magic, key, infos, options)
}

/// Returns the block at `height`, of up to 20,000 bytes.
fn block_at(height: u32) -> Vec<u8> {
    fake_block(u64::from(height), Hash([height as u8; 32]), 80 + (height as usize * 997) % 20_000)
}

fn time_at(height: u32) -> u32 {
    1_000_000 - height * 7 % 50
}

/// Returns the expected infos of the files, from the positions of all blocks.
fn expected_infos(stored: &BTreeMap<u32, FlatFilePos>) -> BTreeMap<u32, FileInfo> {
    let mut infos = BTreeMap::<u32, FileInfo>::new();
    for (height, pos) in stored {
        let info = infos.entry(pos.file).or_default();
        info.add_block(*height, time_at(*height));
        info.size = info.size.max(pos.pos + block_at(*height).len() as u32);
    }
    infos
}

#[test]
fn no_file_mixes_the_blocks_of_two_lanes() {
    const LANES: u32 = 12;
    const BLOCKS: u32 = 40;
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), vec![]);
    let stored = Mutex::new(BTreeMap::new());
    let append = |lane: Option<&mut Lane>, height| {
        let block = block_at(height);
        let pos = match lane {
            Some(lane) => files.append_block_in(lane, &block, height, time_at(height)),
            None => files.append_block(&block, height, time_at(height)),
        };
        stored.lock().unwrap().insert(height, pos.unwrap());
    };
    append(None, 0);
    let lanes: Vec<Lane> = std::thread::scope(|scope| {
        let start = |first: u32| {
            let append = &append;
            scope.spawn(move || {
                let mut lane = Lane::default();
                (first..first + BLOCKS).for_each(|height| append(Some(&mut lane), height));
                lane
            })
        };
        let lanes: Vec<_> = (0..LANES).map(|lane| start(1 + lane * BLOCKS)).collect();
        // Meanwhile, blocks without a lane go to other files.
        scope.spawn(|| (10_000..10_000 + BLOCKS).for_each(|height| append(None, height)));
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    lanes.into_iter().for_each(|lane| files.end_lane(lane).unwrap());
    let stored = stored.into_inner().unwrap();
    let mut lanes_of = BTreeMap::new();
    for (height, pos) in &stored {
        let lane = match *height {
            0 | 10_000.. => None,
            of_lane => Some((of_lane - 1) / BLOCKS),
        };
        assert_eq!(*lanes_of.entry(pos.file).or_insert(lane), lane, "file {}", pos.file);
        assert_eq!(files.read_block(*pos).unwrap(), block_at(*height));
    }
    let infos = files.infos();
    assert!(infos.len() as u32 > 5 * LANES, "every lane filled several files");
    assert!((0..).zip(&infos).eq(expected_infos(&stored).iter().map(|(n, info)| (*n, info))));
    let changes = files.flush().unwrap();
    assert_eq!(changes.last_file as usize + 1, infos.len());
    assert_eq!(changes.infos.into_values().collect::<Vec<_>>(), infos);

    // Undo data is written by height, long after the blocks.
    for (height, pos) in &stored {
        let prev = &Hash([*height as u8; 32]);
        let undo = UndoRecord { file: pos.file, height: *height, prev, payload: &noise(1, 300) };
        let at = FlatFilePos { file: pos.file, pos: files.append_undo(undo).unwrap() };
        assert_eq!(files.read_undo(at, prev).unwrap(), noise(1, 300));
    }
    let len = |path| fs::metadata(path).unwrap().len();
    for (number, info) in (0..).zip(files.infos()).take(infos.len() - 1) {
        assert_eq!(len(files.block_path(number)), u64::from(info.size), "file {number}");
        assert_eq!(len(files.undo_path(number)), u64::from(info.undo_size), "file {number}");
        assert_eq!(info.undo_size, info.blocks * 340);
    }
}

#[test]
fn a_lane_starts_with_an_empty_file_and_its_last_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), vec![]);
    let len = |number| fs::metadata(files.block_path(number)).unwrap().len();
    let block = fake_block(1, Hash::ZERO, 992);
    let mut a = Lane::default();
    let mut b = Lane::default();
    files.end_lane(Lane::default()).unwrap();
    assert_eq!(files.append_block_in(&mut a, &block, 1, 1).unwrap().file, 0, "it was empty");
    assert_eq!(files.append_block_in(&mut b, &block, 2, 1).unwrap().file, 1);
    assert_eq!(files.append_block(&block, 3, 1).unwrap().file, 2);
    assert_eq!(files.append_block_in(&mut a, &block, 4, 1).unwrap().file, 0);
    assert_eq!(files.append_block(&block, 5, 1).unwrap().file, 2);
    let mut c = Lane::default();
    assert_eq!(files.append_block_in(&mut c, &block, 6, 1).unwrap().file, 3);
    assert_eq!((len(0), len(1), len(2), len(3)), (16_384, 16_384, 2_000, 16_384));
    assert_eq!(files.append_block(&block, 7, 1).unwrap().file, 4, "file 2 was ended by lane c");
    // While its blk file grows, the rev file of a lane keeps its reserved space; then that is
    // released.
    let undo = UndoRecord { file: 0, height: 4, prev: &Hash::ZERO, payload: &[1] };
    files.append_undo(undo).unwrap();
    assert_eq!(fs::metadata(files.undo_path(0)).unwrap().len(), 1 << 20);
    for lane in [a, b, c] {
        files.end_lane(lane).unwrap();
    }
    assert_eq!((len(0), len(1), len(3)), (2_000, 1_000, 1_000));
    assert_eq!(fs::metadata(files.undo_path(0)).unwrap().len(), 41);
    assert_eq!(files.append_block(&block, 8, 1).unwrap(), FlatFilePos { file: 4, pos: 1_008 });

    // After a lane used the last file, blocks without a lane are appended to it.
    let mut lane = Lane::default();
    assert_eq!(files.append_block_in(&mut lane, &block, 9, 1).unwrap().file, 5);
    files.end_lane(lane).unwrap();
    assert_eq!(files.append_block(&block, 10, 1).unwrap(), FlatFilePos { file: 5, pos: 1_008 });
    let heights: Vec<_> = files.infos().iter().map(|i| (i.height_first, i.height_last)).collect();
    assert_eq!(heights, [(1, 4), (2, 2), (3, 5), (6, 6), (7, 8), (9, 10)]);
    // After reopening, a new lane starts a new file.
    let again = open(dir.path(), files.infos());
    assert_eq!(again.append_block_in(&mut Lane::default(), &block, 11, 1).unwrap().file, 6);
}

#[test]
#[should_panic(expected = "still written to")]
fn the_file_of_a_lane_is_not_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), vec![]);
    let block = fake_block(1, Hash::ZERO, 992);
    let mut lane = Lane::default();
    files.append_block_in(&mut lane, &block, 1, 1).unwrap();
    files.append_block(&block, 2, 1).unwrap();
    let _ = files.prune(&[0]);
}

/// Appends blocks to two lanes in turn, then undo data by height, and commits after every third.
fn scenario(disk: &Disk, root: &Path, promises: &mut Promises) -> Result<()> {
    let data = DataDir::open(disk, root, &mainnet(), options())?;
    let (db, index, files) = data.open_blocks()?;
    let mut lanes = [Lane::default(), Lane::default()];
    let mut entries = Vec::new();
    for (height, block) in blocks().iter().enumerate().skip(index.entries.len()) {
        let pos = files.append_block_in(&mut lanes[height % 2], block, height as u32, 1)?;
        entries.push(entry_of(block, height as u32, pos, BlockStatus::BLOCK_VALID_SCRIPTS));
        if height % 3 == 2 {
            for entry in &mut entries {
                write_undo(&files, entry, &undo_of(entry.height as usize))?;
            }
            promises.begun = height + 1;
            db.write(&files.flush()?, &entries)?;
            promises.committed = height + 1;
            entries.clear();
        }
    }
    lanes.into_iter().try_for_each(|lane| files.end_lane(lane))
}

#[test]
fn power_may_fail_at_every_step_of_two_lanes() {
    cut_at_every_step(scenario);
}
