//! `apus sync --then`: when the command is run, and that it owns the directory then. `crash.rs` has
//! an interrupted sync with it.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use crate::support::program::{assert_ends, program, stderr, stdout};
use crate::support::waiting::LIMIT;
use crate::support::{Place, data};
use apus_wire::Chain;

/// `apus sync` of a short chain, with `--then`.
fn sync(place: &Place, then: &str) -> Command {
    let mut command = program();
    command.args(["sync", "--chain=regtest", "--assumevalid=0", "--datadir"]).arg(place.datadir());
    command.arg("--from").arg(data("regtest-1-206.dat")).arg("--then").arg(then);
    command
}

#[test]
fn the_command_owns_the_directory() {
    let place = Place::new(Chain::Regtest);
    let apus = program().get_program().display().to_string();
    let datadir = place.datadir().display().to_string();
    // Both need the exclusive lock. The second is not a child of the first sync, but the same
    // process.
    let again = format!("'{apus}' reindex --quiet --chain=regtest --datadir='{datadir}'");
    let then = format!("{again} && echo owner $$");
    let child = sync(&place, &then).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    assert_ends(&output, 0, &[]);
    assert!(stdout(&output).ends_with(&format!("owner {id}\n")), "{}", stdout(&output));
}

#[test]
fn systemd_hears_from_the_sync_and_then_from_the_command() {
    let place = Place::new(Chain::Regtest);
    let socket = place.root().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(LIMIT)).unwrap();
    let apus = program().get_program().display().to_string();
    let datadir = place.datadir().display().to_string();
    let again = format!("exec '{apus}' sync --connect=0 --chain=regtest --datadir='{datadir}'");
    let child = sync(&place, &again).env("NOTIFY_SOCKET", &socket).spawn().unwrap();
    let mut told: Vec<String> = Vec::new();
    let mut buffer = [0; 1000];
    while told.iter().filter(|state| *state == "READY=1").count() < 2 {
        let read = systemd.recv(&mut buffer).unwrap();
        told.push(String::from_utf8_lossy(&buffer[..read]).trim_end().to_string());
    }
    assert_eq!(told[0], "READY=1");
    // The last message of the sync: the unit goes on, and nothing feeds its watchdog any more.
    let last = &told[told.len() - 2];
    assert_eq!(last, "WATCHDOG_USEC=0\nSTATUS=synced, and handed over", "{told:?}");
    assert!(told.iter().all(|state| !state.contains("STOPPING")), "{told:?}");
    assert_ends(&child.wait_with_output().unwrap(), 0, &[]);
}

#[test]
fn the_command_is_read_by_a_shell_and_its_status_counts() {
    let place = Place::new(Chain::Regtest);
    let kept = place.root().join("kept");
    let then = format!("printf '<%s>' \"a  b\" 'it''s' \"\\$HOME\" > '{}'; exit 7", kept.display());
    let output = sync(&place, &then).output().unwrap();
    assert_ends(&output, 7, &["Starting: printf"]);
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "<a  b><its><$HOME>");
    // A signal that a shell would pass on ends the command, since nothing of Apus is left.
    let output = sync(&place, "kill -TERM $$").output().unwrap();
    assert_eq!(output.status.code(), None, "{}", stderr(&output));
    let output = sync(&place, "no-such-program-of-anyone").arg("--quiet").output().unwrap();
    assert_ends(&output, 127, &["no-such-program-of-anyone"]);
    assert!(!stderr(&output).contains("Starting"), "{}", stderr(&output));
}

#[test]
fn the_command_is_run_only_after_success() {
    let place = Place::new(Chain::Regtest);
    let kept = place.root().join("kept");
    let then = format!("echo > '{}'", kept.display());
    let junk = place.root().join("junk");
    let blocks = std::fs::read(data("regtest-1-206.dat")).unwrap();
    std::fs::write(&junk, &blocks[..20_000]).unwrap();
    let refused = sync(&place, &then).arg("--from").arg(&junk).output().unwrap();
    assert_ends(&refused, 3, &["Not started, since some input was refused: echo"]);
    let missing = sync(&place, &then).args(["--from", "/no/such/file"]).output().unwrap();
    assert_ends(&missing, 1, &["/no/such/file"]);
    let wrong = sync(&place, &then).arg("--follow").output().unwrap();
    assert_ends(&wrong, 2, &["--then contradicts --follow"]);
    assert_ends(&sync(&place, "  ").output().unwrap(), 2, &["--then: the command is empty"]);
    assert!(!kept.exists());
}
