//! The commands of the program, and what each does with a data directory.

use super::program::{assert_ends, program, stdout};

/// What a command does with the data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// Reads a synced directory, writes nothing to it, and ends.
    Reads,
    /// Reads a synced directory until it is stopped.
    Serves,
    /// Changes a synced directory.
    Changes,
    /// Makes the directory if there is none.
    Makes,
    /// Takes a file first, or looks at whatever there is, or uses no data directory.
    Other,
}

use Does::{Changes, Makes, Other, Reads, Serves};

/// Each command, what it does, and arguments that a synced directory allows. Files are written to
/// the working directory.
const COMMANDS: [(&str, Does, &[&str]); 32] = [
    ("init", Other, &[]),
    ("doctor", Other, &[]),
    ("sync", Makes, &[]),
    ("reindex", Changes, &["--server", "--rpcport=1"]),
    ("rewind", Changes, &["--height=1"]),
    ("index", Changes, &["txindex"]),
    ("prune", Changes, &["--height=1"]),
    ("serve", Serves, &["--rpcport=1", "--port=0"]),
    ("status", Reads, &[]),
    ("verify", Reads, &[]),
    ("prove", Other, &[]),
    ("txoutset info", Reads, &["--hash=muhash"]),
    ("hints create", Reads, &["--output=hints"]),
    ("hints info", Other, &[]),
    ("hints convert", Other, &[]),
    ("hints compress", Other, &[]),
    ("snapshot create", Reads, &["--output=snapshot"]),
    ("snapshot info", Other, &[]),
    ("snapshot load", Makes, &[]),
    ("shard plan", Other, &[]),
    ("shard read", Other, &[]),
    ("shard match", Other, &[]),
    ("shard check", Other, &[]),
    ("shard finish", Other, &[]),
    ("shard run", Other, &[]),
    ("shard todo", Other, &[]),
    ("shard export", Other, &[]),
    ("shard verify-export", Other, &[]),
    ("export", Reads, &["coins", "--output=coins.csv"]),
    ("demo", Other, &[]),
    ("completions", Other, &[]),
    ("man", Other, &[]),
];

/// Returns the commands that do one of these, with their arguments.
pub fn that(does: &[Does]) -> Vec<Vec<&'static str>> {
    let those = COMMANDS.iter().filter(|(_, what, _)| does.contains(what));
    those.map(|(name, _, args)| name.split(' ').chain(args.iter().copied()).collect()).collect()
}

/// Returns the names of all commands that help lists, by the words after `apus`; the program itself
/// has the empty name. Those that have commands of their own are among them.
pub fn of_help() -> Vec<String> {
    let mut names = vec![String::new()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        let below = below(&name);
        names.extend(below.iter().map(|below| format!("{name} {below}").trim().to_string()));
        next += 1;
    }
    names
}

fn below(command: &str) -> Vec<String> {
    let output = program().args(command.split_whitespace()).arg("--help").output().unwrap();
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap_or_default());
    names.filter(|name| *name != "help").map(str::to_string).collect()
}

/// A command that is missing here would be left out of the tests of all commands.
#[test]
fn every_command_is_listed_with_what_it_does() {
    let all = of_help();
    let has_below = |name: &str| all.iter().any(|other| other.starts_with(&format!("{name} ")));
    let own = all.iter().filter(|name| !name.is_empty() && !has_below(name));
    let mut own: Vec<&str> = own.map(String::as_str).collect();
    let mut listed = COMMANDS.map(|(name, ..)| name);
    own.sort_unstable();
    listed.sort_unstable();
    assert_eq!(own, listed);
}
