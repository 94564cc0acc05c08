//! Wrong hints of every kind.

use std::collections::HashSet;
use std::path::PathBuf;

use apus_node::SyncError;
use apus_progress::Watch;
use apus_swiftsync::{Format, Numbering};
use apus_sync::Summary;
use apus_testchain::Chain;

use super::refusals::{
    Blame, Due, assert_due, assert_in_order_succeeds, assert_nothing_committed, assert_unchanged,
    contents, differences,
};
use crate::support::Place;
use crate::support::model::{Hinted, encode};
use crate::support::program::{assert_ends, program_on};
use crate::support::swift::{MODES, Mode, World, small_chain, try_reindex_with, try_sync_with};

/// A wrong hints file, and what comes of it.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    end: End,
}

/// What comes of wrong hints.
#[derive(Clone, Copy)]
enum End {
    Refused(Due),
    /// The outputs that they are wrong about are found, and the sync ends with the right coins.
    Corrected,
    /// One of the two, as the indices fit the blocks by chance or not.
    Either,
}

impl End {
    /// Returns whether the hints were corrected; panics if they were not although they must be, or
    /// the other way round, or if they were refused in another way.
    #[track_caller]
    fn assert(self, result: Result<Summary, SyncError>, what: &str) -> bool {
        match (self, result) {
            (Self::Corrected | Self::Either, Ok(summary)) => {
                assert!(!summary.interrupted, "{what}");
                true
            }
            (Self::Refused(due), result) => {
                assert_due(&due, result, what);
                false
            }
            (Self::Either, result) => {
                assert_due(&Due(Blame::Hints, &[]), result, what);
                false
            }
            (Self::Corrected, Err(error)) => panic!("{what}: {error}"),
        }
    }
}

/// The chain: 110 quiet blocks, then busy ones; the last 288 begin at height 176.
struct Spoiler {
    chain: Chain,
    world: World,
    right: Vec<Hinted>,
    cases: Vec<Case>,
}

impl Spoiler {
    fn new() -> Self {
        let chain = small_chain(41, 350, 1_000);
        let world = World::of(&chain);
        let right = world.model.hints(world.height(), Numbering::Spendable);
        Self { chain, world, right, cases: Vec::new() }
    }

    fn add(&mut self, name: &'static str, bytes: Vec<u8>, due: Due) {
        self.cases.push(Case { name, bytes, end: End::Refused(due) });
    }

    fn corrected(&mut self, name: &'static str, bytes: Vec<u8>) {
        self.cases.push(Case { name, bytes, end: End::Corrected });
    }

    fn either(&mut self, name: &'static str, bytes: Vec<u8>) {
        self.cases.push(Case { name, bytes, end: End::Either });
    }

    /// The right hints after a change.
    fn changed(&self, change: impl FnOnce(&mut Vec<Hinted>)) -> Vec<u8> {
        let mut hints = self.right.clone();
        change(&mut hints);
        encode(&hints, Format::Bip456)
    }

    /// The height of a block, and the index of one of its outputs that is spent between these
    /// heights.
    fn spent_output(&self, from: u32, to: u32, wanted: impl Fn(u32, u32) -> bool) -> (usize, u32) {
        for (height, deeds) in (0u32..).zip(&self.world.model.blocks).skip(1) {
            let spendable = deeds.outputs.iter().filter(|output| output.spendable);
            for (index, output) in (0..).zip(spendable) {
                let fits = |at: u32| (from..=to).contains(&at) && wanted(height, at);
                if output.spent_at.is_some_and(fits) {
                    return (height as usize, index);
                }
            }
        }
        panic!("no output of a block is spent in {from} to {to}");
    }

    fn with_bit(&self, (height, index): (usize, u32)) -> Vec<u8> {
        self.changed(|hints| {
            let unspent = &mut hints[height - 1].0;
            unspent.push(index);
            unspent.sort_unstable();
        })
    }

    /// The place in the hints of a busy block for which this holds.
    fn block(&self, fits: impl Fn(&[u32], u32) -> bool) -> usize {
        let busy = 150..self.right.len();
        let mut blocks = busy.filter(|at| fits(&self.right[*at].0, self.right[*at].1));
        blocks.next().expect("a block like that")
    }

