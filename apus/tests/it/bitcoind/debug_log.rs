//! The lines about tips in the debug.log of both, for the same chain.

use super::daemon::{Daemon, program_in};
use crate::debug_log::tips;
use crate::support::program::{apus, assert_ends};
use crate::support::swift::{World, small_chain};

#[test]
fn the_lines_about_tips_are_cores() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let world = World::of(&small_chain(46, 100, 10_000));
    let place = world.place();
    let blocks = place.write("blocks", &world.blocks);
    let args = ["sync", "--method=order", "--from", blocks.to_str().unwrap()];
    assert_ends(&apus(&place, &args), 0, &[]);
    let path = place.network_dir().join("debug.log");
    let ours = tips(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(ours.len(), world.height() as usize);
    std::fs::remove_file(&path).unwrap();
    // Core connects the same blocks again.
    let daemon = Daemon::start(&bitcoind, &place, &["-reindex-chainstate"]);
    daemon.wait_for_tip(&world.tip());
    daemon.stop();
    let mut theirs = tips(&std::fs::read_to_string(&path).unwrap());
    theirs.retain(|tip| tip.height > 0);
    assert_eq!(ours, theirs);
    // Apus appends to what Core has logged.
    assert_ends(&apus(&place, &["rewind", "--height=150"]), 0, &[]);
    let both = tips(&std::fs::read_to_string(&path).unwrap());
    assert!(both.len() > theirs.len() && both.last().unwrap() == &theirs[149]);
}
