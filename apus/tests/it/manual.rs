//! Manual pages and completions: every command and every option is in them.

use std::collections::BTreeSet;

use apus_wire::Chain;

use crate::support::program::{assert_ends, program, stdout};
use crate::support::{Place, commands};

/// The long options that `--help` lists.
fn options_of(command: &str) -> BTreeSet<String> {
    let output = program().args(command.split_whitespace()).arg("--help").output().unwrap();
    assert_ends(&output, 0, &[]);
    let text = stdout(&output);
    let name = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(word.len());
        word[..end].to_string()
    };
    let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let options = lines.filter_map(|line| {
        let option = line.split_once("--").filter(|(short, _)| short.len() <= 4);
        option.map(|(_, long)| name(long))
    });
    options.collect()
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
    for command in commands::of_help() {
        let options = options_of(&command);
        let page = format!("apus {command}").trim().replace(' ', "-") + ".1";
        let text = std::fs::read_to_string(dir.join(&page)).unwrap().replace('\\', "");
        let lines: Vec<&str> = text.lines().collect();
        for entry in lines.windows(3).filter(|lines| lines[0] == ".TP") {
            let is_text = entry[2].starts_with(|c: char| c.is_alphanumeric() || c == '`');
            assert!(is_text, "{page} has no text for {}", entry[1]);
        }
        let printed = program().arg("man").args(command.split_whitespace()).output().unwrap();
        assert_ends(&printed, 0, &[]);
        assert_eq!(stdout(&printed).replace('\\', "").trim_end(), text.trim_end(), "{page}");
        for option in &options {
            assert!(text.contains(&format!("--{option}")), "{option} is not in {page}");
            assert!(bash.contains(&format!("--{option}")), "{option} of {page}");
            options_seen += 1;
        }
        assert!(bash.contains(command.split(' ').next_back().unwrap()), "{command}");
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
