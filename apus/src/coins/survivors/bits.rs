/// The number of bits of a txid that determine where a coin is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotBits {
    /// The first bits, which determine the partition.
    pub partition: u32,
    /// The bits after those, which determine the slot in the partition.
    pub slot: u32,
}

impl SlotBits {
    /// The bits of both kinds together.
    pub const fn total(self) -> u32 {
        self.partition + self.slot
    }
}