    fn bits(&mut self) {
        let early = self.with_bit(self.spent_output(111, 174, |made, at| made < at));
        self.corrected("one bit too many, spent long ago", early);
        let recent = self.with_bit(self.spent_output(180, 460, |made, at| made < at));
        self.corrected("one bit too many, spent lately", recent);
        let inside = self.with_bit(self.spent_output(111, 174, |made, at| made == at));
        self.corrected("a bit on what its own block spends", inside);
        let inside = self.with_bit(self.spent_output(200, 460, |made, at| made == at));
        self.corrected("a bit on what its own late block spends", inside);
        for (name, at) in [("one bit too few", 160), ("the last block's bit is missing", 462)] {
            let at = (0..=at).rev().find(|at| !self.right[*at].0.is_empty()).unwrap();
            let bytes = self.changed(|hints| hints[at].0.truncate(self.right[at].0.len() - 1));
            self.corrected(name, bytes);
        }
        let holes =
            |unspent: &[u32], outputs| unspent.len() > 2 && unspent.len() + 2 < outputs as usize;
        let a = self.block(holes);
        let b = self.block(|u, n| holes(u, n) && u.len() % 2 == 0);
        let hole = |hints: &[Hinted], at: usize| {
            (0..hints[at].1).find(|index| !hints[at].0.contains(index)).unwrap()
        };
        let bytes = self.changed(|hints| {
            let other = hole(hints, b);
            hints[a].0.remove(0);
            hints[b].0.push(other);
            hints[b].0.sort_unstable();
        });
        self.corrected("a bit swapped between two blocks", bytes);
        let bytes = self.changed(|hints| {
            let other = hole(hints, a);
            hints[a].0[0] = other;
            hints[a].0.sort_unstable();
        });
        self.corrected("a bit moved within its block", bytes);
    }

    fn blocks(&mut self) {
        let roomy = self.block(|u, n| u.len() > 2 && u.last().is_some_and(|last| last + 1 < n));
        let bytes = self.changed(|hints| hints[roomy].0.iter_mut().for_each(|index| *index += 1));
        self.corrected("a block's bits shifted by one", bytes);
        let bytes = self.changed(|hints| hints[111..].rotate_right(1));
        self.either("shifted by a block", bytes);
        let bytes =
            self.changed(|hints| hints.iter_mut().for_each(|(u, n)| *u = (0..*n).collect()));
        self.either("all set", bytes);
        let bytes = self.changed(|hints| hints.iter_mut().for_each(|(u, _)| u.clear()));
        self.corrected("none set", bytes);
        let bytes = self.changed(|hints| {
            let (unspent, outputs) = &mut hints[200];
            unspent.push(*outputs);
            *outputs += 1;
        });
        let beyond = Due(Blame::Hints, &["block 201: output ", "but the block has "]);
        self.add("an index beyond the block's outputs", bytes, beyond);
        let height = self.world.height();
        let other = World::of(&small_chain(42, 350, 1_000));
        let bytes = other.model.hints_file(height, Format::Bip456);
        self.either("of another chain of this length", bytes);
        let fork = World::of(&self.chain.fork(height - 20, 20, 1));
        let bytes = fork.model.hints_file(height, Format::Bip456);
        self.either("of a fork", bytes);
        let longer = World::of(&self.chain.fork(height, 1, 1));
        let mut hints = longer.model.hints(height + 1, Numbering::Spendable);
        hints.pop();
        let bytes = encode(&hints, Format::Bip456);
        self.either("of one height more", bytes);
        let mut hints = self.world.model.hints(height - 10, Numbering::Spendable);
        hints.extend_from_slice(&self.right[height as usize - 10..]);
        self.either("of ten heights less", encode(&hints, Format::Bip456));
        let bytes = longer.model.hints_file(height + 1, Format::Bip456);
        let early = Due(Blame::Hints, &["the hints are for height 464", "headers ends at 463"]);
        self.add("for a height beyond the headers", bytes, early);
    }

