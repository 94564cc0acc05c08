use std::time::Duration;

use apus_testchain::Rng;

use super::spec::{Behaviour, Method, Outages, PeerSpec, WorldSpec};

/// Bytes of a block of today's mainnet.
const BLOCK_BYTES: u64 = 1_700_000;
/// Bytes a second that are validated: more than any line here carries.
const VALIDATION: u64 = 400_000_000;
/// 1 Gbit/s.
const DOWNLINK: u64 = 125_000_000;

fn world(name: &'static str, method: Method, peers: Vec<PeerSpec>, seconds: u64) -> WorldSpec {
    WorldSpec {
        name,
        seed: 1,
        downlink: DOWNLINK,
        validation: VALIDATION,
        block_bytes: BLOCK_BYTES,
        method,
        peers,
        pool: Vec::new(),
        time: Duration::from_secs(seconds),
    }
}

/// Returns the bytes a second of a line of this many Mbit/s.
fn mbit(megabits: u64) -> u64 {
    megabits * 1_000_000 / 8
}

fn with(behaviour: Behaviour, from: u64, peer: PeerSpec) -> PeerSpec {
    PeerSpec { behaviour, from: Duration::from_secs(from), ..peer }
}

pub fn named(method: Method) -> Vec<WorldSpec> {
    let honest = PeerSpec::honest;
    let ten = |rate: u64, millis| vec![honest(rate, millis); 10];
    let and = |mut peers: Vec<PeerSpec>, others: Vec<PeerSpec>| {
        peers.extend(others);
        peers
    };
    let mixed_rates = [1.6, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0, 31.4];
    let mixed = mixed_rates.map(|megabytes: f64| honest((megabytes * 1e6) as u64, 150)).to_vec();
    let slow_and_fast = |fast: u64| {
        let silent = with(Behaviour::SilentAfter(fast * 20), 0, honest(fast, 50));
        and(vec![honest(2_500_000, 80); 9], vec![silent])
    };
    let silent = |from| with(Behaviour::SilentAfter(0), from, honest(mbit(100), 100));
    let inbound = PeerSpec { inbound: true, ..silent(5) };
    let outages = Some(Outages { every: Duration::from_secs(20), lasts: Duration::from_secs(10) });
    let tor = PeerSpec { outages, ..honest(300_000, 600) };
    let drips = with(Behaviour::DripsHeaders, 0, honest(mbit(100), 100));
    let closes = with(Behaviour::ClosesAfter(100_000_000), 0, honest(mbit(100), 100));
    let name_and_peers: Vec<(&str, Vec<PeerSpec>, u64)> = vec![
        ("10 × 20 Mbit/s, 100 ms", ten(mbit(20), 100), 60),
        ("10 × 20 Mbit/s, 300 ms", ten(mbit(20), 300), 60),
        ("10 × 100 Mbit/s, 150 ms", ten(mbit(100), 150), 60),
        (
            "9 × 100 and 1 × 16 Mbit/s, 150 ms",
            and(vec![honest(mbit(100), 150); 9], vec![honest(mbit(16), 150)]),
            60,
        ),
        ("mixed, 1.6 to 31 MB/s, 150 ms", mixed, 60),
        ("9 × 2.5 MB/s, and 50 MB/s that goes silent", slow_and_fast(50_000_000), 120),
        ("9 × 2.5 MB/s, and 100 MB/s that goes silent", slow_and_fast(100_000_000), 120),
        (
            "7 × 50 Mbit/s, three newcomers that never answer",
            and(vec![honest(mbit(50), 100); 7], vec![silent(20); 3]),
            120,
        ),
        (
            "5 × 50 Mbit/s, 100 silent inbound peers",
            and(vec![honest(mbit(50), 100); 5], vec![inbound; 100]),
            120,
        ),
        ("10 Tor-like peers, 200 KB/s on average", vec![tor; 10], 40 * 60),
        (
            "9 × 50 Mbit/s, and known headers every 4.9 s",
            and(vec![honest(mbit(50), 100); 9], vec![drips]),
            30,
        ),
        ("10 × 100 Mbit/s that close after 100 MB", vec![closes; 10], 60),
        (
            "9 × 50 Mbit/s, and one that sends junk",
            and(vec![honest(mbit(50), 100); 9], vec![with(Behaviour::Junk, 0, honest(8_000, 100))]),
            60,
        ),
    ];
    name_and_peers.into_iter().map(|(name, peers, time)| world(name, method, peers, time)).collect()
}

