//! Streams of blocks. In any order, and cut into any number of runs, Apus and the engine end at the
//! same tip with the same coins, and do not contradict each other about any block.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use apus_consensus::RuleClass;
use apus_hash::Hash;
use apus_progress::Refusal;
use apus_store::{BlockStatus, IndexEntry};
use apus_testchain::{Rng, rounds};
use apus_wire::Chain as Network;

use super::directory::{Blocks, assert_same_bytes, assert_same_coins};
use super::stream::{Event, Stream};
use super::world::{BASE_HEIGHT, Fate, World};
use crate::support::judge::{Judge, Verdict};
use crate::support::{Place, with_genesis};

/// A world, and two directories that hold its base: Apus' and the engine's.
struct Bases {
    world: World,
    ours: Place,
    theirs: Place,
}

impl Bases {
    fn new(seed: u64) -> Self {
        let world = World::new(seed);
        let base = &with_genesis(&world.chains[0])[..=BASE_HEIGHT as usize];
        let ours = Place::new(Network::Regtest);
        let theirs = Place::new(Network::Regtest);
        ours.sync(&[ours.write("base", base)]);
        Judge::open(&theirs).unwrap().process(&base[1..]);
        Self { world, ours, theirs }
    }
}

/// The faults that one of the two found in each block itself, without those that follow from its
/// parent or from an earlier verdict.
type Faults = HashMap<Hash, Vec<RuleClass>>;

/// The result of a stream in the engine.
struct Theirs {
    faults: Faults,
    tip: (u32, Hash),
}

/// Gives all blocks to the engine. A block whose parent it does not know is given again later, as
/// long as that helps.
fn to_the_engine(place: &Place, events: &[Event], headers_first: bool) -> Theirs {
    let judge = Judge::open(place).unwrap();
    let mut verdicts = Vec::new();
    if headers_first {
        verdicts.extend(give_headers(&judge, events));
    }
    let mut waiting: Vec<&Event> = events.iter().collect();
    loop {
        let before = waiting.len();
        waiting.retain(|event| {
            let said = judge.judge(&event.bytes).unwrap_or_default();
            let own = crate::support::hash_of(&event.bytes);
            let missing = Verdict { block: own, fault: Some(RuleClass::MissingPrev) };
            let waits = said.contains(&missing);
            verdicts.extend(said);
            waits
        });
        if waiting.len() == before || waiting.is_empty() {
            break;
        }
    }
    let mut faults = Faults::new();
    for Verdict { block, fault } in verdicts {
        if let Some(class) = fault.filter(|class| is_its_own(*class)) {
            faults.entry(block).or_default().push(class);
        }
    }
    Theirs { faults, tip: judge.tip() }
}

fn give_headers(judge: &Judge, events: &[Event]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut waiting: Vec<&Event> = events.iter().collect();
    loop {
        let before = waiting.len();
        waiting.retain(|event| {
            let fault = judge.judge_header(&event.bytes);
            let block = crate::support::hash_of(&event.bytes);
            verdicts.push(Verdict { block, fault });
            fault == Some(RuleClass::MissingPrev)
        });
        if waiting.len() == before || waiting.is_empty() {
            return verdicts;
        }
    }
}

fn is_its_own(class: RuleClass) -> bool {
    use RuleClass::*;
    !matches!(class, MissingPrev | InvalidPrev | CachedInvalid)
}

/// Gives all blocks to Apus, in as many runs as there are slices, and then all again, for blocks
/// that a cut separated from their parents.
fn to_apus(place: &Place, runs: &[&[Event]]) -> (Vec<Refusal>, (u32, Hash)) {
    let mut refusals = Vec::new();
    let mut tip = (0, Hash::default());
    let mut sources = Vec::new();
    for (number, events) in runs.iter().enumerate() {
        let name = format!("run-{number}");
        sources.push(place.write(&name, events.iter().map(|event| &event.bytes)));
        let summary = place.sync(&sources[number..]);
        tip = (summary.height, summary.best_block);
        refusals.extend(summary.refusals);
    }
    if runs.len() > 1 {
        refusals.retain(|refusal| !refusal.reason.contains("is neither in the block index nor"));
        let summary = place.sync(&sources);
        tip = (summary.height, summary.best_block);
        refusals.extend(summary.refusals);
    }
    (refusals, tip)
}

/// Cuts a stream into one or more runs.
fn cut<'a>(events: &'a [Event], rng: &mut Rng) -> Vec<&'a [Event]> {
    let mut cuts = vec![0, events.len()];
    let pieces = [0, 0, 1, 2, 4][rng.below(5) as usize];
    cuts.extend((0..pieces).map(|_| rng.below(events.len() as u64 + 1) as usize));
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &events[ends[0]..ends[1]]).filter(|run| !run.is_empty()).collect()
}

