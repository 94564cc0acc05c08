//! Small disks, overlays and read-only mounts that only one test can see.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use super::note_skipped;
use super::program::{stderr, stdout};

/// Runs a shell script in `dir` that may mount file systems; it ends at the first command that
/// fails. `$apus` is the program, and `variables` are further names with paths.
///
/// Returns `None` if processes of this user cannot mount anything, and prints the reason.
pub fn run_with_mounts(dir: &Path, variables: &[(&str, &Path)], script: &str) -> Option<Output> {
    if !may_mount() {
        note_skipped("`unshare --map-root-user --mount` and `mount` do not work here");
        return None;
    }
    let variables = variables.iter().copied();
    Some(in_own_namespace(script).current_dir(dir).envs(variables).output().unwrap())
}

/// The environment variable with the directory of a small disk.
const SMALL: &str = "APUS_TEST_SMALL_DISK";

/// Runs the ignored test `name` in a process of its own with a small disk of `mib` MiB, and panics
/// unless it passes. If processes of this user cannot mount anything, does nothing and says so.
pub fn run_on_small_disk(mib: u32, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    let child = std::env::current_exe().unwrap();
    let script = format!(
        "mkdir small; mount -t tmpfs -o size={mib}m none small
        $child --ignored --exact {name}"
    );
    let variables = [(SMALL, small.as_path()), ("child", child.as_path())];
    let Some(output) = run_with_mounts(dir.path(), &variables, &script) else { return };
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}

/// Returns the small disk of a process that [`run_on_small_disk`] has started.
pub fn small_disk() -> Option<PathBuf> {
    std::env::var_os(SMALL).map(PathBuf::from)
}

/// Returns whether a process can mount a file system that only it can see.
pub fn may_mount() -> bool {
    static MAY_MOUNT: OnceLock<bool> = OnceLock::new();
    *MAY_MOUNT.get_or_init(|| {
        let status = in_own_namespace("mount -t tmpfs none /mnt").stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

fn in_own_namespace(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-e", "-c", script]);
    command.env("apus", super::program::program().get_program());
    command
}
