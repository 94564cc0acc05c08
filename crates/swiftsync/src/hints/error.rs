/// The error for invalid hints. They cannot change which blocks are valid: SwiftSync stops, and a
/// sync in block order works without hints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", at(*height))]
pub struct HintsError {
    /// The block whose hints are wrong; `None` if the whole file is.
    pub height: Option<u32>,
    /// The fault, in words for the user.
    pub what: String,
}

impl HintsError {
    /// Creates an error for the hints of the block at `height`.
    pub fn at(height: u32, what: impl Into<String>) -> Self {
        Self { height: Some(height), what: what.into() }
    }

    /// Creates an error for the whole file.
    pub fn new(what: impl Into<String>) -> Self {
        Self { height: None, what: what.into() }
    }
}

fn at(height: Option<u32>) -> String {
    height.map_or_else(String::new, |height| format!("block {height}: "))
}
