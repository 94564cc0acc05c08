use memmap2::MmapMut;

use crate::disk::StoreError;

use super::spill::{Extent, Spill};

/// Slots that share one piece of memory, in equal parts.
#[derive(Default)]
pub(super) struct Partition {
    /// Allocated when the first record comes.
    memory: Option<MmapMut>,
    pub slots: Vec<Slot>,
}

/// Records whose txids begin with the same bits, in no particular order.
#[derive(Default)]
pub(super) struct Slot {
    /// The bytes of records in memory, from the start of the slot's share on.
    held: usize,
    /// The records in the file, where they were written to make room.
    pub extents: Vec<Extent>,
}

impl Partition {
    pub(super) fn new(slots: usize) -> Self {
        Self { memory: None, slots: (0..slots).map(|_| Slot::default()).collect() }
    }

    /// Appends whole records to a slot. Each slot has `slot_bytes` of memory.
    pub(super) fn append(
        &mut self,
        slot: usize,
        records: &[u8],
        slot_bytes: usize,
        spill: &Spill,
    ) -> Result<(), StoreError> {
        if self.slots[slot].held + records.len() > slot_bytes {
            self.move_to_file(slot, slot_bytes, spill)?;
        }
        if records.len() > slot_bytes {
            let mut pages = records.to_vec();
            pages.resize(records.len().next_multiple_of(super::spill::PAGE_BYTES), 0);
            let extent = spill.write(&pages, records.len())?;
            self.slots[slot].extents.push(extent);
            return Ok(());
        }
        let memory = match &mut self.memory {
            Some(memory) => memory,
            None => {
                let memory = map(slot_bytes * self.slots.len(), spill)?;
                self.memory.insert(memory)
            }
        };
        let start = slot * slot_bytes + self.slots[slot].held;
        memory[start..start + records.len()].copy_from_slice(records);
        self.slots[slot].held += records.len();
        Ok(())
    }

    /// Moves the records that a slot has in memory to the file.
    pub(super) fn move_to_file(
        &mut self,
        slot: usize,
        slot_bytes: usize,
        spill: &Spill,
    ) -> Result<(), StoreError> {
        let held = std::mem::take(&mut self.slots[slot].held);
        let Some(memory) = self.memory.as_mut().filter(|_| held > 0) else { return Ok(()) };
        let share = &mut memory[slot * slot_bytes..][..slot_bytes];
        let pages = held.next_multiple_of(super::spill::PAGE_BYTES);
        share[held..pages].fill(0);
        let extent = spill.write(&share[..pages], held)?;
        self.slots[slot].extents.push(extent);
        Ok(())
    }

    /// The records that a slot has in memory.
    pub(super) fn held(&mut self, slot: usize, slot_bytes: usize) -> &mut [u8] {
        let held = self.slots[slot].held;
        match &mut self.memory {
            Some(memory) => &mut memory[slot * slot_bytes..][..held],
            None => &mut [],
        }
    }

    /// The bytes of all records, in memory and in the file.
    pub(super) fn bytes(&self) -> u64 {
        let slot = |slot: &Slot| {
            slot.held as u64 + slot.extents.iter().map(|e| u64::from(e.bytes)).sum::<u64>()
        };
        self.slots.iter().map(slot).sum()
    }

    /// Frees the memory. Records in the file stay there, for a run that has to be resumed.
    pub(super) fn free(&mut self) {
        *self = Self::new(self.slots.len());
    }
}

/// Maps zeroed memory that starts at a page and is allocated as it is touched. Huge pages save 60
/// ms of page faults where memory was in use before, but cost 500 ms in a virtual machine whose
/// host has to find them first.
pub(super) fn map(bytes: usize, spill: &Spill) -> Result<MmapMut, StoreError> {
    MmapMut::map_anon(bytes).map_err(|e| spill.no_memory(e))
}
