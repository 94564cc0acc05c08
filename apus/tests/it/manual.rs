//! Manual pages and completions: every command and every option is in them.

use std::collections::BTreeSet;

use apus_wire::Chain;

use crate::support::Place;
use crate::support::program::{assert_ends, program, stdout};

/// The commands, by the words after `apus`.
const COMMANDS: [&str; 37] = [
    "",
    "init",
    "doctor",
    "sync",
    "reindex",
    "rewind",
    "index",
    "prune",
    "serve",
    "status",
    "verify",
    "prove",
    "txoutset",
    "txoutset info",
    "hints",
    "hints create",
    "hints info",
    "hints convert",
    "hints compress",
    "snapshot",
    "snapshot create",
    "snapshot info",
    "snapshot load",
    "shard",
    "shard plan",
    "shard read",
    "shard match",
    "shard check",
    "shard finish",
    "shard run",
    "shard todo",
    "shard export",
    "shard verify-export",
    "export",
    "demo",
    "completions",
    "man",
];

/// The long options and the commands that `--help` lists.
fn of_help(command: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let output = program().args(command.split_whitespace()).arg("--help").output().unwrap();
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    let name = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(word.len());
        word[..end].to_string()
    };
    let options = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let option = line.split_once("--").filter(|(short, _)| short.len() <= 4);
        option.filter(|_| line.starts_with('-')).map(|(_, long)| name(long))
    });
    let commands = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| line.starts_with("  "));
    let commands = commands.filter(|line| !line.starts_with("   ")).map(|line| name(line.trim()));
    let commands = commands.filter(|name| name != "help").collect();
    (options.collect(), commands)
}

#[test]
fn every_command_and_option_has_its_place() {
    let place = Place::new(Chain::Regtest);
    let dir = place.root().join("man");
    let written = program().arg("man").arg("--dir").arg(&dir).output().unwrap();
    assert_ends(&written, 0, &[]);
    let bash = program().args(["completions", "bash"]).output().unwrap();
    assert_ends(&bash, 0, &[]);
    let bash = stdout(&bash);
    let mut options_seen = 0;
    let mut pages = BTreeSet::new();
    for command in COMMANDS {
        let (options, commands) = of_help(command);
        let page = format!("apus {command}").trim().replace(' ', "-") + ".1";
        let text = std::fs::read_to_string(dir.join(&page)).unwrap().replace('\\', "");
        let printed = program().arg("man").args(command.split_whitespace()).output().unwrap();
        assert_ends(&printed, 0, &[]);
        assert_eq!(stdout(&printed).replace('\\', "").trim_end(), text.trim_end(), "{page}");
        for option in &options {
            assert!(text.contains(&format!("--{option}")), "{option} is not in {page}");
            assert!(bash.contains(&format!("--{option}")), "{option} of {page}");
            options_seen += 1;
        }
        for name in commands {
            assert!(bash.contains(&name), "{name}");
            assert!(COMMANDS.contains(&format!("{command} {name}").trim()), "{command} {name}");
        }
        pages.insert(page);
    }
    let written = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let written: BTreeSet<String> = written.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(written, pages);
    assert!(options_seen > 100, "{options_seen}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let output = program().args(["completions", shell]).output().unwrap();
        assert_ends(&output, 0, &[]);
        assert!(stdout(&output).contains("assumevalid"), "{shell}");
    }
    let wrong = program().args(["man", "snyc"]).output().unwrap();
    assert_ends(&wrong, 2, &["there is no command 'snyc'"]);
    assert_ends(&program().args(["completions", "tcsh"]).output().unwrap(), 2, &["bash"]);
}
