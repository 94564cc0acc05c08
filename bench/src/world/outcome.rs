use std::time::Duration;

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Bytes of blocks that arrived and were of use.
    pub bytes: u64,
    /// Bytes that the outbound peers that were connected could have sent, as far as our line and
    /// validation allow.
    pub possible: f64,
    /// The time from the first request of a block to the end.
    pub time: Duration,
    /// The longest time in which no block was taken.
    pub longest_gap: Duration,
    /// The time from the start until the first block was requested.
    pub headers: Duration,
    /// Honest peers that were dropped.
    pub honest_dropped: u64,
    /// Other peers that were dropped.
    pub others_dropped: u64,
    /// Why peers were dropped, with the time.
    pub drops: Vec<(Duration, u64, String)>,
    /// Peers whose slot a faster one took.
    pub replaced: u64,
    /// Bytes of blocks that arrived and were of no use: they came twice, or too late.
    pub wasted: u64,
    /// The most bytes of blocks that waited to be taken.
    pub waiting_max: u64,
}

impl Outcome {
    /// Returns the bytes that were of use, as a share of what was possible.
    pub fn share(&self) -> f64 {
        self.bytes as f64 / self.possible
    }
}
