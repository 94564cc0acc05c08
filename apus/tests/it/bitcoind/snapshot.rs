//! Snapshots next to those of bitcoind, byte for byte, and Core's own read by Apus.

use apus_progress::Watch;
use apus_wire::Chain as Network;

use super::daemon::{Daemon, program_in};
use crate::support::listed::Listed;
use crate::support::snapshot::snapshot_info;
use crate::support::swift::{World, small_chain};

#[test]
fn byte_for_byte_those_of_core_at_the_tip_and_below() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
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
        let summary =
            apus_claims::create_snapshot(&place.options(), Some(height), &out, Watch::default())
                .unwrap();
        assert_eq!(answer["coins_written"], summary.coins, "height {height}");
        assert_eq!(answer["base_hash"], summary.base.to_string(), "height {height}");
        let is_same = std::fs::read(&out).unwrap() == std::fs::read(&path).unwrap();
        assert!(is_same, "height {height}");
        let info = snapshot_info(&path).unwrap();
        assert_eq!(answer["txoutset_hash"], info.stats.hash_serialized.to_string());
        assert_eq!((info.chain, info.is_sorted), (Some(Network::Regtest), true));
        std::fs::remove_file(&out).unwrap();
    }
}

/// bitcoind loads what Apus has made, at every base that its chain parameters list, and the other
/// way round.
#[test]
fn core_loads_what_apus_makes_and_apus_reads_what_core_makes() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    for listed in Listed::all() {
        let (place, out) = listed.with_snapshot();
        let info = snapshot_info(&out).unwrap();
        assert_eq!(info.is_as_listed(), Some(true), "base {}", listed.height());
        let path = out.display().to_string();
        let fresh = listed.world.place();
        let daemon = Daemon::start(&bitcoind, &fresh, &[]);
        assert!(daemon.refuses(&["loadtxoutset", &path]).contains("must appear in the headers"));
        daemon.submit_headers(&listed.world.blocks[1..]);
        let loaded = daemon.ask_json(&["loadtxoutset", &path]);
        assert_eq!(loaded["coins_loaded"], info.stats.coins);
        assert_eq!(loaded["base_height"], listed.height());
        let states = daemon.ask_json(&["getchainstates"]);
        assert_eq!(states["chainstates"][1]["snapshot_blockhash"], info.base.to_string());
        daemon.stop();

        let theirs = place.root().join("core.dat");
        let daemon = Daemon::start(&bitcoind, &place, &[]);
        daemon.ask(&["dumptxoutset", &theirs.display().to_string(), "latest"]);
        daemon.stop();
        assert_eq!(snapshot_info(&theirs).unwrap(), info);
    }
}