    /// Files that cannot be read. All kinds of these are in the unit tests of `apus-swiftsync`.
    fn files(&mut self) {
        let right = encode(&self.right, Format::Bip456);
        let named = |words| Due(Blame::Hints, words);
        let cut = right[..right.len() / 2].to_vec();
        self.add("cut in half", cut, named(&["ends inside its hints"]));
        let spoil = |at: usize, byte: u8| {
            let mut bytes = right.clone();
            bytes[at] = byte;
            bytes
        };
        self.add("wrong magic", spoil(0, b'u'), named(&["not a hints file"]));
        let height = self.world.height().to_le_bytes()[0];
        // The element of block 0 is then taken for that of block 1.
        let words = named(&["the hints are for height 464", "headers ends at 463"]);
        self.add("height + 1 in its head", spoil(5, height + 1), words);
        self.add("empty", Vec::new(), named(&["the file is empty"]));
    }

    fn codes(&mut self) {
        // The file is put together from blocks, of which one is replaced.
        let code = |hinted: &Hinted| {
            encode(std::slice::from_ref(hinted), Format::Hintsfile02)[9..].to_vec()
        };
        let low = |u: &[u32]| (u[u.len() - 1] + 1) / u.len() as u32;
        let at = self.block(|u, _| u.len() > 2 && low(u) > 1);
        let with = |right: &[Hinted], own: &[u8]| {
            let mut bytes = encode(right, Format::Hintsfile02)[..9].to_vec();
            for (index, hinted) in right.iter().enumerate() {
                bytes.extend(if index == at { own.to_vec() } else { code(hinted) });
            }
            bytes
        };
        let mut garbage = code(&self.right[at]);
        garbage[2..].iter_mut().for_each(|byte| *byte ^= 0x5a);
        let garbage = with(&self.right, &garbage);
        self.add("garbage for a block's code", garbage, Due(Blame::Hints, &["block "]));
        // The indices 4, 5, 11 have one low bit each. With the first two swapped they are 5, 4, 11.
        // Only decoding finds that, after the file was opened.
        let unsorted = with(&self.right, &[3, 11, 0b110 | 0b1, 0, 0]);
        self.add("unsorted", unsorted, Due(Blame::Hints, &["block "]));
    }

    fn other_formats(&mut self) {
        let all = self.world.model.hints(self.world.height(), Numbering::All);
        let format_cases = [
            (Format::Booster, "booster: a block's count is one more", 1),
            (Format::Booster, "booster: a block's count is 99 more", 99),
            (Format::Bitset, "bitset: a block's count is one more", 1),
        ];
        for (format, name, more) in format_cases {
            let mut hints = all.clone();
            hints[300].1 += more;
            let counts =
                Due(Blame::Hints, &["block 301: the hints are for ", "but the block has "]);
            self.add(name, encode(&hints, format), counts);
        }
        for (format, name) in
            [(Format::Booster, "booster: too few"), (Format::Bitset, "bitset: too few")]
        {
            let mut hints = all.clone();
            let at = (0..300).rev().find(|at| !hints[*at].0.is_empty()).unwrap();
            hints[at].0.pop();
            self.corrected(name, encode(&hints, format));
        }
        let blocks = &self.world.model.blocks;
        let burnt = (1..blocks.len())
            .find_map(|at| Some((at, blocks[at].outputs.iter().position(|o| !o.spendable)?)));
        let (height, output) = burnt.expect("an output that nobody can spend");
        let mut hints = all;
        hints[height - 1].0.push(output as u32);
        hints[height - 1].0.sort_unstable();
        self.corrected("booster: a bit on OP_RETURN", encode(&hints, Format::Booster));
    }

    fn all() -> Self {
        let mut spoiler = Self::new();
        spoiler.bits();
        spoiler.blocks();
        spoiler.files();
        spoiler.codes();
        spoiler.other_formats();
        spoiler
    }
}

