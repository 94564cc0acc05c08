use std::collections::{HashMap, VecDeque};

use crate::hash::Hash;
use crate::rules::{
    Ancestry, HeaderFacts, RuleClass, RuleError, Work, block_work, check_header,
    check_header_in_context,
};
use crate::wire::{Header, Network};

/// A block in the tree: an index that never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(u32);

impl BlockId {
    /// The index, for tables that are kept next to the tree.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block in the tree, without its transactions (Core's `CBlockIndex`).
#[derive(Clone, Debug)]
pub struct BlockNode {
    /// The block's hash.
    pub hash: Hash,
    /// The header.
    pub header: Header,
    /// The distance from the genesis block.
    pub height: u32,
    /// The parent; `None` for the genesis block.
    pub prev: Option<BlockId>,
    /// The work of the chain that ends with this block.
    pub work: Work,
    /// Whether this block or one of its ancestors breaks a rule.
    pub failed: bool,
    /// A distant ancestor, so that any ancestor is found in logarithmic time (Core's `pskip`).
    skip: Option<BlockId>,
    /// Stored, since BIP68 needs that of many blocks.
    median_time_past: u32,
    /// Whether the block's bytes are in the data directory or in a source, and not known to be
    /// damaged.
    is_available: bool,
    /// The order in which blocks became linked, which is when their bytes and those of all their
    /// ancestors were first available; [`SEQUENCE_UNLINKED`] for a block that is not linked.
    sequence: u32,
}

/// Sequence numbers are Core's and one more. Core gives 0 to the blocks of the best chain on disk
/// and 1 to all others found there, and counts on from 2.
const SEQUENCE_UNLINKED: u32 = 0;
const SEQUENCE_ACTIVE: u32 = 1;
const SEQUENCE_FROM_DISK: u32 = 2;
const SEQUENCE_FIRST_NEW: u32 = 3;

/// The tree of all known headers, from the genesis block on.
pub struct Tree {
    network: Network,
    nodes: Vec<BlockNode>,
    by_hash: HashMap<Hash, BlockId>,
    /// Blocks whose bytes are available and those of some ancestor are not, by parent.
    unlinked: HashMap<BlockId, Vec<BlockId>>,
    best_header: BlockId,
    next_sequence: u32,
}

impl Tree {
    /// The tree of `network` with nothing but its genesis block.
    pub fn new(network: Network, genesis: Header) -> Self {
        let node = BlockNode {
            hash: network.genesis_hash,
            header: genesis,
            height: 0,
            prev: None,
            work: block_work(genesis.bits),
            failed: false,
            skip: None,
            median_time_past: genesis.time,
            is_available: false,
            sequence: SEQUENCE_UNLINKED,
        };
        Self {
            by_hash: HashMap::from([(node.hash, BlockId(0))]),
            network,
            nodes: vec![node],
            unlinked: HashMap::new(),
            best_header: BlockId(0),
            next_sequence: SEQUENCE_FIRST_NEW,
        }
    }

    /// The network that the headers belong to.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The genesis block.
    pub fn genesis(&self) -> BlockId {
        BlockId(0)
    }

