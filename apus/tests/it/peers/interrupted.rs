//! A sync that is interrupted or killed carries on, and downloads little again.

use std::time::Duration;

use apus::sync::Method;
use apus::sync::serve::Server;
use apus_testchain::{Rng, rounds};
use rustix::process::Signal;

use super::world::{WAYS, honest, options, tip, world};
use crate::support::Place;
use crate::support::program::{program_on, signal, start};

/// The arguments of a sync of [`world`] from this server.
fn arguments(place: &Place, way: Method, server: &Server) -> Vec<String> {
    let assumed = match way {
        Method::SwiftSync => tip().to_string(),
        _ => "0".to_string(),
    };
    let mut args = vec!["sync".to_string(), "--json".to_string(), "--joindepth=0".to_string()];
    args.push(format!("--connect={}", server.address()));
    args.push(format!("--method={}", way.name()));
    args.push(format!("--assumevalid={assumed}"));
    if let Some(hints) = options(place, way).hints {
        args.push(format!("--hints={}", hints.display()));
    }
    args
}

/// Runs the program again and again, and ends it each time after a random time, but the last.
/// Returns the blocks that were downloaded each time, as far as a run could tell.
fn run_interrupted(way: Method, seed: u64, kind: Signal) -> Vec<u64> {
    let place = world().place();
    let server = honest(true);
    let args = arguments(&place, way, &server);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut rng = Rng::new(seed, 0);
    let mut downloaded = Vec::new();
    for _ in 0..3 {
        let child = start(program_on(&place, &args));
        std::thread::sleep(Duration::from_millis(50 + rng.below(400)));
        signal(&child, kind);
        downloaded.extend(blocks_in(&child.wait_with_output().unwrap().stdout));
    }
    let output = program_on(&place, &args).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bestblock"], tip().to_string(), "{json}");
    downloaded.extend(blocks_in(&output.stdout));
    downloaded
}

/// The blocks that peers sent, by the report of a run; `None` if it made none.
fn blocks_in(report: &[u8]) -> Option<u64> {
    let json: serde_json::Value = serde_json::from_slice(report).ok()?;
    let peers = json["peers"].as_array()?.iter();
    Some(peers.filter_map(|peer| peer["blocks"].as_u64()).sum())
}

#[test]
fn an_interrupted_sync_downloads_nothing_again() {
    for round in 0..rounds(2) {
        for way in WAYS {
            let downloaded = run_interrupted(way, round, Signal::INT);
            let all: u64 = downloaded.iter().sum();
            assert_eq!(all, u64::from(world().height()), "{way:?}, {round}: {downloaded:?}");
        }
    }
}

#[test]
fn a_killed_sync_carries_on() {
    for round in 0..rounds(2) {
        for way in WAYS {
            run_interrupted(way, round, Signal::KILL);
        }
    }
}
