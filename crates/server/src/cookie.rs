//! The file with a random password, by which programs on this machine may ask (Core's `.cookie`).

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use apus_hash::hex;

use super::auth::random;

/// The name of the file, in the network's directory.
pub const COOKIE_FILE: &str = ".cookie";
/// The user whose password the file holds.
pub(crate) const USER: &str = "__cookie__";

/// The file, which is removed when this is dropped, unless another program has replaced it.
pub(crate) struct Cookie {
    path: PathBuf,
    pub password: String,
    /// Locked, so that other servers of the directory see that the cookie is in use.
    _file: File,
}

impl Cookie {
    /// Writes a new password to `path`, at first under another name, with the permissions `mode`.
    ///
    /// # Errors
    /// Another server uses the file; it cannot be written; or the system has no random bytes.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        if File::open(path).is_ok_and(|file| is_locked(&file)) {
            return Err(io::Error::new(ErrorKind::AddrInUse, "another server uses it"));
        }
        let password = hex(&random::<32>()?);
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let write = |mut file: File| {
            file.write_all(format!("{USER}:{password}").as_bytes())?;
            file.set_permissions(Permissions::from_mode(mode))?;
            // Some network file systems have no locks.
            let _ = file.try_lock();
            fs::rename(&temporary, path)?;
            Ok(file)
        };
        // A file or a link of another user, perhaps, which is neither followed nor written to.
        let _ = fs::remove_file(&temporary);
        let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        match open.and_then(write) {
            Ok(file) => Ok(Self { path: path.to_path_buf(), password, _file: file }),
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }
}

fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

impl Drop for Cookie {
    fn drop(&mut self) {
        let is_ours = |text: String| text.ends_with(&self.password);
        if !fs::read_to_string(&self.path).is_ok_and(is_ours) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove the cookie {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_its_owner_and_goes_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(COOKIE_FILE);
        fs::write(&path, "old").unwrap();
        let other = tempfile::NamedTempFile::new().unwrap();
        fs::write(other.path(), "of another").unwrap();
        std::os::unix::fs::symlink(other.path(), dir.path().join(".cookie.tmp")).unwrap();
        let cookie = Cookie::create(&path, 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{USER}:{}", cookie.password));
        assert_eq!(cookie.password.len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(other.path()).unwrap(), "of another");
        let second = Cookie::create(&path, 0o600);
        assert_eq!(second.err().unwrap().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{USER}:{}", cookie.password));
        drop(cookie);
        assert!(!path.exists());
        let missing = Cookie::create(&dir.path().join("no/.cookie"), 0o600);
        assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
    }
}
