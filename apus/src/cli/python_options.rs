//! The options that functions of the Python package take: `python/apus/_options.py` follows from
//! the command line's.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Args, Command, CommandFactory};

use super::arguments::Cli;
use super::connect_args::ConnectArgs;
use super::log_args::LogArgs;
use super::server_args::ServerArgs;

const HEAD: &str = r#""""The options of commands, by their names on the command line.

A test of the program writes this file: APUS_WRITE_OPTIONS=1 cargo test -p apus --lib python_options
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Sequence, TypedDict, Union

if TYPE_CHECKING:
    from typing import Literal

"#;

const TYPES: &str = r#"
StrPath = Union[str, "os.PathLike[str]"]
Value = Union[str, float]
"#;

/// Arguments of the functions, and options that a program alone has: of what it prints, and the
/// program that replaces it.
const LEFT_OUT: [&str; 6] = ["from", "output", "json", "quiet", "debug", "then"];

/// A class of options: its name, the class that it extends, and its documentation.
type Class = (&'static str, &'static str, &'static str);

const CLASSES: [(Class, &str); 7] = [
    (
        (
            "DirectoryOptions",
            "ChainOptions",
            "The data directory and its network; the options of :func:`status`.",
        ),
        "status",
    ),
    (("ConnectOptions", "DirectoryOptions", "How blocks are checked and connected."), ""),
    (("SyncOptions", "ConnectOptions", "The options of :func:`sync`."), "sync"),
    (("ReindexOptions", "ConnectOptions", "The options of :func:`reindex`."), "reindex"),
    (("ProveOptions", "DirectoryOptions", "The options of :func:`prove`."), "prove"),
    (
        ("SnapshotOptions", "DirectoryOptions", "The options of :func:`create_snapshot`."),
        "snapshot create",
    ),
    (("HintsOptions", "DirectoryOptions", "The options of :func:`create_hints`."), "hints create"),
];

/// Returns the options that functions take of those of a command.
fn options_of(command: &Command) -> Vec<&Arg> {
    let of_program = ServerArgs::augment_args(LogArgs::augment_args(Command::new("program")));
    let options = command.get_arguments().filter(|option| {
        let is_of_program =
            of_program.get_arguments().any(|other| other.get_id() == option.get_id());
        let is_left_out = option.get_long().is_none_or(|name| LEFT_OUT.contains(&name));
        !option.is_hide_set() && !is_left_out && !is_of_program
    });
    options.collect()
}

fn python_name(option: &Arg) -> String {
    option.get_long().unwrap().replace('-', "_")
}

fn python_type(option: &Arg) -> String {
    let type_id = option.get_value_parser().type_id();
    let is = |other| type_id == other;
    let numbers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i64>(),
    ];
    let words = if option.get_long() == Some("chain") {
        ["main", "test", "testnet4", "signet", "regtest"].map(str::to_string).to_vec()
    } else {
        option.get_possible_values().iter().map(|value| value.get_name().to_string()).collect()
    };
    let one = if is_flag(option) {
        "bool".to_string()
    } else if !words.is_empty() {
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        format!("Literal[{}]", words.join(", "))
    } else if is(TypeId::of::<PathBuf>()) {
        "StrPath".to_string()
    } else if numbers.into_iter().any(is) {
        "int".to_string()
    } else {
        "Value".to_string()
    };
    match option.get_action() {
        ArgAction::Append => format!("Union[{one}, Sequence[{one}]]"),
        _ => one,
    }
}

