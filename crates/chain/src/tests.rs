//! Compares the tree with a model that looks at every block for every query.

use apus_consensus::{Work, block_work};
use apus_wire::{BlockView, Chain, Header, Network, genesis_block};
use proptest::prelude::*;

use super::*;

/// A change to a tree. Numbers are taken modulo the number of blocks.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A header that builds on a block, with one of two difficulties.
    Add(usize, bool),
    Available(usize),
    Stored(usize, bool),
    Missing(usize),
    Failed(usize),
    SettleOn(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || 0..1000usize;
    let step = prop_oneof![
        6 => (at(), any::<bool>()).prop_map(|(at, hard)| Step::Add(at, hard)),
        // Mostly near the end, so that there are long branches.
        6 => any::<bool>().prop_map(|hard| Step::Add(usize::MAX, hard)),
        8 => at().prop_map(Step::Available),
        2 => (at(), any::<bool>()).prop_map(|(at, active)| Step::Stored(at, active)),
        2 => at().prop_map(Step::Missing),
        1 => at().prop_map(Step::Failed),
        1 => at().prop_map(Step::SettleOn),
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Clone, Default)]
struct ModelBlock {
    prev: usize,
    height: u32,
    work: Work,
    failed: bool,
    available: bool,
    /// 0 for a block that is not linked.
    sequence: u32,
}

struct Model {
    blocks: Vec<ModelBlock>,
    /// Blocks that wait for their ancestors, in the order in which they became available.
    waiting: Vec<usize>,
    next_sequence: u32,
}

impl Model {
    fn new(work: Work) -> Self {
        let genesis = ModelBlock { work, ..ModelBlock::default() };
        Self { blocks: vec![genesis], waiting: Vec::new(), next_sequence: 3 }
    }

    fn add(&mut self, prev: usize, work: Work) {
        let parent = &self.blocks[prev];
        let height = parent.height + 1;
        let work = parent.work.plus(work);
        let failed = parent.failed;
        self.blocks.push(ModelBlock { prev, height, work, failed, ..ModelBlock::default() });
    }

    fn link(&mut self, at: usize, sequence: Option<u32>) {
        if std::mem::replace(&mut self.blocks[at].available, true) {
            return;
        }
        self.waiting.push(at);
        // A round for each generation: the order of Core's queue.
        let mut round = vec![at];
        while !round.is_empty() {
            let mut next = Vec::new();
            for block in round {
                let prev = self.blocks[block].prev;
                if block != 0 && self.blocks[prev].sequence == 0 {
                    continue;
                }
                self.waiting.retain(|waiting| *waiting != block);
                self.blocks[block].sequence = sequence.unwrap_or(self.next_sequence);
                self.next_sequence += u32::from(sequence.is_none());
                let waits = |other: &usize| self.blocks[*other].prev == block;
                next.extend(self.waiting.iter().copied().filter(waits));
            }
            round = next;
        }
    }

    fn missing(&mut self, at: usize) {
        if !std::mem::replace(&mut self.blocks[at].available, false) {
            return;
        }
        self.waiting.retain(|waiting| *waiting != at);
        for block in at..self.blocks.len() {
            let unlinked = block == at || self.blocks[self.blocks[block].prev].sequence == 0;
            if unlinked && self.blocks[block].sequence != 0 && block != 0 {
                self.blocks[block].sequence = 0;
                if block != at {
                    self.waiting.push(block);
                }
            }
        }
    }

    fn fail(&mut self, at: usize) -> Vec<usize> {
        let mut marked = Vec::new();
        for block in at..self.blocks.len() {
            let prev = self.blocks[block].prev;
            let by_parent = block != 0 && self.blocks[prev].failed;
            if !self.blocks[block].failed && (block == at || by_parent) {
                self.blocks[block].failed = true;
                marked.push(block);
            }
        }
        marked
    }

    fn best(&self) -> Option<usize> {
        let may_be = |at: &usize| self.blocks[*at].sequence != 0 && !self.blocks[*at].failed;
        let rank = |at: &usize| {
            let block = &self.blocks[*at];
            (block.work, std::cmp::Reverse(block.sequence), std::cmp::Reverse(*at))
        };
        (0..self.blocks.len()).filter(may_be).max_by_key(rank)
    }

    fn best_header(&self) -> usize {
        let rank = |at: &usize| (self.blocks[*at].work, std::cmp::Reverse(*at));
        (0..self.blocks.len()).filter(|at| !self.blocks[*at].failed).max_by_key(rank).unwrap_or(0)
    }

    fn branches_at(&self, height: u32) -> Vec<usize> {
        let is_there = |at: &usize| {
            let block = &self.blocks[*at];
            block.height == height && block.sequence != 0 && !block.failed
        };
        (0..self.blocks.len()).filter(is_there).collect()
    }
}

