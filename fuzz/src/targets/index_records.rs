//! Values of the records of Core's optional indexes, the saved work of an index, and filters.

use apus_hash::{Hash, sha256d};
use apus_indexes::{FilterEntry, SavedSort, SipKeys, Totals, WantedScripts};
use apus_store::{locator_bytes, read_locator};

/// Reads `data` as a value of each kind, and as saved work whose checksum is corrected. What is
/// accepted is the same once written again.
pub fn run(data: &[u8]) {
    if let Ok((muhash, totals)) = Totals::read(data) {
        assert_eq!(totals.to_bytes(&muhash), data);
        // Sums of numbers that were accepted do not overflow.
        let _ = totals.unspendable();
    }
    if let Ok(entry) = FilterEntry::read(data) {
        assert_eq!(entry.to_bytes(), data);
    }
    if let Some(keys) = SipKeys::from_bytes(data) {
        assert_eq!(keys.to_bytes(), data);
    }
    if let Some((content, _)) = data.split_last_chunk::<32>() {
        let file = [content, &sha256d(content).0].concat();
        if let Some(saved) = SavedSort::parse(&file) {
            assert_eq!(SavedSort::parse(&saved.to_bytes()), Some(saved));
        }
    }
    // A filter may hold anything.
    let _ = WantedScripts::new([&[0x51][..], &data[..data.len() / 2]]).any_in(&Hash::ZERO, data);
    if let Ok(Some(best)) = read_locator(data) {
        assert_eq!(read_locator(&locator_bytes(&[best, Hash::ZERO])), Ok(Some(best)));
    }
}
