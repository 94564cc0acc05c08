//! Small disks, overlays and read-only mounts for one test, which the rest of the machine does
//! not see.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use super::note_skipped;

/// Runs a shell script in `dir` that may mount file systems; it ends at the first command that
/// fails. `$apus` is the program, and `variables` are further names with paths.
///
/// `None`, with the reason on standard error, where a process of this user may mount nothing.
pub fn run_with_mounts(dir: &Path, variables: &[(&str, &Path)], script: &str) -> Option<Output> {
    if !may_mount() {
        let test = std::thread::current().name().unwrap_or_default().to_string();
        note_skipped(&test, "`unshare --map-root-user --mount` and `mount` do not work here");
        return None;
    }
    let variables = variables.iter().copied();
    Some(in_own_namespace(script).current_dir(dir).envs(variables).output().unwrap())
}

/// Whether a process may mount a file system that it alone sees.
fn may_mount() -> bool {
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
