//! The regtest chain of 206 blocks: in order and out of order, from several sources, and in parts.

use apus_progress::Watch;
use apus_wire::Chain;

use crate::support::{Place, regtest_chain};

#[test]
fn every_rule_and_script_of_the_regtest_chain_passes() {
    let place = Place::new(Chain::Regtest);
    let summary = place.sync(&[place.write("blocks", &regtest_chain())]);
    assert_eq!(summary.height, 206);
    assert!(summary.counts.scripts > 0);
    assert_eq!(summary.counts.scripts, summary.counts.inputs);
    assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
}

#[test]
fn the_order_of_blocks_in_a_source_does_not_matter() {
    let chain = regtest_chain();
    let in_order = Place::new(Chain::Regtest);
    in_order.sync(&[in_order.write("blocks", &chain)]);
    let reversed: Vec<_> = chain.iter().rev().collect();
    let odd_first: Vec<_> =
        chain.iter().skip(1).step_by(2).chain(chain.iter().step_by(2)).collect();
    let twice: Vec<_> = chain.iter().chain(&chain).collect();
    for blocks in [reversed, odd_first, twice] {
        let place = Place::new(Chain::Regtest);
        let summary = place.sync(&[place.write("blocks", blocks)]);
        assert_eq!(summary.height, 206);
        assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
        assert_eq!(place.muhash(), in_order.muhash());
    }
}

#[test]
fn several_sources_and_several_runs_add_up() {
    let chain = regtest_chain();
    let whole = Place::new(Chain::Regtest);
    whole.sync(&[whole.write("blocks", &chain)]);
    let place = Place::new(Chain::Regtest);
    let parts = [place.write("b", &chain[90..]), place.write("a", &chain[..90])];
    assert_eq!(place.sync(&parts).height, 206);
    assert_eq!(place.sync(&parts).counts.blocks, 0, "nothing is left to do");
    assert_eq!(place.sync(&[]).height, 206);
    assert_eq!(place.muhash(), whole.muhash());
}

#[test]
fn a_stop_height_is_kept_and_gone_on_from() {
    let chain = regtest_chain();
    let place = Place::new(Chain::Regtest);
    let blocks = place.write("blocks", &chain);
    let mut options = place.options();
    options.stop_at_height = Some(120);
    let sources = [blocks];
    let summary = apus_sync::sync(&options, &sources, Watch::default()).unwrap();
    assert_eq!(summary.height, 120);
    assert_eq!(place.sync(&sources).height, 206);
}
