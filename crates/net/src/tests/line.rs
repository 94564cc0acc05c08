//! Tests what the line of a peer is taken to carry.

use std::time::Duration;

use crate::line::Line;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Blocks of 100 KB take 100 ms each, and are requested one at a time, each when the one before is
/// complete. The peer is 400 ms away.
#[test]
fn late_requests_make_no_peer_look_slow() {
    let mut line = Line::default();
    line.begin(at(0));
    for number in 0..10u64 {
        let asked = at(number * 500);
        let first = asked + at(400);
        line.heard(number * 100_000 + 1, first);
        line.arrived(100_000, Some(first + at(100)), first + at(100));
    }
    let speed = line.speed().unwrap();
    assert!((900_000.0..1_100_000.0).contains(&speed), "{speed}");
    assert_eq!(line.round_trip(), at(400));
}

/// The round trip may be shorter than it once was: bytes that come earlier show that.
#[test]
fn a_long_round_trip_makes_no_peer_look_fast() {
    let mut line = Line::default();
    line.begin(at(0));
    line.heard(1, at(5_000));
    for number in 1..20u64 {
        let now = at(5_000 + number * 1_000);
        line.heard(number * 100_000, now);
        line.arrived(100_000, Some(now), now);
    }
    let speed = line.speed().unwrap();
    assert!((90_000.0..110_000.0).contains(&speed), "{speed}");
}

/// As in TCP's slow start: twice as many bytes in each round trip.
#[test]
fn a_rising_speed_is_that_of_the_last_bytes() {
    let mut line = Line::default();
    line.begin(at(0));
    let mut bytes = 0;
    for round_trip in 1..=10u64 {
        bytes += 10_000 << round_trip;
        line.heard(bytes, at(200 * round_trip));
    }
    let last = f64::from(10_000 << 10) * 5.0;
    let average = line.speed().unwrap();
    let rising = line.rising_speed().unwrap();
    assert!(average < last / 2.0, "{average}, {last}");
    assert!((0.99..1.01).contains(&(rising / last)), "{rising}, {last}");
    // It falls slowly, when less comes.
    line.heard(bytes + 1, at(2_200));
    assert!((0.74..0.76).contains(&(line.rising_speed().unwrap() / last)));
}
