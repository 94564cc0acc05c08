//! Snapshots next to those of bitcoind, byte for byte, and Core's own read by Apus.

use std::sync::atomic::AtomicBool;

use apus::sync::{self, Unobserved};
use apus::wire::Chain as Network;

use super::daemon::{Daemon, program_in};
use crate::support::swift::{World, small_chain};

#[test]
fn byte_for_byte_those_of_core_at_the_tip_and_below() {
    let test = "byte_for_byte_those_of_core_at_the_tip_and_below";
    let Some(bitcoind) = program_in("BITCOIND", test) else { return };
    let world = World::of(&small_chain(77, 900, 6_000));
    let place = world.in_order();
    let daemon = Daemon::start(&bitcoind, &place, &[]);
    // Core's blocks and undo data on top, which create and spend nothing else.
    daemon.mine(110, '5');
    let height = world.height() + 110;
    let mut theirs = Vec::new();
    for below in [0, 1, 100, 1000] {
        let path = place.root().join(format!("core-{below}.dat"));
        let of = (height - below).to_string();
        let rollback = ["-named", "-rpcclienttimeout=0", "dumptxoutset"];
        let path_argument = format!("path={}", path.display());
        let answer = match below {
            0 => daemon.ask(&[&rollback[..], &[&path_argument, "type=latest"]].concat()),
            _ => {
                daemon.ask(&[&rollback[..], &[&path_argument, &format!("rollback={of}")]].concat())
            }
        };
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        theirs.push((height - below, path, answer));
    }
    daemon.stop();
    for (height, path, answer) in theirs {
        let out = place.root().join("utxo.dat");
        let stop = AtomicBool::new(false);
        let summary =
            sync::create_snapshot(&place.options(), Some(height), &out, &Unobserved, &stop)
                .unwrap();
        assert_eq!(answer["coins_written"], summary.coins, "height {height}");
        assert_eq!(answer["base_hash"], summary.base.to_string(), "height {height}");
        let is_same = std::fs::read(&out).unwrap() == std::fs::read(&path).unwrap();
        assert!(is_same, "height {height}");
        let info = sync::snapshot_info(&path, 2, &Unobserved).unwrap();
        assert_eq!(answer["txoutset_hash"], info.stats.hash_serialized.to_string());
        assert_eq!((info.chain, info.is_sorted), (Some(Network::Regtest), true));
        std::fs::remove_file(&out).unwrap();
    }
}
