//! Damage that comes between two runs of a SwiftSync: to stored blocks, and to what it has saved.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use apus::sync::{self, Options, Phase, Progress};

use crate::peers::world::Told;
use crate::support::Place;
use crate::support::stop_when::StopWhen;
use crate::support::swift::{MODES, Mode, World, small_chain};

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
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let sources = world.sources(&place, mode, &world.file_order());
        let options = world.options(&place, mode, &hints);
        let options = Options { threads: 1, fast_prune: true, ..options };
        let stop = AtomicBool::new(false);
        let is_time = |p: &Progress| p.phase == Phase::SwiftSync && p.blocks >= DONE;
        let summary = sync::sync(&options, &sources, &StopWhen(&stop, is_time), &stop).unwrap();
        assert!(summary.interrupted);
        Self { world, place, options, sources }
    }

    /// Changes every 16th byte of a file that the SwiftSync has saved.
    fn damage(&self, name: &str) {
        let path = self.place.swift_dir().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.iter_mut().step_by(16).for_each(|byte| *byte ^= 1);
        std::fs::write(path, bytes).unwrap();
    }

    /// Runs the same command, and returns what the user was told.
    fn finish(&self) -> Told {
        let told = Told::default();
        let stop = AtomicBool::new(false);
        let summary = sync::sync(&self.options, &self.sources, &told, &stop).unwrap();
        assert_eq!(summary.best_block, self.world.tip());
        assert_eq!(self.place.muhash(), self.world.in_order().muhash());
        assert!(!self.place.swift_dir().exists());
        told
    }
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
