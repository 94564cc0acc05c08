//! Paths in the home directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use apus_node::SyncError;

/// Returns Bitcoin Core's default data directory. Without a home directory it returns an error;
/// Core would create one in `/`.
pub fn default_datadir(home: Option<OsString>) -> Result<PathBuf, String> {
    let home = home.filter(|home| !home.is_empty()).ok_or(
        "HOME is empty or not set, so there is no default data directory: name one with --datadir",
    )?;
    let below =
        if cfg!(target_os = "macos") { "Library/Application Support/Bitcoin" } else { ".bitcoin" };
    Ok(Path::new(&home).join(below))
}

/// Returns the path of a file that is to be made. `force` says whether it may exist; it is `None`
/// for commands that have no `--force`.
///
/// # Errors
/// It is standard output, a directory, or a file that exists; or its directory does not exist: a
/// disk may not be mounted, or the name may be mistyped.
pub fn new_file(path: &Path, force: Option<bool>) -> Result<PathBuf, SyncError> {
    if path == Path::new("-") {
        return Err(SyncError::WrongOptions(
            "-: the file is renamed once it is complete, which standard output does not \
             allow: name a file"
                .to_string(),
        ));
    }
    let path = expand_home(path);
    let refuse =
        |path: &Path, what: &str| Err(SyncError::Input(format!("{}{what}", path.display())));
    if path.is_dir() {
        return refuse(&path, " is a directory: name a file in it");
    }
    // A link that leads nowhere is there, too.
    if path.symlink_metadata().is_ok() {
        match force {
            Some(true) => {}
            Some(false) => {
                let what = " exists already: name another file, or replace it with --force";
                return refuse(&path, what);
            }
            None => return refuse(&path, " exists already: name another file"),
        }
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            refuse(parent, ": there is no such directory: make it, or name a file elsewhere")
        }
        _ => Ok(path),
    }
}

/// Expands `~/…` as the shell does, for options in which the shell does not (`-datadir=~/x`).
pub fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) if !home.is_empty() => Path::new(&home).join(rest),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_home_directory_is_no_default() {
        for home in [None, Some(OsString::new())] {
            let refused = default_datadir(home).unwrap_err();
            assert!(refused.contains("HOME") && refused.contains("--datadir"), "{refused}");
        }
        assert!(default_datadir(Some("/home/x".into())).unwrap().starts_with("/home/x"));
    }
}
