/// Hints that cannot be right. They cannot change what is valid: SwiftSync stops, and a sync in
/// order works without them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", at(*height))]
pub struct HintsError {
    /// The block whose hints are wrong; `None` if the whole file is.
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

fn at(height: Option<u32>) -> String {
    height.map_or_else(String::new, |height| format!("block {height}: "))
}
