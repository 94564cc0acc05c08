//! What is odd around a directory while a command runs: the clock, the mount, the room on the disk.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::Place;
use crate::support::clock::with_clock;
use crate::support::mounts::may_mount;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surroundings {
    Usual,
    /// The clock says that it is 2001.
    ClockBehind,
    /// The data directory is mounted read-only.
    ReadOnly,
    /// Not a byte is free on the disk of the data directory.
    DiskFull,
}

/// Midnight of the first of January 2001, in seconds since 1970.
const BEFORE_ALL_BLOCKS: i64 = 978_307_200;

/// Mounts the data directory `$0` read-only, and runs the arguments.
const READ_ONLY: &str = r#"
    mount --bind "$0" "$0"
    mount -o remount,ro,bind "$0" "$0"
    [ -w "$0" ] && exit 97
    exec "$@"
"#;

/// Moves the data directory `$0` to a disk of its own, fills it, runs the arguments, and leaves
/// what the disk holds then in `$0.after`.
const DISK_FULL: &str = r#"
    mkdir "$0.before" "$0.after"
    cp -a "$0/." "$0.before"
    mount -t tmpfs -o size=16m none "$0"
    cp -a "$0.before/." "$0"
    rm -r "$0.before"
    head -c 1G /dev/zero > "$0/filler" 2> /dev/null || true
    [ "$(stat --file-system --format %a "$0")" = 0 ] || exit 97
    # A signal to end goes to the whole process group.
    trap : TERM
    "$@" && ended=0 || ended=$?
    rm "$0/filler"
    cp -a "$0/." "$0.after"
    exit $ended
"#;

impl Surroundings {
    /// Those that can be made here.
    pub fn all() -> &'static [Self] {
        let all = &[Self::Usual, Self::ClockBehind, Self::ReadOnly, Self::DiskFull];
        if may_mount() { all } else { &all[..2] }
    }

    /// Runs a command on the directory of `place` to its end; one that serves gets SIGTERM once
    /// it does.
    pub fn run(self, place: &Place, mut command: Command) -> Output {
        let datadir = place.datadir();
        let output = match self {
            Self::Usual => to_its_end(command),
            Self::ClockBehind => {
                with_clock(&mut command, BEFORE_ALL_BLOCKS);
                to_its_end(command)
            }
            Self::ReadOnly => to_its_end(mounted(READ_ONLY, &datadir, &command)),
            Self::DiskFull => {
                let output = to_its_end(mounted(DISK_FULL, &datadir, &command));
                std::fs::remove_dir_all(&datadir).unwrap();
                std::fs::rename(datadir.with_extension("after"), &datadir).unwrap();
                output
            }
        };
        assert_ne!(output.status.code(), Some(97), "{self:?} are not made: {output:?}");
        output
    }
}

/// Returns a command that runs another one by a script, with mounts that nothing else sees.
fn mounted(script: &str, datadir: &Path, command: &Command) -> Command {
    let mut mounted = Command::new("unshare");
    mounted.args(["--map-root-user", "--mount", "sh", "-e", "-c", script]);
    mounted.arg(datadir).arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        mounted.current_dir(directory);
    }
    mounted
}

/// Runs a command and returns its output. Once it says that it serves, it gets SIGTERM.
fn to_its_end(mut command: Command) -> Output {
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut stderr = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).split(b'\n') {
        let line = line.unwrap();
        if String::from_utf8_lossy(&line).contains("serving blocks on ") {
            kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
        }
        stderr.extend([&line[..], b"\n"].concat());
    }
    Output { status: child.wait().unwrap(), stdout: reading.join().unwrap(), stderr }
}