/// Returns the worlds that `bench/namespaces.sh` builds from real sockets, for 40 or 60 seconds.
pub fn in_namespaces() -> Vec<WorldSpec> {
    // What tbf leaves of a line for the payload of TCP: 1,448 bytes of a frame of 1,514.
    let line = |kilobytes: u64| kilobytes * 1_448_000 / 1_514;
    let far = |millis: u64| move |kilobytes: &u64| PeerSpec::honest(line(*kilobytes), millis);
    let mixed = [400, 500, 750, 1_250, 2_000, 2_500, 3_750, 5_000, 7_500, 7_850];
    let silent = with(Behaviour::SilentAfter(line(20_000) * 10), 0, far(50)(&20_000));
    let peers = [
        ("10 × 20 Mbit/s, 100 ms", [2_500; 10].iter().map(far(100)).collect(), 40),
        ("mixed, 0.4 to 7.9 MB/s, 150 ms", mixed.iter().map(far(150)).collect(), 40),
        (
            "9 × 1 MB/s, and 20 MB/s that goes silent after 10 s",
            [1_000; 9].iter().map(far(80)).chain([silent]).collect(),
            60,
        ),
    ];
    let spec = |(name, peers, seconds)| WorldSpec {
        block_bytes: 1_000_000,
        ..world(name, Method::InOrder, peers, seconds)
    };
    peers.map(spec).to_vec()
}

/// Returns worlds whose tip is followed.
pub fn at_the_tip() -> Vec<WorldSpec> {
    let honest = vec![PeerSpec::honest(mbit(50), 100); 9];
    let with_one = |rate: u64, behaviour| {
        let bad = with(behaviour, 0, PeerSpec::honest(rate, 100));
        honest.iter().copied().chain([bad]).collect()
    };
    let follow = |name, peers| world(name, Method::InOrder, peers, 60);
    vec![
        follow("10 × 50 Mbit/s", with_one(mbit(50), Behaviour::Honest)),
        follow("9 × 50 Mbit/s, and one of 8 KB/s", with_one(8_000, Behaviour::Honest)),
        follow("9 × 50 Mbit/s, and one that sends junk", with_one(8_000, Behaviour::Junk)),
    ]
}

/// Returns a world with ten slots and 200 addresses, a quarter of which have a line of 20 Mbit/s,
/// and the others one of 2 Mbit/s; with `has_candidates`, faster ones may replace slower ones.
pub fn slots(method: Method, has_candidates: bool) -> WorldSpec {
    let mut rng = Rng::new(3, 3);
    let line = |number: u64| if number.is_multiple_of(4) { mbit(20) } else { mbit(2) };
    let addresses: Vec<PeerSpec> =
        (0..200).map(|number| PeerSpec::honest(line(number), rng.between(20, 300))).collect();
    let peers = (0..10).map(|_| addresses[rng.below(200) as usize]).collect();
    let name = if has_candidates {
        "10 slots for 200 peers, candidates"
    } else {
        "10 slots for 200 peers, first ones"
    };
    let pool = if has_candidates { addresses } else { Vec::new() };
    WorldSpec { pool, ..world(name, method, peers, 40 * 60) }
}

/// Returns a random world: 3 to 10 outbound peers of very different speed, some of which stall,
/// close or go silent, and sometimes inbound ones.
pub fn random(seed: u64) -> WorldSpec {
    let mut rng = Rng::new(seed, 7);
    let method = [Method::InOrder, Method::Join, Method::SwiftSync][rng.below(3) as usize];
    let count = rng.between(3, 10);
    let mut peers: Vec<PeerSpec> = Vec::new();
    for number in 0..count {
        // From 0.1 to 50 MB/s, each octave as likely as the others.
        let rate = (100_000.0 * 500f64.powf(rng.below(1000) as f64 / 1000.0)) as u64;
        let mut peer = PeerSpec::honest(rate, rng.between(10, 400));
        let lasts = Duration::from_millis(rng.between(200, 5_000));
        peer.outages = rng
            .percent(25)
            .then(|| Outages { every: Duration::from_secs(rng.between(5, 40)), lasts });
        peer.behaviour = match rng.below(100) {
            // At least one peer sends.
            _ if number == 0 => Behaviour::Honest,
            0..10 => Behaviour::SilentAfter(rng.below(rate * 20)),
            10..15 => Behaviour::ClosesAfter(rate * rng.between(5, 30)),
            15..20 => Behaviour::Junk,
            _ => Behaviour::Honest,
        };
        peer.from = Duration::from_secs(if rng.percent(70) { 0 } else { rng.below(20) });
        if number == 0 {
            peer.from = Duration::ZERO;
        }
        peers.push(peer);
    }
    if rng.percent(20) {
        let silent = PeerSpec {
            inbound: true,
            behaviour: Behaviour::SilentAfter(0),
            ..PeerSpec::honest(1_000_000, 100)
        };
        peers.extend(vec![silent; rng.between(1, 30) as usize]);
    }
    WorldSpec {
        name: "random",
        seed,
        block_bytes: [300_000, 1_000_000, BLOCK_BYTES][rng.below(3) as usize],
        peers,
        ..world("random", method, Vec::new(), 60)
    }
}
