//! A sync that is interrupted or killed carries on, and downloads little again.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use apus_net::Outgoing;
use apus_node::Watch;
use apus_node::{Method, Observer, Options, Progress};
use apus_peers::serve::{Answers, Hangup, Honest, Server};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::{Rng, rounds};
use apus_wire::message::Message;

use super::world::{WAYS, chain, honest, options, tip, try_sync, with_peers, with_peers_at, world};
use crate::support::Place;
use crate::support::program::{program_on, start};

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

/// Runs the program again and again, and kills it each time after a random time, but the last.
fn run_killed(way: Method, seed: u64) {
    let place = world().place();
    let server = honest(true);
    let args = arguments(&place, way, &server);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut rng = Rng::new(seed, 0);
    for _ in 0..3 {
        let mut child = start(program_on(&place, &args));
        std::thread::sleep(Duration::from_millis(50 + rng.below(400)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = program_on(&place, &args).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bestblock"], tip().to_string(), "{json}");
}

/// Raises a flag with the report of this number.
struct StopsAt {
    left: AtomicUsize,
    stop: AtomicBool,
}

impl Observer for StopsAt {
    fn observe(&self, _: &Progress) {
        if self.left.fetch_sub(1, Relaxed) == 1 {
            self.stop.store(true, Relaxed);
        }
    }

    fn note(&self, _: &str) {}
}

/// A sync that is stopped with the report of this number, if it makes so many.
fn sync_until(options: &Options, report: usize) -> Summary {
    let watch = StopsAt { left: AtomicUsize::new(report), stop: AtomicBool::new(false) };
    sync::sync(options, &[], Watch::new(&watch, &watch.stop)).unwrap()
}

#[test]
fn an_interrupted_sync_downloads_nothing_again() {
    for way in WAYS {
        let (mut report, mut is_interrupted) = (1, true);
        while is_interrupted {
            let (place, server) = (world().place(), honest(true));
            let options = with_peers(&place, way, &[&server]);
            let runs = [sync_until(&options, report), sync_until(&options, usize::MAX)];
            assert_eq!(runs[1].best_block, tip(), "{way:?}, {report}");
            let blocks = |run: &Summary| run.peers.iter().map(|peer| peer.blocks).sum::<u64>();
            let downloaded = runs.each_ref().map(blocks);
            let all = u64::from(world().height());
            assert_eq!(downloaded.iter().sum::<u64>(), all, "{way:?}, {report}: {downloaded:?}");
            (report, is_interrupted) = (report + 1 + report / 2, runs[0].interrupted);
        }
    }
}

#[test]
fn a_killed_sync_carries_on() {
    for round in 0..rounds(2) {
        for way in WAYS {
            run_killed(way, round);
        }
    }
}

/// The environment variable that gives [`killed_child`] its task: data directory, way, and address
/// of the peer.
const CHILD: &str = "APUS_TEST_PEERS_CHILD";

/// Not a test, but the process that the test below starts and kills. It saves more often than the
/// program does.
#[test]
#[ignore = "a process that another test starts and kills"]
fn killed_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let [datadir, way, address] = told.split('|').collect::<Vec<_>>().try_into().unwrap();
    let way = WAYS.into_iter().find(|known| known.name() == way).unwrap();
    let place = world().place();
    let options = with_peers_at(&place, way, &[address.to_string()]);
    let save_every = Duration::from_millis(100);
    let _ = try_sync(&Options { datadir: datadir.into(), save_every, ..options });
}

/// An honest peer that sends no more than so many blocks, and counts them.
struct Ending {
    honest: Honest,
    left: usize,
    sent: Arc<AtomicUsize>,
}

impl Answers for Ending {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        if let Message::GetData(list) = message {
            if self.left < list.len() {
                self.left = 0;
                return Ok(());
            }
            self.left -= list.len();
            // Long enough that it is saved meanwhile.
            std::thread::sleep(Duration::from_millis(10) * list.len() as u32);
            self.sent.fetch_add(list.len(), Relaxed);
        }
        self.honest.answer(message, out)
    }
}

#[test]
fn what_was_saved_before_a_kill_is_not_downloaded_again() {
    for way in WAYS {
        let place = world().place();
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let begin = move || -> Box<dyn Answers> {
            Box::new(Ending { honest: Honest::new(chain()), left: 100, sent: counter.clone() })
        };
        let ending = Server::start(place.network.magic, true, begin).unwrap();
        let datadir = place.datadir();
        let told = format!("{}|{}|{}", datadir.display(), way.name(), ending.address());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "peers::interrupted::killed_child"]);
        let mut child = start({
            command.env(CHILD, told);
            command
        });
        // Until nothing has come for three seconds, which is enough to save it.
        let (mut before, mut since) = (0, Instant::now());
        while before == 0 || since.elapsed() < Duration::from_secs(3) {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{way:?}: it ends without the last blocks"
            );
            let now = sent.load(Relaxed);
            if now != before {
                (before, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let server = honest(true);
        let summary = try_sync(&with_peers(&place, way, &[&server])).0.unwrap();
        assert_eq!(summary.best_block, tip());
        let again = summary.peers[0].blocks as usize + before - world().height() as usize;
        println!("{way:?}: {before} blocks had come, {again} of them come again");
        // Blocks of spans that nobody reads yet wait in memory.
        let waiting = if way == Method::InOrder { 2 } else { before / 2 };
        assert!(before > 50 && again <= waiting, "{way:?}: {again} of {before} come again");
    }
}
