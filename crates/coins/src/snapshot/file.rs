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

/// Number of bytes that are hashed before the stop flag is checked again.
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
    /// The file cannot be read, or is not a snapshot.
    pub fn open(path: &Path) -> Result<Self, SnapshotReadError> {
        // Opening a pipe would block until a program writes to it.
        if path.exists() && !path.is_file() {
            let what = "this is not a UTXO snapshot: it is not a regular file";
            return Err(SnapshotError::new(what).into());
        }
        let file = Disk::new().open_read(path)?;
        if file.is_empty()? {
            return Err(SnapshotError::new("this is not a UTXO snapshot: the file is empty").into());
        }
        let bytes = file.map()?;
        let path = path.to_path_buf();
        let head = SnapshotHead::parse(&bytes)?;
        Ok(Self { path, head, bytes, digest: OnceLock::new() })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the head of the snapshot.
    pub fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Returns the length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the double SHA-256 of the file, which is computed at the first call: a second for 2
    /// GB. `None` if `stop` was set before the end.
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

    /// Returns the result of [`SnapshotFile::digest`], if it was already computed.
    pub fn known_digest(&self) -> Option<Hash> {
        self.digest.get().copied()
    }

    /// Returns the whole file.
    pub fn mapped(&self) -> &[u8] {
        &self.bytes
    }

    /// Releases the memory of a piece.
    pub fn release(&self, piece: &SnapshotPiece) {
        let start = piece.offset as usize;
        disk::release(&self.bytes, start..start + piece.bytes().len());
    }

    /// Returns all coins, in pieces.
    pub fn pieces(&self) -> SnapshotPieces<'_> {
        SnapshotPieces::new(&self.bytes, &self.head)
    }
}