/// Holds Apus' refusals against the truth: each block is refused for its own fault or for one of an
/// ancestor. Returns the blocks that were refused for their own.
fn assert_true(stream: &Stream, refusals: &[Refusal]) -> HashSet<Hash> {
    let by_hash: HashMap<Hash, usize> =
        stream.nodes.iter().enumerate().map(|(index, node)| (node.hash, index)).collect();
    let mut own = HashSet::new();
    for refusal in refusals {
        let index = by_hash[&refusal.block.expect("a whole block is refused")];
        let node = &stream.nodes[index];
        let reason = node.reason.split(" (").next().unwrap_or_default();
        let said = &refusal.reason;
        if said.starts_with("duplicate-invalid") || said.starts_with("bad-prevblk") {
            assert!(!stream.is_valid(index), "{refusal}");
        } else if said.contains("is neither in the block index nor") {
            // The parent may itself have been refused for want of its parent.
            assert!(!stream.is_valid(index), "{refusal}");
        } else if !reason.is_empty() && said.starts_with(reason) {
            own.insert(node.hash);
        } else {
            let has_mutant = stream.has_mutant(index);
            assert!(has_mutant && is_of_mutation(said), "{refusal}, but: {:?} {reason}", node.fate);
        }
    }
    own
}

fn is_of_mutation(said: &str) -> bool {
    let reasons = [
        "bad-txnmrklroot",
        "bad-txns-duplicate",
        "bad-witness-nonce-size",
        "bad-witness-merkle-match",
        "unexpected-witness",
        "not a block",
    ];
    reasons.iter().any(|reason| said.starts_with(reason))
}

/// Holds both indexes, for each block of the stream, against the truth and against each other.
fn assert_agreed(stream: &Stream, own: &HashSet<Hash>, theirs: &Faults, dirs: [&Blocks; 2]) {
    for (index, node) in stream.nodes.iter().enumerate() {
        let hash = &node.hash;
        let faults = theirs.get(hash).cloned().unwrap_or_default();
        let what = format!("{hash} {:?} {}, engine: {faults:?}", node.fate, node.reason);
        let allowed = |class: &RuleClass| {
            Some(*class) == node.class || *class == RuleClass::Mutated && stream.has_mutant(index)
        };
        assert!(faults.iter().all(allowed), "{what}");
        let their_own = node.class.is_some_and(|class| faults.contains(&class));
        for (dir, refused) in dirs.into_iter().zip([own.contains(hash), their_own]) {
            assert_known_for_what_it_is(stream, index, dir.get(hash), refused, &what);
        }
    }
}

/// Holds a block's entry in one of the indexes against the truth. `refused` is whether the block
/// was refused for its own fault.
fn assert_known_for_what_it_is(
    stream: &Stream,
    index: usize,
    entry: Option<&IndexEntry>,
    refused: bool,
    what: &str,
) {
    let fate = stream.nodes[index].fate;
    let status = entry.map_or(BlockStatus(0), |entry| entry.record.status);
    let is_stored = status.has(BlockStatus::BLOCK_HAVE_DATA);
    if stream.is_valid(index) {
        assert!(is_stored && status.is_valid(BlockStatus::BLOCK_VALID_TRANSACTIONS), "{what}");
        return;
    }
    // An invalid block is never marked as valid.
    assert!(status.0 & BlockStatus::BLOCK_VALID_MASK < BlockStatus::BLOCK_VALID_CHAIN, "{what}");
    assert!(entry.is_none() || stream.has_header(index), "{what}");
    let parent_is_valid = stream.parent_is_valid(index);
    match fate {
        Fate::Sound => assert!(!refused, "{what}"),
        Fate::Mutated => assert!(!refused && !is_stored, "{what}"),
        Fate::Header | Fate::Body => assert!((refused || !parent_is_valid) && !is_stored, "{what}"),
        // The block is marked as failed exactly if somebody tried to connect it.
        Fate::Coins if parent_is_valid => assert_eq!(status.is_failed(), refused, "{what}"),
        Fate::Coins => assert!(!refused, "{what}"),
    }
}

/// Totals of all streams.
#[derive(Debug, Default)]
struct Sums {
    streams: AtomicU64,
    events: AtomicU64,
    ties: AtomicU64,
    refused_by_us: AtomicU64,
    refused_by_them: AtomicU64,
    undo_records: AtomicU64,
}

