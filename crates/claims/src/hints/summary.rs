//! The result of making, converting or compressing a hints file.

use std::time::{Duration, Instant};

use apus_hash::Hash;
use apus_host::resources;
use apus_node::error::SyncError;

/// The result of making, converting or compressing a hints file.
#[derive(Clone, Debug, PartialEq)]
pub struct HintsSummary {
    /// The height at which the hinted outputs are unspent.
    pub height: u32,
    /// The block at that height; `None` if no directory was read, or no file was made.
    pub best_block: Option<Hash>,
    /// Number of blocks that have hints: all from height 1 to [`HintsSummary::height`].
    pub blocks: u32,
    /// Number of the blocks' outputs that the format counts ([`apus_swiftsync::Numbering`]); `None`
    /// if it is not known, or no file was made.
    pub outputs: Option<u64>,
    /// Number of unspent outputs.
    pub unspent: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Wall clock time.
    pub elapsed: Duration,
    /// The most memory that the process ever had in RAM, in bytes; 0 if the system does not say.
    pub peak_memory: u64,
    /// Whether the work was stopped before the end, so that no file was made.
    pub interrupted: bool,
}

/// The numbers of a hints file that was made.
#[derive(Default)]
pub(super) struct Made {
    /// See [`HintsSummary::best_block`].
    pub best_block: Option<Hash>,
    /// See [`HintsSummary::outputs`].
    pub outputs: Option<u64>,
    /// See [`HintsSummary::unspent`].
    pub unspent: u64,
    /// See [`HintsSummary::bytes`].
    pub bytes: u64,
}

impl HintsSummary {
    /// Returns the summary of work on hints for `height` that began at `started`.
    ///
    /// # Errors
    /// The work failed.
    pub(super) fn of(
        height: u32,
        started: Instant,
        result: Result<Made, SyncError>,
    ) -> Result<Self, SyncError> {
        let made = SyncError::unless_stopped(result)?;
        let interrupted = made.is_none();
        let Made { best_block, outputs, unspent, bytes } = made.unwrap_or_default();
        let blocks = height;
        let elapsed = started.elapsed();
        Ok(Self {
            height,
            best_block,
            blocks,
            outputs,
            unspent,
            bytes,
            elapsed,
            peak_memory: resources::peak_memory(),
            interrupted,
        })
    }
}
