//! Limits of the system on tasks, files, memory and stack: a command that meets one works, or ends
//! with a sentence that names it, and what opened before opens afterwards.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use apus_wire::Chain;

use crate::support::program::{apus, assert_ends, on_two_cores, program, stderr, stdout};
use crate::support::{Place, data, note_skipped};

/// A user without any process for each directory, since tasks are counted for each user.
fn owner(place: &Place) -> u32 {
    std::fs::metadata(place.root()).unwrap().uid()
}

/// Runs the program on two cores, as the owner of the directory, with a limit, as `prlimit` takes
/// it.
fn limited(limit: &str, place: &Place, arguments: &[&str]) -> Output {
    let user = owner(place);
    let mut limited = on_two_cores("prlimit");
    limited.args([limit, "setpriv", &format!("--reuid={user}"), &format!("--regid={user}")]);
    limited.arg("--clear-groups");
    limited.arg(program().get_program()).args(arguments);
    limited.args(["--chain=regtest", "--datadir"]).arg(place.datadir());
    limited.current_dir(place.root()).env("HOME", place.root()).output().unwrap()
}

/// Gives a directory and all that is in it to a user.
fn give(path: &Path, user: u32) -> std::io::Result<()> {
    chown(path, Some(user), Some(user))?;
    if path.is_dir() {
        path.read_dir()?.try_for_each(|entry| give(&entry?.path(), user))?;
    }
    Ok(())
}

/// Gives a place to another user of each test; false if this user cannot run the program as
/// another one.
fn given(place: &Place, number: u32) -> bool {
    std::fs::set_permissions(place.root(), PermissionsExt::from_mode(0o755)).unwrap();
    if give(place.root(), 61_000 + 1_000 * number + std::process::id() % 1_000).is_err() {
        note_skipped("only root can run a program as another user");
        return false;
    }
    let output = limited("--nofile=100", place, &["sync", "--help"]);
    if output.status.code() != Some(0) {
        note_skipped(&format!("it cannot be run as another user: {}", stderr(&output)));
        return false;
    }
    true
}