    /// The number of headers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false: the tree has at least the genesis block.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// All blocks, parents before children.
    pub fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.nodes.len() as u32).map(BlockId)
    }

    /// The header of `id` and what is known about it.
    #[inline]
    pub fn node(&self, id: BlockId) -> &BlockNode {
        &self.nodes[id.index()]
    }

    /// The block with this hash; `None` if its header is not known.
    pub fn find(&self, hash: &Hash) -> Option<BlockId> {
        self.by_hash.get(hash).copied()
    }

    /// The header with the most work that is not known to be invalid (Core's `m_best_header`).
    pub fn best_header(&self) -> BlockId {
        self.best_header
    }

    /// `id`, its parent, and so on to the genesis block.
    pub fn ancestors(&self, id: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        std::iter::successors(Some(id), |at| self.node(*at).prev)
    }

    /// The ancestor of `id`, or `id` itself, at `height`; `None` above it (Core's `GetAncestor`).
    pub fn ancestor(&self, id: BlockId, height: u32) -> Option<BlockId> {
        let mut at = id;
        if height > self.node(at).height {
            return None;
        }
        while self.node(at).height > height {
            let node = self.node(at);
            at = match node.skip {
                Some(skip) if self.node(skip).height >= height => skip,
                _ => node.prev?,
            };
        }
        Some(at)
    }

    /// The median time past of a block (BIP113; Core's `GetMedianTimePast`).
    pub fn median_time_past(&self, id: BlockId) -> u32 {
        self.node(id).median_time_past
    }

    /// Median time past of the block's parent, which locks in the block are compared with (BIP113);
    /// 0 for genesis.
    pub fn parent_median_time_past(&self, id: BlockId) -> i64 {
        self.node(id).prev.map_or(0, |parent| i64::from(self.median_time_past(parent)))
    }

    /// Checks a header and adds it (Core's `AcceptBlockHeader`). `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The header breaks a rule; its parent is not known (`prev-blk-not-found`) or marked as failed
    /// (`bad-prevblk`); or the block itself is known and marked as failed (`duplicate-invalid`).
    pub fn accept_header(&mut self, header: &Header, now: i64) -> Result<BlockId, RuleError> {
        let hash = header.hash();
        if let Some(id) = self.find(&hash) {
            return match self.node(id).failed {
                true => Err(known_invalid(&hash)),
                false => Ok(id),
            };
        }
        check_header(header, &hash, &self.network)?;
        let Some(parent) = self.find(&header.prev) else {
            return Err(RuleError::new(RuleClass::MissingPrev, "prev-blk-not-found", ""));
        };
        if self.node(parent).failed {
            return Err(RuleError::new(RuleClass::InvalidPrev, "bad-prevblk", ""));
        }
        check_header_in_context(header, &self.network, &Branch { tree: self, tip: parent }, now)?;
        Ok(self.add(hash, header, parent, false))
    }

    /// Adds a header that was checked before, from the block index on disk; `None` if its parent is
    /// not known. A header that is in the tree already is left as it is.
    pub fn restore(&mut self, hash: Hash, header: &Header, failed: bool) -> Option<BlockId> {
        if let Some(id) = self.find(&hash) {
            return Some(id);
        }
        let parent = self.find(&header.prev)?;
        let failed = failed || self.node(parent).failed;
        Some(self.add(hash, header, parent, failed))
    }

    fn add(&mut self, hash: Hash, header: &Header, parent: BlockId, failed: bool) -> BlockId {
        let id = BlockId(self.nodes.len() as u32);
        let (height, work) = (self.node(parent).height + 1, self.node(parent).work);
        let mut times: Vec<u32> =
            self.ancestors(parent).take(10).map(|at| self.node(at).header.time).collect();
        times.push(header.time);
        times.sort_unstable();
        self.nodes.push(BlockNode {
            hash,
            header: *header,
            height,
            prev: Some(parent),
            work: work.plus(block_work(header.bits)),
            failed,
            skip: self.ancestor(parent, skip_height(height)),
            median_time_past: times[times.len() / 2],
            is_available: false,
            sequence: SEQUENCE_UNLINKED,
        });
        self.by_hash.insert(hash, id);
        if !failed && self.node(id).work > self.node(self.best_header).work {
            self.best_header = id;
        }
        id
    }

    /// Notes that the bytes of `id` are available. From now on the block, and those that build on
    /// it and waited for it, may become the tip.
    pub fn mark_available(&mut self, id: BlockId) {
        self.link_available(id, None);
    }

    /// [`Tree::mark_available`] for a block found in the data directory at start, which is part of
    /// the active chain or not.
    pub fn mark_stored(&mut self, id: BlockId, is_active: bool) {
        let sequence = if is_active { SEQUENCE_ACTIVE } else { SEQUENCE_FROM_DISK };
        self.link_available(id, Some(sequence));
    }

    /// Notes that the bytes of these blocks first became available in this order, which replaces
    /// what was known of the order before. Blocks found in the data directory at start still come
    /// first.
    pub fn mark_available_in_order(&mut self, order: &[BlockId]) {
        let from_disk = SEQUENCE_ACTIVE..SEQUENCE_FIRST_NEW;
        let is_new = |id: &BlockId| !from_disk.contains(&self.node(*id).sequence);
        let order: Vec<BlockId> = order.iter().copied().filter(is_new).collect();
        for id in &order {
            self.nodes[id.index()].is_available = false;
        }
        self.unlinked.clear();
        self.next_sequence = SEQUENCE_FIRST_NEW;
        for id in self.ids() {
            let node = &mut self.nodes[id.index()];
            if node.sequence >= SEQUENCE_FIRST_NEW {
                node.sequence = SEQUENCE_UNLINKED;
            }
            if let (true, SEQUENCE_UNLINKED, Some(prev)) =
                (node.is_available, node.sequence, node.prev)
            {
                self.unlinked.entry(prev).or_default().push(id);
            }
        }
        for id in order {
            self.mark_available(id);
        }
    }

    /// Notes that the bytes of `id` are missing or damaged. Neither it nor a block that builds on
    /// it may become the tip.
    pub fn mark_missing(&mut self, id: BlockId) {
        let was_available = std::mem::replace(&mut self.nodes[id.index()].is_available, false);
        if was_available {
            self.unlink(id);
        }
    }

    /// Notes that the branch ending in `tip` has become the active chain otherwise than block by
    /// block. As after a start on it, no other branch of as much work ranks above it.
    pub fn settle_on(&mut self, tip: BlockId) {
        let mut at = Some(tip);
        while let Some(id) = at {
            let node = &mut self.nodes[id.index()];
            node.sequence = SEQUENCE_ACTIVE;
            at = node.prev;
        }
    }

    /// Notes that the bytes of `id` are available. All blocks that become linked by this get
    /// `sequence` or, without one, the next ones in turn (Core's `ReceivedBlockTransactions`).
    fn link_available(&mut self, id: BlockId, sequence: Option<u32>) {
        if std::mem::replace(&mut self.nodes[id.index()].is_available, true) {
            return;
        }
        if let Some(prev) = self.node(id).prev
            && !self.is_linked(prev)
        {
            self.unlinked.entry(prev).or_default().push(id);
            return;
        }
        let mut queue = VecDeque::from([id]);
        while let Some(linked) = queue.pop_front() {
            self.nodes[linked.index()].sequence = sequence.unwrap_or(self.next_sequence);
            if sequence.is_none() {
                self.next_sequence += 1;
            }
            queue.extend(self.unlinked.remove(&linked).unwrap_or_default());
        }
    }

    /// Unlinks `id` and all blocks that build on it, which wait for it again.
    fn unlink(&mut self, id: BlockId) {
        if let Some(prev) = self.node(id).prev
            && let Some(waiting) = self.unlinked.get_mut(&prev)
        {
            waiting.retain(|waiting| *waiting != id);
        }
        self.nodes[id.index()].sequence = SEQUENCE_UNLINKED;
        for index in id.index() + 1..self.nodes.len() {
            let node = &self.nodes[index];
            let Some(prev) = node.prev else { continue };
            if node.sequence != SEQUENCE_UNLINKED && !self.is_linked(prev) {
                self.nodes[index].sequence = SEQUENCE_UNLINKED;
                self.unlinked.entry(prev).or_default().push(BlockId(index as u32));
            }
        }
    }

    /// The block that ought to be the tip: the one with the most work of all whose bytes and whose
    /// ancestors' bytes are available and that are not marked as failed; of blocks with equal work,
    /// the one that could be connected first (Core's `FindMostWorkChain`).
    pub fn best_candidate(&self) -> Option<BlockId> {
        self.ids()
            .filter(|id| self.is_linked(*id) && !self.node(*id).failed)
            .max_by(|a, b| self.compare(*a, *b))
    }

    /// The blocks at `height` that are not marked as failed and whose bytes, and whose ancestors'
    /// bytes, are available. They are in the order in which the best tips that build on them would
    /// become active.
    pub fn branches_at(&self, height: u32) -> Vec<BlockId> {
        let mut ancestors: Vec<Option<BlockId>> = vec![None; self.nodes.len()];
        let mut branches: Vec<(BlockId, BlockId)> = Vec::new();
        for id in self.ids().filter(|id| self.is_linked(*id) && !self.node(*id).failed) {
            let node = self.node(id);
            let ancestor = match node.height == height {
                true => Some(id),
                false => node.prev.and_then(|prev| ancestors[prev.index()]),
            };
            ancestors[id.index()] = ancestor;
            let Some(ancestor) = ancestor else { continue };
            match branches.iter_mut().find(|(known, _)| *known == ancestor) {
                Some((_, tip)) if self.is_better(id, *tip) => *tip = id,
                Some(_) => {}
                None => branches.push((ancestor, id)),
            }
        }
        branches.sort_by(|(_, a), (_, b)| self.compare(*b, *a));
        branches.into_iter().map(|(block, _)| block).collect()
    }

    /// Whether the bytes of `id` and of all its ancestors are available.
    fn is_linked(&self, id: BlockId) -> bool {
        self.node(id).sequence != SEQUENCE_UNLINKED
    }

    /// The order of two blocks as tips: `Greater` if `a` is the better one.
    fn compare(&self, a: BlockId, b: BlockId) -> std::cmp::Ordering {
        let (node_a, node_b) = (self.node(a), self.node(b));
        let by_work = node_a.work.cmp(&node_b.work);
        by_work.then(node_b.sequence.cmp(&node_a.sequence)).then(b.cmp(&a))
    }

    /// Whether `candidate` is a better tip than `tip`.
    pub fn is_better(&self, candidate: BlockId, tip: BlockId) -> bool {
        self.compare(candidate, tip).is_gt()
    }

    /// Marks `id` and all blocks that build on it as failed, and chooses the best header among the
    /// others. Returns the blocks that were not marked before.
    pub fn mark_failed(&mut self, id: BlockId) -> Vec<BlockId> {
        let mut marked = Vec::new();
        for index in id.index()..self.nodes.len() {
            let node = &self.nodes[index];
            let by_parent = node.prev.is_some_and(|prev| self.node(prev).failed);
            if !node.failed && (index == id.index() || by_parent) {
                self.nodes[index].failed = true;
                marked.push(BlockId(index as u32));
            }
        }
        self.best_header = self
            .ids()
            .filter(|id| !self.node(*id).failed)
            .max_by(|a, b| self.node(*a).work.cmp(&self.node(*b).work).then(b.cmp(a)))
            .unwrap_or(self.genesis());
        marked
    }

    /// The branch that ends in `tip`, in the form that the rules for headers need.
    #[cfg(any(test, feature = "internals"))]
    pub fn branch(&self, tip: BlockId) -> Branch<'_> {
        Branch { tree: self, tip }
    }
}

