use std::collections::HashMap;

/// The scripts of several descriptors, found by their bytes.
#[derive(Default)]
pub struct Scripts {
    places: HashMap<Vec<u8>, ScriptPlace>,
}

/// Where a script comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ScriptPlace {
    /// The number of the descriptor, from 0.
    pub descriptor: u32,
    /// The index at which the descriptor has the script; `None` if it is no range.
    pub index: Option<u32>,
}

impl Scripts {
    /// Adds a script. If it is there already, the lower place counts.
    pub fn insert(&mut self, script: Vec<u8>, place: ScriptPlace) {
        let found = self.places.entry(script).or_insert(place);
        *found = place.min(*found);
    }

    /// Returns where a script comes from; `None` if no descriptor has it.
    #[inline]
    pub fn find(&self, script: &[u8]) -> Option<ScriptPlace> {
        self.places.get(script).copied()
    }

    /// Returns the scripts, each once, in any order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.keys().map(Vec::as_slice)
    }
}
