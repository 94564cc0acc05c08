//! Answers of bitcoind and of Apus, compared byte by byte.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_disk::Disk;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::view::View;
use apus_query::{Source, find, rest};
use serde_json::Value;

use super::calls::{Rpc, calls};
use super::daemon::{Answer, Daemon, Reply};
use super::rest_calls::{Rest, requests};
use super::worlds::World;

static NEVER: AtomicBool = AtomicBool::new(false);

/// What bitcoind has answered.
pub struct Recorded {
    rpc: Vec<(Rpc, Answer)>,
    rest: Vec<(Rest, Reply)>,
}

/// Asks a running bitcoind everything.
pub fn record(daemon: &Daemon, world: &World, sample: &[usize]) -> Recorded {
    let ask = |(name, params): Rpc| {
        let answer = daemon.ask(name, &params);
        remove_dumped(&answer);
        ((name, params), answer)
    };
    let mut rpc: Vec<(Rpc, Answer)> = calls(world, sample).into_iter().map(ask).collect();
    // What bitcoind proves, and parts of it.
    let proofs: Vec<String> = rpc
        .iter()
        .filter(|((name, _), _)| *name == "gettxoutproof")
        .filter_map(|(_, answer)| serde_json::from_str(answer.as_ref().ok()?).ok())
        .collect();
    for proof in proofs.iter().step_by(7) {
        for proof in [&proof[..], &proof[..proof.len() - 2], &format!("{proof}00")] {
            rpc.push(ask(("verifytxoutproof", serde_json::json!([proof]))));
        }
    }
    let requests = requests(world, sample).into_iter();
    let rest =
        requests.map(|(path, body)| ((path.clone(), body.clone()), daemon.rest(&path, &body)));
    let rest = rest.collect();
    Recorded { rpc, rest }
}

/// Removes the file that `dumptxoutset` has made.
fn remove_dumped(answer: &Answer) {
    let made = answer.as_ref().ok().filter(|answer| answer.starts_with("{\"coins_written\""));
    if let Some(made) = made.map(|made| serde_json::from_str::<Value>(made).unwrap()) {
        std::fs::remove_file(made["path"].as_str().unwrap()).unwrap();
    }
}

/// Opens a directory as `apus serve` does.
pub fn source(options: &Options) -> Source {
    let view = Arc::new(View::default());
    let opened = Options { view: Some(Arc::clone(&view)), ..options.clone() };
    let keep = |_: &Disk, _: &Options| Ok(Vec::new());
    drop(Node::open(&opened, &Disk::new(), Coins::ReadOnly, keep).unwrap());
    Source::at_rest(view, options)
}

/// Panics unless Apus answers as bitcoind, but for the differences named in [`is_known`].
pub fn assert_same(source: &Source, recorded: &Recorded) {
    let mut wrong = Vec::new();
    for ((name, params), theirs) in &recorded.rpc {
        let method = find(name).unwrap_or_else(|| panic!("no {name}"));
        let ours = apus_query::call(source, method, params.as_array().unwrap(), &NEVER);
        let ours: Answer = match ours {
            Ok(json) => Ok(json.get().to_string()),
            Err(error) => Err((i64::from(error.code), error.message)),
        };
        remove_dumped(&ours);
        if ours != *theirs && !is_known(name, &ours, theirs) {
            wrong.push(format!(
                "{name} {params}\n  Core: {}\n  Apus: {}",
                short(theirs),
                short(&ours)
            ));
        }
    }
    for ((path, body), theirs) in &recorded.rest {
        let (before, query) = match path.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (&path[..], None),
        };
        let ours = rest(source, before, query, body, &NEVER).map(|answer| Reply {
            status: answer.status,
            content_type: answer.content_type.to_string(),
            body: answer.body,
        });
        let is_same = match &ours {
            Some(ours) => ours == theirs || is_known_of_rest(path, ours, theirs),
            None => theirs.status == 404 && theirs.body.is_empty(),
        };
        if !is_same {
            let shown = |reply: &Reply| {
                let text =
                    String::from_utf8_lossy(&reply.body).chars().take(600).collect::<String>();
                format!("{} {} {text:?}", reply.status, reply.content_type)
            };
            let ours = ours.as_ref().map(shown);
            wrong.push(format!(
                "/rest/{path} {}\n  Core: {}\n  Apus: {ours:?}",
                hex(body),
                shown(theirs)
            ));
        }
    }
    let count = recorded.rpc.len() + recorded.rest.len();
    eprintln!("{count} answers compared, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(40)].join("\n"));
}

