// What is going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Finding the blocks in the sources and checking their headers.
    Headers,
    /// Checking the blocks that are in the block files, for an index of them.
    Indexing,
    /// Checking and connecting blocks.
    Connecting,
    /// Taking back blocks of a chain that is no longer the best.
    Disconnecting,
    /// SwiftSync: working through blocks in any order.
    SwiftSync,
    /// Writing changed coins to the tables.
    WritingCoins,
    /// Merging the tables into one level.
    Merging,
    /// Reading the whole UTXO set.
    ReadingCoins,
    /// Reading what blocks have spent, from their undo data.
    ReadingUndo,
    /// Reading blocks to say which of their outputs are unspent.
    MakingHints,
    /// Reading all of a hints file.
    ReadingHints,
}

impl Phase {
    /// In words, for a progress line.
    pub fn words(self) -> &'static str {
        match self {
            Self::Headers => "Reading headers",
            Self::Indexing => "Checking stored blocks",
            Self::Connecting => "Connecting blocks",
            Self::Disconnecting => "Disconnecting blocks",
            Self::SwiftSync => "SwiftSync",
            Self::WritingCoins => "Writing coins",
            Self::Merging => "Merging tables",
            Self::ReadingCoins => "Reading the UTXO set",
            Self::ReadingUndo => "Reading undo data",
            Self::MakingHints => "Making hints",
            Self::ReadingHints => "Reading hints",
        }
    }
}

/// Where the work stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What is going on.
    pub phase: Phase,
    /// Height of the tip, or of the last header.
    pub height: u32,
    /// Time of that block, in seconds since 1970; 0 if unknown.
    pub time: u32,
    /// Blocks handled in this phase.
    pub blocks: u64,
    /// Bytes handled in this phase.
    pub bytes: u64,
    /// Coins in the cache.
    pub coins: u64,
    /// Share of this phase's work that is done, 0 to 1; 0 if unknown. For blocks it follows their
    /// bytes, which is what the time goes to.
    pub fraction: f64,
}

impl Progress {
    /// The beginning of a phase of which no more is known.
    pub fn of(phase: Phase) -> Self {
        let (height, time, blocks, bytes, coins, fraction) = (0, 0, 0, 0, 0, 0.0);
        Self { phase, height, time, blocks, bytes, coins, fraction }
    }

    /// Shows an observer which share of this phase's work is done, and all else as it is here.
    pub(super) fn share_to<'a>(self, observer: &'a dyn Observer) -> impl Fn(f64) + Sync + use<'a> {
        move |fraction| observer.observe(&Self { fraction, ..self.clone() })
    }
}

/// Whoever wants to see progress. Called often, from any thread, several at once: be quick.
pub trait Observer: Sync {
    /// Where the work stands.
    fn observe(&self, progress: &Progress);
}

/// An observer that does not look.
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &Progress) {}
}
