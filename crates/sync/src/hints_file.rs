//! An opened hints file. It knows its path, so that every error names the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use apus_disk::Disk;
use apus_hash::{Hash, sha256, sha256d};
use apus_node::error::SyncError;
use apus_swiftsync::hints::elias_fano::BitOrder;
use apus_swiftsync::{Hints, HintsError, hints};
use memmap2::Mmap;

/// A hints file of any format, mapped into memory.
pub struct HintsFile {
    /// The path of the file.
    pub path: PathBuf,
    /// Reads the hints in the file's format.
    pub reader: Box<dyn Hints>,
    bytes: SharedMap,
    digest: OnceLock<Hash>,
}

/// A mapped file with several owners.
#[derive(Clone)]
struct SharedMap(Arc<Mmap>);

impl AsRef<[u8]> for SharedMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl HintsFile {
    /// Maps the file and recognises its format.
    pub fn open(path: &Path) -> Result<Self, SyncError> {
        Self::open_with(path, None)
    }

    /// Like [`HintsFile::open`], for a file of BIP 456 whose bit order is known.
    pub fn open_with(path: &Path, order: Option<BitOrder>) -> Result<Self, SyncError> {
        let path = path.to_path_buf();
        let wrong = |error| SyncError::Hints { path: path.clone(), error };
        // Opening a pipe would block until a program writes to it.
        if path.exists() && !path.is_file() {
            return Err(wrong(HintsError::new(
                "this is not a hints file: it is not a regular file",
            )));
        }
        let file = Disk::new().open_read(&path)?;
        if file.is_empty()? {
            return Err(wrong(HintsError::new("this is not a hints file: the file is empty")));
        }
        let bytes = SharedMap(Arc::new(file.map()?));
        let reader = hints::open_with(bytes.clone(), order).map_err(wrong)?;
        Ok(Self { path, reader, bytes, digest: OnceLock::new() })
    }

    /// Returns the length of the file in bytes, which is never 0.
    #[allow(clippy::len_without_is_empty, reason = "an empty file is no hints file")]
    pub fn len(&self) -> u64 {
        self.bytes.as_ref().len() as u64
    }

    /// Returns the double SHA-256 of the file, which the first call computes.
    pub fn digest(&self) -> Hash {
        *self.digest.get_or_init(|| sha256d(self.bytes.as_ref()))
    }

    /// Returns the SHA-256 of the file, as `sha256sum` prints it.
    pub fn sha256(&self) -> [u8; 32] {
        sha256(self.bytes.as_ref())
    }

    pub fn error(&self, error: HintsError) -> SyncError {
        SyncError::Hints { path: self.path.clone(), error }
    }
}

#[cfg(test)]
mod tests {
    use apus_swiftsync::Format;
    use apus_swiftsync::hints::encoder;

    use super::*;

    #[test]
    fn a_file_of_hints_is_opened_and_anything_else_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.hints");
        let refused = |path: &Path| match HintsFile::open(path) {
            Ok(_) => panic!("{} was opened", path.display()),
            Err(error) => error.to_string(),
        };
        assert!(refused(&path).contains("some.hints"), "it does not exist");
        assert!(refused(dir.path()).ends_with("not a regular file"));
        std::fs::write(&path, []).unwrap();
        assert!(
            refused(&path).ends_with("some.hints: this is not a hints file: the file is empty")
        );
        let mut bytes = Vec::new();
        encoder(Format::Bip456).put_head(0, &mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let hints = HintsFile::open(&path).unwrap();
        assert_eq!((hints.reader.height(), hints.len()), (0, bytes.len() as u64));
        assert_eq!(hints.digest(), sha256d(&bytes));
    }
}
