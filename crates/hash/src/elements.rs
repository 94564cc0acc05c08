/// A list of byte strings of any length, in one buffer.
#[derive(Clone, Debug, Default)]
pub struct Elements {
    bytes: Vec<u8>,
    /// The end of each element in `bytes`.
    ends: Vec<usize>,
}

impl Elements {
    /// Adds the element that `write` appends to the buffer.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Adds an element.
    #[inline]
    pub fn push(&mut self, element: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(element));
    }

    /// Removes all elements and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the number of bytes of all elements together.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the element at `index`, which must be below [`Elements::len`].
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// Returns an iterator over the elements, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}