#[test]
fn every_kind_is_corrected_or_refused() {
    let Spoiler { world, cases, .. } = Spoiler::all();
    assert!(cases.len() >= 26, "{}", cases.len());
    let synced = world.in_order();
    synced.shrink();
    let utxo_hash = synced.utxo_hash();
    for mode in MODES {
        let reindexed = synced.copy();
        let mut refusals = HashSet::new();
        for Case { name, bytes, end } in &cases {
            let what = format!("{name}, {mode:?}");
            let place = world.place();
            let hints = place.write_bytes("wrong.hints", bytes);
            let sources = world.sources(&place, mode, &world.file_order());
            if end.assert(world.try_swift(&place, mode, &hints, &sources), &what) {
                assert_eq!(place.utxo_hash(), utxo_hash, "{what}");
                assert!(!place.swift_dir().exists(), "{what}");
            } else {
                assert_nothing_committed(&place, &what);
                // Each refusal leaves the same, so that one sync in order afterwards is enough.
                let End::Refused(Due(_, words)) = end else { continue };
                if refusals.insert(*words) {
                    assert_in_order_succeeds(&place, &sources, &utxo_hash, &what);
                }
            }
            // The same on a directory that has coins already.
            let result = try_reindex_with(&world.options(&reindexed, mode, &hints));
            end.assert(result, &format!("{what}, reindex"));
            assert_unchanged(&reindexed, &utxo_hash, &format!("{what}, reindex"));
        }
        assert_eq!(reindexed.try_reindex().unwrap().height, world.height());
        assert_eq!(reindexed.utxo_hash(), utxo_hash, "a reindex after all of them");
    }
}

/// Bits are turned over by the hundred, in one block and in all.
#[test]
fn many_wrong_bits_are_corrected() {
    let Spoiler { world, right, .. } = Spoiler::new();
    let utxo_hash = world.in_order().utxo_hash();
    let outputs: Vec<(usize, u32)> =
        right.iter().enumerate().flat_map(|(at, (_, n))| (0..*n).map(move |i| (at, i))).collect();
    for (mode, number) in MODES.into_iter().flat_map(|mode| [(mode, 1), (mode, 10), (mode, 1_000)])
    {
        let mut hints = right.clone();
        for wrong in 0..number {
            let (at, index) = outputs[wrong * outputs.len() / number];
            let unspent = &mut hints[at].0;
            match unspent.binary_search(&index) {
                Ok(place) => drop(unspent.remove(place)),
                Err(place) => unspent.insert(place, index),
            }
        }
        let place = world.place();
        let hints = place.write_bytes("wrong.hints", &encode(&hints, Format::Bip456));
        let sources = world.sources(&place, mode, &world.file_order());
        let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
        assert_eq!(
            (summary.height, place.utxo_hash()),
            (world.height(), utxo_hash.clone()),
            "{mode:?}"
        );
    }
}

#[test]
fn the_proof_alone_refuses_every_kind_too() {
    let Spoiler { world, cases, .. } = Spoiler::all();
    let synced = world.in_order();
    synced.shrink();
    let before = contents(&synced.datadir());
    for mode in MODES {
        for Case { name, bytes, .. } in &cases {
            let hints = synced.write_bytes("wrong.hints", bytes);
            let mut options = world.options(&synced, mode, &hints);
            options.swiftsync.hints = None;
            let result = apus_claims::prove(&options, &hints, &[], Watch::default());
            assert_due(&Due(Blame::Hints, &["wrong.hints"]), result, &format!("{name}, {mode:?}"));
        }
    }
    assert_eq!(differences(&synced.datadir(), &before), [] as [PathBuf; 0], "it changes nothing");
}

#[test]
fn what_is_known_early_is_reported_early() {
    let world = World::of(&small_chain(43, 10, 2_000));
    let longer = World::of(&small_chain(43, 11, 2_000));
    for mode in MODES {
        let place = world.place();
        let beyond = longer.write_hints(&place, longer.height());
        let sources = world.sources(&place, mode, &world.file_order());
        let due = Due(Blame::Hints, &["provide more blocks, or hints for a lower height"]);
        assert_due(&due, world.try_swift(&place, mode, &beyond, &sources), "beyond");
        let stored = place.index().values().filter(|(_, status, _)| status.has(8)).count();
        assert_eq!(stored, 1, "no block but genesis was read and stored before");
    }
}

