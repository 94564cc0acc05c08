//! `apus sync --reconsider` on directories in which bitcoind's invalidateblock marked blocks.

use super::daemon::{Daemon, program_in};
use crate::peers::world::world;
use crate::support::Place;
use crate::support::program::{apus, assert_ends};

/// Panics unless bitcoind is at this block and finds all blocks and the UTXO set in order.
#[track_caller]
fn assert_core_agrees(daemon: &Daemon, place_muhash: &str, tip: &str) {
    assert_eq!(daemon.ask(&["getbestblockhash"]), tip);
    assert_eq!(daemon.ask(&["verifychain", "4", "0"]), "true");
    assert_eq!(daemon.ask_json(&["gettxoutsetinfo", "muhash"])["muhash"], place_muhash);
}

#[test]
fn what_invalidateblock_marked_is_checked_again() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let whole = world().in_order();
    let muhash = whole.muhash().0;
    let top = world().height();
    for depth in [1, 7, 60, top] {
        let place = whole.copy();
        let fork = top - depth + 1;
        let daemon = Daemon::start(&bitcoind, &place, &[]);
        daemon.ask(&["invalidateblock", &world().hash(fork).to_string()]);
        assert_eq!(daemon.ask(&["getblockcount"]), (fork - 1).to_string());
        daemon.stop();
        let words = format!("marks blocks {fork} to {top} as invalid");
        assert_ends(&apus(&place, &["sync", "--connect=0"]), 0, &[&words]);
        let doubted = place.copy();
        let args = ["sync", "--connect=0", "--assumevalid=0", "--reconsider"];
        assert_ends(&apus(&place, &args), 0, &["Reconsidered", &format!("from height {fork} on")]);
        assert_eq!(place.muhash().0, muhash, "{depth}");
        let daemon = Daemon::start(&bitcoind, &place, &[]);
        assert_core_agrees(&daemon, &muhash, &world().tip().to_string());
        daemon.stop();
        // bitcoind does the same with reconsiderblock.
        let daemon = Daemon::start(&bitcoind, &doubted, &[]);
        daemon.ask(&["reconsiderblock", &world().hash(fork).to_string()]);
        assert_core_agrees(&daemon, &muhash, &world().tip().to_string());
        daemon.stop();
    }
}

/// A longer branch that bitcoind was told to leave, below other blocks that it mined since.
#[test]
fn a_longer_branch_that_bitcoind_left_is_taken_again() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let place: Place = world().in_order();
    let daemon = Daemon::start(&bitcoind, &place, &[]);
    let fork = daemon.ask(&["getblockhash", &(world().height() - 20).to_string()]);
    daemon.ask(&["invalidateblock", &fork]);
    daemon.mine(5, '4');
    daemon.stop();
    assert_ends(&apus(&place, &["sync", "--connect=0"]), 0, &["as invalid"]);
    let args = ["sync", "--connect=0", "--assumevalid=0", "--reconsider"];
    assert_ends(&apus(&place, &args), 0, &["Reconsidered 21 blocks"]);
    let muhash = place.muhash().0;
    assert_eq!(muhash, world().in_order().muhash().0);
    let daemon = Daemon::start(&bitcoind, &place, &[]);
    assert_core_agrees(&daemon, &muhash, &world().tip().to_string());
    daemon.stop();
}
