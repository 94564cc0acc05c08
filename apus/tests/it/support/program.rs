//! The program `apus` as its users run it: starts it, signals it, and checks what it prints.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use rustix::process::{Pid, Signal, kill_process};

use super::Place;
use super::waiting::LIMIT;

/// Returns the program, without arguments.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_apus"))
}

/// Returns the program with these arguments, on the data directory and the network of `place`.
pub fn program_on(place: &Place, args: &[&str]) -> Command {
    let mut command = program();
    command.args(args).args(["--chain", place.network.chain.name()]);
    command.arg("--datadir").arg(place.datadir());
    command
}

/// Returns a command that runs another one on two of the cores that this process may use. The
/// program starts threads for each core, whose stacks and buffers take memory.
pub fn on_two_cores(program: impl AsRef<OsStr>) -> Command {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cores = list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    });
    let two: Vec<String> = cores.take(2).map(|core| core.to_string()).collect();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &two.join(",")]).arg(program);
    command
}

/// Runs [`program_on`] to its end, and returns its output.
pub fn apus(place: &Place, args: &[&str]) -> Output {
    program_on(place, args).output().unwrap()
}

/// A test of this process's program, to be run in a process of its own, which finds `told` in the
/// environment variable.
pub fn other_process(test: &str, variable: &str, told: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test]).env(variable, told);
    command
}

/// Starts a command with its standard output in a pipe and its standard error discarded.
pub fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The lines that a process prints, as they come.
pub struct Lines(Receiver<String>);

impl Lines {
    /// The lines of one of its outputs, which is read until it is closed.
    pub fn of(output: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Without a listener, it is read so that the process need not wait.
                let _ = sender.send(line);
            }
        });
        Self(lines)
    }

    /// Waits for a line with all of these words; returns false if the output is closed before.
    ///
    /// # Panics
    /// Nothing comes for [`LIMIT`].
    #[track_caller]
    pub fn wait_for(&self, words: &[&str]) -> bool {
        loop {
            match self.0.recv_timeout(LIMIT) {
                Ok(line) if words.iter().all(|word| line.contains(word)) => return true,
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("not after {LIMIT:?}: {words:?}"),
            }
        }
    }
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

/// Panics unless the program ended with this exit status and without a panic, and standard error
/// holds all of the words.
#[track_caller]
pub fn assert_ends(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    assert_contains(&text, words);
}

/// Panics unless a text or an error's message holds all of the words.
#[track_caller]
pub fn assert_contains(text: &(impl ToString + ?Sized), words: &[&str]) {
    let text = text.to_string();
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}
