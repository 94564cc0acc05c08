use std::fs;

use super::*;

fn items(path: &Path, network: &Network) -> Vec<SourceItem> {
    let source = BlockSource::open(path, network).unwrap();
    source.scan().map(|item| item.unwrap()).collect()
}

fn split(items: Vec<SourceItem>) -> (Vec<SourceBlock>, Vec<ScanWarning>) {
    let mut blocks = Vec::new();
    let mut warnings = Vec::new();
    for item in items {
        match item {
            SourceItem::Block(block) => blocks.push(block),
            SourceItem::Warning(_, warning) => warnings.push(warning),
        }
    }
    (blocks, warnings)
}

fn frame(block: &[u8]) -> Vec<u8> {
    flat_file::block_record(mainnet().magic, block)
}

/// Returns a few real blocks.
fn blocks() -> Vec<Vec<u8>> {
    mainnet_blocks(20)
}

fn scan_bytes(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<ScanWarning>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, bytes).unwrap();
    let scan = || FileScan::open(&path, mainnet().magic, Obfuscation::NONE).unwrap();
    let mut blocks = Vec::new();
    let mut warnings = Vec::new();
    for item in scan() {
        match item.unwrap() {
            Scanned::Block { offset, len, bytes: block } => {
                let offset = offset as usize;
                assert_eq!(bytes[offset..offset + len as usize], block);
                blocks.push(block);
            }
            Scanned::Warning(warning) => warnings.push(warning),
        }
    }
    let headers = scan().headers_only().map(|item| item.unwrap());
    let headers = headers.filter_map(|item| match item {
        Scanned::Block { bytes, .. } => Some(bytes),
        Scanned::Warning(_) => None,
    });
    let expected: Vec<_> = blocks.iter().map(|block| block[..80].to_vec()).collect();
    assert_eq!(headers.collect::<Vec<_>>(), expected, "a scan for headers finds the same");
    (blocks, warnings)
}

#[test]
fn all_of_mainnet_we_have() {
    let path = data("mainnet-0-14131.dat");
    let (blocks, warnings) = split(items(&path, &mainnet()));
    assert_eq!((blocks.len(), warnings.len()), (14_132, 0));
    let mut prev = apus_hash::Hash::ZERO;
    let source = BlockSource::open(&path, &mainnet()).unwrap();
    for block in &blocks {
        let view = BlockView::parse(&block.bytes).unwrap();
        assert_eq!((view.header().prev, view.len()), (prev, block.len as usize));
        prev = view.hash();
    }
    assert_eq!(
        prev.to_string(),
        "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c"
    );
    let last = blocks.last().unwrap();
    assert_eq!(source.files()[0].read(last.offset, last.len).unwrap(), last.bytes);
    let mut scan = source.scan();
    assert_eq!(scan.position(), 0);
    assert_eq!(scan.by_ref().count(), 14_132);
    assert_eq!((scan.position(), source.len()), (3_272_717, 3_272_717));
    assert_eq!(source.scan_headers().count(), 14_132);
}

