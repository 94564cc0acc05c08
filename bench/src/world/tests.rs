//! Worlds in which the download must run at what the peers can send.

use rayon::prelude::*;

use super::{FOLLOWED, METHODS, Outcome, follow, run_world, worlds};

/// Runs named worlds with every method, and checks what comes out.
fn check(wanted: &str, right: impl Fn(&Outcome) -> bool) {
    for (name, method) in METHODS {
        let mut specs = worlds::named(method);
        specs.retain(|spec| spec.name.contains(wanted));
        assert!(!specs.is_empty(), "no world is called {wanted}");
        for spec in specs {
            let outcome = run_world(&spec);
            let share = outcome.share();
            assert!(right(&outcome), "{}, {name}: {share:.3}, {outcome:?}", spec.name);
        }
    }
}

/// Returns whether at least this percentage of what was possible arrived.
fn has(outcome: &Outcome, percent: u64) -> bool {
    outcome.share() * 100.0 >= percent as f64
}

#[test]
fn equal_and_unequal_peers_send_what_they_can() {
    check("Mbit/s, 1", |outcome| has(outcome, 95) && outcome.honest_dropped == 0);
    check("Mbit/s, 300", |outcome| has(outcome, 95) && outcome.honest_dropped == 0);
    check("mixed", |outcome| has(outcome, 95) && outcome.honest_dropped == 0);
}

#[test]
fn a_silent_peer_costs_little_however_fast_it_was() {
    let right = |outcome: &Outcome| {
        has(outcome, 95) && outcome.longest_gap.as_secs() < 10 && outcome.honest_dropped == 0
    };
    check("goes silent", right);
    check("never answer", right);
    check("junk", right);
}

/// A connection costs three round trips until the first byte of a block, and a part of the last.
#[test]
fn peers_that_close_cost_what_connections_take() {
    check("close", |outcome| has(outcome, 95) && outcome.longest_gap.as_secs() < 3);
}

/// What a peer could send is what it sends until it goes silent; nothing while headers come.
#[test]
fn no_peer_sends_more_than_it_could() {
    for seed in [314, 794, 836] {
        let share = run_world(&worlds::random(seed)).share();
        assert!((0.9..1.01).contains(&share), "seed {seed}: {share}");
    }
}

#[test]
fn silent_inbound_peers_cost_nothing() {
    check("inbound", |outcome| has(outcome, 98) && outcome.longest_gap.as_secs() < 3);
}

#[test]
fn slow_lines_with_outages_are_no_reason_to_drop_peers() {
    check("Tor", |outcome| has(outcome, 90) && outcome.honest_dropped <= 10);
}

/// Fast ones come to have half of the slots, which the first ten have not.
#[test]
fn faster_peers_take_slots() {
    for (name, method) in METHODS {
        let [first, faster] =
            [false, true].map(|has_candidates| run_world(&worlds::slots(method, has_candidates)));
        assert!((1..=5).contains(&faster.replaced), "{name}: {faster:?}");
        assert!(faster.bytes * 2 > first.bytes * 3, "{name}: {faster:?}, {first:?}");
        assert!(has(&faster, 90), "{name}: {faster:?}");
    }
}

#[test]
fn known_headers_put_off_the_download_by_seconds() {
    check("known headers", |outcome| has(outcome, 95) && outcome.headers.as_secs() < 60);
}

#[test]
fn random_worlds_run_at_what_the_peers_can_send() {
    let mut shares: Vec<(f64, u64)> = (0..40)
        .into_par_iter()
        .map(|seed| {
            let outcome = run_world(&worlds::random(seed));
            assert_eq!(outcome.honest_dropped, 0, "seed {seed}: {outcome:?}");
            (outcome.share(), seed)
        })
        .collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(shares[0].0 > 0.85, "the worst: {:?}", shares[0]);
    assert!(shares[4].0 > 0.95, "the worst tenth: {:?}", shares[4]);
    assert!(shares[39].0 < 1.01, "more than the peers could send: {:?}", shares[39]);
}

#[test]
fn a_new_block_is_here_in_seconds_with_a_bad_peer_in_ten() {
    for spec in worlds::at_the_tip() {
        let times = follow(&spec, FOLLOWED);
        let longest = times.iter().max().unwrap();
        assert!(longest.as_secs_f64() < 3.0, "{}: {times:?}", spec.name);
    }
}

#[test]
fn a_seed_gives_the_same_run() {
    let [one, two] = [7, 7].map(|seed| format!("{:?}", run_world(&worlds::random(seed))));
    assert_eq!(one, two);
    assert_ne!(one, format!("{:?}", run_world(&worlds::random(8))));
}
