use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use apus_consensus::{
    Ancestry, HeaderFacts, RuleClass, RuleError, Work, block_work, check_header,
    check_header_in_context, median_time_past,
};
use apus_disk::{FileVec, StoreError};
use apus_hash::Hash;
use apus_wire::{BlockView, Header, Network, genesis_block};
use hashbrown::HashTable;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A block in the tree: an index that never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(u32);

impl BlockId {
    /// Returns the index, for tables that are kept next to the tree.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block without its transactions (Core's `CBlockIndex`).
#[derive(Clone, Copy, Debug)]
pub struct BlockNode {
    /// The block's hash.
    pub hash: Hash,
    /// The distance from the genesis block.
    pub height: u32,
    /// The parent; `None` for the genesis block.
    pub prev: Option<BlockId>,
    /// Time of the block in seconds since 1970.
    pub time: u32,
    /// Target in compact form (`nBits`).
    pub bits: u32,
    /// The work of the chain that ends with this block.
    pub work: Work,
    /// Whether this block or one of its ancestors breaks a rule.
    pub failed: bool,
}

/// Bytes of a block in [`Tree::by_hash`], which is half full or more.
const BY_HASH_BYTES: usize = 11;

/// A block as stored in the tree, in 112 bytes. The hash of its parent is stored with the parent.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Stored {
    hash: [u8; 32],
    merkle_root: [u8; 32],
    /// The lower and upper half of the chain's work.
    work: [u64; 2],
    version: i32,
    time: u32,
    bits: u32,
    nonce: u32,
    pub height: u32,
    /// Index of the parent; for the genesis block, its own.
    prev: u32,
    /// Index of a distant ancestor, so that any ancestor is found in logarithmic time (Core's
    /// `pskip`).
    skip: u32,
    /// [`FAILED`], [`AVAILABLE`], and the order in which blocks became linked, which is when their
    /// bytes and those of all their ancestors were first available; [`SEQUENCE_UNLINKED`] for a
    /// block that is not linked.
    pub state: u32,
}

/// Whether the block or one of its ancestors breaks a rule.
pub(super) const FAILED: u32 = 1 << 31;
/// Whether the block's bytes are available, and not known to be damaged.
pub(super) const AVAILABLE: u32 = 1 << 30;
const SEQUENCE_MASK: u32 = AVAILABLE - 1;

/// Sequence numbers are Core's plus one. Core gives 0 to the blocks of the best chain on disk and 1
/// to all others found there, and counts on from 2.
pub(super) const SEQUENCE_UNLINKED: u32 = 0;
pub(super) const SEQUENCE_ACTIVE: u32 = 1;
pub(super) const SEQUENCE_FROM_DISK: u32 = 2;
pub(super) const SEQUENCE_FIRST_NEW: u32 = 3;

/// The tree of all known headers, from the genesis block on.
pub struct Tree {
    network: Network,
    blocks: FileVec<Stored>,
    by_hash: HashTable<u32>,
    /// Blocks without children.
    pub(super) ends: BTreeSet<BlockId>,
    /// Blocks that may be the tip and have no child that may. The best tip is one of them.
    pub(super) candidates: BTreeSet<BlockId>,
    /// Blocks whose bytes are available, but not those of some ancestor, by parent.
    pub(super) unlinked: HashMap<BlockId, Vec<BlockId>>,
    pub(super) best_header: BlockId,
    pub(super) next_sequence: u32,
    version: u64,
}

impl Tree {
    /// Creates the tree of `network`, with only its genesis block.
    pub fn new(network: Network) -> Self {
        let block = genesis_block(&network);
        let genesis = BlockView::parse(&block).expect("the built-in genesis block parses");
        let mut tree = Self {
            by_hash: HashTable::new(),
            network,
            blocks: FileVec::new(),
            ends: BTreeSet::new(),
            candidates: BTreeSet::new(),
            unlinked: HashMap::new(),
            best_header: BlockId(0),
            next_sequence: SEQUENCE_FIRST_NEW,
            version: 0,
        };
        let work = block_work(genesis.header().bits);
        tree.push(tree.network.genesis_hash, genesis.header(), (0, 0, 0), work, 0);
        tree
    }

