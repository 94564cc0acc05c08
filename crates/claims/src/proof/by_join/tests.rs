use apus_node::opened::Coins;
use apus_node::options::AssumeValid;
use apus_node::run::Run;
use apus_node::scan::{open_sources, scan_into_node};
use apus_progress::Watch;
use apus_sync::unfinished::open_node;
use apus_testdata::data;
use apus_wire::{Chain, Network};

use super::*;

/// The height of the chain.
const HEIGHT: u32 = 206;

/// Returns a node that stores no blocks and has a source of the chain, and the chain's last block.
fn node(place: &Path) -> (Node, BlockId) {
    let options = Options::new(place.to_path_buf(), Network::new(Chain::Regtest));
    let options = Options { assumevalid: AssumeValid::Nothing, threads: 2, ..options };
    let mut node = open_node(&Run::new(&options), Coins::InPlace).unwrap();
    node.ledger_mut().writes.blocks = false;
    let sources = open_sources(&options, &[data("regtest-1-206.dat")]).unwrap();
    scan_into_node(&mut node, &sources, Watch::default()).unwrap();
    let last = node.tree().best_header();
    assert_eq!(node.tree().node(last).height, HEIGHT);
    (node, last)
}

/// Returns the bytes of blocks and undo data that are stored: those of genesis if no block was
/// stored.
fn stored(node: &Node) -> u64 {
    node.files().infos().iter().map(|info| u64::from(info.size + info.undo_size)).sum()
}

#[test]
fn blocks_in_order_and_joined_leave_the_same_and_are_not_stored() {
    let check = |node: &mut Node, last: BlockId| {
        let hash = node.tree().node(last).hash;
        check_blocks(node, &hash, Watch::default()).unwrap()
    };
    let place = tempfile::tempdir().unwrap();
    let (mut whole, last) = node(place.path());
    let genesis = stored(&whole);
    let joined = check(&mut whole, last);
    assert!(joined.amount.is_some_and(|amount| amount > 0), "the join adds up");
    assert_eq!((whole.tip(), stored(&whole)), (last, genesis));
    // As after a join that ended below a block: the blocks up to it are connected in order, and
    // those above it joined.
    for height in [1, 105, HEIGHT - 1, HEIGHT] {
        let place = tempfile::tempdir().unwrap();
        let (mut node, last) = node(place.path());
        let block = node.tree().ancestor(last, height).unwrap();
        activate(&mut node, Goal::Exactly(block), Watch::default()).unwrap();
        assert_eq!(node.tip(), block, "{height}");
        assert_eq!(stored(&node), genesis, "{height}");
        let left = check(&mut node, last);
        assert_eq!((left.coins, left.amount), (joined.coins, None), "{height}");
        assert_eq!((node.tip(), stored(&node)), (last, genesis), "{height}");
        assert_eq!(node.ledger().done.counts, whole.ledger().done.counts, "{height}");
        assert!(node.ledger().done.checked.not_checked().is_empty(), "{height}");
    }
}

#[test]
fn other_coins_than_those_of_the_sums_are_no_proof() {
    let left = Left { coins: Some(5), amount: Some(70), spilled: 0 };
    let tally = |coins, amount| Tally { coins, amount, ..Tally::default() };
    assert!(left.expect(&tally(5, 70)).is_ok());
    for wrong in [tally(4, 70), tally(5, 71)] {
        let error = left.expect(&wrong).unwrap_err().to_string();
        assert!(error.contains("two passes over the same blocks differ"), "{error}");
    }
    let in_part = Left { amount: None, ..left };
    assert!(in_part.expect(&tally(5, 1)).is_ok() && in_part.expect(&tally(6, 1)).is_err());
}
