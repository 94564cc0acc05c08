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

/// Checks that the directory of a file that is to be made is there: a disk may not be mounted, or
/// the name may be mistyped.
///
/// # Errors
/// It is not.
pub fn check_parent(path: &Path) -> Result<(), SyncError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            let what = "there is no such directory: make it, or name a file elsewhere";
            Err(SyncError::Input(format!("{}: {what}", parent.display())))
        }
        _ => Ok(()),
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
