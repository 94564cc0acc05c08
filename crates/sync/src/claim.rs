//! A claim: what a hints file or a UTXO snapshot says about which outputs are unspent at a height,
//! until the blocks prove it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use apus_chain::Tree;
use apus_coins::{SNAPSHOT_MAGIC, SnapshotError, SnapshotFile};
use apus_hash::{Hash, hex};
use apus_node::error::{SyncError, of_read};
use apus_node::options::Options;
use apus_swiftsync::HintsError;
use apus_wire::Network;

use super::hints_file::HintsFile;

/// A claim of which outputs are unspent at a height: a hints file or a snapshot.
pub enum Claim {
    /// Says which outputs of each block are unspent.
    Hints(HintsFile),
    /// Holds all unspent coins.
    Snapshot(SnapshotFile),
}

impl Claim {
    /// Opens the hints file or snapshot that the options name; returns `None` if they name none.
    ///
    /// # Errors
    /// The options contradict each other; or the file cannot be read, or is not a hints file, or
    /// not a snapshot of this network.
    pub fn open(options: &Options) -> Result<Option<Self>, SyncError> {
        options.check_method().map_err(SyncError::WrongOptions)?;
        if let Some(path) = &options.swiftsync.hints {
            return Ok(Some(Self::Hints(HintsFile::open(path)?)));
        }
        let Some(path) = &options.swiftsync.snapshot else { return Ok(None) };
        let file = open_snapshot_of(path, &options.network)?;
        if file.head().base == options.network.genesis_hash {
            return Err(SyncError::WrongOptions(format!(
                "--snapshot {}: the snapshot is of the genesis block and holds no coins: remove \
                 --snapshot, or give a snapshot of a later block",
                path.display()
            )));
        }
        Ok(Some(Self::Snapshot(file)))
    }

    /// Opens a hints file or a snapshot of this network, which its first bytes tell apart.
    ///
    /// # Errors
    /// The file cannot be read, is neither, or is a snapshot of another network.
    pub fn of_file(path: &Path, network: &Network) -> Result<Self, SyncError> {
        if is_snapshot(path) {
            Self::open_snapshot(path, network)
        } else {
            Ok(Self::Hints(HintsFile::open(path)?))
        }
    }

    /// Opens a snapshot of this network.
    ///
    /// # Errors
    /// The file cannot be read, is not a snapshot, or is a snapshot of another network.
    pub fn open_snapshot(path: &Path, network: &Network) -> Result<Self, SyncError> {
        Ok(Self::Snapshot(open_snapshot_of(path, network)?))
    }

    /// Returns the height of the claim. `None` if a snapshot's base block is not in `tree`.
    pub fn height(&self, tree: &Tree) -> Option<u32> {
        match self {
            Self::Hints(hints) => Some(hints.reader.height()),
            Self::Snapshot(file) => tree.find(&file.head().base).map(|base| tree.node(base).height),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Hints(hints) => &hints.path,
            Self::Snapshot(file) => file.path(),
        }
    }

    /// Returns a hash of the whole file, which the first call computes; `None` if `stop` was raised
    /// before the end.
    pub fn digest(&self, stop: &AtomicBool) -> Option<Hash> {
        match self {
            Self::Hints(hints) => Some(hints.digest()),
            Self::Snapshot(file) => file.digest(stop),
        }
    }

    /// Returns [`Claim::digest`], but for a snapshot only if it was computed before.
    pub fn known_digest(&self) -> Option<Hash> {
        match self {
            Self::Hints(hints) => Some(hints.digest()),
            Self::Snapshot(file) => file.known_digest(),
        }
    }

    /// Returns the name of the claim for messages: "the hints" or "the snapshot".
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hints(_) => "the hints",
            Self::Snapshot(_) => "the snapshot",
        }
    }

    /// Returns [`Claim::name`] in the possessive.
    pub fn whose(&self) -> &'static str {
        match self {
            Self::Hints(_) => "the hints'",
            Self::Snapshot(_) => "the snapshot's",
        }
    }

    /// Returns the option that names the file.
    pub fn option(&self) -> &'static str {
        match self {
            Self::Hints(_) => "--hints",
            Self::Snapshot(_) => "--snapshot",
        }
    }

    /// Returns the error for a claim that is wrong in the way that `what` says.
    pub fn error(&self, what: impl Into<String>) -> SyncError {
        match self {
            Self::Hints(_) => self.of_hints(HintsError::new(what)),
            Self::Snapshot(_) => self.of_snapshot(SnapshotError::new(what)),
        }
    }

    pub fn of_hints(&self, error: HintsError) -> SyncError {
        SyncError::Hints { path: self.path().to_path_buf(), error }
    }

    pub fn of_snapshot(&self, error: SnapshotError) -> SyncError {
        SyncError::Snapshot { path: self.path().to_path_buf(), error }
    }
}

/// Returns whether a file can be read and begins like a snapshot. A pipe is not opened.
fn is_snapshot(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut first = [0; SNAPSHOT_MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == SNAPSHOT_MAGIC
}

/// Opens a snapshot file of this network.
pub fn open_snapshot_of(path: &Path, network: &Network) -> Result<SnapshotFile, SyncError> {
    let file = SnapshotFile::open(path).map_err(|error| of_read(path, error))?;
    let magic = file.head().network;
    if magic != network.magic {
        let what = format!(
            "it is for another network than {}, with the magic bytes {}; choose the network with \
             --chain",
            network.chain.name(),
            hex(&magic)
        );
        return Err(of_read(path, SnapshotError::new(what).into()));
    }
    Ok(file)
}
