//! Limits of the system on tasks, files, memory and stack: a command that meets one works, or ends
//! with a sentence that names it, and what opened before opens afterwards.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use apus_wire::Chain;

use crate::support::program::{apus, assert_ends, program, stderr};
use crate::support::{Place, data, note_skipped};

/// A user without any process, since tasks are counted for each user.
fn nobody() -> u32 {
    61_000 + std::process::id() % 1_000
}

/// Runs the program as another user with a limit, as `prlimit` takes it.
fn limited(limit: &str, place: &Place, arguments: &[&str]) -> Output {
    let user = nobody();
    let mut limited = Command::new("prlimit");
    limited.args([limit, "setpriv", &format!("--reuid={user}"), &format!("--regid={user}")]);
    limited.arg("--clear-groups");
    limited.arg(program().get_program()).args(arguments);
    limited.args(["--chain=regtest", "--datadir"]).arg(place.datadir());
    limited.current_dir(place.root()).env("HOME", place.root()).output().unwrap()
}

/// Gives a directory and all that is in it to the user of [`limited`].
fn give(path: &Path) {
    chown(path, Some(nobody()), Some(nobody())).unwrap();
    if path.is_dir() {
        path.read_dir().unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// Returns a directory in which the first 100 blocks are connected, with all blocks in a file.
/// `None` if this user cannot run the program as another one.
fn begun(test: &str) -> Option<Place> {
    let place = Place::new(Chain::Regtest);
    let blocks = place.root().join("blocks.dat");
    std::fs::copy(data("regtest-1-206.dat"), blocks).unwrap();
    let from = place.root().join("blocks.dat");
    let from = from.to_str().unwrap();
    let synced = ["sync", "--quiet", "--connect=0", "--stopatheight=100", "--from", from];
    assert_ends(&apus(&place, &synced), 0, &[]);
    std::fs::set_permissions(place.root(), PermissionsExt::from_mode(0o755)).unwrap();
    if chown(place.root(), Some(nobody()), None).is_err() {
        note_skipped(test, "only root can run a program as another user");
        return None;
    }
    give(place.root());
    let output = limited("--nofile=100", &place, &["status"]);
    if output.status.code() != Some(0) {
        note_skipped(test, &format!("it cannot be run as another user: {}", stderr(&output)));
        return None;
    }
    Some(place)
}

const COMMANDS: [&[&str]; 12] = [
    &["sync", "--connect=0", "--par=8", "--from=blocks.dat", "--method=order"],
    &["sync", "--connect=0", "--par=8", "--from=blocks.dat", "--method=join"],
    &["reindex", "--par=8"],
    &["reindex", "--index", "--par=8"],
    &["verify", "--level=4", "--par=8"],
    &["hints", "create", "--output=h", "--force"],
    &["snapshot", "create", "--output=s"],
    &["index", "txindex"],
    &["rewind", "--height=90"],
    &["prune", "--height=1"],
    &["doctor", "--read-only"],
    &["init", "--lan=0"],
];

/// Runs each command with each limit. What ends with an error must name what to do.
fn assert_named(limits: &[&str], words: &[&str], begun: &Place) {
    for limit in limits {
        for arguments in COMMANDS {
            let place = begun.copy();
            let blocks = begun.root().join("blocks.dat");
            std::fs::copy(blocks, place.root().join("blocks.dat")).unwrap();
            std::fs::set_permissions(place.root(), PermissionsExt::from_mode(0o755)).unwrap();
            give(place.root());
            let output = limited(limit, &place, arguments);
            let text = stderr(&output);
            let shown = format!("prlimit {limit}; {arguments:?}: {text}");
            assert!(!text.contains("panicked") && !text.contains("backtrace"), "{shown}");
            match output.status.code() {
                Some(0) => {}
                // To prune takes a longer chain.
                Some(1) if text.contains("too short to be pruned") => {}
                Some(1) => assert!(words.iter().any(|word| text.contains(word)), "{shown}"),
                code => panic!("{code:?}: {shown}"),
            }
            assert_ends(&apus(&place, &["status"]), 0, &[]);
        }
    }
}

/// One test, since tasks are counted for each user.
#[test]
fn each_limit_is_named() {
    let Some(place) = begun("each_limit_is_named") else { return };
    let tasks = ["--nproc=1", "--nproc=4", "--nproc=9", "--nproc=14"];
    assert_named(&tasks, &["allow more tasks (ulimit -u"], &place);
    assert_named(&["--nofile=8", "--nofile=14"], &["allow more open files (ulimit -n"], &place);
    assert_named(&["--fsize=8192"], &["allow larger files (ulimit -f"], &place);
    assert_named(&["--stack=65536"], &[], &place);
    let addresses = ["--as=46080000", "--as=61440000", "--as=81920000", "--as=100000000"];
    assert_named(&addresses, &["allow more memory (ulimit -v"], &place);
    // A soft limit is raised.
    let sync = ["sync", "--connect=0", "--par=8", "--from=blocks.dat", "--method=join"];
    assert_ends(&limited("--nofile=16:", &place, &sync), 0, &[]);
}
