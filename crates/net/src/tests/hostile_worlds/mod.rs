//! Random worlds: one honest outbound peer among up to seven hostile ones, named, chosen or found
//! on the local network, and up to fifty hostile inbound ones. They withhold blocks and branches,
//! short and long, in every way, send headers of little work, say nothing, come late, come and go.
//! Clocks jump, and the machine sleeps. All the same, a first sync and a new block are
//! connected in seconds, a sync ends, and the invariants of docs/peers.md hold whenever something
//! has happened.

mod world;

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use apus_hash::Hash;
use apus_testchain::Rng;
use apus_wire::Header;

use self::world::{Event, World};
use super::manager::mine;
use super::regtest;

/// The time from a message to the answer.
const ROUND_TRIP: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(100);
/// The time within which a block must be connected after an honest peer has announced it.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);
/// The time within which a sync must end after the last honest block was announced or, at the
/// start, after the honest peer is there and few blocks are missing.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// The time for which a sync waits at its end, and before blocks, as in `apus-peers`.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_BEFORE_BLOCKS: Duration = Duration::from_secs(5);
/// The time within which the first blocks must be connected after the honest peer is there, if
/// there are many of them: a silent peer takes away 20 s, and a branch that does not come 10 s.
const MANY_WITHIN: Duration = Duration::from_secs(90);
/// The longest for which a pipeline waits for a block that no honest peer has while one is here,
/// and for one that it has.
const WITHHELD_MAX: Duration = Duration::from_millis(10_200);
const HONEST_WITHIN: Duration = Duration::from_millis(5_000);
/// Blocks that there are at the start and in the end, and those of long branches.
const AT_START: usize = 360;
const IN_THE_END: usize = 363;
const LONG: usize = 760;
/// Blocks that are here at the start: a pipeline is not worth while, or downloads many.
const HERE: [usize; 2] = [340, 20];
/// Depths of forks below the first tip.
const FORKS: [usize; 4] = [0, 1, 5, 20];

/// How a peer answers requests for headers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum OfHeaders {
    Answers,
    Silent,
    /// Sends known ones after a while.
    Known,
    /// Says that there are none.
    Empty,
    /// Sends headers on the first blocks that have too little work.
    LowWork,
}

/// How a peer answers requests for blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum OfBlocks {
    Sends,
    NotFound,
    Silent,
    /// Sends messages that are no blocks.
    Junk,
    /// Sends the right header and other transactions.
    Changed,
    /// Sends a byte a second.
    Drips,
    /// Sends half of the block at once, and then a byte a second.
    Halves,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    inbound: bool,
    /// Whether the user named it, or it was found on the local network.
    named: bool,
    headers: OfHeaders,
    blocks: OfBlocks,
    /// The branch that it claims to have: 0 is the honest chain.
    branch: usize,
    from: Duration,
    /// How long it stays each time before it hangs up and comes back.
    stays: Option<Duration>,
    /// Whether it says nothing after the handshake.
    stops: bool,
}

const HONEST: Spec = Spec {
    inbound: false,
    named: false,
    headers: OfHeaders::Answers,
    blocks: OfBlocks::Sends,
    branch: 0,
    from: Duration::ZERO,
    stays: None,
    stops: false,
};

/// Headers on the first blocks that have too little work.
fn low_work() -> &'static [Header] {
    static LOW_WORK: OnceLock<Vec<Header>> = OnceLock::new();
    LOW_WORK.get_or_init(|| mine(&regtest().0, &branches()[0].headers[9], 50, 9))
}

/// Headers of one branch.
struct Branch {
    headers: Vec<Header>,
    places: HashMap<Hash, usize>,
}

impl Branch {
    fn new(headers: Vec<Header>) -> Self {
        let places = headers.iter().enumerate().map(|(at, header)| (header.hash(), at)).collect();
        Self { headers, places }
    }
}

