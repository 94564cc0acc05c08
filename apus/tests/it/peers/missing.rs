//! Blocks that no peer has: a sync waits for them or gives them up, says so, and does not end far
//! below them, unless the tip is recent.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use apus_net::Outgoing;
use apus_node::Options;
use apus_progress::Method;
use apus_progress::Watch;
use apus_progress::clock::unix_time;
use apus_progress::{Observer, Phase, Progress};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::Builder;
use apus_testpeer::{Answers, Hangup, Honest, ServedChain, Server};
use apus_wire::message::Message;
use bitcoin::block::Block;

use super::flawed::branch;
use super::held::{Held, late};
use super::withheld::{LONG, Refusal, SHORT, Served, downloaded};
use super::world::{Told, try_sync, world};
use crate::support::blocks;
use crate::support::waiting::stopped_at_limit;

/// Raises a flag once the user has been told these words and, if they are given, the phase is this
/// one and has handled `n` blocks.
struct StopAfter<'a> {
    words: &'a str,
    at: Option<(Phase, u64)>,
    stop: AtomicBool,
    told: Told,
}

impl Observer for StopAfter<'_> {
    fn observe(&self, progress: &Progress) {
        let is_at = |(phase, blocks)| phase == progress.phase && blocks <= progress.blocks;
        if self.at.is_none_or(is_at) && self.told.count(self.words) > 0 {
            self.stop.store(true, Relaxed);
        }
    }

    fn note(&self, text: &str) {
        self.told.note(text);
        if self.at.is_none() && text.contains(self.words) {
            self.stop.store(true, Relaxed);
        }
    }
}

/// A sync that is stopped after these words, and notes in `told` what the user is told.
fn sync_until(
    told: Told,
    options: &Options,
    words: &str,
    at: Option<(Phase, u64)>,
) -> (Summary, Told) {
    let watch = StopAfter { words, at, stop: AtomicBool::new(false), told };
    let run = || sync::sync(options, &[], Watch::new(&watch, &watch.stop));
    let (summary, _) = stopped_at_limit(&watch.stop, run);
    watch.told.assert_has(&[words]);
    let summary = summary.unwrap();
    assert!(summary.interrupted, "it claims to have ended");
    (summary, watch.told)
}

/// A sync from a peer that lacks one block, until the user has heard of it and `handled` blocks
/// are; then one from an honest peer, which downloads only the rest. Returns what the first came
/// to, and what the user was told.
fn sync_without(
    served: Served,
    way: Method,
    heights: &'static [usize],
    handled: u64,
) -> (Summary, Told) {
    let [height] = heights else { panic!("one block is to be missing") };
    let world = (served.world)();
    let place = world.place();
    let lacking = served.without(heights, Refusal::NotFound);
    let mut options = served.options(&place, way, &[&lacking.server]);
    options.peers.as_mut().unwrap().gone_after = Duration::from_millis(100);
    // What is given up shows once the rest is connected.
    let is_given_up = way == Method::InOrder && world.height() - (*height as u32) < 144;
    let (words, phase) = match (is_given_up, way) {
        (true, _) => ("No peer has block", Phase::Merging),
        (false, Method::SwiftSync) => ("waiting for one that has", Phase::SwiftSync),
        (false, _) => ("waiting for one that has", Phase::Connecting),
    };
    let at = (is_given_up || handled > 0).then_some((phase, handled));
    let (first, told) = sync_until(Told::default(), &options, words, at);
    let hash = world.hash(*height as u32).to_string();
    told.assert_has(&["No peer has block", &hash, &format!("at height {height}")]);
    assert_eq!(is_given_up, told.count("waiting for one that has") == 0, "{way:?}");
    let honest = served.honest();
    let second = try_sync(&served.options(&place, way, &[&honest])).0.unwrap();
    assert_eq!(second.best_block, world.tip(), "{way:?}");
    let all = downloaded(&first) + downloaded(&second);
    assert_eq!(all, u64::from(world.height()), "{way:?}: nothing comes twice");
    (first, told)
}

#[test]
fn a_block_near_the_best_header_is_given_up() {
    let (summary, _) = sync_without(SHORT, Method::InOrder, &[170], 0);
    assert_eq!(summary.height, 169, "all below it are connected");
}

#[test]
fn a_block_far_below_the_best_header_is_waited_for() {
    let (summary, _) = sync_without(SHORT, Method::InOrder, &[20], 19);
    assert_eq!(summary.height, 19);
}

#[test]
fn a_join_waits_for_a_block() {
    let (summary, _) = sync_without(SHORT, Method::Join, &[170], 0);
    assert_eq!(summary.height, 0);
}

/// [`world`] up to its last blocks, and a branch on it of which a peer has only the headers: 200,
/// so that the first is far below the best one.
fn withheld_branch() -> (ServedChain, &'static [usize]) {
    const FORK: usize = 160;
    let branch = branch(FORK, 200);
    let withheld: Vec<usize> = (FORK + 1..=branch.height()).collect();
    (branch, withheld.leak())
}

