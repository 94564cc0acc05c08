//! A sync that is stopped while it waits for peers who send nothing ends soon, and keeps what came.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use apus_progress::Method;
use apus_progress::Watch;
use apus_sync as sync;
use apus_sync::Summary;

use super::withheld::{LONG, Refusal, SHORT, Served, downloaded};
use super::world::{Told, WAYS, from_files, try_sync};
use crate::support::Place;
use crate::support::outcome::Outcome;

/// The most that a stop may take: far less than peers are waited for.
const SOON: Duration = Duration::from_secs(20);

/// Stops a sync once it has all blocks but those at these heights, and has another one carry on
/// with an honest peer. Returns what the latter came to.
fn stop_and_carry_on(
    place: &Place,
    served: Served,
    way: Method,
    heights: &'static [usize],
) -> Summary {
    let silent = served.without(heights, Refusal::Silence);
    let options = served.options(place, way, &[&silent.server]);
    let stop = AtomicBool::new(false);
    let (first, waits, took) = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            let waits = silent.asked.wait() && silent.come.wait();
            stop.store(true, Relaxed);
            (waits, Instant::now())
        });
        let first = sync::sync(&options, &[], Watch::new(&Told::default(), &stop)).unwrap();
        let ended = Instant::now();
        let (waits, stopped) = stopping.join().unwrap();
        (first, waits, ended.saturating_duration_since(stopped))
    });
    assert!(waits, "{way:?}: it does not ask for all blocks");
    assert!(first.interrupted, "{way:?}: a block is missing");
    assert!(took < SOON, "{way:?}: it went on for {took:?}");
    assert!(downloaded(&first) > 0, "{way:?}");
    let honest = served.honest();
    let second = try_sync(&served.options(place, way, &[&honest])).0.unwrap();
    let world = (served.world)();
    let all = u64::from(world.height());
    assert_eq!((second.height, second.best_block), (world.height(), world.tip()), "{way:?}");
    assert_eq!(downloaded(&first) + downloaded(&second), all, "{way:?}: nothing comes twice");
    second
}

#[test]
fn a_stop_ends_the_wait_for_blocks_and_keeps_what_came() {
    for way in WAYS {
        let place = (SHORT.world)().place();
        let summary = stop_and_carry_on(&place, SHORT, way, &[49, 99, 149]);
        Outcome::of(&place, summary).assert_holds_same(from_files(way), &format!("{way:?}"));
    }
}

/// Here it is the threads of the SwiftSync that wait, and not those that store the last blocks
/// before it.
#[test]
fn a_stop_ends_the_wait_of_a_swiftsync() {
    let place = (LONG.world)().place();
    stop_and_carry_on(&place, LONG, Method::SwiftSync, &[49, 99]);
}
