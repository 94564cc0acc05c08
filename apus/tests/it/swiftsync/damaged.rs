//! Damage that comes between two runs of a SwiftSync: to stored blocks, and to what it has saved.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use apus_node as node;
use apus_node::Options;
use apus_progress::Watch;
use apus_progress::{Phase, Progress};
use apus_sync as sync;
use apus_testchain::Rng;

use crate::peers::world::Told;
use crate::support::damage::{Kind, damage};
use crate::support::judge::Judge;
use crate::support::stop_when::StopWhen;
use crate::support::swift::{MODES, Mode, World, small_chain, try_sync_with};
use crate::support::{Place, change_file};

/// The blocks that are done at least before the damage: more than one small blk file has.
const DONE: u64 = 150;

/// A SwiftSync of one thread into small files, which was asked to stop.
struct Interrupted {
    world: World,
    place: Place,
    options: Options,
    sources: Vec<PathBuf>,
}

impl Interrupted {
    fn new(seed: u64, mode: Mode) -> Self {
        let world = World::of(&small_chain(seed, 60, 4_000));
        let (place, hints, sources) = world.prepared(mode, &world.file_order());
        let options = world.options(&place, mode, &hints);
        let options = Options { threads: 1, fast_prune: true, ..options };
        let stop = AtomicBool::new(false);
        let is_time = |p: &Progress| p.phase == Phase::SwiftSync && p.blocks >= DONE;
        let summary =
            sync::sync(&options, &sources, Watch::new(&StopWhen(&stop, is_time), &stop)).unwrap();
        assert!(summary.interrupted);
        Self { world, place, options, sources }
    }

    /// Changes every 16th byte of a file that the SwiftSync has saved.
    fn damage(&self, name: &str) {
        change_file(&self.place.swift_dir().join(name), |bytes| {
            bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 1);
        });
    }

    /// Runs the same command, and returns what the user was told.
    fn finish(&self) -> Told {
        let told = Told::default();
        let stop = AtomicBool::new(false);
        let summary = sync::sync(&self.options, &self.sources, Watch::new(&told, &stop)).unwrap();
        assert_eq!(summary.best_block, self.world.tip());
        assert_eq!(self.place.utxo_hash(), self.world.in_order().utxo_hash());
        assert!(!self.place.swift_dir().exists());
        told
    }
}

#[test]
fn a_damaged_block_is_put_back_and_undo_data_stays_right() {
    let begun = Interrupted::new(87, Mode::Full);
    let world = &begun.world;
    let place = &begun.place;
    let file_of = |height: u32| {
        let entries = place.blocks().0.entries;
        entries.iter().find(|e| e.hash == world.hash(height)).unwrap().block_pos().unwrap().file
    };
    assert_eq!(file_of(5), 0);
    damage(place, world, Kind::Block, 5, &mut Rng::new(87, 1));
    // An earlier run has found the damage, and had no other copy.
    std::fs::write(place.network_dir().join(node::DAMAGE_NOTE), "0\n").unwrap();
    let summary = try_sync_with(&begun.options, &begun.sources).unwrap();
    assert_eq!(summary.best_block, world.tip());
    assert_eq!(file_of(5), 0, "the good copy is where it stood");
    let right = world.in_order();
    assert!(place.undo() == right.undo(), "undo data");
    let judge = Judge::open(place).expect("the engine opens it");
    assert_eq!(judge.tip(), (world.height(), world.tip()));
    judge.read_everything();
}

#[test]
fn damage_to_what_it_has_saved_is_said_and_it_starts_over() {
    for (name, mode) in
        ["progress", "survivors.dat"].into_iter().flat_map(|name| MODES.map(|mode| (name, mode)))
    {
        let begun = Interrupted::new(88, mode);
        begun.damage(name);
        begun.finish().assert_has(&[name, "damaged", "starts over"]);
    }
}

#[test]
fn unspent_coins_that_are_gone_are_said_and_it_starts_over() {
    for mode in MODES {
        let begun = Interrupted::new(89, mode);
        std::fs::remove_file(begun.place.swift_dir().join("survivors.dat")).unwrap();
        begun.finish().assert_has(&["survivors.dat", "starts over"]);
    }
}
