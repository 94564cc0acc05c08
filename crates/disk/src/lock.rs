use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::{Disk, File, StoreError, lock};

/// The files that this process has locked, by [`full_name`]. The kernel cannot tell: it grants a
/// process a record lock that the process already has, and releases the lock when *any* handle on
/// the file is closed.
static LOCKED: Mutex<BTreeMap<PathBuf, HeldLock>> = Mutex::new(BTreeMap::new());

/// A lock that this process holds on a file.
struct HeldLock {
    /// Whether other programs may hold the lock too, all of them for reading.
    shared: bool,
    /// Number of [`FileLock`]s that share the lock.
    owners: usize,
    /// The only handle on the file in this process.
    _file: File,
}

/// A lock on a file, of the kind that Bitcoin Core and LevelDB take (`fcntl`): exclusive, or shared
/// with programs that only read. It is released on drop.
pub struct FileLock {
    name: PathBuf,
}

impl Disk {
    /// Takes the exclusive lock on the file `path`, which is created if it does not exist.
    ///
    /// # Errors
    /// This or another program holds a lock on the file.
    pub fn lock(&self, path: impl AsRef<Path>) -> Result<FileLock, StoreError> {
        let path = path.as_ref();
        let mut locked = lock(&LOCKED);
        let name = full_name(path)?;
        if locked.contains_key(&name) {
            return Err(StoreError::locked(path, "already in use by this program"));
        }
        let file = self.open(path)?;
        let operation = FlockOperation::NonBlockingLockExclusive;
        fcntl_lock(file.raw(), operation).map_err(|errno| refused(path, &file, errno))?;
        let held = HeldLock { shared: false, owners: 1, _file: file };
        locked.insert(name.clone(), held);
        Ok(FileLock { name })
    }

    /// Takes a shared lock on the file `path`, which keeps writers away. Nothing is created or
    /// changed. Returns `None` if no lock can be taken: the file does not exist, or its file system
    /// has no locks (as on some network mounts).
    ///
    /// # Errors
    /// This or another program holds the exclusive lock.
    pub fn lock_shared(&self, path: impl AsRef<Path>) -> Result<Option<FileLock>, StoreError> {
        let path = path.as_ref();
        let mut locked = lock(&LOCKED);
        let Ok(name) = full_name(path) else { return Ok(None) };
        if let Some(held) = locked.get_mut(&name) {
            if !held.shared {
                return Err(StoreError::locked(path, "already in use by this program"));
            }
            held.owners += 1;
            return Ok(Some(FileLock { name }));
        }
        let file = match self.open_read(path) {
            Ok(file) => file,
            Err(error) => {
                let kind = error.source.as_ref().map(std::io::Error::kind);
                return if kind == Some(ErrorKind::NotFound) { Ok(None) } else { Err(error) };
            }
        };
        match fcntl_lock(file.raw(), FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOLCK | rustix::io::Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(refused(path, &file, errno)),
        }
        locked.insert(name.clone(), HeldLock { shared: true, owners: 1, _file: file });
        Ok(Some(FileLock { name }))
    }

    /// Checks that the lock on the file `path` could be taken, shared or exclusive. Nothing is
    /// created, locked or changed; a file that does not exist or cannot be read passes.
    ///
    /// # Errors
    /// This or another program holds a lock in the way.
    pub fn check_lock(&self, path: impl AsRef<Path>, shared: bool) -> Result<(), StoreError> {
        let path = path.as_ref();
        // Until the file is closed again, this process must not lock it.
        let locked = lock(&LOCKED);
        let Ok(name) = full_name(path) else { return Ok(()) };
        match locked.get(&name) {
            Some(held) if held.shared && shared => return Ok(()),
            Some(_) => return Err(StoreError::locked(path, "already in use by this program")),
            None => {}
        }
        let Ok(file) = self.open_read(path) else { return Ok(()) };
        let kind = if shared { FlockType::ReadLock } else { FlockType::WriteLock };
        match fcntl_getlk(file.raw(), &Flock::from(kind)) {
            Ok(Some(held)) => Err(locked_by(path, Some(held))),
            // A file system without locks says so when a lock is taken.
            Ok(None) | Err(_) => Ok(()),
        }
    }
}

/// Returns the number of the process that holds a lock on the file `path`; `None` if there is none,
/// if it is this process, or if the system does not say which.
pub fn lock_holder(path: &Path) -> Option<u32> {
    let locked = lock(&LOCKED);
    // To close the file would release a lock of this process.
    if locked.contains_key(&full_name(path).ok()?) {
        return None;
    }
    let file = std::fs::File::open(path).ok()?;
    process_of(fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).ok()??)
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let mut locked = lock(&LOCKED);
        let Some(held) = locked.get_mut(&self.name) else { return };
        held.owners -= 1;
        if held.owners == 0 {
            // The file is closed before the mutex is released: closing it later could release a
            // lock that another thread has taken meanwhile.
            locked.remove(&self.name);
        }
    }
}

/// Returns the name of a file in [`LOCKED`], the same whichever path leads to its directory.
fn full_name(path: &Path) -> Result<PathBuf, StoreError> {
    let parent = path.parent().unwrap_or(Path::new(".")).canonicalize();
    let parent =
        parent.map_err(|e| StoreError::io(path, "find the directory of the lock file", e))?;
    Ok(parent.join(path.file_name().unwrap_or_default()))
}

fn refused(path: &Path, file: &File, errno: rustix::io::Errno) -> StoreError {
    match errno {
        rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS => {
            let held = fcntl_getlk(file.raw(), &Flock::from(FlockType::WriteLock));
            locked_by(path, held.ok().flatten())
        }
        _ => StoreError::io(path, "lock the file", errno.into()),
    }
}

