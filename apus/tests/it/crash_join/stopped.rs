//! Requests to stop in each pass, and what the next run may be.

use apus_disk::Disk;
use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_progress::Method;
use apus_progress::Phase;

use super::{BASE_HEIGHT, BEGUN, Begun, PASSES, Test, Watcher, join_dir};
use crate::join::refused::assume_valid;
use crate::support::judge::Judge;
use crate::support::{Place, change_file};

/// A directory in which a join was asked to stop in `pass`.
pub fn stopped(test: &Test, begun: Begun, pass: Phase) -> Place {
    let place = test.begin(begun);
    let old = place.committed();
    let watch = Watcher::stopping_in(pass);
    let summary = test.run(begun, &Disk::new(), &test.options(&place), &watch).unwrap();
    assert!(summary.interrupted, "{begun:?}, {pass:?}");
    assert_eq!(place.committed(), old, "{begun:?}, {pass:?}: nothing unfinished is shown");
    assert!(join_dir(&place).join("progress").is_file(), "{begun:?}, {pass:?}");
    place
}

#[test]
fn asked_to_stop_in_any_pass_it_carries_on() {
    let test = Test::small(93);
    for begun in BEGUN {
        for (number, pass) in PASSES.into_iter().enumerate() {
            let what = format!("{begun:?}, stopped in {pass:?}");
            let place = stopped(&test, begun, pass);
            let rest = test.finish(begun, &place, &what);
            let again = rest.seen()[..number].iter().any(Option::is_some);
            assert!(!again, "{what}: what was done is not done again");
        }
    }
}

/// What is done after a join was stopped and before it is run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// Nothing, but the chain is assumed valid from now on.
    OtherTrust,
    /// A join that ends below the target.
    LowerTarget,
    /// A sync in order to the tip.
    InOrder,
    /// A sync in order of a few blocks.
    FewInOrder,
    /// Bitcoin Core.
    Engine,
    ProgressDamaged,
    ProgressRemoved,
    SpillRemoved,
    SpillCut,
}

const NEXT: [Next; 9] = [
    Next::OtherTrust,
    Next::LowerTarget,
    Next::InOrder,
    Next::FewInOrder,
    Next::Engine,
    Next::ProgressDamaged,
    Next::ProgressRemoved,
    Next::SpillRemoved,
    Next::SpillCut,
];

impl Next {
    /// Does it in `place`, and returns the options of the join after that.
    fn take(self, test: &Test, place: &Place) -> Options {
        let run = |options: &Options| {
            test.run(Begun::Empty, &Disk::new(), options, &Watcher::default()).unwrap()
        };
        let join = test.options(place);
        let in_order = Options { method: Some(Method::InOrder), ..join.clone() };
        let progress = join_dir(place).join("progress");
        let spill = join_dir(place).join("spill.dat");
        match self {
            Self::OtherTrust => {
                let mut options = join;
                options.assumevalid = AssumeValid::Block(test.world.tip());
                options.network.minimum_chain_work = Hash::ZERO;
                return options;
            }
            Self::LowerTarget => {
                let top = test.world.height() - 2;
                let summary = run(&Options { stop_at_height: Some(top), ..join.clone() });
                assert_eq!(summary.height, top);
            }
            Self::InOrder => {
                assert_eq!(run(&in_order).best_block, test.world.tip());
                test.assert_right(place, "in order");
            }
            Self::FewInOrder => {
                let top = BASE_HEIGHT + 2;
                assert_eq!(run(&Options { stop_at_height: Some(top), ..in_order }).height, top);
                assert!(!join_dir(place).exists());
            }
            Self::Engine => {
                let judge = Judge::open(place).expect("the engine opens it");
                judge.process(&test.world.blocks[1..]);
                assert_eq!(judge.tip(), (test.world.height(), test.world.tip()));
            }
            Self::ProgressDamaged => change_file(&progress, |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }),
            Self::ProgressRemoved => std::fs::remove_file(progress).unwrap(),
            Self::SpillRemoved => std::fs::remove_file(spill).unwrap(),
            Self::SpillCut => change_file(&spill, |bytes| bytes.truncate(bytes.len() - 1)),
        }
        join
    }
}

#[test]
fn what_was_saved_serves_the_same_work_and_no_other() {
    let test = Test::small(94);
    for pass in PASSES {
        for (number, next) in NEXT.into_iter().enumerate() {
            let begun = BEGUN[number % 2];
            let what = format!("{begun:?}, stopped in {pass:?}, then {next:?}");
            let place = stopped(&test, begun, pass);
            let options = next.take(&test, &place);
            let watch = Watcher::default();
            let summary = test.run(begun, &Disk::new(), &options, &watch).unwrap();
            assert_eq!(summary.best_block, test.world.tip(), "{what}");
            test.assert_right(&place, &what);
            match next {
                Next::InOrder | Next::Engine => assert!(watch.read_at_first().is_none(), "{what}"),
                _ => assert!(watch.read_at_first().is_some_and(|blocks| blocks <= 1), "{what}"),
            }
            if next != Next::Engine {
                assert_rev_files_hold_nothing_else(&place, &what);
            }
        }
    }
}

/// Panics unless rev files are as long as the undo data that the index names.
fn assert_rev_files_hold_nothing_else(place: &Place, what: &str) {
    let (index, files) = place.blocks();
    let mut sizes = vec![0; index.files.len()];
    for entry in &index.entries {
        if let Some(pos) = entry.undo_pos() {
            // Magic and length before the data, a checksum after it.
            let undo = files.read_undo(pos, &entry.header.prev).unwrap();
            sizes[pos.file as usize] += 8 + undo.len() as u32 + 32;
        }
    }
    let noted: Vec<u32> = index.files.iter().map(|info| info.undo_size).collect();
    assert_eq!(sizes, noted, "{what}: bytes in rev files");
}

#[test]
fn blocks_that_are_no_longer_assumed_valid_are_read_again() {
    let test = Test::small(96);
    let none = Hash::ZERO;
    let all = Hash([0xff; 32]);
    for (first, then, again) in [(none, all, true), (all, none, false), (none, none, false)] {
        let what = format!("minimum chain work {first}, then {then}");
        let place = test.begin(Begun::Empty);
        let run = |minimum_chain_work: Hash, watch: &Watcher| {
            let mut options = test.options(&place);
            assume_valid(&mut options, test.world.tip());
            options.network.minimum_chain_work = minimum_chain_work;
            test.run(Begun::Empty, &Disk::new(), &options, watch).unwrap()
        };
        assert!(run(first, &Watcher::stopping_in(Phase::JoinMatching)).interrupted, "{what}");
        let watch = Watcher::default();
        let summary = run(then, &watch);
        assert_eq!(summary.best_block, test.world.tip(), "{what}");
        assert_eq!(watch.seen()[0].is_some(), again, "{what}: read again");
        assert_eq!(summary.checked.not_checked().is_empty(), then == all, "{what}");
        test.assert_right(&place, &what);
    }
}
