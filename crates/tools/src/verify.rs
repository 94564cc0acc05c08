//! Checks the blocks, undo data and UTXO set of a directory against each other.

use std::time::Instant;

use apus_disk::Disk;
use apus_host::resources::cpu_time;
use apus_indexes::damaged_indexes;
use apus_node::error::SyncError;
use apus_node::opened::Coins;
use apus_node::options::Options;
use apus_node::run::Run;
use apus_node::{remedy, snapshot_chainstate};
use apus_progress::Watch;
use apus_sync::unfinished::open_node;
use apus_sync::verify::{Damage, Verified, Verify, all_levels};

/// Checks the last blocks of the active chain, their undo data and the UTXO set (Core's
/// `verifychain`), and the optional indexes: their entries for these blocks or, if all blocks are
/// checked, everything in them. Writes nothing but the numbers of damaged block files, for the next
/// sync: the directory may be pruned, on a read-only mount, and open in other programs that read
/// it. Level 3 keeps about [`Options::dbcache_bytes`] of coins in memory; the report says how many
/// blocks it could check with that.
///
/// If `stop` becomes true, returns what was found so far.
///
/// # Errors
/// The directory cannot be opened: it is in use or missing, or its index or its chainstate is
/// damaged; or the system does not let it be read. Any other damage is not an error, but is listed
/// in [`Verified::damage`].
pub fn verify(options: &Options, asked: Verify, watch: Watch) -> Result<Verified, SyncError> {
    verify_on(&Disk::new(), options, asked, watch)
}

/// Does the same as [`verify()`], on the caller's disk, which may fail in tests.
///
/// # Errors
/// As for [`verify()`].
pub fn verify_on(
    disk: &Disk,
    options: &Options,
    asked: Verify,
    watch: Watch,
) -> Result<Verified, SyncError> {
    remedy::naming(options, || {
        let started = Instant::now();
        let cpu = cpu_time();
        let mut node = open_node(&Run::on(disk, options), Coins::ReadOnly)?;
        snapshot_chainstate::announce(node.dir().disk(), node.dir().path(), watch.observer)?;
        let mut found = all_levels(&mut node, asked, watch)?;
        found.script_difference = node.shared().scripts.difference().cloned();
        let is_pruned = node.ledger().pruning.is_pruned;
        let with_remedy = |damage: Damage| Damage {
            error: remedy::of_damage(options, || is_pruned, damage.error),
            ..damage
        };
        found.damage.listed = found.damage.listed.into_iter().map(with_remedy).collect();
        let lowest = found.levels.first().map_or(found.height, |level| level.from);
        let damaged = damaged_indexes(&node, &(lowest..=found.height), asked.blocks == 0, watch)?;
        let with_remedy = |(kind, error)| (kind, remedy::of_damage(options, || is_pruned, error));
        found.damaged_indexes = damaged.into_iter().map(with_remedy).collect();
        found.interrupted |= watch.is_stopped();
        (found.elapsed, found.cpu) = (started.elapsed(), cpu_time() - cpu);
        Ok(found)
    })
}
