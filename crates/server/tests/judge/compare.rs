//! Replies of bitcoind and of Apus to the same requests, compared byte by byte.

use std::path::Path;

use apus_hash::hex;
use serde_json::{Value, json};

use super::calls::calls;
use super::daemon::{Daemon, serve};
use super::frames::frames;
use super::http::{Answer, Client, Reply, Request};
use super::rest_calls::requests;
use super::worlds::World;

/// Requests and bitcoind's replies.
type Recorded = Vec<(Request, Reply)>;

/// Asks a running bitcoind everything.
fn record(client: &Client, world: &World, sample: &[usize]) -> Recorded {
    let calls = calls(world, sample).into_iter();
    let calls = calls.map(|(method, params)| Request::call(method, &params));
    let mut recorded: Recorded = calls.chain(frames()).map(|it| ask(client, it)).collect();
    // What bitcoind proves, and parts of it.
    let is_proof = |request: &Request| request.method().as_deref() == Some("gettxoutproof");
    let proofs = recorded.iter().filter(|(request, _)| is_proof(request));
    let proofs = proofs.filter_map(|(_, reply)| reply.answer()?.ok());
    let proofs: Vec<String> = proofs.map(|text| serde_json::from_str(&text).unwrap()).collect();
    for proof in proofs.iter().step_by(7) {
        for proof in [&proof[..], &proof[..proof.len() - 2], &format!("{proof}00")] {
            recorded.push(ask(client, Request::call("verifytxoutproof", &json!([proof]))));
        }
    }
    let rest = requests(world, sample).into_iter();
    recorded.extend(rest.map(|(path, body)| ask(client, Request::rest(&path, &body))));
    recorded
}

fn ask(client: &Client, request: Request) -> (Request, Reply) {
    let reply = client.send(&request);
    remove_dumped(&reply);
    (request, reply)
}

/// Removes the file that `dumptxoutset` has made.
fn remove_dumped(reply: &Reply) {
    let Some(Ok(answer)) = reply.answer() else { return };
    if answer.starts_with("{\"coins_written\"") {
        let made: Value = serde_json::from_str(&answer).unwrap();
        std::fs::remove_file(made["path"].as_str().unwrap()).unwrap();
    }
}

/// Panics unless Apus answers as bitcoind, but for the differences named in [`is_known`].
fn assert_same(client: &Client, recorded: &Recorded) {
    let mut wrong = Vec::new();
    for (request, theirs) in recorded {
        let (_, mut ours) = ask(client, request.clone());
        // Before v32, Core says nothing of caching.
        if theirs.caching.is_empty() {
            ours.caching.clear();
        }
        if ours != *theirs && !is_known(request, &ours, theirs) {
            wrong.push(format!("{request}\n  Core: {theirs}\n  Apus: {ours}"));
        }
    }
    eprintln!("{} replies compared, {} differ", recorded.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(40)].join("\n"));
}

/// Whether docs/guide/server.md names a difference.
fn is_known(request: &Request, ours: &Reply, theirs: &Reply) -> bool {
    // Core names a type of content where there is none.
    if ours.body.is_empty() && theirs.body.is_empty() {
        return ours.status == theirs.status;
    }
    match request.path.strip_prefix("/rest/") {
        Some(path) => is_known_of_rest(path, ours, theirs),
        None => {
            let answers = ours.answer().zip(theirs.answer());
            let known = request.method().zip(answers);
            known.is_some_and(|(method, (ours, theirs))| is_known_of_call(&method, &ours, &theirs))
        }
    }
}

