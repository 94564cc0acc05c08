//! `apus verify` and `verifychain` on the same directories, sound and damaged.

use apus_progress::Watch;
use apus_sync::Verify;
use apus_testchain::{Rng, rounds};
use apus_tools as tools;

use super::daemon::{Daemon, program_in};
use crate::support::Place;
use crate::support::damage::{KINDS, Kind, damage};
use crate::verify::world;

/// A bitcoind that starts on what is damaged below the tip.
const UNCHECKED: [&str; 2] = ["-checkblocks=1", "-checklevel=0"];

/// Whether Apus finds the last blocks sound and came as far as was asked for, for which Core says
/// `true`.
fn passes(place: &Place, level: u8, blocks: u32) -> bool {
    let asked = Verify { level, blocks };
    let found = tools::verify(&place.options(), asked, Watch::default()).unwrap();
    found.is_sound() && found.is_complete()
}

#[test]
fn the_same_directories_pass_as_with_core() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = world();
    let base = world.in_order();
    let mut rng = Rng::new(17, 0);
    let mut compared = 0;
    let mut refused = 0;
    let mut stricter = 0;
    let all = KINDS.map(Some).into_iter().cycle().take(rounds(31) as usize);
    for kind in all.chain([None]) {
        let place = base.copy();
        let depth = 4 + rng.below(20) as u32;
        if let Some(kind) = kind {
            damage(&place, &world, kind, world.height() - depth, &mut rng);
        }
        let mut ours = Vec::new();
        for level in 0..=4 {
            for blocks in [1, depth, depth + 1, 0] {
                ours.push(((level, blocks), passes(&place, level, blocks)));
            }
        }
        let daemon = Daemon::start(&bitcoind, &place, &UNCHECKED);
        for ((level, blocks), ours) in ours {
            let theirs = daemon.ask(&["verifychain", &level.to_string(), &blocks.to_string()]);
            let theirs = theirs == "true";
            // Core asks for the commitment to the witnesses only where it connects a block.
            let is_stricter = theirs && !ours && kind == Some(Kind::Block) && level > 0;
            assert!(
                ours == theirs || is_stricter,
                "{kind:?} {depth} below the tip, level {level}, {blocks} blocks: Apus says {ours}"
            );
            compared += 1;
            refused += u32::from(!theirs);
            stricter += u32::from(is_stricter);
        }
        daemon.stop();
    }
    println!("{compared} times as with Core, {refused} of them refused, {stricter} stricter");
    assert!(refused > 50 && stricter < refused / 10);
}
