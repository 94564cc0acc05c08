/// A list of elements of any length, in one buffer.
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

    /// Removes all elements; their memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of bytes of all elements together.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The element at `index`, which must be below [`Elements::len`].
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// The elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}