#[test]
fn junk_bad_blocks_and_torn_tails_are_stepped_over() {
    let blocks = blocks();
    let good: Vec<u8> = blocks[..5].iter().flat_map(|block| frame(block)).collect();
    let more: Vec<u8> = blocks[5..10].iter().flat_map(|block| frame(block)).collect();
    let at = good.len() as u64;

    assert_eq!(scan_bytes(&good), (blocks[..5].to_vec(), vec![]));
    // Junk of many lengths, some of them close to that of the window.
    for len in [1, 7, 87, 88, 89, 65_400, 65_536, 200_000] {
        let junk: Vec<u8> = noise(len as u64, len).iter().map(|byte| byte | 1).collect();
        let (found, warnings) = scan_bytes(&[&good[..], &junk, &more].concat());
        assert_eq!(found, blocks[..10]);
        assert_eq!(warnings, [ScanWarning::Junk { offset: at, len: len as u64 }]);
        let (found, warnings) = scan_bytes(&[&good[..], &junk].concat());
        assert_eq!((found.len(), warnings.len()), (5, 1), "{warnings:?}");
    }
    // Space in the middle or at the start that was reserved but not written, with blocks after it.
    for len in [1, 7, 88, 65_536, 300_000] {
        let padding = |offset| [ScanWarning::Padding { offset, len: len as u64 }];
        let (found, warnings) = scan_bytes(&[&good[..], &vec![0; len], &more].concat());
        assert_eq!((found, &warnings[..]), (blocks[..10].to_vec(), &padding(at)[..]));
        let (found, warnings) = scan_bytes(&[&vec![0; len], &good[..]].concat());
        assert_eq!((found, &warnings[..]), (blocks[..5].to_vec(), &padding(0)[..]));
        // After other bytes it is told apart from them, unless it is short.
        let zeros = vec![0; len];
        let (found, warnings) = scan_bytes(&[&good[..], &[7; 9], &zeros, &more].concat());
        let junk = |len| ScanWarning::Junk { offset: at, len };
        let expected = match len {
            ..88 => vec![junk(9 + len as u64)],
            _ => vec![junk(9), padding(at + 9)[0]],
        };
        assert_eq!((found.len(), warnings), (10, expected));
        assert_eq!(scan_bytes(&[&good[..], &vec![0; len]].concat()).1, []);
    }
    // A magic without a valid length, and a magic that is cut in two.
    let mut false_magic = mainnet().magic.to_vec();
    false_magic.extend([0xff; 4]);
    let (found, warnings) =
        scan_bytes(&[&good[..], &false_magic, &false_magic[..2], &more].concat());
    assert_eq!((found, warnings.len()), (blocks[..10].to_vec(), 1));
    // A block with wrong bytes, or with a length that is too short.
    for (place, value) in [(8 + 80, 0xfd), (4, 0xd6)] {
        let mut bad = frame(&blocks[11]);
        bad[place] = value;
        let (found, warnings) = scan_bytes(&[&good[..], &bad, &[1; 100], &more].concat());
        assert_eq!(found, blocks[..10]);
        assert_eq!(warnings, [ScanWarning::Damaged { offset: at }]);
    }
    // A length that reaches beyond the block: the blocks after it are found anyway.
    let mut long = frame(&blocks[4]);
    (long[4], long[5]) = (0xff, 0x02);
    let (found, warnings) = scan_bytes(&[&long[..], &more].concat());
    assert_eq!((found, warnings), (blocks[4..10].to_vec(), vec![]));
}

/// A frame whose first bytes are those of the key is zeros in the file.
#[test]
fn padding_ends_where_an_obfuscated_frame_begins() {
    let blocks = blocks();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let frames = [frame(&blocks[0]), frame(&blocks[1])];
    for gap in [8, 96, 70_000] {
        for equal in 0..8 {
            let first = frames[0].len();
            let second = frames[0].len() + gap;
            let mut key = [0x5a; 8];
            for (index, byte) in frames[1][..equal].iter().enumerate() {
                key[(second + index) % 8] = *byte;
            }
            let obfuscation = Obfuscation::new(key);
            let mut bytes = frames.concat();
            bytes.splice(first..first, vec![0; gap]);
            let gap_bytes = first..second;
            obfuscation.apply(&mut bytes, 0);
            bytes[gap_bytes].fill(0);
            fs::write(&path, &bytes).unwrap();
            let scan = FileScan::open(&path, mainnet().magic, obfuscation).unwrap();
            let found: Vec<Scanned> = scan.map(|item| item.unwrap()).collect();
            let [Scanned::Block { .. }, Scanned::Warning(padding), Scanned::Block { offset, .. }] =
                &found[..]
            else {
                panic!("{gap}, {equal}: {found:?}")
            };
            assert_eq!(*offset as usize, second + 8);
            let len = gap as u64;
            assert_eq!(*padding, ScanWarning::Padding { offset: first as u64, len });
        }
    }
}

#[test]
fn a_torn_last_block_is_a_warning() {
    let blocks = blocks();
    let good: Vec<u8> = blocks[..5].iter().flat_map(|block| frame(block)).collect();
    let at = good.len() as u64;
    let last = frame(&blocks[5]);
    for kept in 1..last.len() {
        let (found, warnings) = scan_bytes(&[&good[..], &last[..kept]].concat());
        assert_eq!(found, blocks[..5]);
        let missing = (last.len() - kept) as u64;
        let expected = match kept {
            ..8 => ScanWarning::Junk { offset: at, len: kept as u64 },
            _ => ScanWarning::Truncated { offset: at, missing },
        };
        assert_eq!(warnings, [expected]);
    }
    let warning = ScanWarning::Truncated { offset: 7, missing: 9 };
    assert_eq!(warning.offset(), 7);
    assert!(warning.to_string().contains("9 bytes"), "{warning}");
}

