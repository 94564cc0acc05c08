//! The comparisons.

use apus_progress::Method;
use apus_store::IndexKind;
use apus_testchain::Spec;

use super::compare::compare;
use super::daemon::bitcoind;
use super::worlds;

/// Heights of a chain of 200 blocks: quiet ones, and all that are full of transactions.
fn busy() -> Vec<usize> {
    [0, 1, 100, 143, 144].into_iter().chain(151..=200).collect()
}

#[test]
fn answers_about_every_kind_of_script_are_cores() {
    let Some(program) = bitcoind("answers_about_every_kind_of_script_are_cores") else { return };
    let world = worlds::branches(Spec::small(5), Method::InOrder, &IndexKind::ALL);
    compare(&program, &world, "regtest", &busy());
}

#[test]
fn answers_about_odd_scripts_are_cores() {
    let Some(program) = bitcoind("answers_about_odd_scripts_are_cores") else { return };
    let world = worlds::branches(Spec::odd(6), Method::Join, &[]);
    compare(&program, &world, "regtest", &busy());
}

/// A block that is full, and one that is empty.
#[test]
fn answers_about_large_blocks_are_cores() {
    let Some(program) = bitcoind("answers_about_large_blocks_are_cores") else { return };
    let spec = Spec { quiet_blocks: 600, busy_blocks: 2, busy_bytes: 3_000_000, ..Spec::small(8) };
    let world = worlds::branches(spec, Method::Join, &[IndexKind::TxIndex]);
    compare(&program, &world, "regtest", &[0, 1, 600, 601, 602]);
}

#[test]
fn answers_about_disconnected_blocks_are_cores() {
    let Some(program) = bitcoind("answers_about_disconnected_blocks_are_cores") else { return };
    let world = worlds::reorganised(Spec::small(12));
    compare(&program, &world, "regtest", &[0, 1, 150, 194, 195, 196, 200, 201, 202]);
}

#[test]
fn answers_about_mainnet_are_cores() {
    let Some(program) = bitcoind("answers_about_mainnet_are_cores") else { return };
    let world = worlds::mainnet();
    let sample: Vec<usize> = (0..world.blocks.len()).step_by(97).chain([170, 14_131]).collect();
    compare(&program, &world, "main", &sample);
}

#[test]
fn answers_about_pruned_blocks_are_cores() {
    let Some(program) = bitcoind("answers_about_pruned_blocks_are_cores") else { return };
    let world = worlds::pruned();
    let sample: Vec<usize> = (0..world.blocks.len()).step_by(23).chain([699, 700]).collect();
    compare(&program, &world, "regtest", &sample);
}