/// Returns the error for a lock that another program holds. It names the process, unless that is in
/// another container or on another machine.
fn locked_by(path: &Path, held: Option<Flock>) -> StoreError {
    let holder = held.and_then(process_of);
    let named = holder.and_then(|id| Some(format!("in use by {} (process {id})", program_of(id)?)));
    let what = named.unwrap_or_else(|| "in use by another program".to_string());
    StoreError { holder, ..StoreError::locked(path, what) }
}

/// Returns the name of a process's program. Its arguments say more than `comm`: bitcoind's becomes
/// `b-shutoff` while it shuts down.
fn program_of(process: u32) -> Option<String> {
    let args = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let program = String::from_utf8_lossy(args.split(|byte| *byte == 0).next()?).into_owned();
    match Path::new(&program).file_name() {
        Some(name) => Some(name.to_string_lossy().into_owned()),
        None => {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
            Some(name.trim_end().to_string())
        }
    }
}

/// Returns the number of the process that holds a lock; `None` if it is outside this container,
/// where the system gives 0, or if the lock belongs to no process.
fn process_of(held: Flock) -> Option<u32> {
    held.pid.and_then(|pid| u32::try_from(pid.as_raw_pid()).ok()).filter(|id| *id > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_lock_is_taken_once_and_ends_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let disk = Disk::new();
        let lock = disk.lock(&path).unwrap();
        for error in [disk.lock(&path).err(), disk.lock_shared(&path).err()] {
            let error = error.unwrap();
            assert!(error.is_locked);
            let error = error.to_string();
            assert!(error.contains("in use") && error.contains("LOCK"), "{error}");
        }
        drop(lock);
        disk.lock(&path).unwrap();
    }

    /// Another program that holds a lock on `path` until it is killed.
    fn holder(path: &Path, kind: &str) -> Option<std::process::Child> {
        let script = format!(
            "import fcntl, sys\n\
             f = open(sys.argv[1], 'r+')\n\
             fcntl.lockf(f, fcntl.{kind} | fcntl.LOCK_NB)\n\
             print(flush=True)\n\
             sys.stdin.read()"
        );
        let mut command = std::process::Command::new("python3");
        command.args(["-c", &script]).arg(path);
        let piped = std::process::Stdio::piped;
        let mut child = command.stdin(piped()).stdout(piped()).spawn().ok()?;
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.as_mut().unwrap()),
            &mut line,
        )
        .unwrap();
        Some(child)
    }

    #[test]
    fn a_lock_in_the_way_is_found_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let disk = Disk::new();
        disk.check_lock(&path, false).unwrap();
        assert!(!path.exists(), "nothing is created");
        let lock = disk.lock(&path).unwrap();
        for shared in [true, false] {
            assert!(disk.check_lock(&path, shared).unwrap_err().is_locked);
        }
        drop(lock);
        for (kind, blocked) in [("LOCK_EX", &[true, false][..]), ("LOCK_SH", &[false])] {
            let Some(mut other) = holder(&path, kind) else { return };
            let words = format!("(process {})", other.id());
            for shared in blocked {
                let error = disk.check_lock(&path, *shared).unwrap_err();
                assert!(error.is_locked && error.what.contains(&words), "{error}");
            }
            let error = disk.lock(&path).err().unwrap();
            assert!(error.is_locked && error.what.contains(&words), "{error}");
            if kind == "LOCK_SH" {
                disk.check_lock(&path, true).unwrap();
            }
            other.kill().unwrap();
            other.wait().unwrap();
        }
        disk.check_lock(&path, false).unwrap();
    }

    #[test]
    fn readers_share_a_lock_that_keeps_writers_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let disk = Disk::new();
        assert!(disk.lock_shared(&path).unwrap().is_none(), "a reader creates no file");
        assert!(!path.exists());
        drop(disk.lock(&path).unwrap());
        let first = disk.lock_shared(&path).unwrap().expect("there is a file to lock");
        let second = disk.lock_shared(&path).unwrap();
        drop(first);
        assert!(disk.lock(&path).is_err(), "the second reader is still there");
        // The kernel's lock is still there too: another program may read but not write.
        let script = "import fcntl, sys\n\
                      f = open(sys.argv[1], 'r+')\n\
                      fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB)\n\
                      try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
                      except OSError: sys.exit(7)";
        let python = std::process::Command::new("python3").args(["-c", script]).arg(&path).status();
        if let Ok(status) = python {
            assert_eq!(status.code(), Some(7));
        }
        assert_eq!(lock_holder(&path), None, "this process");
        drop(second);
        drop(disk.lock(&path).unwrap());
    }

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("one"), dir.path().join("other")];
        let mut holders = Vec::new();
        for path in &paths {
            std::fs::write(path, "").unwrap();
            assert_eq!(lock_holder(path), None);
            let script = "import fcntl, sys\n\
                          f = open(sys.argv[1], 'r+')\n\
                          fcntl.lockf(f, fcntl.LOCK_EX)\n\
                          print('locked', flush=True)\n\
                          sys.stdin.read()";
            let mut holder = std::process::Command::new("python3");
            holder.args(["-c", script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut holder = holder.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "locked\n");
            holders.push(holder);
        }
        for (path, holder) in paths.iter().zip(&mut holders) {
            assert_eq!(lock_holder(path), Some(holder.id()));
            drop(holder.stdin.take());
            holder.wait().unwrap();
            assert_eq!(lock_holder(path), None);
        }
        assert_eq!(lock_holder(&dir.path().join("missing")), None);
    }
}
