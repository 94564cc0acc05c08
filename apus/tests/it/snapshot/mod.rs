//! UTXO snapshots: made, described, proved, synced from, and refused.

mod by_join;
mod create;
mod load;
mod meanwhile;
mod proof;
mod wrong;

use std::sync::LazyLock;

use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_progress::Watch;
use apus_tools as tools;

use crate::support::Place;
use crate::support::chains::small;
use crate::support::snapshot::Snapshot;
use crate::support::swift::{Mode, World};

/// A world, a directory that was synced in order, and the right snapshot of its tip.
static RIGHT: LazyLock<(World, Place, Snapshot)> = LazyLock::new(|| {
    let world = World::of(small(5));
    let place = world.in_order();
    let snapshot = made(&place, world.height());
    (world, place, snapshot)
});

/// The height of the validated UTXO set, and the base block of the second one with its height.
fn found(place: &Place) -> (u32, Option<(Hash, Option<u32>)>) {
    let status = tools::status(&place.options()).unwrap();
    (status.height, status.snapshot.map(|snapshot| (snapshot.base, snapshot.height)))
}

/// The snapshot of a directory at a height.
pub fn made(place: &Place, height: u32) -> Snapshot {
    let out = place.root().join("made.dat");
    apus_claims::create_snapshot(&place.options(), Some(height), &out, Watch::default()).unwrap();
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    Snapshot::parse(&bytes)
}

/// The options of a proof that checks everything, or takes blocks as valid.
fn options_of(place: &Place, mode: Mode) -> Options {
    let mut options = place.options();
    if mode == Mode::AssumeValid {
        options.assumevalid = AssumeValid::BuiltIn;
        options.network.minimum_chain_work = Hash::ZERO;
    }
    options
}