fn id(tree: &Tree, index: usize) -> BlockId {
    tree.ids().nth(index).unwrap()
}

/// Applies the steps to the tree and to the model, and compares the two after each.
fn compare(steps: &[Step]) {
    let network = Network::new(Chain::Regtest);
    let bytes = genesis_block(&network);
    let genesis = *BlockView::parse(&bytes).unwrap().header();
    let mut tree = Tree::new(network);
    let mut model = Model::new(block_work(genesis.bits));
    for (number, step) in steps.iter().enumerate() {
        let count = model.blocks.len();
        match *step {
            Step::Add(on, hard) => {
                let prev = if on == usize::MAX { count - 1 } else { on % count };
                let bits = if hard { 0x1f7f_ffff } else { 0x207f_ffff };
                let prev_hash = tree.node(id(&tree, prev)).hash;
                let time = number as u32 * 7919 % 1000;
                let header = Header { prev: prev_hash, bits, time, ..genesis };
                let header = Header { nonce: number as u32, ..header };
                tree.restore(header.hash(), &header, false).unwrap();
                model.add(prev, block_work(bits));
                assert_eq!(tree.header(id(&tree, count)), header);
            }
            Step::Available(at) => {
                tree.mark_available(id(&tree, at % count));
                model.link(at % count, None);
            }
            Step::Stored(at, active) => {
                tree.mark_stored(id(&tree, at % count), active);
                model.link(at % count, Some(if active { 1 } else { 2 }));
            }
            Step::Missing(at) if at % count != 0 => {
                tree.mark_missing(id(&tree, at % count));
                model.missing(at % count);
            }
            Step::Failed(at) if at % count != 0 => {
                let marked = tree.mark_failed(id(&tree, at % count));
                let marked: Vec<usize> = marked.into_iter().map(BlockId::index).collect();
                assert_eq!(marked, model.fail(at % count));
            }
            // Only a chain that can be the tip becomes the active one.
            Step::SettleOn(at) if model.blocks[at % count].sequence != 0 => {
                tree.settle_on(id(&tree, at % count));
                let mut at = at % count;
                loop {
                    model.blocks[at].sequence = 1;
                    if at == 0 {
                        break;
                    }
                    at = model.blocks[at].prev;
                }
            }
            Step::Missing(_) | Step::Failed(_) | Step::SettleOn(_) => {}
        }
        assert_eq!(tree.best_candidate().map(BlockId::index), model.best(), "{number} {step:?}");
        assert_eq!(tree.best_header().index(), model.best_header(), "{number} {step:?}");
    }
    for height in 0..20 {
        let mut branches: Vec<usize> =
            tree.branches_at(height).into_iter().map(BlockId::index).collect();
        branches.sort_unstable();
        assert_eq!(branches, model.branches_at(height), "{height}");
    }
    for (at, block) in model.blocks.iter().enumerate() {
        let node = tree.node(id(&tree, at));
        assert_eq!((node.height, node.work, node.failed), (block.height, block.work, block.failed));
        let mut times: Vec<u32> =
            tree.ancestors(id(&tree, at)).take(11).map(|at| tree.node(at).time).collect();
        times.sort_unstable();
        assert_eq!(tree.median_time_past(id(&tree, at)), times[times.len() / 2]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_tree_answers_as_a_walk_over_all_blocks(steps in steps()) {
        compare(&steps);
    }
}

/// With many headers and as many queries, no query may walk over all headers.
#[test]
fn a_long_chain_takes_no_time_for_each_header() {
    const HEADERS: u32 = 200_000;
    let network = Network::new(Chain::Regtest);
    let bytes = genesis_block(&network);
    let genesis = *BlockView::parse(&bytes).unwrap().header();
    let mut tree = Tree::new(network);
    tree.mark_stored(tree.genesis(), true);
    let mut prev = tree.node(tree.genesis()).hash;
    let mut ids = Vec::new();
    for number in 1..=HEADERS {
        let header = Header { prev, time: number, nonce: number, ..genesis };
        prev = header.hash();
        ids.push(tree.restore(prev, &header, false).unwrap());
    }
    // If queries walked the chain, every other one would take 200,000 steps: 40 billion in all,
    // which no test would finish.
    for id in &ids {
        tree.mark_available(*id);
        assert_eq!(tree.best_candidate(), Some(*id));
    }
    for id in ids.iter().rev().take(1000) {
        assert_eq!(tree.mark_failed(*id), [*id]);
        assert_eq!(tree.best_candidate(), tree.node(*id).prev);
        assert_eq!(Some(tree.best_header()), tree.node(*id).prev);
    }
}
