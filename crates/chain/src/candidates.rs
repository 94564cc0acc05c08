//! Chooses the block that should be the tip, from which blocks' bytes are available and which
//! blocks break a rule. Only [`Tree::mark_available_in_order`] and [`Tree::settle_on`] take time
//! for every header.

use std::collections::{BTreeSet, VecDeque};

use super::tree::{
    AVAILABLE, BlockId, FAILED, SEQUENCE_ACTIVE, SEQUENCE_FIRST_NEW, SEQUENCE_FROM_DISK,
    SEQUENCE_UNLINKED, Tree,
};

impl Tree {
    /// Records that the bytes of `id` are available. From now on the block, and the
    /// descendants that waited for it, may become the tip.
    pub fn mark_available(&mut self, id: BlockId) {
        self.link_available(id, None);
    }

    /// Like [`Tree::mark_available`], for a block found in the data directory at start, in the
    /// active chain or not.
    pub fn mark_stored(&mut self, id: BlockId, is_active: bool) {
        let sequence = if is_active { SEQUENCE_ACTIVE } else { SEQUENCE_FROM_DISK };
        self.link_available(id, Some(sequence));
    }

    /// Records the order in which the bytes of these blocks first became available, in place of the
    /// order recorded before. Blocks found in the data directory at start still come first. Takes
    /// time for every header.
    pub fn mark_available_in_order(&mut self, order: &[BlockId]) {
        let from_disk = SEQUENCE_ACTIVE..SEQUENCE_FIRST_NEW;
        let is_new = |id: &BlockId| !from_disk.contains(&self.sequence(*id));
        let order: Vec<BlockId> = order.iter().copied().filter(is_new).collect();
        for id in &order {
            self.clear_available(*id);
        }
        self.unlinked.clear();
        self.candidates.clear();
        self.next_sequence = SEQUENCE_FIRST_NEW;
        for id in self.ids() {
            if self.sequence(id) >= SEQUENCE_FIRST_NEW {
                self.set_sequence(id, SEQUENCE_UNLINKED);
            }
            if self.is_linked(id) {
                self.add_candidate(id);
            } else if self.is_available(id)
                && let Some(prev) = self.prev(id)
            {
                self.unlinked.entry(prev).or_default().push(id);
            }
        }
        for id in order {
            self.mark_available(id);
        }
    }

    /// Records that the bytes of `id` are missing or damaged. Neither the block nor one that builds
    /// on it may become the tip.
    pub fn mark_missing(&mut self, id: BlockId) {
        if self.clear_available(id) {
            self.unlink(id);
        }
    }

    /// Records that the branch ending in `tip` has become the active chain in another way than
    /// block by block. As after a start on this branch, no other branch with the same work ranks
    /// above it.
    pub fn settle_on(&mut self, tip: BlockId) {
        if !self.is_linked(tip) {
            self.add_candidate(tip);
        }
        let mut at = Some(tip);
        while let Some(id) = at {
            self.set_sequence(id, SEQUENCE_ACTIVE);
            at = self.prev(id);
        }
    }

    /// Records that the bytes of `id` are available. All blocks that become linked by this get
    /// `sequence` or, without one, the next numbers in turn (Core's `ReceivedBlockTransactions`).
    fn link_available(&mut self, id: BlockId, sequence: Option<u32>) {
        if self.set(id, AVAILABLE) {
            return;
        }
        if let Some(prev) = self.prev(id)
            && !self.is_linked(prev)
        {
            self.unlinked.entry(prev).or_default().push(id);
            return;
        }
        let mut queue = VecDeque::from([id]);
        while let Some(linked) = queue.pop_front() {
            self.set_sequence(linked, sequence.unwrap_or(self.next_sequence));
            if sequence.is_none() {
                self.next_sequence += 1;
            }
            self.add_candidate(linked);
            queue.extend(self.unlinked.remove(&linked).unwrap_or_default());
        }
    }

    /// Unlinks `id` and all blocks that build on it, which wait for it again.
    fn unlink(&mut self, id: BlockId) {
        if let Some(prev) = self.prev(id)
            && let Some(waiting) = self.unlinked.get_mut(&prev)
        {
            waiting.retain(|waiting| *waiting != id);
        }
        for block in self.descendants(id) {
            if !self.is_linked(block) {
                continue;
            }
            self.set_sequence(block, SEQUENCE_UNLINKED);
            self.candidates.remove(&block);
            if block != id
                && let Some(prev) = self.prev(block)
            {
                self.unlinked.entry(prev).or_default().push(block);
            }
        }
        self.put_back_candidate(id);
    }