#[test]
fn directories_of_every_kind() {
    let blocks = blocks();
    let key = Obfuscation::new([1, 2, 3, 4, 5, 6, 7, 0xf9]);
    let dir = tempfile::tempdir().unwrap();
    let network = mainnet();
    let data = crate::DataDir::open(
        &apus_disk::Disk::new(),
        dir.path(),
        &network,
        DataDirOptions::default(),
    );
    drop(data.unwrap());
    fs::write(dir.path().join("blocks/xor.dat"), key.key()).unwrap();
    for (number, chunk) in [(10, &blocks[5..10]), (2, &blocks[..5])] {
        let mut bytes: Vec<u8> = chunk.iter().flat_map(|block| frame(block)).collect();
        key.apply(&mut bytes, 0);
        bytes.resize(bytes.len() + 100_000, 0);
        fs::write(dir.path().join(format!("blocks/blk{number:05}.dat")), bytes).unwrap();
    }
    fs::write(dir.path().join("blocks/blk00011.dat"), vec![0; 100_000]).unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("blocks")] {
        let (found, warnings) = split(items(&path, &network));
        assert_eq!(warnings, []);
        let bytes: Vec<_> = found.iter().map(|block| block.bytes.clone()).collect();
        assert_eq!(bytes, blocks[..10]);
        assert!(found[0].path.ends_with("blk00002.dat") && found[9].path.ends_with("blk00010.dat"));
    }
    // One of these files, by name: the key next to it is used.
    let (found, _) = split(items(&dir.path().join("blocks/blk00002.dat"), &network));
    assert_eq!(found.len(), 5);
    // A plain file next to a key that it is not obfuscated with.
    let plain: Vec<u8> = blocks.iter().flat_map(|block| frame(block)).collect();
    for name in ["blk00099.dat", "bootstrap.dat"] {
        fs::write(dir.path().join("blocks").join(name), &plain).unwrap();
        let (found, _) = split(items(&dir.path().join("blocks").join(name), &network));
        assert_eq!(found.len(), blocks.len());
    }
}

/// btcd writes a checksum of magic, length and block after each block, most significant byte first.
#[test]
fn the_checksums_of_btcd_are_no_junk() {
    let record = |block: &Vec<u8>| {
        let frame = frame(block);
        let checksum = apus_leveldb::crc32c(&frame).to_be_bytes();
        [&frame[..], &checksum].concat()
    };
    let bytes: Vec<u8> = blocks().iter().flat_map(record).collect();
    assert_eq!(scan_bytes(&bytes), (blocks(), vec![]));
    // Other bytes in that place are.
    let mut wrong = bytes;
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let junk = ScanWarning::Junk { offset: last as u64 - 3, len: 4 };
    assert_eq!(scan_bytes(&wrong), (blocks(), vec![junk]));
}

#[test]
fn what_is_not_ours_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.dat");
    let refused = |path: &Path| match BlockSource::open(path, &mainnet()) {
        Ok(_) => panic!("accepted"),
        Err(e) => e.to_string(),
    };
    assert!(refused(&path).contains("cannot find this path"));
    assert!(refused(dir.path()).contains("there are no block files"));
    for name in ["000000000.fdb", "blk0001.dat"] {
        fs::write(dir.path().join(name), [0; 9]).unwrap();
        let error = refused(dir.path());
        assert!(error.contains(name) && error.contains("a --from of its own"), "{error}");
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    fs::write(&path, []).unwrap();
    assert!(refused(&path).contains("empty"));
    fs::write(&path, noise(3, 100_000)).unwrap();
    assert!(refused(&path).contains("not a file of mainnet blocks"));

    let test = Network::new(Chain::Test);
    let testnet: Vec<u8> =
        (0..3).flat_map(|_| flat_file::block_record(test.magic, &[1; 90])).collect();
    fs::write(&path, &testnet).unwrap();
    let error = refused(&path);
    assert!(error.contains("holds testnet3 blocks") && error.contains("--chain test"), "{error}");
    fs::create_dir_all(dir.path().join("testnet3/blocks")).unwrap();
    fs::write(dir.path().join("testnet3/blocks/blk00000.dat"), &testnet).unwrap();
    assert!(refused(dir.path()).contains("use --chain test"));
    assert!(refused(&dir.path().join("testnet3")).contains("use --chain test"));
    assert_eq!(items(dir.path(), &test).len(), 3);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn all_of_testnet3_we_have() {
    let path = shared("testnet3-0-4000.dat");
    assert!(
        BlockSource::open(&path, &mainnet())
            .err()
            .unwrap()
            .to_string()
            .contains("use --chain test")
    );
    assert_eq!(split(items(&path, &Network::new(Chain::Test))).0.len(), 4_001);
}
