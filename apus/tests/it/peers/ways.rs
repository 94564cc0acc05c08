//! Each way of syncing from honest peers comes to the same as from files.

use apus_progress::Method;

use super::withheld::LONG;
use super::world::{WAYS, assert_as_from_files, honest, options, try_sync, with_peers, world};
use crate::support::judge::Judge;
use crate::support::outcome::Outcome;

#[test]
fn each_way_comes_to_the_same_as_from_files() {
    for way in WAYS {
        for v2 in [false, true] {
            let server = honest(v2);
            let told = assert_as_from_files(way, &[&server]);
            told.assert_has(&["Connected to", if v2 { "v2" } else { "v1" }]);
        }
    }
}

#[test]
fn many_peers_come_to_the_same_as_one() {
    for way in WAYS {
        let servers: Vec<_> = (0..4).map(|number| honest(number % 2 == 0)).collect();
        assert_as_from_files(way, &servers.iter().collect::<Vec<_>>());
    }
}

/// Genesis and the tip say nothing about the blocks between them.
#[test]
fn the_bytes_that_are_to_come_are_estimated_from_some_blocks() {
    for way in WAYS {
        let place = (LONG.world)().place();
        let server = LONG.honest();
        let (summary, told) = try_sync(&LONG.options(&place, way, &[&server]));
        summary.unwrap();
        let bytes: usize = (LONG.world)().blocks.iter().map(Vec::len).sum();
        let kilobytes = bytes / 1_000;
        let is_told = |about: usize| told.has(&[" to ", &format!("(about {about} kB)")]);
        let near = kilobytes * 4 / 5..=kilobytes * 5 / 4;
        assert!(near.clone().any(is_told), "{way:?}: {near:?} is not told");
    }
}

#[test]
fn the_engine_opens_what_came_from_peers() {
    let place = world().place();
    let server = honest(true);
    try_sync(&with_peers(&place, Method::Join, &[&server])).0.unwrap();
    let judge = Judge::open(&place).expect("the engine opens the result");
    assert_eq!(judge.tip(), (world().height(), world().tip()));
    judge.read_everything();
}

#[test]
fn a_second_sync_downloads_no_block() {
    let place = world().place();
    let server = honest(true);
    let peers = with_peers(&place, Method::InOrder, &[&server]);
    let first = try_sync(&peers).0.unwrap();
    assert_eq!(first.peers.len(), 1);
    assert_eq!(first.peers[0].blocks, u64::from(world().height()));
    assert_eq!(first.peers[0].ended, None);
    let second = try_sync(&peers).0.unwrap();
    assert_eq!((second.peers[0].blocks, second.counts.blocks), (0, 0));
    let stored = options(&place, Method::InOrder);
    let outcome = Outcome::of_sync(&place, &stored, &[]);
    assert_eq!(outcome.height(), world().height());
}
