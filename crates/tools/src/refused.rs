//! Remedies where the system refuses this process something.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use apus_disk::StoreError;
use apus_progress::words::shell_word;
use rustix::io::Errno;

/// Returns what to do about an error of the system; `None` if that is not known.
pub fn remedy(error: &StoreError) -> Option<String> {
    let source = error.source.as_ref()?;
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => of_owner(&error.path, user()),
        Some(Errno::MFILE | Errno::NFILE) => {
            Some("allow more open files (ulimit -n 4096, or LimitNOFILE= of a service)".to_string())
        }
        Some(Errno::FBIG) => Some(
            "allow larger files (ulimit -f unlimited, or LimitFSIZE= of a service), or use a file \
             system that does"
                .to_string(),
        ),
        Some(Errno::NOMEM) => Some(
            "allow more memory (ulimit -v unlimited, MemoryMax= of a service), or give a smaller \
             --dbcache and fewer threads with --par"
                .to_string(),
        ),
        Some(Errno::IO) => Some(
            "the disk reports an error, so nothing was taken for damage or rebuilt: look at the \
             system's log (dmesg) and at the disk's cables and health (smartctl), copy what can be \
             read to another disk, and run the same command there"
                .to_string(),
        ),
        _ if source.kind() == io::ErrorKind::PermissionDenied => of_owner(&error.path, user()),
        _ => None,
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns who owns a path that `user` may not use, and the command that works.
fn of_owner(path: &Path, user: u32) -> Option<String> {
    let whole = std::path::absolute(path).ok()?;
    let owner_of = |path: &Path| Some(fs::metadata(path).ok()?.uid());
    let (found, owner) = whole.ancestors().find_map(|path| Some((path, owner_of(path)?)))?;
    let shown = shell_word(&found.display().to_string());
    if owner == user {
        return Some(format!("{shown} is yours, so chmod u+rwX {shown} allows it"));
    }
    // Everything that belongs to the other user, up to a directory of this one.
    let top = found.ancestors().take_while(|path| owner_of(path) == Some(owner)).last()?;
    let above = top.parent().filter(|above| owner_of(above) == Some(user));
    if let Some(above) = above {
        let directory = if top.is_dir() { top } else { above };
        let directory = shell_word(&directory.display().to_string());
        return Some(format!(
            "{shown} belongs to user {owner}, and the directory above it to you: sudo chown -R \
             '{user}' {directory}"
        ));
    }
    let words = std::env::args().skip(1).map(|word| shell_word(&word));
    let program = std::env::current_exe().unwrap_or(PathBuf::from("apus"));
    let program = shell_word(&program.display().to_string());
    let command: Vec<String> = std::iter::once(program).chain(words).collect();
    Some(format!("{shown} belongs to user {owner}: sudo -u '#{owner}' {}", command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_has_a_remedy() {
        for (errno, words) in [
            (Errno::MFILE, "ulimit -n"),
            (Errno::FBIG, "ulimit -f"),
            (Errno::NOMEM, "ulimit -v"),
            (Errno::IO, "dmesg"),
        ] {
            let error = StoreError::io("/x", "read this file", errno.into());
            assert!(remedy(&error).unwrap().contains(words), "{errno:?}");
        }
        assert_eq!(remedy(&StoreError::new("/x", "it is damaged")), None);
        let dir = tempfile::tempdir().unwrap();
        let mine = StoreError::io(dir.path().join("a/b"), "make it", Errno::ACCESS.into());
        assert!(remedy(&mine).unwrap().contains("is yours"), "{:?}", remedy(&mine));
    }

    /// The files of another user come one after the other: the command takes all of them.
    #[test]
    fn the_directory_of_another_user_is_named_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("node/chainstate")).unwrap();
        fs::write(at("node/chainstate/LOCK"), "").unwrap();
        fs::write(at("node/.lock"), "").unwrap();
        let other = |name: &str| std::os::unix::fs::chown(at(name), Some(61_000), None);
        let said = |name: &str| of_owner(&at(name), user()).unwrap();
        if other("node/.lock").is_err() {
            return;
        }
        let command = |name: &str| format!("sudo chown -R '{}' {}", user(), at(name).display());
        assert!(said("node/.lock").ends_with(&command("node")), "{}", said("node/.lock"));
        other("node/chainstate/LOCK").unwrap();
        assert!(said("node/chainstate/LOCK").ends_with(&command("node/chainstate")));
        other("node/chainstate").unwrap();
        other("node").unwrap();
        let whole = said("node/chainstate/LOCK");
        assert!(whole.ends_with(&command("node")), "{whole}");
        assert!(whole.contains("belongs to user 61000"), "{whole}");
        // What is in no directory of this user cannot be given to them.
        let whole = of_owner(&at("node/.lock"), 61_001).unwrap();
        assert!(whole.contains("sudo -u '#61000' ") && !whole.contains("chown"), "{whole}");
    }
}