    /// Returns the block that should be the tip. Of all blocks whose bytes and whose ancestors'
    /// bytes are available and that are not marked as failed, it has the most work; of blocks with
    /// equal work, it is the one that could be connected first (Core's `FindMostWorkChain`).
    pub fn best_candidate(&self) -> Option<BlockId> {
        self.candidates.iter().copied().max_by(|a, b| self.compare(*a, *b))
    }

    fn may_be_tip(&self, id: BlockId) -> bool {
        self.is_linked(id) && !self.is_failed(id)
    }

    /// Adds `id`, which has become linked, to the candidates in place of its parent.
    fn add_candidate(&mut self, id: BlockId) {
        if !self.is_failed(id) {
            self.prev(id).map(|prev| self.candidates.remove(&prev));
            self.candidates.insert(id);
        }
    }

    /// Makes the parent of `id` a candidate again, unless another of the parent's descendants is
    /// one. Neither `id` nor a block that builds on it may be the tip any more.
    fn put_back_candidate(&mut self, id: BlockId) {
        let Some(prev) = self.prev(id).filter(|prev| self.may_be_tip(*prev)) else { return };
        let builds_on = |end: &BlockId| self.is_descendant(*end, prev);
        if !self.candidates.iter().any(builds_on) {
            self.candidates.insert(prev);
        }
    }

    /// Returns whether `id` is `ancestor` or builds on it.
    fn is_descendant(&self, id: BlockId, ancestor: BlockId) -> bool {
        self.ancestor(id, self.block(ancestor).height) == Some(ancestor)
    }

    /// Returns `id` and all blocks that build on it, parents before children. Takes time for these,
    /// and a little for every branch of the tree.
    fn descendants(&self, id: BlockId) -> BTreeSet<BlockId> {
        let mut found = BTreeSet::new();
        for end in self.ends.range(id..).filter(|end| self.is_descendant(**end, id)) {
            // A block found before, and all blocks below it, were found on another branch.
            for block in self.ancestors(*end).take_while(|block| *block >= id) {
                if !found.insert(block) {
                    break;
                }
            }
        }
        found
    }

    /// Returns the blocks at `height` that are not marked as failed and whose bytes, and whose
    /// ancestors' bytes, are available. They are in the order in which the best tips that build on
    /// them would become active.
    pub fn branches_at(&self, height: u32) -> Vec<BlockId> {
        let mut branches: Vec<(BlockId, BlockId)> = Vec::new();
        for tip in &self.candidates {
            let Some(ancestor) = self.ancestor(*tip, height) else { continue };
            match branches.iter_mut().find(|(known, _)| *known == ancestor) {
                Some((_, best)) if self.is_better(*tip, *best) => *best = *tip,
                Some(_) => {}
                None => branches.push((ancestor, *tip)),
            }
        }
        branches.sort_by(|(_, a), (_, b)| self.compare(*b, *a));
        branches.into_iter().map(|(block, _)| block).collect()
    }

    /// Returns whether the bytes of `id` and of all its ancestors are available.
    pub fn is_linked(&self, id: BlockId) -> bool {
        self.sequence(id) != SEQUENCE_UNLINKED
    }

    /// Returns whether the bytes of `id` are available.
    pub fn is_available(&self, id: BlockId) -> bool {
        self.block(id).state & AVAILABLE != 0
    }

    /// Compares two blocks as tips: `Greater` if `a` is the better one.
    fn compare(&self, a: BlockId, b: BlockId) -> std::cmp::Ordering {
        let by_work = self.node(a).work.cmp(&self.node(b).work);
        by_work.then(self.sequence(b).cmp(&self.sequence(a))).then(b.cmp(&a))
    }

    /// Returns whether `candidate` is a better tip than `tip`.
    pub fn is_better(&self, candidate: BlockId, tip: BlockId) -> bool {
        self.compare(candidate, tip).is_gt()
    }

    /// Marks `id` and all blocks that build on it as failed, and chooses the best header among the
    /// others. Returns the blocks that were not marked before.
    pub fn mark_failed(&mut self, id: BlockId) -> Vec<BlockId> {
        let mut marked = Vec::new();
        for block in self.descendants(id) {
            if !self.set(block, FAILED) {
                self.candidates.remove(&block);
                marked.push(block);
            }
        }
        self.put_back_candidate(id);
        if self.is_failed(self.best_header) {
            self.best_header = self.find_best_header();
        }
        marked
    }

    /// Returns the header with the most work that is not marked as failed. On a branch that ends
    /// with failed blocks, the last header before these counts.
    fn find_best_header(&self) -> BlockId {
        let sound = |end: &BlockId| self.ancestors(*end).find(|at| !self.is_failed(*at));
        let better =
            |a: &BlockId, b: &BlockId| self.node(*a).work.cmp(&self.node(*b).work).then(b.cmp(a));
        self.ends.iter().filter_map(sound).max_by(better).unwrap_or(self.genesis())
    }
}
