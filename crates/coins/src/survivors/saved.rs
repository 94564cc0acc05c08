use apus_disk::SavedParts;
use apus_wire::{Cursor, ParseError};

/// The locations of all records in the file, which [`Survivors::save`] returns and
/// [`Survivors::resume`] takes.
///
/// [`Survivors::save`]: super::Survivors::save
/// [`Survivors::resume`]: super::Survivors::resume
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSurvivors {
    pub(super) count: u64,
    pub(super) amount: u64,
    /// The slots, whose number is a power of two.
    pub(super) slots: SavedParts,
}

impl SavedSurvivors {
    /// The maximum number of bits that select the slot; more would make more slots than are ever
    /// needed.
    const BITS_MAX: u32 = 16;

    /// Returns the number of saved coins.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of leading txid bits that select a coin's slot.
    pub(super) fn bits(&self) -> u32 {
        self.slots.parts().ilog2()
    }

    /// Serialises the locations: count and amount, 8 bytes each, little endian, and the slots as in
    /// [`SavedParts::put`]. They take about 4 KB, and 12 bytes for each extent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.count, self.amount] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        self.slots.put(&mut out);
        out
    }

    /// Reads what [`SavedSurvivors::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are cut short, continue after the end, or name locations that no file can have.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(bytes);
        let count = cursor.u64()?;
        let amount = cursor.u64()?;
        let mut rest = &bytes[cursor.position()..];
        let Some(slots) = SavedParts::read(&mut rest) else {
            return Err(cursor.error("the locations are damaged or cut short"));
        };
        if !rest.is_empty() {
            return Err(cursor.error("bytes after the end"));
        }
        if !slots.parts().is_power_of_two() || slots.parts() > 1 << Self::BITS_MAX {
            return Err(cursor.error("an invalid number of slots"));
        }
        Ok(Self { count, amount, slots })
    }
}
