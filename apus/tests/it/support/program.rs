//! The program `apus` as its users run it: started, signalled, and held to what it prints.

use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Place;

/// The program, without arguments.
pub fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("apus"))
}

/// The program with these arguments, on the data directory and the network of `place`.
pub fn program_on(place: &Place, args: &[&str]) -> Command {
    let mut command = program();
    command.args(args).args(["--chain", place.network.chain.name()]);
    command.arg("--datadir").arg(place.datadir());
    command
}

/// The output of [`program_on`], run to its end.
pub fn apus(place: &Place, args: &[&str]) -> Output {
    program_on(place, args).output().unwrap()
}

/// Starts a command with its standard output in a pipe and its standard error discarded.
pub fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Panics unless the program ended with this exit status, without a panic, and standard error
/// holds all of the words.
#[track_caller]
pub fn assert_ends(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}