/// A block of the tree and its ancestors, in the form that the rules for headers need.
#[derive(Clone, Copy)]
pub struct Branch<'a> {
    tree: &'a Tree,
    tip: BlockId,
}

impl Ancestry for Branch<'_> {
    fn height(&self) -> u32 {
        self.tree.node(self.tip).height
    }

    fn at(&self, height: u32) -> HeaderFacts {
        let id = self.tree.ancestor(self.tip, height).unwrap_or(self.tip);
        let header = &self.tree.node(id).header;
        HeaderFacts { bits: header.bits, time: header.time }
    }

    fn median_time_past(&self) -> i64 {
        i64::from(self.tree.median_time_past(self.tip))
    }
}

#[cold]
fn known_invalid(hash: &Hash) -> RuleError {
    let debug = format!("block {hash} was previously marked invalid");
    RuleError::new(RuleClass::CachedInvalid, "duplicate-invalid", debug)
}

/// The height of [`BlockNode::skip`] for a block at `height` (Core's `GetSkipHeight`). Any lower
/// height would be correct; this one makes walks logarithmic.
fn skip_height(height: u32) -> u32 {
    let clear_lowest = |n: u32| n & n.wrapping_sub(1);
    match height {
        0 | 1 => 0,
        _ if height & 1 == 1 => clear_lowest(clear_lowest(height - 1)) + 1,
        _ => clear_lowest(height),
    }
}