/// The honest chain, and branches that always have more work: for each depth four that have a few
/// blocks more, and a long one.
fn branches() -> &'static [Branch] {
    static BRANCHES: OnceLock<Vec<Branch>> = OnceLock::new();
    BRANCHES.get_or_init(|| {
        let (network, genesis) = regtest();
        let honest = mine(&network, &genesis, IN_THE_END as u32, 1);
        let fork = |depth: usize, end: usize, seed: u32| {
            let common = &honest[..AT_START - depth];
            let count = (end - common.len()) as u32;
            let own = mine(&network, &common[common.len() - 1], count, seed);
            Branch::new([common, &own[..]].concat())
        };
        let mut all = vec![Branch::new(honest.clone())];
        for depth in FORKS {
            all.extend((2..6).map(|seed| fork(depth, IN_THE_END + 3, seed)));
            all.push(fork(depth, LONG, 6));
        }
        all
    })
}

/// The time in seconds since 1970: no header is from the future.
fn clock() -> i64 {
    let times = branches().iter().filter_map(|branch| branch.headers.last());
    times.map(|last| i64::from(last.time)).max().unwrap() + 600
}

fn random_peer(rng: &mut Rng, inbound: bool) -> Spec {
    let of_headers = [
        OfHeaders::Answers,
        OfHeaders::Answers,
        OfHeaders::Silent,
        OfHeaders::Known,
        OfHeaders::Empty,
        OfHeaders::LowWork,
    ];
    let of_blocks = [
        OfBlocks::NotFound,
        OfBlocks::Silent,
        OfBlocks::Junk,
        OfBlocks::Changed,
        OfBlocks::Drips,
        OfBlocks::Halves,
    ];
    let seconds = |from: u64, to: u64, rng: &mut Rng| Duration::from_millis(rng.between(from, to));
    Spec {
        inbound,
        named: rng.percent(30),
        headers: of_headers[rng.below(6) as usize],
        blocks: of_blocks[rng.below(6) as usize],
        branch: if rng.percent(50) { 0 } else { rng.below(branches().len() as u64) as usize },
        from: if rng.percent(60) { Duration::ZERO } else { seconds(0, 15_000, rng) },
        stays: rng.percent(20).then(|| seconds(500, 20_000, rng)),
        stops: rng.percent(15),
    }
}

/// Runs the world of a seed.
fn run(seed: u64) {
    let mut rng = Rng::new(seed, 12);
    let here = HERE[rng.below(2) as usize];
    let mut world = World::new(seed, here, rng.percent(50));
    let hostile = [0, 1, 7][rng.below(3) as usize];
    let inbound = [0, 1, 10, 50][rng.below(4) as usize];
    let mut specs: Vec<Spec> = (0..hostile).map(|_| random_peer(&mut rng, false)).collect();
    specs.extend((0..inbound).map(|_| random_peer(&mut rng, true)));
    let from = Duration::from_millis(if rng.percent(50) { 0 } else { rng.between(5_000, 15_000) });
    for spec in specs {
        world.at(spec.from, Event::Connect(spec));
    }
    world.at(from, Event::Connect(Spec { from, ..HONEST }));
    let within = if here == HERE[0] { ENDS_WITHIN } else { MANY_WITHIN };
    world.run(from + within, |world| world.has_all());
    assert!(world.has_all(), "seed {seed}: not synced after {within:?}: {:#?}", world.log);
    for _ in AT_START..IN_THE_END {
        // The clock may jump.
        if rng.percent(20) {
            world.unix_time = clock() + [-3_600, 0, 86_400][rng.below(3) as usize];
        }
        if rng.percent(20) {
            world.sleep();
        }
        let longest = if rng.percent(10) { 40 } else { 6 };
        let wait = Duration::from_secs(rng.between(0, longest));
        world.run(world.now + wait, |_| false);
        let now = world.now;
        world.at(now, Event::Block);
        // The honest peer announces it after a second.
        world.run(now + Duration::from_secs(1) + CONNECTED_WITHIN, |world| {
            world.announced.is_some() && world.has_all()
        });
        assert!(world.has_all(), "seed {seed}: block {} is late: {:#?}", world.top, world.log);
    }
    let last = world.now;
    world.manager.ask_for_headers();
    world.run(last + ENDS_WITHIN, |world| {
        let awaits = world.now <= last + PATIENCE && world.manager.awaits_any(&world.tree);
        !awaits && world.manager.has_all_headers(world.now, PATIENCE)
    });
    assert!(world.now < last + ENDS_WITHIN, "seed {seed}: the sync does not end");
}

#[test]
fn hostile_worlds_hold_up_no_block() {
    std::thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || (first..40).step_by(4).for_each(run));
        }
    });
}