fn short(answer: &Answer) -> String {
    format!("{answer:?}").chars().take(1200).collect()
}

/// Whether a difference is one of those that docs/guide/server.md names.
fn is_known(name: &str, ours: &Answer, theirs: &Answer) -> bool {
    let help = |answer: &Answer| matches!(answer, Err((-1, text)) if text.starts_with(name));
    // The text of the help.
    if help(ours) && help(theirs) {
        return true;
    }
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        let is_misc = |answer: &Answer| matches!(answer, Err((-1, _)));
        return match name {
            // The bytes cannot be parsed; Core shows the words of its library.
            "verifytxoutproof" => is_misc(ours) && is_misc(theirs),
            // Apus does not prune on request.
            "pruneblockchain" => is_misc(ours) && theirs.is_ok(),
            _ => false,
        };
    };
    let [mut ours, mut theirs] = [ours, theirs].map(|text| serde_json::from_str(text).unwrap());
    match name {
        "getblockchaininfo" => is_same_info(&mut ours, &mut theirs),
        // The tables are others; Core's figure is an estimate.
        "gettxoutsetinfo" => are_same_without(&["disk_size"], &mut ours, &mut theirs),
        // Core shows tips of equal height in any order.
        "getchaintips" => {
            let sorted = |tips: &mut Value| {
                let tips = tips.as_array_mut().unwrap();
                tips.sort_by_key(|tip| tip["hash"].to_string());
            };
            sorted(&mut ours);
            sorted(&mut theirs);
            ours == theirs
        }
        _ => false,
    }
}

/// Compares two answers of `getblockchaininfo`: the progress depends on the time of the question,
/// and a bitcoind that is not released warns of that.
fn is_same_info(ours: &mut Value, theirs: &mut Value) -> bool {
    let progress = |info: &Value| info["verificationprogress"].as_f64().unwrap();
    (progress(ours) - progress(theirs)).abs() <= 1e-3 * progress(theirs)
        && are_same_without(&["verificationprogress", "warnings"], ours, theirs)
}

/// Compares two objects without some of their fields, which they both must have.
fn are_same_without(fields: &[&str], ours: &mut Value, theirs: &mut Value) -> bool {
    let mut take = |field: &&str| {
        let ours = ours.as_object_mut().unwrap().remove(*field);
        ours.is_some() && theirs.as_object_mut().unwrap().remove(*field).is_some()
    };
    fields.iter().all(&mut take) && ours == theirs
}

fn is_known_of_rest(path: &str, ours: &Reply, theirs: &Reply) -> bool {
    // Core has a mempool, even if it is empty.
    if path.starts_with("mempool/") {
        return ours.status == 404;
    }
    if path.starts_with("chaininfo") && ours.status == 200 && theirs.status == 200 {
        let parse = |reply: &Reply| serde_json::from_slice::<Value>(&reply.body).unwrap();
        return is_same_info(&mut parse(ours), &mut parse(theirs));
    }
    false
}

/// Returns bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Records what bitcoind answers about the directory of `world`, stops it, and compares.
pub fn compare(program: &Path, world: &World, chain: &str, sample: &[usize]) {
    let daemon = Daemon::start(program, &world.datadir(), chain, world.options);
    let tip = daemon.must("getbestblockhash", Value::Array(vec![]));
    assert_eq!(tip, world.tip().to_string());
    if let Some(stray) = &world.stray {
        daemon.must("submitheader", serde_json::json!([hex(&stray[..80])]));
    }
    let recorded = record(&daemon, world, sample);
    daemon.stop();
    assert_same(&source(&world.at_rest()), &recorded);
}