/// Returns the short help of an option in the words of Python.
fn documentation(option: &Arg) -> String {
    let mut text = String::new();
    let help = option.get_help().unwrap().to_string();
    let help = help.replace("may be given many times", "may be a list");
    for (number, part) in help.split('`').enumerate() {
        // A command stays as it is.
        if number % 2 == 1 {
            write!(text, "`{part}`").unwrap();
            continue;
        }
        let mut words = part.split("--");
        text += words.next().unwrap();
        for word in words {
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && !"-=".contains(c));
            let (name, rest) = word.split_at(end.unwrap_or(word.len()));
            write!(text, "`{}`{rest}", name.replace('-', "_")).unwrap();
        }
    }
    if let Some((what, rest)) = text.split_once(" [default: ") {
        let (default, rest) = rest.split_once(']').unwrap();
        text = format!("{what}. Default: {default}{rest}");
    } else if let [default] = option.get_default_values()
        && !is_flag(option)
        // A program with checks compares the engines.
        && option.get_id() != "script_engine"
    {
        text = format!("{}. Default: {}", text.trim_end_matches('.'), default.display());
    }
    text.trim_end_matches('.').to_string() + "."
}

/// Returns whether an option takes no value, or 0 or 1 and may go without.
fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue) || option.is_require_equals_set()
}

/// Returns a text as a documentation string below a class or one of its members.
fn docstring(text: &str) -> String {
    const WIDTH: usize = 99;
    let mut all = String::from("    \"\"\"");
    let mut column = all.len();
    for (number, word) in text.split_whitespace().enumerate() {
        if column + word.len() + 1 > WIDTH - 3 {
            all += "\n    ";
            column = 4;
        } else if number > 0 {
            all += " ";
            column += 1;
        }
        all += word;
        column += word.len();
    }
    all + "\"\"\"\n"
}

fn class(text: &mut String, (name, base, about): Class, options: &[&Arg]) {
    write!(text, "\n\nclass {name}({base}, total=False):\n{}", docstring(about)).unwrap();
    let mut before = "\n";
    for option in options {
        let name = python_name(option);
        let kind = python_type(option);
        write!(text, "{before}    {name}: {kind}\n{}", docstring(&documentation(option))).unwrap();
        before = "";
    }
}

fn python_options() -> String {
    let program = Cli::command();
    let command = |words: &str| match words {
        "" => ConnectArgs::augment_args(Command::new("connect")),
        words => words
            .split(' ')
            .fold(program.clone(), |above, word| above.find_subcommand(word).unwrap().clone()),
    };
    let mut text = HEAD.to_string();
    let mut names: Vec<&str> = CLASSES.iter().map(|((name, ..), _)| *name).collect();
    names.push("ChainOptions");
    names.sort_unstable();
    writeln!(text, "__all__ = [").unwrap();
    names.iter().for_each(|name| writeln!(text, "    {name:?},").unwrap());
    writeln!(text, "]\n{}", TYPES.trim_end()).unwrap();

    let directory = command("status");
    let mut of_chain = options_of(&directory);
    of_chain.retain(|option| option.get_long() != Some("datadir"));
    let about = "The options of :class:`Chain`. Settings of bitcoin.conf and settings.json apply \
                 as on the command line.";
    class(&mut text, ("ChainOptions", "TypedDict", about), &of_chain);
    let mut known = vec![("ChainOptions", names_of(&of_chain))];
    let mut switches = Vec::new();
    for (described, words) in CLASSES {
        let (name, base, _) = described;
        let command = command(words);
        let mut options = options_of(&command);
        let flags = options.iter().filter(|option| option.is_require_equals_set());
        switches.extend(flags.map(|option| python_name(option)));
        let all = names_of(&options);
        let inherited = &known.iter().find(|(known, _)| *known == base).unwrap().1;
        options.retain(|option| !inherited.contains(&python_name(option)));
        class(&mut text, described, &options);
        known.push((name, all));
    }
    switches.sort_unstable();
    switches.dedup();
    text += "\n\n# Options of which False is said aloud: a settings file may have turned them on.\n\
             SWITCHES = {\n";
    switches.iter().for_each(|name| writeln!(text, "    {name:?},").unwrap());
    text + "}\n"
}

fn names_of(options: &[&Arg]) -> Vec<String> {
    options.iter().map(|option| python_name(option)).collect()
}

#[test]
fn options_of_python_are_those_of_the_command_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/apus/_options.py");
    let expected = python_options();
    if std::env::var_os("APUS_WRITE_OPTIONS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{} is not what the command line says: {differs:?}. Its first lines say how to write it",
        path.display()
    );
}
