//! A message that names a command is a promise: from the state in which it was printed, the
//! commands that it names lead to a whole directory, in at most two steps.

use std::process::{Command, Output};

use super::damages::{DAMAGES, Damage};
use super::{HEIGHT, copy_of_whole, usable};
use crate::support::Place;
use crate::support::program::{apus, stderr, stdout};

/// The most commands that a repair of one damage may take.
const STEPS_MAX: usize = 2;

/// The most commands that a repair of two damages may take.
const STEPS_MAX_OF_TWO: usize = 4;

/// Damages of which the remedy of one needs what the other has damaged.
const PAIRS: [[&str; 2]; 7] = [
    ["a bit of a block file", "chainstate without CURRENT"],
    ["a bit of a block file", "last undo file missing"],
    ["a bit of a block file", "index without CURRENT"],
    ["a block file missing", "chainstate with a bad table"],
    ["a block file missing", "last undo file missing"],
    ["first block file missing", "chainstate without CURRENT"],
    ["chainstate missing", "index with a bad table"],
];

/// Commands after which a message is read.
const BEGINNINGS: [&[&str]; 6] = [
    &["sync", "--connect=0", "--checkblocks=0"],
    &["reindex"],
    &["reindex", "--index"],
    &["status"],
    &["txoutset", "info"],
    &["verify", "--level=3", "--blocks=0"],
];

/// What a message tells the user to do.
#[derive(Debug, PartialEq)]
enum Step {
    /// Run this command.
    Run(Vec<String>),
    /// Remove this file, and run the same command.
    Remove(String),
    /// Run this line in a shell, and then the same command.
    Shell(String),
    /// What only the user can do: mount a disk, put a file back, edit a file.
    ByHand,
}

/// Reads the first command in backquotes that a message names, or what else it says.
fn step(place: &Place, text: &str) -> Step {
    let path = |name: &str| place.root().join(name).to_str().unwrap().to_string();
    let to_remove = text.split_whitespace().zip(text.split_whitespace().skip(1));
    if text.contains("remove this file, and run the same command") {
        let file = text.split("Error: ").last().unwrap().split(": ").next().unwrap();
        return Step::Remove(file.to_string());
    }
    if let Some((_, path)) =
        to_remove.clone().find(|(word, path)| *word == "remove" && path.starts_with('/'))
    {
        return Step::Remove(path.trim_end_matches([',', ';', ':']).to_string());
    }
    let line = text.split('`').find(|command| command.starts_with("mkdir "));
    if let Some(line) = line {
        return Step::Shell(line.to_string());
    }
    let by_hand =
        ["mounted", "--blocksdir", "put it back", "put the file back", "edit", "settings.json"];
    if by_hand.iter().any(|words| text.contains(words)) {
        return Step::ByHand;
    }
    let named =
        text.split('`').skip(1).step_by(2).find_map(|command| command.strip_prefix("apus "));
    let Some(named) = named else { return Step::ByHand };
    let mut args: Vec<String> = named.split_whitespace().map(str::to_string).collect();
    if args == ["sync"] && text.contains("`apus sync` fetches them") {
        args.push("--from".to_string());
    }
    if args.last().is_some_and(|last| last == "--from") {
        args.push(path("all"));
    }
    if args[0] == "sync" {
        args.push("--connect=0".to_string());
    }
    Step::Run(args)
}

fn run(place: &Place, args: &[String]) -> Output {
    apus(place, &args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Follows the messages from `first` on. Returns what is wrong, if they do not lead out in
/// `steps_max` steps.
fn follow(place: &Place, first: &[&str], steps_max: usize) -> Option<String> {
    let mut args: Vec<String> = first.iter().map(|arg| (*arg).to_string()).collect();
    let mut said = Vec::new();
    loop {
        let output = run(place, &args);
        let text = stdout(&output) + &stderr(&output);
        if output.status.success() && !text.contains("`apus ") {
            break;
        }
        if said.len() > steps_max {
            return Some(format!("more than {steps_max} steps: {said:#?}"));
        }
        if said.contains(&text) {
            return Some(format!("the same message again: {text}"));
        }
        match step(place, &text) {
            Step::Run(next) => args = next,
            Step::Remove(path) => {
                let path = std::path::Path::new(&path);
                if path.is_dir() {
                    std::fs::remove_dir_all(path).unwrap();
                } else if path.exists() {
                    std::fs::remove_file(path).unwrap();
                } else {
                    return Some(format!("what to remove is not there: {text}"));
                }
            }
            Step::Shell(line) => {
                let ran = Command::new("sh").args(["-c", &line]).status().unwrap();
                assert!(ran.success(), "{line}");
            }
            Step::ByHand => return None,
        }
        said.push(text);
    }
    match usable(place) {
        Some(now) if now.height as usize >= HEIGHT => {
            // What a sync has repaired is enough for the index, too.
            let again = (first.last() == Some(&"--index")).then(|| apus(place, first))?;
            let is_done = again.status.success() || again.status.code() == Some(3);
            (!is_done).then(|| format!("{} after {said:#?}", stderr(&again)))
        }
        now => Some(format!("ends at {:?} after {said:#?}", now.map(|now| now.height))),
    }
}

/// The directory into which the index is to be moved may be missing.
#[test]
fn the_command_that_moves_an_index_works() {
    for is_there in [false, true] {
        let place = copy_of_whole();
        let moved = place.root().join("other disk/regtest/blocks");
        std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
        let blocks = place.network_dir().join("blocks");
        std::fs::rename(&blocks, &moved).unwrap();
        if is_there {
            std::fs::create_dir_all(blocks.join("index")).unwrap();
        }
        let other = place.root().join("other disk");
        let first = ["sync", "--connect=0", "--blocksdir", other.to_str().unwrap()];
        let fault = follow(&place, &first, STEPS_MAX);
        assert!(apus(&place, &first).status.success(), "{is_there}: {fault:?}");
    }
}

/// Panics if messages do not lead out of states with all these damages.
fn lead_out(
    cases: impl IntoIterator<Item = Vec<&'static Damage>>,
    beginnings: &[&[&str]],
    steps_max: usize,
) {
    let mut faults = Vec::new();
    for damages in cases {
        for first in beginnings {
            let place = copy_of_whole();
            damages.iter().for_each(|damage| (damage.apply)(&place));
            if let Some(fault) = follow(&place, first, steps_max) {
                let names: Vec<&str> = damages.iter().map(|damage| damage.name).collect();
                faults.push(format!("{}, {first:?}: {fault}", names.join(" and ")));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_named_command_leads_out() {
    lead_out(DAMAGES.iter().map(|damage| vec![damage]), &BEGINNINGS, STEPS_MAX);
}

#[test]
fn every_named_command_leads_out_of_two_damages() {
    let named = |name| DAMAGES.iter().find(|damage| damage.name == name).expect(name);
    // All commands but the first three name what these name.
    let beginnings = &BEGINNINGS[..3];
    lead_out(PAIRS.iter().map(|pair| pair.map(named).to_vec()), beginnings, STEPS_MAX_OF_TWO);
}