fn one_stream(bases: &Bases, seed: u64, sums: &Sums) {
    let mut rng = Rng::new(seed, 0x6375_7473);
    let steps = rng.between(4, 9);
    let stream = Stream::new(&bases.world, seed, steps);
    let ours = bases.ours.copy();
    let theirs = bases.theirs.copy();
    let (refusals, our_tip) = to_apus(&ours, &cut(&stream.events, &mut rng));
    let engine = to_the_engine(&theirs, &stream.events, rng.percent(50));

    let best = stream.best();
    assert_eq!(our_tip.0, engine.tip.0, "height");
    assert!(best.contains(&our_tip.1), "our tip {our_tip:?} is none of the best, {best:?}");
    assert!(best.contains(&engine.tip.1), "their tip {:?} is none of {best:?}", engine.tip);
    if our_tip == engine.tip {
        assert_same_coins(&ours, &theirs);
    } else {
        assert!(best.len() > 1);
        sums.ties.fetch_add(1, Relaxed);
    }
    let our = Blocks::of(&ours);
    let their = Blocks::of(&theirs);
    let (records, _) = assert_same_bytes(&our, &their);
    let own = assert_true(&stream, &refusals);
    assert_agreed(&stream, &own, &engine.faults, [&our, &their]);

    sums.streams.fetch_add(1, Relaxed);
    sums.events.fetch_add(stream.events.len() as u64, Relaxed);
    sums.refused_by_us.fetch_add(own.len() as u64, Relaxed);
    sums.refused_by_them.fetch_add(engine.faults.len() as u64, Relaxed);
    sums.undo_records.fetch_add(records as u64, Relaxed);
}

/// Runs `work` for each of the seeds, on two threads; a failure names its seed.
fn for_seeds(seeds: Range<u64>, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    if catch_unwind(AssertUnwindSafe(|| work(seed))).is_err() {
                        eprintln!("this was seed {seed}");
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "seeds {failed:?} failed; see what each panicked with above");
}

#[test]
fn random_streams_end_alike() {
    let bases = [21, 22, 23].map(Bases::new);
    let sums = Sums::default();
    for_seeds(0..rounds(20), |seed| one_stream(&bases[seed as usize % bases.len()], seed, &sums));
    println!("{sums:?}");
}

/// With one block in each run, and parents first, Apus tries to connect the same blocks as the
/// engine at the same times.
#[test]
fn block_by_block_both_stand_at_the_same_tip() {
    let bases = Bases::new(25);
    let all_refused = AtomicU64::new(0);
    for_seeds(1_000..1_000 + rounds(2), |seed| {
        let mut stream = Stream::new(&bases.world, seed, 4);
        stream.parents_first();
        let ours = bases.ours.copy();
        let theirs = bases.theirs.copy();
        let judge = Judge::open(&theirs).unwrap();
        let mut refused = 0;
        for event in &stream.events {
            let summary = ours.sync(&[ours.write("block", [&event.bytes])]);
            let said = judge.judge(&event.bytes).unwrap_or_default();
            let what = format!("{} {:?}: {said:?}", stream.nodes[event.node].hash, event.fate);
            assert_eq!((summary.height, summary.best_block), judge.tip(), "{what}");
            let theirs = said.iter().filter(|verdict| verdict.fault.is_some()).count();
            // A block that is stored is not read again, so a mutated copy of it is not noticed.
            let unseen = event.fate == Fate::Mutated && summary.refusals.is_empty();
            let unread = theirs == 0 && event.fate == Fate::Mutated;
            assert!(unseen || unread || theirs == summary.refusals.len(), "{what}");
            refused += summary.refusals.len();
        }
        drop(judge);
        all_refused.fetch_add(refused as u64, Relaxed);
        assert_same_coins(&ours, &theirs);
        let our = Blocks::of(&ours);
        let their = Blocks::of(&theirs);
        assert_same_bytes(&our, &their);
        for (hash, entry) in &their.entries {
            assert_eq!(our.validity(hash), their.validity(hash), "{hash} at {}", entry.height);
        }
    });
    let all_refused = all_refused.into_inner();
    assert!(all_refused > rounds(2), "{all_refused}");
}

/// A block without its parent comes twice, and another builds on it.
#[test]
fn orphans_that_come_twice_are_counted_once() {
    let blocks = with_genesis(&World::new(24).chains[0]);
    let place = Place::new(Network::Regtest);
    let orphans = [&blocks[9], &blocks[9], &blocks[10], &blocks[9]];
    let summary = place.sync(&[place.write("orphans", orphans)]);
    assert_eq!((summary.height, summary.refusals.len()), (0, 3));
    for refusal in &summary.refusals {
        assert!(
            refusal.reason.ends_with("; 1 more block builds on blocks without a known parent"),
            "{refusal}"
        );
    }
}