    /// Keeps all blocks in a file in `directory` that has no name, so that the system can take
    /// their memory. If it cannot be made there, or later has no space, they are in memory.
    pub fn keep_in_file(&mut self, directory: &Arc<Path>) {
        self.blocks.keep_in_file(directory);
    }

    /// Waits until the system has written the blocks to their file, if they are in one.
    ///
    /// # Errors
    /// The disk fails.
    pub fn check_written(&self) -> Result<(), StoreError> {
        self.blocks.check_written()
    }

    /// Returns a tree of the same network with only its genesis block, which is kept where this one
    /// is.
    pub fn with_genesis_alone(&self) -> Self {
        let mut tree = Self::new(self.network.clone());
        if let Some(directory) = self.blocks.directory() {
            tree.keep_in_file(directory);
        }
        tree
    }

    /// Returns whether the blocks are in a file.
    pub fn is_in_file(&self) -> bool {
        self.blocks.directory().is_some()
    }

    /// Returns the bytes of memory that a block takes and that the system cannot take.
    pub fn bytes_per_block(&self) -> usize {
        BY_HASH_BYTES + if self.is_in_file() { 0 } else { size_of::<Stored>() }
    }

    /// Returns the network that the headers belong to.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the genesis block.
    pub fn genesis(&self) -> BlockId {
        BlockId(0)
    }