#[test]
fn a_file_that_is_none_is_named() {
    let world = World::of(&small_chain(44, 5, 2_000));
    let utxo_hash = world.in_order().utxo_hash();
    for mode in MODES {
        let place = world.place();
        let sources = world.sources(&place, mode, &world.file_order());
        let directory: PathBuf = place.root().join("directory.hints");
        std::fs::create_dir(&directory).unwrap();
        let nowhere = Due(Blame::Disk, &["nowhere.hints", "No such file"]);
        for (hints, due) in [
            (place.root().join("nowhere.hints"), nowhere),
            (directory, Due(Blame::Hints, &["directory.hints", "not a hints file"])),
        ] {
            let result = world.try_swift(&place, mode, &hints, &sources);
            assert_due(&due, result, "no file");
            assert_nothing_committed(&place, "no file");
            assert!(!place.datadir().exists(), "told before anything is touched");
        }
        assert_in_order_succeeds(&place, &sources, &utxo_hash, "no file");
    }
}

#[test]
fn what_a_run_with_wrong_hints_has_saved_is_removed() {
    let world = World::of(&small_chain(45, 30, 3_000));
    let utxo_hash = world.in_order().utxo_hash();
    let mut hints = world.model.hints(world.height(), Numbering::Spendable);
    let (unspent, outputs) = hints.last_mut().unwrap();
    unspent.push(*outputs);
    *outputs += 1;
    for mode in MODES {
        let place = world.place();
        let hints = place.write_bytes("wrong.hints", &encode(&hints, Format::Bip456));
        let sources = world.sources(&place, mode, &world.file_order());
        let mut options = world.options(&place, mode, &hints);
        options.save_every = std::time::Duration::ZERO;
        let beyond = Due(Blame::Hints, &["but the block has "]);
        assert_due(&beyond, try_sync_with(&options, &sources), "saved often");
        assert_nothing_committed(&place, "saved often");
        assert_in_order_succeeds(&place, &sources, &utxo_hash, "saved often");
    }
}

#[test]
fn the_program_names_wrong_bits_and_refuses_wrong_files() {
    let world = World::of(&small_chain(46, 20, 3_000));
    let utxo_hash = world.in_order().utxo_hash();
    let place = world.place();
    let mut hints = world.model.hints(world.height(), Numbering::Spendable);
    hints[120].0.pop().unwrap();
    let wrong = place.write_bytes("wrong.hints", &encode(&hints, Format::Bip456));
    let mut cut = encode(&hints, Format::Bip456);
    cut.truncate(100);
    let cut = place.write_bytes("cut.hints", &cut);
    let source = world.sources(&place, Mode::Full, &world.file_order()).remove(0);
    let tip = world.tip().to_string();
    let apus = |place: &Place, command: &str, assumevalid: &str, hints: &PathBuf| {
        let mut apus = program_on(place, &[command, "--minimumchainwork=0"]);
        apus.args(["--assumevalid", assumevalid]).arg("--hints").arg(hints);
        if command == "sync" {
            apus.arg("--from").arg(&source);
        }
        apus.output().unwrap()
    };
    let named = ["wrong.hints is wrong about 1 output", " of block 121: missing"];
    for assumevalid in ["0", &tip] {
        let refused = apus(&place, "sync", assumevalid, &cut);
        assert_ends(&refused, 1, &["cut.hints", "Nothing was committed"]);
        assert_nothing_committed(&place, "the program");
        let other = world.place();
        assert_ends(&apus(&other, "sync", assumevalid, &wrong), 0, &named);
        assert_eq!(other.utxo_hash(), utxo_hash);
        assert_ends(&apus(&other, "reindex", assumevalid, &wrong), 0, &named);
        assert_eq!(apus(&other, "reindex", assumevalid, &cut).status.code(), Some(1));
        assert_eq!(other.utxo_hash(), utxo_hash);
    }
}