fn is_known_of_call(name: &str, ours: &Answer, theirs: &Answer) -> bool {
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
            // Before v32, Core takes a list that is missing for one that is wrong, and looks for
            // the index first.
            "scanblocks" | "scantxoutset" if is_no_list(ours) => match theirs {
                Err((-3, text)) => text.contains("null is not of expected type"),
                Err((-1, text)) => text.starts_with("Index is not enabled"),
                _ => false,
            },
            // The reason for what is no descriptor.
            "getdescriptorinfo" | "scanblocks" | "scantxoutset" => {
                let is_no_descriptor = |answer: &Answer| matches!(answer, Err((-5, _)));
                // With an expression inside that nobody can satisfy.
                let is_thresh = |text: &str| {
                    text.contains("thresh(") && text.contains("exceeds the resource limits")
                };
                let is_known = matches!(ours, Err((_, text)) if is_thresh(text));
                is_no_descriptor(ours) && (is_no_descriptor(theirs) || is_known)
            }
            // All outputs are spent: Apus does not say why else it relays nothing.
            "sendrawtransaction" => {
                matches!(ours, Err((-31, _))) && matches!(theirs, Err((-25 | -26, _)))
            }
            "submitpackage" => {
                let is_refused = match theirs {
                    Err((code, _)) => [-25, -26].contains(code),
                    Ok(text) => text.contains("\"error\":"),
                };
                matches!(ours, Err((-31, _))) && is_refused
            }
            // This bitcoind may have been built without ZMQ.
            "getzmqnotifications" => {
                ours.as_deref() == Ok("[]") && matches!(theirs, Err((-32601, _)))
            }
            // Apus does not prune on request.
            "pruneblockchain" => is_misc(ours) && theirs.is_ok(),
            _ => false,
        };
    };
    let [mut ours, mut theirs] = [ours, theirs].map(|text| serde_json::from_str(text).unwrap());
    match name {
        "getblockchaininfo" => is_same_info(&mut ours, &mut theirs),
        // Each has its own caches.
        "getchainstates" => are_same_chainstates(&mut ours, &mut theirs),
        "getnetworkinfo" => is_same_network(&ours, &theirs),
        // Apus does not look for other reasons.
        "testmempoolaccept" => {
            let refused =
                |tested: &Value| (tested[0]["allowed"].clone(), tested[0]["wtxid"].clone());
            let reason = &ours[0]["reject-reason"];
            refused(&ours) == refused(&theirs) && *reason == ours[0]["reject-details"]
        }
        "getmininginfo" => are_same_without(&["warnings"], &mut ours, &mut theirs),
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

/// Whether an answer says that there is no list of scan objects.
fn is_no_list(answer: &Answer) -> bool {
    matches!(answer, Err((-1, text)) if text.starts_with("scanobjects argument is required"))
}

/// Compares two answers of `getblockchaininfo`: the progress depends on the time of the question,
/// and a bitcoind that is not released warns of that.
fn is_same_info(ours: &mut Value, theirs: &mut Value) -> bool {
    let progress = |info: &Value| info["verificationprogress"].as_f64().unwrap();
    (progress(ours) - progress(theirs)).abs() <= 1e-3 * progress(theirs)
        && are_same_without(&["verificationprogress", "warnings"], ours, theirs)
}

/// Compares two answers of `getnetworkinfo`: clients must find the same fields, and Core's name and
/// a version of three numbers first.
fn is_same_network(ours: &Value, theirs: &Value) -> bool {
    let names = |info: &Value| info.as_object().unwrap().keys().cloned().collect::<Vec<String>>();
    // They are new in v32.
    let is_old = theirs.get("tx_send_rate").is_none();
    let is_known = |name: &String| is_old && ["tx_send_rate", "inv_buckets"].contains(&&name[..]);
    let mut our_names = names(ours);
    our_names.retain(|name| !is_known(name));
    let first = |info: &Value| {
        let name = info["subversion"].as_str().unwrap().split('/').nth(1).unwrap().to_string();
        let (name, version) = name.split_once(':').unwrap();
        (name.to_string(), version.split('.').map(str::parse::<u32>).filter(Result::is_ok).count())
    };
    let version = |info: &Value| info["version"].as_u64().unwrap() / 10_000;
    our_names == names(theirs)
        && first(ours) == first(theirs)
        && first(ours) == ("Satoshi".to_string(), 3)
        && version(ours) == version(theirs)
        && ["relayfee", "incrementalfee", "networkactive", "connections"]
            .iter()
            .all(|name| ours[name] == theirs[name])
}

/// Compares two answers of `getchainstates`.
fn are_same_chainstates(ours: &mut Value, theirs: &mut Value) -> bool {
    let fields = ["verificationprogress", "coins_db_cache_bytes", "coins_tip_cache_bytes"];
    let [mut ours_alone, mut theirs_alone] =
        [&mut *ours, &mut *theirs].map(|all| all["chainstates"][0].take());
    are_same_without(&fields, &mut ours_alone, &mut theirs_alone) && ours == theirs
}

/// Compares two objects without some of their fields, which they both must have.
fn are_same_without(fields: &[&str], ours: &mut Value, theirs: &mut Value) -> bool {
    let mut take = |field: &&str| {
        let ours = ours.as_object_mut().unwrap().shift_remove(*field);
        ours.is_some() && theirs.as_object_mut().unwrap().shift_remove(*field).is_some()
    };
    fields.iter().all(&mut take) && ours == theirs
}

fn is_known_of_rest(path: &str, ours: &Reply, theirs: &Reply) -> bool {
    if path.starts_with("chaininfo") && ours.status == 200 && theirs.status == 200 {
        let parse = |reply: &Reply| serde_json::from_slice::<Value>(&reply.body).unwrap();
        return is_same_info(&mut parse(ours), &mut parse(theirs));
    }
    false
}

/// Records what bitcoind answers to these calls, stops it, and compares. Returns the replies.
pub fn compare_calls(daemon: Daemon, world: &World, calls: Vec<Request>) -> Vec<String> {
    let recorded: Recorded = calls.into_iter().map(|it| ask(&daemon.client, it)).collect();
    daemon.stop();
    let (_server, client) = serve(&world.at_rest());
    assert_same(&client, &recorded);
    let body = |reply: &Reply| String::from_utf8_lossy(&reply.body).into_owned();
    recorded.iter().map(|(_, reply)| body(reply)).collect()
}

/// Records what bitcoind answers about the directory of `world`, stops it, and compares.
pub fn compare(program: &Path, world: &World, chain: &str, sample: &[usize]) {
    let daemon = Daemon::start(program, &world.datadir(), chain, &world.options);
    let tip = daemon.client.must("getbestblockhash", &json!([]));
    assert_eq!(tip, world.tip().to_string());
    if let Some(stray) = &world.stray {
        daemon.client.must("submitheader", &json!([hex(&stray[..80])]));
    }
    let recorded = record(&daemon.client, world, sample);
    daemon.stop();
    let (_server, client) = serve(&world.at_rest());
    assert_same(&client, &recorded);
}
