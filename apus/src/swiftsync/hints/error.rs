use std::fmt;

/// The hints file is to blame. Hints cannot change what is valid: SwiftSync stops, and syncing in
/// order works without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintsError {
    /// The block whose hints are wrong, where it is one block's.
    pub height: Option<u32>,
    /// What is wrong, in words for the user.
    pub what: String,
}

impl HintsError {
    /// Wrong hints for the block at `height`.
    pub fn at(height: u32, what: impl Into<String>) -> Self {
        Self { height: Some(height), what: what.into() }
    }

    /// A file that is wrong as a whole.
    pub fn new(what: impl Into<String>) -> Self {
        Self { height: None, what: what.into() }
    }
}

impl fmt::Display for HintsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(height) = self.height {
            write!(f, "block {height}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for HintsError {}
