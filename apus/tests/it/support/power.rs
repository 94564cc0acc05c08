use std::ops::RangeInclusive;
use std::sync::Arc;

use apus_disk::{Disk, PowerCut};
use apus_testchain::{every, rounds};

/// Returns power cuts at some of the changes to the disk whose numbers are in `range`, every
/// `default`-th: by turns one after which nothing unsynced is left, and a torn one. With
/// `APUS_TEST_ROUNDS=N`, at N times as many changes; with N above `default`, both at every change.
pub fn power_cuts(range: RangeInclusive<u64>, default: u64) -> impl Iterator<Item = Arc<PowerCut>> {
    let both = rounds(1) > default;
    range.step_by(every(default)).zip(0..).flat_map(move |(cut_at, number): (u64, u64)| {
        let kinds = PowerCut::kinds(cut_at, 1).zip([0, 1]);
        kinds.filter(move |(_, kind)| both || number % 2 == *kind).map(|(power, _)| power)
    })
}

/// Returns a disk whose changes are counted, and the counter.
pub fn counted() -> (Disk, Arc<PowerCut>) {
    let counter = Arc::new(PowerCut::at(u64::MAX));
    (Disk::with_power_cut(Arc::clone(&counter)), counter)
}

pub fn failing(power: &Arc<PowerCut>) -> Disk {
    Disk::with_power_cut(Arc::clone(power))
}
