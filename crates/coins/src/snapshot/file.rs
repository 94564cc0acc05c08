use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_disk as disk;
use apus_disk::Disk;
use apus_hash::{Hash, Sha256d};
use memmap2::Mmap;

use super::error::{SnapshotError, SnapshotReadError};
use super::head::SnapshotHead;
use super::pieces::{SnapshotPiece, SnapshotPieces};

/// Bytes that are hashed before the flag to stop is looked at again.
const DIGEST_PIECE_BYTES: usize = 16 << 20;

/// A snapshot file, mapped into memory.
pub struct SnapshotFile {
    path: PathBuf,
    head: SnapshotHead,
    bytes: Mmap,
    digest: OnceLock<Hash>,
}

impl SnapshotFile {
    /// Maps the file and reads its head.
    ///
    /// # Errors
    /// The file cannot be read, or is no snapshot.
    pub fn open(path: &Path) -> Result<Self, SnapshotReadError> {
        let file = Disk::new().open_read(path)?;
        let none = || SnapshotError::new("this is not a UTXO snapshot, and no regular file");
        if !path.is_file() {
            return Err(none().into());
        }
        if file.is_empty()? {
            return Err(SnapshotError::new("this is not a UTXO snapshot: the file is empty").into());
        }
        let bytes = file.map()?;
        let (path, head) = (path.to_path_buf(), SnapshotHead::parse(&bytes)?);
        Ok(Self { path, head, bytes, digest: OnceLock::new() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its head.
    pub fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// The length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The double SHA-256 of the file, computed when it is first asked for: a second for 2 GB.
    /// `None` if `stop` was raised before the end.
    pub fn digest(&self, stop: &AtomicBool) -> Option<Hash> {
        if let Some(digest) = self.digest.get() {
            return Some(*digest);
        }
        let mut hasher = Sha256d::default();
        for piece in self.bytes.chunks(DIGEST_PIECE_BYTES) {
            if stop.load(Relaxed) {
                return None;
            }
            hasher.update(piece);
        }
        Some(*self.digest.get_or_init(|| hasher.finish()))
    }

    /// [`SnapshotFile::digest`], if it was computed before.
    pub fn known_digest(&self) -> Option<Hash> {
        self.digest.get().copied()
    }

    /// The whole file.
    pub fn mapped(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the memory of a piece back.
    pub fn release(&self, piece: &SnapshotPiece) {
        let start = piece.offset as usize;
        disk::release(&self.bytes, start..start + piece.bytes().len());
    }

    /// All coins, in pieces.
    pub fn pieces(&self) -> SnapshotPieces<'_> {
        SnapshotPieces::new(&self.bytes, &self.head)
    }
}
