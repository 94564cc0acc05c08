//! Settings files: bitcoind's own verdict on each case that Apus is held to.

use std::path::Path;
use std::process::Command;

use super::daemon::program_in;
use crate::printed::for_each_next;
use crate::support::conf_cases::{assert_verdict, for_each_case};

/// An option that bitcoind looks at after all others; with it, it ends before it connects to
/// anything.
const LAST: &str = "-externalip=";

/// What bitcoind says of the settings of a directory: its error, or its warnings about names,
/// sections and includes.
fn verdict(bitcoind: &Path, dir: &Path, args: &[&str]) -> Result<Vec<String>, String> {
    let mut command = Command::new(bitcoind);
    command.arg(format!("-datadir={}", dir.display())).args(["-server=0", LAST]).args(args);
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stdout);
    let text = String::from_utf8_lossy(&output.stderr);
    if !text.contains("Cannot resolve -externalip") {
        return Err(format!("{text} {log}"));
    }
    let is_about_names = |line: &&str| {
        ["Ignoring unknown", "is not recognized", "ignoring -includeconf"]
            .iter()
            .any(|words| line.contains(words))
    };
    let lines = log.lines().chain(text.lines());
    Ok(lines.filter(is_about_names).map(str::to_string).collect())
}

#[test]
fn settings_mean_to_core_what_the_table_says() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    for_each_case(|dir, args, expected| {
        let found = verdict(&bitcoind, dir, args);
        assert_verdict(expected, found, dir, &args.join(" "));
    });
}

#[test]
fn bitcoind_takes_the_command_that_a_report_names() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    for_each_next(|home, next| {
        let output =
            home.run_printed(next, &format!("-server=0 {LAST}"), bitcoind.parent().unwrap());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("Cannot resolve -externalip"), "{next}: {text}");
        let log = std::fs::read_to_string(home.network_dir().join("debug.log")).unwrap();
        assert!(log.contains("Bitcoin Core version"), "{next} starts elsewhere");
    });
}