/// A branch of headers alone holds up no method that reads blocks of peers in many places.
#[test]
fn no_method_waits_for_a_long_branch_of_headers_alone() {
    for way in [Method::InOrder, Method::Join] {
        let place = world().place();
        let (branch, heights) = withheld_branch();
        let withholding = SHORT.keeping_back(branch, heights, Refusal::Silence);
        let honest = SHORT.honest();
        let mut options = SHORT.options(&place, way, &[&withholding.server, &honest]);
        options.peers.as_mut().unwrap().gone_after = Duration::from_millis(300);
        let words = format!("New tip {}", world().tip());
        let (summary, _) = sync_until(Told::default(), &options, &words, None);
        assert_eq!(summary.best_block, world().tip(), "{way:?}");
    }
}

/// If an outbound peer's chain ends in a tip that is recent, headers alone do not keep a sync from
/// its end, and the user hears of them.
#[test]
fn a_sync_ends_below_headers_alone_at_a_recent_tip() {
    const WITHHELD: u32 = 150;
    let genesis = blocks::genesis_parent();
    // The last header is from the near future.
    let time = unix_time() as u32 + 6_600 - (WITHHELD + 9) * 600;
    let first = Builder::block_on(&genesis).time(time).finish();
    let (others, tip) = blocks::branch(&genesis.child(&first), "honest", 9);
    let (withheld, _) = blocks::branch(&tip, "withheld", WITHHELD as usize);
    let list = |parts: &[&[Block]]| {
        let bytes = parts.iter().flat_map(|part| blocks::bytes(*part));
        let genesis = (SHORT.world)().blocks[0].clone();
        ServedChain::of(std::iter::once(genesis).chain(bytes).collect())
    };
    let place = (SHORT.world)().place();
    let first = std::slice::from_ref(&first);
    let heights: Vec<usize> = (11..11 + WITHHELD as usize).collect();
    let longer = list(&[first, &others, &withheld]);
    let longer = SHORT.keeping_back(longer, heights.leak(), Refusal::NotFound);
    let honest = SHORT.keeping_back(list(&[first, &others]), &[], Refusal::Silence);
    let servers = [&longer.server, &honest.server];
    let mut options = SHORT.options(&place, Method::InOrder, &servers);
    let peers = options.peers.as_mut().unwrap();
    (peers.gone_after, peers.patience) = (Duration::from_millis(300), Duration::from_secs(1));
    let (summary, told) = try_sync(&options);
    assert_eq!(summary.unwrap().height, 10);
    told.assert_has(&["headers up to height 160", "no peer sends their blocks"]);
}

/// The last blocks are stored before a SwiftSync begins.
#[test]
fn a_swiftsync_waits_for_one_of_the_last_blocks() {
    let (summary, _) = sync_without(SHORT, Method::SwiftSync, &[170], 0);
    assert_eq!(summary.height, 0);
}

#[test]
fn a_swiftsync_waits_for_a_block_and_keeps_its_progress() {
    let (summary, _) = sync_without(LONG, Method::SwiftSync, &[60], 288);
    assert_eq!(summary.height, 0);
    let saved = summary.saved.and_then(sync::SavedSync::swiftsync).unwrap();
    assert!(saved.done >= 288, "those that are stored are done: {saved:?}");
}

/// A peer that shows all headers and hangs up, and has nothing to say when it is asked again.
struct HeadersAlone {
    honest: Honest,
    has_shown: Arc<AtomicBool>,
}

impl Answers for HeadersAlone {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        match message {
            Message::Version(_) if self.has_shown.load(SeqCst) => Err(Hangup),
            Message::GetHeaders(_) => {
                self.honest.answer(message, out)?;
                self.has_shown.store(true, SeqCst);
                Err(Hangup)
            }
            _ => self.honest.answer(message, out),
        }
    }
}

#[test]
fn a_sync_far_below_the_best_header_does_not_end() {
    let world = (LONG.world)();
    let has_shown = Arc::new(AtomicBool::new(false));
    let place = world.place();
    let told = Told::default();
    let ahead = Server::start(place.network.magic, true, move || {
        let has_shown = Arc::clone(&has_shown);
        Box::new(HeadersAlone { honest: Honest::new((LONG.chain)()), has_shown })
    });
    let ahead = ahead.unwrap();
    let lost = told.when_told("Lost peer");
    let behind = late(ServedChain::of(world.blocks[..=200].to_vec()), Held::All, vec![lost]);
    let options = LONG.options(&place, Method::InOrder, &[&ahead, &behind]);
    let (summary, _) = sync_until(told, &options, "No peer has the next blocks", None);
    assert_eq!(summary.height, 200);
}
