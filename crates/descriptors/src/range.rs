/// The most indexes of a range.
const COUNT_MAX: i64 = 1_000_000;

/// The indexes at which a descriptor with a wildcard is taken, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first index.
    pub begin: u32,
    /// The last index, below 2^31.
    pub end: u32,
}

/// Why a range is refused, in Bitcoin Core's words (`ParseDescriptorRange`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The first index is above the last.
    #[error("Range specified as [begin,end] must not have begin after end")]
    Reversed,
    /// The first index is negative.
    #[error("Range should be greater or equal than 0")]
    Negative,
    /// The last index is 2^31 or above.
    #[error("End of range is too high")]
    TooHigh,
    /// There are more than a million indexes.
    #[error("Range is too large")]
    TooLarge,
}

impl Default for Range {
    /// The range that Bitcoin Core takes where none is given: 0 to 1000.
    fn default() -> Self {
        Self { begin: 0, end: 1000 }
    }
}

impl Range {
    /// Returns the range of these indexes.
    ///
    /// # Errors
    /// They are in the wrong order, out of range, or too many.
    pub fn new(begin: i64, end: i64) -> Result<Self, RangeError> {
        if begin > end {
            return Err(RangeError::Reversed);
        }
        let begin = u32::try_from(begin)
            .map_err(|_| if begin < 0 { RangeError::Negative } else { RangeError::TooHigh })?;
        match u32::try_from(end) {
            Ok(end) if end >> 31 == 0 => {
                if i64::from(end) >= i64::from(begin) + COUNT_MAX {
                    Err(RangeError::TooLarge)
                } else {
                    Ok(Self { begin, end })
                }
            }
            _ => Err(RangeError::TooHigh),
        }
    }

    /// Returns the number of indexes.
    pub fn count(self) -> u32 {
        self.end - self.begin + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_cores_limits() {
        assert_eq!(Range::new(0, 1000), Ok(Range::default()));
        assert_eq!(Range::new(5, 5).unwrap().count(), 1);
        assert_eq!(Range::new(1, 1_000_000).unwrap().count(), 1_000_000);
        assert_eq!(Range::new(0, 1_000_000), Err(RangeError::TooLarge));
        assert_eq!(Range::new(2, 1), Err(RangeError::Reversed));
        assert_eq!(Range::new(0, -1), Err(RangeError::Reversed));
        assert_eq!(Range::new(-1, 1), Err(RangeError::Negative));
        assert_eq!(Range::new(0, 1 << 31), Err(RangeError::TooHigh));
        assert_eq!(Range::new(1 << 40, 1 << 41), Err(RangeError::TooHigh));
        assert!(Range::new((1 << 31) - 1, (1 << 31) - 1).is_ok());
    }
}
