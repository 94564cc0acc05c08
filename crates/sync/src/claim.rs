//! What says which outputs are unspent at a height, until the blocks prove it: a hints file or a
//! UTXO snapshot.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use apus_chain::Tree;
use apus_coins::{SnapshotError, SnapshotFile, SnapshotReadError};
use apus_hash::{Hash, hex};
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_swiftsync::HintsError;
use apus_wire::Network;

use super::hints_file::HintsFile;

/// A hints file, or a snapshot.
pub enum Claim {
    /// Which outputs of each block are unspent.
    Hints(HintsFile),
    /// All unspent coins themselves.
    Snapshot(SnapshotFile),
}

impl Claim {
    /// The file that the options name; `None` if they name none.
    ///
    /// # Errors
    /// The options contradict each other, or the file cannot be read, or is not what it is to be.
    pub fn open(options: &Options) -> Result<Option<Self>, SyncError> {
        options.check_method().map_err(SyncError::WrongOptions)?;
        if let Some(path) = &options.hints {
            return Ok(Some(Self::Hints(HintsFile::open(path)?)));
        }
        let Some(path) = &options.snapshot else { return Ok(None) };
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

    /// A snapshot of this network.
    ///
    /// # Errors
    /// The file cannot be read, is not a snapshot, or is of another network.
    pub fn open_snapshot(path: &Path, network: &Network) -> Result<Self, SyncError> {
        Ok(Self::Snapshot(open_snapshot_of(path, network)?))
    }

    /// The height at which the outputs are unspent; `None` if it is that of a block whose header is
    /// not known.
    pub fn height(&self, tree: &Tree) -> Option<u32> {
        match self {
            Self::Hints(hints) => Some(hints.reader.height()),
            Self::Snapshot(file) => tree.find(&file.head().base).map(|base| tree.node(base).height),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Hints(hints) => &hints.path,
            Self::Snapshot(file) => file.path(),
        }
    }

    /// A hash of the whole file, computed when it is first asked for; `None` if `stop` was raised
    /// before the end.
    pub fn digest(&self, stop: &AtomicBool) -> Option<Hash> {
        match self {
            Self::Hints(hints) => Some(hints.digest()),
            Self::Snapshot(file) => file.digest(stop),
        }
    }

    /// [`Claim::digest`], unless it would take seconds.
    pub fn known_digest(&self) -> Option<Hash> {
        match self {
            Self::Hints(hints) => Some(hints.digest()),
            Self::Snapshot(file) => file.known_digest(),
        }
    }

    /// What it is, in messages: "the hints", "the snapshot".
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hints(_) => "the hints",
            Self::Snapshot(_) => "the snapshot",
        }
    }

    /// [`Claim::name`], as an owner.
    pub fn whose(&self) -> &'static str {
        match self {
            Self::Hints(_) => "the hints'",
            Self::Snapshot(_) => "the snapshot's",
        }
    }

    /// The option that names the file.
    pub fn option(&self) -> &'static str {
        match self {
            Self::Hints(_) => "--hints",
            Self::Snapshot(_) => "--snapshot",
        }
    }

    /// The error that says what is wrong with the file.
    pub fn error(&self, what: impl Into<String>) -> SyncError {
        match self {
            Self::Hints(_) => self.of_hints(HintsError::new(what)),
            Self::Snapshot(_) => self.of_snapshot(SnapshotError::new(what)),
        }
    }

    /// The error that says what is wrong with the hints.
    pub fn of_hints(&self, error: HintsError) -> SyncError {
        SyncError::Hints { path: self.path().to_path_buf(), error }
    }

    /// The error that says what is wrong with the snapshot.
    pub fn of_snapshot(&self, error: SnapshotError) -> SyncError {
        SyncError::Snapshot { path: self.path().to_path_buf(), error }
    }
}

/// A snapshot file of this network.
///
/// # Errors
/// As for [`Claim::open_snapshot`].
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

/// The error of a snapshot file that could not be read.
pub fn of_read(path: &Path, error: SnapshotReadError) -> SyncError {
    match error {
        SnapshotReadError::Store(error) => error.into(),
        SnapshotReadError::Snapshot(error) => {
            SyncError::Snapshot { path: path.to_path_buf(), error }
        }
    }
}
