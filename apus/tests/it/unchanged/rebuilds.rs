//! A rebuild that is refused at its end, or that stops at any step, leaves the directory usable at
//! its old tip.

use apus_disk::Disk;
use apus_node::Run;
use apus_node::{AssumeValid, Options, SyncError};
use apus_progress::Watch;
use apus_sync as sync;
use apus_testchain::{Break, Parent};
use apus_wire::Chain;
use bitcoin::Block;
use bitcoin::consensus::deserialize;

use super::{copy_of_whole, loss, loss_for_core, usable};
use crate::support::blocks::{branch, bytes};
use crate::support::chains::small;
use crate::support::power::{counted, failing, power_cuts};
use crate::support::program::{apus, assert_ends, stdout};
use crate::support::{Place, with_genesis};

/// A rebuild, on a disk that may lose power.
type Rebuild = fn(&Disk, &Options) -> Result<sync::Summary, SyncError>;

const REBUILDS: [(&str, Rebuild); 2] = [
    ("reindex", |disk, options| sync::reindex_on(&Run::on(disk, options), Watch::default())),
    ("reindex --index", |disk, options| {
        sync::reindex_files_on(&Run::on(disk, options), Watch::default())
    }),
];

/// A directory that was synced with a block whose script fails, below the block that is assumed
/// valid.
fn with_an_invalid_script() -> (Place, u32) {
    let chain = small(5);
    let mut blocks = with_genesis(chain);
    blocks.push(chain.broken(Break::ScriptVerify).block);
    let headers: Vec<Block> = blocks.iter().map(|bytes| deserialize(bytes).unwrap()).collect();
    let times = headers[headers.len() - 11..].iter().map(|block| block.header.time).collect();
    let height = blocks.len() as u32 - 1;
    let parent = Parent::new(headers[height as usize].block_hash(), height, times);
    // Two weeks of blocks must lie on top of what is assumed valid.
    let (above, tip) = branch(&parent, "above", 2100);
    blocks.extend(bytes(&above));
    let place = Place::new(Chain::Regtest);
    let assumed = apus_hash::Hash(*<bitcoin::BlockHash as AsRef<[u8; 32]>>::as_ref(&tip.hash));
    let options = Options { assumevalid: AssumeValid::Block(assumed), ..place.in_order() };
    let file = place.write("blocks", &blocks);
    let synced = sync::sync(&options, &[file], Watch::default()).unwrap();
    assert_eq!(synced.height, height + 2100, "{:?}", synced.refusals);
    (place, height)
}

#[test]
fn a_rebuild_that_has_committed_nothing_is_not_unfinished() {
    let place = copy_of_whole();
    // They are for blocks that the directory does not have.
    let hints = place.root().join("hints").display().to_string();
    assert_ends(&apus(&place, &["reindex", "--hints", &hints]), 1, &["the hints are for height"]);
    let status = apus(&place, &["status"]);
    assert_ends(&status, 0, &[]);
    assert!(!stdout(&status).contains("unfinished"), "{}", stdout(&status));
    assert_ends(&apus(&place, &["rewind", "--height=180"]), 0, &[]);
}

#[test]
fn a_refused_block_of_the_chain_in_use_is_not_marked() {
    let (whole, bad) = with_an_invalid_script();
    for (name, rebuild) in REBUILDS {
        let place = whole.copy();
        let before = usable(&place).unwrap();
        let error = rebuild(&Disk::new(), &place.in_order()).unwrap_err().to_string();
        assert!(error.contains(&format!("ends at height {}", bad - 1)), "{name}: {error}");
        assert_eq!(loss(&place, &before), None, "{name}");
        assert_eq!(loss_for_core(&place, || whole.copy()), None, "{name}");
        // If a lower set is allowed, it replaces the present one, and the block is marked.
        let options = Options { allow_shrink: true, ..place.in_order() };
        assert_eq!(rebuild(&Disk::new(), &options).unwrap().height, bad - 1, "{name}");
        assert_eq!(usable(&place).unwrap().height, bad - 1, "{name}");
        let again = sync::sync(&place.in_order(), &[], Watch::default()).unwrap();
        assert_eq!((again.height, again.counts.blocks), (bad - 1, 0), "{name}");
    }
}

#[test]
fn power_may_fail_at_any_step() {
    for (name, rebuild) in REBUILDS {
        // With a commit after every block.
        let run = |place: &Place, disk: &Disk| {
            let options = Options { dbcache_bytes: 1, ..place.in_order() };
            rebuild(disk, &Options { fast_prune: true, ..options })
        };
        let (disk, counter) = counted();
        run(&copy_of_whole(), &disk).unwrap();
        for power in power_cuts(1..=counter.steps(), 97) {
            let place = copy_of_whole();
            let before = usable(&place).unwrap();
            if run(&place, &failing(&power)).is_ok() {
                continue;
            }
            power.lose_unsynced().unwrap();
            assert_eq!(loss(&place, &before), None, "{name}, {power:?}");
            assert_eq!(loss_for_core(&place, copy_of_whole), None, "{name}, {power:?}");
        }
    }
}
