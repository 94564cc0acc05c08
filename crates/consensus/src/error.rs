use std::borrow::Cow;
use std::fmt;

/// The consensus rule that a block or header breaks, in Bitcoin Core's words.
///
/// Displayed as Core logs it: `reason, debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// Core's reject reason, such as `bad-txns-inputs-missingorspent`.
    pub reason: Cow<'static, str>,
    /// Core's debug message, which may be empty: the transaction or input, and the values.
    pub debug: String,
    /// What the broken rule says about the block's hash.
    pub class: RuleClass,
}

/// Core's `BlockValidationResult`: what a broken rule says about the block's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleClass {
    /// The block is invalid, now and forever (`BLOCK_CONSENSUS`).
    Consensus,
    /// These bytes are not what the header commits to; others with the same hash may be valid
    /// (`BLOCK_MUTATED`).
    Mutated,
    /// The header is invalid, now and forever (`BLOCK_INVALID_HEADER`).
    InvalidHeader,
    /// The header is too far in the future; it may become valid later (`BLOCK_TIME_FUTURE`).
    TimeFuture,
    /// The parent is unknown (`BLOCK_MISSING_PREV`).
    MissingPrev,
    /// The parent is invalid (`BLOCK_INVALID_PREV`).
    InvalidPrev,
    /// The block is known to be invalid (`BLOCK_CACHED_INVALID`).
    CachedInvalid,
    /// The chain of headers has too little work to be stored (`BLOCK_HEADER_LOW_WORK`).
    LowWork,
}

impl RuleError {
    /// Returns an error of the given class.
    #[cold]
    pub fn new(
        class: RuleClass,
        reason: impl Into<Cow<'static, str>>,
        debug: impl Into<String>,
    ) -> Self {
        Self { reason: reason.into(), debug: debug.into(), class }
    }

    /// Returns an error of [`RuleClass::Consensus`].
    #[cold]
    pub fn consensus(reason: &'static str, debug: impl Into<String>) -> Self {
        Self::new(RuleClass::Consensus, reason, debug)
    }

    /// Returns an error of [`RuleClass::Mutated`].
    #[cold]
    pub fn mutated(reason: &'static str, debug: impl Into<String>) -> Self {
        Self::new(RuleClass::Mutated, reason, debug)
    }

    /// Returns an error of [`RuleClass::InvalidHeader`].
    #[cold]
    pub fn header(reason: impl Into<Cow<'static, str>>, debug: impl Into<String>) -> Self {
        Self::new(RuleClass::InvalidHeader, reason, debug)
    }

    /// Returns whether the block's hash should be remembered as invalid. Mutated bytes say nothing
    /// about the hash, and a header from the future or without a known parent may become valid
    /// later.
    pub fn condemns_hash(&self) -> bool {
        match self.class {
            RuleClass::Consensus
            | RuleClass::InvalidHeader
            | RuleClass::InvalidPrev
            | RuleClass::CachedInvalid => true,
            RuleClass::Mutated
            | RuleClass::TimeFuture
            | RuleClass::MissingPrev
            | RuleClass::LowWork => false,
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.debug.is_empty() {
            write!(f, ", {}", self.debug)?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleError {}