/// Returns a directory in which the first 100 blocks are connected, with all blocks in a file.
/// `None` if this user cannot run the program as another one.
fn begun() -> Option<Place> {
    let place = Place::new(Chain::Regtest);
    let blocks = place.root().join("blocks.dat");
    std::fs::copy(data("regtest-1-206.dat"), blocks).unwrap();
    let from = place.root().join("blocks.dat");
    let from = from.to_str().unwrap();
    let synced = ["sync", "--quiet", "--connect=0", "--stopatheight=100", "--from", from];
    assert_ends(&apus(&place, &synced), 0, &[]);
    given(&place, 0).then_some(place)
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

/// The address space that the program asks for, in MiB.
const ADDRESS_SPACE_MIN: u64 = 96;

/// Returns the least address space in which the system starts the program, in MiB.
fn least_address_space(place: &Place) -> u64 {
    // 127: the system could not map its code or its libraries.
    let starts = |mib: &u64| {
        let output = limited(&format!("--as={}", mib << 20), place, &["sync", "--help"]);
        output.status.code().is_some_and(|code| code != 127)
    };
    (8..ADDRESS_SPACE_MIN).find(starts).expect("the program starts in less than it asks for")
}

/// Runs each command with each limit. What ends with an error must name what to do.
fn assert_named(limits: &[&str], words: &[&str], begun: &Place) {
    for limit in limits {
        for arguments in COMMANDS {
            let place = begun.copy();
            let blocks = begun.root().join("blocks.dat");
            std::fs::copy(blocks, place.root().join("blocks.dat")).unwrap();
            std::fs::set_permissions(place.root(), PermissionsExt::from_mode(0o755)).unwrap();
            give(place.root(), owner(begun)).unwrap();
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
    let Some(place) = begun() else { return };
    let tasks = ["--nproc=1", "--nproc=4", "--nproc=9", "--nproc=14"];
    assert_named(&tasks, &["allow more tasks (ulimit -u"], &place);
    assert_named(&["--nofile=8", "--nofile=14"], &["allow more open files (ulimit -n"], &place);
    assert_named(&["--fsize=8192"], &["allow larger files (ulimit -f"], &place);
    assert_named(&["--stack=65536"], &[], &place);
    let least = least_address_space(&place);
    for mib in [least, (least + ADDRESS_SPACE_MIN) / 2, ADDRESS_SPACE_MIN - 1] {
        let addresses = format!("--as={}", mib << 20);
        assert_named(&[&addresses], &["allow more memory (ulimit -v"], &place);
    }
    // A soft limit is raised.
    let sync = ["sync", "--connect=0", "--par=8", "--from=blocks.dat", "--method=join"];
    assert_ends(&limited("--nofile=16:", &place, &sync), 0, &[]);
}

/// Not even whether it has a bitcoin.conf can be known.
#[test]
fn a_directory_of_another_user_is_no_wrong_option() {
    let place = Place::new(Chain::Regtest);
    if !given(&place, 3) {
        return;
    }
    std::fs::create_dir_all(place.datadir()).unwrap();
    std::fs::set_permissions(place.datadir(), PermissionsExt::from_mode(0o700)).unwrap();
    chown(place.datadir(), Some(owner(&place) + 1), None).unwrap();
    for command in [&["status", "--json"][..], &["sync", "--connect=0", "--json"]] {
        let output = limited("--nofile=100", &place, command);
        let words = "bitcoin.conf: cannot read the configuration file: Permission denied";
        assert_ends(&output, 1, &[words, "belongs to user", "sudo "]);
        assert!(stdout(&output).contains(r#""kind":"disk""#), "{}", stdout(&output));
    }
}

/// Syncs a chain of some megabytes with each limit, which ends the work anywhere or not at all, and
/// then without limit.
fn assert_continues(number: u32, is_join: bool) {
    let world = crate::pruned::world();
    let base = world.place();
    base.write("blocks", &world.blocks);
    world.write_hints(&base, world.height());
    if !given(&base, number) {
        return;
    }
    let limits = [
        ("--nofile=22", "allow more open files (ulimit -n"),
        ("--nproc=9", "allow more tasks (ulimit -u"),
        ("--fsize=65536", "allow larger files (ulimit -f"),
        ("--fsize=1500000", "allow larger files (ulimit -f"),
        ("--as=150000000", "allow more "),
        ("--stack=65536", "(ulimit -s"),
    ];
    let hints = format!("--hints={}.hints", world.height());
    let method = if is_join { "--method=join" } else { &hints };
    let valid = format!("--assumevalid={}", world.tip());
    let sync = ["sync", "--connect=0", "--par=4", "--from=blocks", &valid, method];
    for (limit, words) in limits {
        let place = world.place();
        for file in base.root().read_dir().unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(file.path(), place.root().join(file.file_name())).unwrap();
        }
        std::fs::set_permissions(place.root(), PermissionsExt::from_mode(0o755)).unwrap();
        give(place.root(), owner(&base)).unwrap();
        let output = limited(limit, &place, &sync);
        let text = stderr(&output);
        let shown = format!("prlimit {limit}: {text}");
        assert!(!text.contains("panicked") && !text.contains("backtrace"), "{shown}");
        match output.status.code() {
            Some(0) => {}
            Some(1) => assert!(text.contains(words), "{shown}"),
            code => panic!("{code:?}: {shown}"),
        }
        let ended = limited("--nofile=1000", &place, &sync);
        let tip = world.tip().to_string();
        assert_ends(&ended, 0, &[]);
        assert!(stdout(&ended).contains(&tip), "{shown}, then {}", stdout(&ended));
    }
}

#[test]
fn a_join_that_meets_a_limit_is_continued() {
    assert_continues(1, true);
}

#[test]
fn a_swiftsync_that_meets_a_limit_is_continued() {
    assert_continues(2, false);
}
