//! The phases of the work, as an observer sees them.

/// A phase of the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Finding the blocks in the sources and checking their headers.
    Headers,
    /// Checking the blocks in the block files, to build an index of them.
    Indexing,
    /// Checking and connecting blocks.
    Connecting,
    /// Disconnecting blocks of a chain that is no longer the best.
    Disconnecting,
    /// Copying blocks to the block files.
    StoringBlocks,
    /// Storing blocks of side branches, and those after a missing block.
    StoringBranches,
    /// SwiftSync: processing blocks in any order.
    SwiftSync,
    /// First pass of a join: reading blocks in any order, and writing their outputs and spends to
    /// partitions.
    JoinReading,
    /// Second pass of a join: matching spends with outputs, partition by partition.
    JoinMatching,
    /// Third pass of a join: checking each block's spends and writing its undo data.
    JoinChecking,
    /// Writing changed coins to the tables.
    WritingCoins,
    /// Merging the tables into one level.
    Merging,
    /// Reading the whole UTXO set.
    ReadingCoins,
    /// Reading the coins that blocks have spent, from their undo data.
    ReadingUndo,
    /// Checking the stored blocks of the active chain again, from the tip down.
    Verifying,
    /// Reading blocks to note which of their outputs are unspent.
    MakingHints,
    /// Reading a whole hints file.
    ReadingHints,
    /// Reading blocks for the outputs that hints say are unspent.
    ReadingBlocks,
    /// Reading all coins of a snapshot.
    ReadingSnapshot,
    /// Reading all blocks again to name the coins that hints or a snapshot are wrong about.
    NamingCoins,
    /// Checking again the blocks about whose coins undo data is wrong.
    CheckingAgain,
    /// Writing coins to a snapshot.
    WritingSnapshot,
    /// Reading blocks and undo data for Core's optional indexes.
    ReadingForIndexes,
    /// Reading filters of blocks to find those with some scripts.
    ReadingFilters,
    /// Sorting the entries of an index, and writing them to tables.
    WritingIndexes,
    /// Writing a table of coins, or of blocks and their contents, to a file.
    Exporting,
    /// Connecting to peers, while there is none yet.
    FindingPeers,
    /// Downloading a hints file from a peer.
    DownloadingHints,
    /// Asking peers for headers.
    DownloadingHeaders,
    /// Downloading blocks that are stored before a SwiftSync or an estimate begins.
    DownloadingBlocks,
    /// Waiting for headers with the minimum chain work.
    WaitingForWork,
    /// Waiting for headers up to the height of the hints or the snapshot.
    WaitingForHeaders,
    /// Waiting for the next blocks of a known chain, which no connected peer sends.
    WaitingForBlocks,
    /// Waiting for new blocks at the tip.
    Following,
    /// Serving blocks to peers.
    Serving,
}

impl Phase {
    /// Returns the phase in words, for a progress line.
    pub fn words(self) -> &'static str {
        match self {
            Self::Headers => "Reading headers",
            Self::Indexing => "Checking stored blocks",
            Self::Connecting => "Connecting blocks",
            Self::Disconnecting => "Disconnecting blocks",
            Self::StoringBlocks => "Storing blocks",
            Self::StoringBranches => "Storing blocks of side branches",
            Self::SwiftSync => "SwiftSync",
            Self::JoinReading => "Join 1/3: reading blocks",
            Self::JoinMatching => "Join 2/3: matching spends",
            Self::JoinChecking => "Join 3/3: checking spends",
            Self::WritingCoins => "Writing coins",
            Self::Merging => "Merging tables",
            Self::ReadingCoins => "Reading the UTXO set",
            Self::ReadingUndo => "Reading undo data",
            Self::Verifying => "Verifying blocks",
            Self::MakingHints => "Making hints",
            Self::ReadingHints => "Reading hints",
            Self::ReadingBlocks => "Reading blocks",
            Self::ReadingSnapshot => "Reading the snapshot",
            Self::NamingCoins => "Looking for wrong coins",
            Self::CheckingAgain => "Checking blocks again",
            Self::WritingSnapshot => "Writing the snapshot",
            Self::ReadingFilters => "Reading filters",
            Self::ReadingForIndexes => "Reading blocks for indexes",
            Self::WritingIndexes => "Writing indexes",
            Self::Exporting => "Exporting",
            Self::FindingPeers => "Looking for peers",
            Self::DownloadingHints => "Downloading hints",
            Self::DownloadingHeaders => "Downloading headers",
            Self::DownloadingBlocks => "Downloading the blocks that come first",
            Self::WaitingForWork => "Waiting for a chain with the minimum work",
            Self::WaitingForHeaders => {
                "Waiting for headers up to the height of the hints or the snapshot"
            }
            Self::WaitingForBlocks => "Waiting for a peer that has the next blocks",
            Self::Following => "Waiting for new blocks",
            Self::Serving => "Serving blocks",
        }
    }

    /// Returns whether nothing is done in this phase but to wait for peers: nothing says how long
    /// that takes.
    pub fn waits(self) -> bool {
        matches!(
            self,
            Self::FindingPeers
                | Self::WaitingForWork
                | Self::WaitingForHeaders
                | Self::WaitingForBlocks
                | Self::Following
                | Self::Serving
        )
    }
}