    /// Returns a number that changes with the tree: when a header is added, or something else is
    /// known about a block.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns false: the tree has at least the genesis block.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns all blocks, parents before children.
    pub fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.blocks.len() as u32).map(BlockId)
    }

    /// Returns the blocks after the first `count`, parents before children.
    pub fn ids_after(&self, count: usize) -> impl Iterator<Item = BlockId> + use<> {
        (count as u32..self.blocks.len() as u32).map(BlockId)
    }

    /// Returns what is known about `id`.
    #[inline]
    pub fn node(&self, id: BlockId) -> BlockNode {
        let block = self.block(id);
        BlockNode {
            hash: Hash(block.hash),
            height: block.height,
            prev: self.prev(id),
            time: block.time,
            bits: block.bits,
            work: Work::from_halves(block.work),
            failed: self.is_failed(id),
        }
    }

    /// Returns the height of `id`.
    #[inline]
    pub fn height(&self, id: BlockId) -> u32 {
        self.block(id).height
    }

    /// Returns the header of `id`.
    pub fn header(&self, id: BlockId) -> Header {
        let block = self.block(id);
        Header {
            version: block.version,
            prev: self.prev_hash(id),
            merkle_root: Hash(block.merkle_root),
            time: block.time,
            bits: block.bits,
            nonce: block.nonce,
        }
    }

    /// Returns the hash of the parent of `id`; zeros for the genesis block.
    pub fn prev_hash(&self, id: BlockId) -> Hash {
        self.prev(id).map_or(Hash::ZERO, |prev| Hash(self.block(prev).hash))
    }

    #[inline]
    pub(super) fn block(&self, id: BlockId) -> &Stored {
        &self.blocks[id.index()]
    }

    #[inline]
    pub(super) fn prev(&self, id: BlockId) -> Option<BlockId> {
        (id.0 != 0).then(|| BlockId(self.block(id).prev))
    }

    #[inline]
    pub(super) fn is_failed(&self, id: BlockId) -> bool {
        self.block(id).state & FAILED != 0
    }

    #[inline]
    pub(super) fn sequence(&self, id: BlockId) -> u32 {
        self.block(id).state & SEQUENCE_MASK
    }

    fn state(&mut self, id: BlockId) -> &mut u32 {
        self.version += 1;
        &mut self.blocks[id.index()].state
    }

    pub(super) fn set_sequence(&mut self, id: BlockId, sequence: u32) {
        let state = self.state(id);
        *state = *state & !SEQUENCE_MASK | sequence;
    }

    /// Sets [`FAILED`] or [`AVAILABLE`]. Returns whether it was set before.
    pub(super) fn set(&mut self, id: BlockId, flag: u32) -> bool {
        let state = self.state(id);
        let before = *state & flag != 0;
        *state |= flag;
        before
    }

    /// Clears [`AVAILABLE`]. Returns whether it was set before.
    pub(super) fn clear_available(&mut self, id: BlockId) -> bool {
        let state = self.state(id);
        let before = *state & AVAILABLE != 0;
        *state &= !AVAILABLE;
        before
    }

    /// Returns the block with this hash; `None` if its header is not known.
    pub fn find(&self, hash: &Hash) -> Option<BlockId> {
        let is_it = |index: &u32| self.blocks[*index as usize].hash == hash.0;
        self.by_hash.find(key_of(hash), is_it).map(|index| BlockId(*index))
    }

    /// Returns the header with the most work that is not known to be invalid (Core's
    /// `m_best_header`).
    pub fn best_header(&self) -> BlockId {
        self.best_header
    }

    fn facts(&self, id: BlockId) -> HeaderFacts {
        let block = self.block(id);
        HeaderFacts { bits: block.bits, time: block.time }
    }

    /// Returns `id`, its parent, and so on to the genesis block.
    pub fn ancestors(&self, id: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        std::iter::successors(Some(id), |at| self.prev(*at))
    }

    /// Returns the ancestor of `id`, or `id` itself, at `height`; `None` above it (Core's
    /// `GetAncestor`).
    #[inline]
    pub fn ancestor(&self, id: BlockId, height: u32) -> Option<BlockId> {
        let mut at = id;
        if height > self.block(at).height {
            return None;
        }
        while self.block(at).height > height {
            let skip = BlockId(self.block(at).skip);
            at = if self.block(skip).height >= height { skip } else { self.prev(at)? };
        }
        Some(at)
    }

    /// Returns the last block that the branches ending in `a` and `b` have in common (Core's
    /// `LastCommonAncestor`).
    pub fn fork(&self, a: BlockId, b: BlockId) -> Option<BlockId> {
        let height = self.block(a).height.min(self.block(b).height);
        let mut a = self.ancestor(a, height)?;
        let mut b = self.ancestor(b, height)?;
        while a != b {
            (a, b) = (self.prev(a)?, self.prev(b)?);
        }
        Some(a)
    }

    /// Returns the blocks of a locator, for a request for headers: `id` and some of its ancestors,
    /// at growing distances, down to the genesis block (Core's `LocatorEntries`).
    pub fn locator(&self, id: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        let mut step = 1;
        let mut next = Some(id);
        (0..).map_while(move |count| {
            let at = next?;
            let height = self.block(at).height;
            next = if height == 0 { None } else { self.ancestor(at, height.saturating_sub(step)) };
            if count >= 10 {
                step *= 2;
            }
            Some(at)
        })
    }

    /// Returns the median time past of a block (BIP113; Core's `GetMedianTimePast`).
    pub fn median_time_past(&self, id: BlockId) -> u32 {
        median_time_past(&Branch { tree: self, tip: id }) as u32
    }

    /// Returns the median time past of the block's parent, with which lock times in the block are
    /// compared (BIP113); 0 for the genesis block.
    pub fn parent_median_time_past(&self, id: BlockId) -> i64 {
        self.prev(id).map_or(0, |parent| i64::from(self.median_time_past(parent)))
    }

    /// Checks a header and adds it (Core's `AcceptBlockHeader`). `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The header breaks a rule; its parent is not known (`prev-blk-not-found`) or marked as failed
    /// (`bad-prevblk`); or the block itself is known and marked as failed (`duplicate-invalid`).
    pub fn accept_header(&mut self, header: &Header, now: i64) -> Result<BlockId, RuleError> {
        let hash = header.hash();
        if let Some(id) = self.find(&hash) {
            return if self.is_failed(id) { Err(known_invalid(&hash)) } else { Ok(id) };
        }
        check_header(header, &hash, &self.network)?;
        let Some(parent) = self.find(&header.prev) else {
            return Err(RuleError::new(RuleClass::MissingPrev, "prev-blk-not-found", ""));
        };
        if self.is_failed(parent) {
            return Err(RuleError::new(RuleClass::InvalidPrev, "bad-prevblk", ""));
        }
        check_header_in_context(header, &self.network, &Branch { tree: self, tip: parent }, now)?;
        Ok(self.add(hash, header, parent, false))
    }

    /// Adds a header from the block index on disk, which was checked before; returns `None` if its
    /// parent is not known. A header that is in the tree already is left unchanged.
    pub fn restore(&mut self, hash: Hash, header: &Header, failed: bool) -> Option<BlockId> {
        if let Some(id) = self.find(&hash) {
            return Some(id);
        }
        let parent = self.find(&header.prev)?;
        let failed = failed || self.is_failed(parent);
        Some(self.add(hash, header, parent, failed))
    }

    fn add(&mut self, hash: Hash, header: &Header, parent: BlockId, failed: bool) -> BlockId {
        let height = self.block(parent).height + 1;
        let skip = self.ancestor(parent, skip_height(height)).unwrap_or(parent);
        let work = self.node(parent).work.plus(block_work(header.bits));
        let state = if failed { FAILED } else { 0 };
        let id = self.push(hash, header, (height, parent.0, skip.0), work, state);
        self.ends.remove(&parent);
        if !failed && work > self.node(self.best_header).work {
            self.best_header = id;
        }
        id
    }

    fn push(
        &mut self,
        hash: Hash,
        header: &Header,
        (height, prev, skip): (u32, u32, u32),
        work: Work,
        state: u32,
    ) -> BlockId {
        let Header { version, merkle_root, time, bits, nonce, .. } = *header;
        let work = work.to_halves();
        let id = BlockId(self.blocks.len() as u32);
        let block = Stored {
            hash: hash.0,
            merkle_root: merkle_root.0,
            work,
            version,
            time,
            bits,
            nonce,
            height,
            prev,
            skip,
            state,
        };
        self.blocks.push(block);
        self.version += 1;
        let Self { by_hash, blocks, .. } = self;
        let key = |index: &u32| key_of(&Hash(blocks[*index as usize].hash));
        by_hash.insert_unique(key_of(&hash), id.0, key);
        self.ends.insert(id);
        id
    }

    /// Returns the branch that ends in `tip`, in the form that the rules for headers need.
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
        self.tree.block(self.tip).height
    }

    fn at(&self, height: u32) -> HeaderFacts {
        let id = self.tree.ancestor(self.tip, height).unwrap_or(self.tip);
        self.tree.facts(id)
    }

    fn ancestors(&self) -> impl Iterator<Item = HeaderFacts> {
        self.tree.ancestors(self.tip).map(|id| self.tree.facts(id))
    }
}

#[cold]
fn known_invalid(hash: &Hash) -> RuleError {
    let debug = format!("block {hash} was previously marked invalid");
    RuleError::new(RuleClass::CachedInvalid, "duplicate-invalid", debug)
}

/// Returns the key of a block's hash in a hash table: its first bytes, which a miner can choose
/// only by work.
fn key_of(hash: &Hash) -> u64 {
    u64::from_le_bytes(hash.0[..8].try_into().expect("a hash has 32 bytes"))
}

/// Returns the height of [`Stored::skip`] for a block at `height` (Core's `GetSkipHeight`). Any
/// lower height would be correct; this one makes walks logarithmic.
fn skip_height(height: u32) -> u32 {
    let clear_lowest = |n: u32| n & n.wrapping_sub(1);
    match height {
        0 | 1 => 0,
        _ if height & 1 == 1 => clear_lowest(clear_lowest(height - 1)) + 1,
        _ => clear_lowest(height),
    }
}
