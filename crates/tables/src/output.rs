//! The destination of a table, and its errors.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use apus_disk::{File, StoreError};
use apus_node::error::SyncError;

/// The destination of a table.
pub enum Destination<'a> {
    /// A file that does not exist yet: it gets its name when all of it is durable.
    File(&'a Path),
    /// A stream, and its name in errors.
    Stream(&'static str, Box<dyn Write + Send + 'a>),
}

/// The state of a destination while it is written to.
pub(super) struct Output {
    path: PathBuf,
    bytes: AtomicU64,
    /// The first error, which libraries would turn into another.
    fault: Mutex<Option<StoreError>>,
}

impl Output {
    /// Creates the state of the destination with this path, or with a name in place of one.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), bytes: AtomicU64::new(0), fault: Mutex::default() }
    }

    /// Returns the number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the error of the destination, if it has one, and else that of the formats' library.
    pub fn blamed(&self, error: apus_export::Error) -> SyncError {
        if let Some(fault) = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return fault.into();
        }
        if let apus_export::Error::Usage(what) = error {
            return SyncError::WrongOptions(what);
        }
        let what = format!("cannot be written: {error}");
        if error.is_full() {
            StoreError::full(&self.path, what).into()
        } else {
            StoreError::new(&self.path, what).into()
        }
    }

    fn note(&self, error: StoreError) -> io::Error {
        let told = io::Error::other(error.to_string());
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        told
    }
}

/// A file that is written from its start to its end.
pub(super) struct FileStream<'a> {
    pub file: &'a File,
    pub output: &'a Output,
}

impl Write for FileStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_all_at(bytes, self.output.bytes());
        written.map_err(|error| self.output.note(error))?;
        self.output.bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream whose bytes are counted.
pub(super) struct Counted<'a> {
    pub stream: Box<dyn Write + Send + 'a>,
    pub output: &'a Output,
}

impl Counted<'_> {
    fn note(&self, error: io::Error) -> io::Error {
        self.output.note(StoreError::io(&self.output.path, "write", error))
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.stream.write(bytes) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(self.note(error));
            }
            result => result?,
        };
        self.output.bytes.fetch_add(written as u64, Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush().map_err(|error| self.note(error))
    }
}
