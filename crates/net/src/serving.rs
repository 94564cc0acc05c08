//! Answers to a peer that asks us for headers and blocks: a pure function of its messages and the
//! chain that is served. Which blocks are read from where is the caller's.

use apus_chain::{ActiveChain, BlockId, Tree};
use apus_consensus::{Work, equivalent_time};
use apus_hash::Hash;
use apus_wire::Header;
use apus_wire::message::{
    Command, FilterRequest, GetHeaders, HEADERS_MAX, Headers, Inventory, InventoryItem,
    InventoryKind, Message, Services,
};

use super::session::Outgoing;

/// Seconds by which a block outside the active chain may be older than the best header, by its time
/// and by its work, to be served (Core's `STALE_RELAY_AGE_LIMIT`). Older ones would tell peers
/// which branches we have seen.
const STALE_RELAY_AGE_LIMIT: i64 = 30 * 24 * 60 * 60;
/// Seconds after which a block counts for the upload target (Core's `HISTORICAL_BLOCK_AGE`).
const HISTORICAL_BLOCK_AGE: i64 = 7 * 24 * 60 * 60;
/// The blocks that a pruned node serves (BIP159; Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`).
pub const NODE_NETWORK_LIMITED_MIN_BLOCKS: u32 = 288;
/// Blocks by which a request to a pruned node may be lower, since the peer may not know our newest
/// blocks yet.
const LIMITED_BUFFER: u32 = 2;
/// The most blocks that are announced by their headers (Core's `MAX_BLOCKS_TO_ANNOUNCE`).
const MAX_BLOCKS_TO_ANNOUNCE: u32 = 8;

/// The most hashes in the answer to `getblocks` (Core's `nLimit`).
const GETBLOCKS_MAX: usize = 500;
/// Seconds of blocks at the low end of a pruned node's that are not named, since they may be pruned
/// before they are requested (Core's `nPrunedBlocksLikelyToHave`).
const PRUNED_SOON: u32 = 3600;
/// The number of blocks below the tip that are sent as compact blocks (Core's
/// `MAX_CMPCTBLOCK_DEPTH`).
const MAX_CMPCTBLOCK_DEPTH: u32 = 5;
/// The number of blocks below the tip of which single transactions are sent (Core's
/// `MAX_BLOCKTXN_DEPTH`).
const MAX_BLOCKTXN_DEPTH: u32 = 10;
/// The number of blocks by whose time the tip may be old while compact blocks are sent (Core's
/// `CanDirectFetch`).
const RECENT_BLOCKS: i64 = 20;
/// The most filters in the answers to `getcfilters` (Core's `MAX_GETCFILTERS_SIZE`).
const MAX_GETCFILTERS_SIZE: u32 = 1000;
/// The most hashes of filters in the answer to `getcfheaders` (Core's `MAX_GETCFHEADERS_SIZE`).
const MAX_GETCFHEADERS_SIZE: u32 = 2000;
/// The blocks from one filter header in the answer to `getcfcheckpt` to the next (BIP157).
const CFCHECKPT_INTERVAL: u32 = 1000;
/// The only type of filters (BIP158).
const BASIC_FILTER: u8 = 0;

/// The chain that peers are served, as it is at one moment.
#[derive(Clone, Copy)]
pub struct ServedChain<'a> {
    /// All known headers.
    pub tree: &'a Tree,
    /// The chain whose headers and blocks are served.
    pub active: &'a ActiveChain,
    /// The services that we announce to peers.
    pub services: Services,
    /// The time in seconds since 1970.
    pub time: i64,
    /// Returns whether a block is stored, and is valid as far as it was checked.
    pub is_stored: &'a dyn Fn(BlockId) -> bool,
}

/// Why a peer is disconnected that asked for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Blocks are pruned, and the block is below the lowest that a pruned node serves.
    #[error("it asked a pruned node for a block below the last 288")]
    Pruned,
    /// The upload target is reached, and the block is more than a week old.
    #[error("it asked for an old block, and the upload target (--maxuploadtarget) is reached")]
    UploadTarget,
    /// The peer asked for a block filtered by what it wants, which needs a bloom filter.
    #[error("it asked for a filtered block, and bloom filters are not served")]
    FilteredBlock,
    /// The peer asked for no transaction of a block.
    #[error("it asked for transactions of a block and named none")]
    NoTransaction,
    /// The peer asked for a transaction after the last of a block.
    #[error("it asked for transactions that a block does not have")]
    NoSuchTransaction,
    /// The peer asked for filters of a type that we do not have.
    #[error("it asked for filters of an unknown type ({0})")]
    FilterType(u8),
    /// The peer asked for filters up to a block that it may not know from us.
    #[error("it asked for filters up to a block that is not served")]
    FiltersOfUnknown,
    /// The peer asked for filters from a height on that is above the last block.
    #[error("it asked for filters of blocks from height {0} to {1}")]
    FilterRange(u32, u32),
    /// The peer asked for more filters than one request may name.
    #[error("it asked for {0} filters or their hashes, over the limit")]
    TooManyFilters(u32),
}

/// How a block is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockForm {
    /// Without its witnesses.
    Stripped,
    /// With its witnesses (BIP144).
    Complete,
    /// As a compact block (BIP152).
    Compact,
}

/// The answer to a request for one item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Send this block.
    Block {
        /// The block.
        id: BlockId,
        /// How it is sent.
        form: BlockForm,
    },
    /// Say that the item is not found.
    NotFound,
    /// Send nothing, as Core does for a block that it does not have.
    Nothing,
    /// Disconnect the peer.
    Disconnect(Refused),
}

impl<'a> ServedChain<'a> {
    /// Returns the last block of the chain.
    pub fn tip(&self) -> BlockId {
        self.active.tip().unwrap_or(self.tree.genesis())
    }

    /// Returns the height of the last block of the chain.
    pub fn height(&self) -> u32 {
        self.tree.node(self.tip()).height
    }

    /// Returns whether the chain has so much work that peers take its headers. Like Core, we send
    /// none otherwise: a peer would drop us for them.
    pub fn has_minimum_work(&self) -> bool {
        let minimum = Work::from_hash(&self.tree.network().minimum_chain_work);
        self.tree.node(self.tip()).work >= minimum
    }

    /// Returns the blocks whose headers answer a request, in order; `None` if it is not answered.
    fn headers(&self, request: &GetHeaders) -> Option<Vec<BlockId>> {
        if request.locator.is_empty() {
            let wanted = self.tree.find(&request.stop).filter(|id| self.is_public(*id))?;
            return Some(vec![wanted]);
        }
        Some(self.branch(self.fork(request) + 1, &request.stop))
    }

    /// Returns the blocks of the active chain from a height on, at most [`HEADERS_MAX`] and none
    /// after that with the hash `stop`.
    fn branch(&self, first: u32, stop: &Hash) -> Vec<BlockId> {
        let mut blocks = Vec::new();
        while blocks.len() < HEADERS_MAX
            && let Some(id) = self.active.at(first + blocks.len() as u32)
        {
            blocks.push(id);
            if self.tree.node(id).hash == *stop {
                break;
            }
        }
        blocks
    }

    /// Returns the hashes in the answer to `getblocks`, which end before `stop`.
    fn inventory(&self, request: &GetHeaders) -> Vec<InventoryItem> {
        let network = self.tree.network();
        let is_pruned = !self.services.has(Services::NETWORK);
        let kept = NODE_NETWORK_LIMITED_MIN_BLOCKS - PRUNED_SOON / network.pow_target_spacing;
        let mut items = Vec::new();
        let mut height = self.fork(request) + 1;
        while items.len() < GETBLOCKS_MAX
            && let Some(id) = self.active.at(height)
        {
            let hash = self.tree.node(id).hash;
            let may_be_pruned = height + kept <= self.height() || !(self.is_stored)(id);
            if hash == request.stop || is_pruned && may_be_pruned {
                break;
            }
            items.push(InventoryItem { kind: InventoryKind::BLOCK, hash });
            height += 1;
        }
        items
    }

    /// Returns whether blocks near the tip are sent as compact blocks: the tip is recent, so that
    /// the peer may have their transactions.
    fn is_recent(&self) -> bool {
        let spacing = i64::from(self.tree.network().pow_target_spacing);
        i64::from(self.tree.node(self.tip()).time) > self.time - RECENT_BLOCKS * spacing
    }

    /// Returns the height of the last block that the locator and the active chain have in common
    /// (Core's `FindForkInGlobalIndex`).
    fn fork(&self, request: &GetHeaders) -> u32 {
        let tip = self.tip();
        let top = self.tree.node(tip).height;
        let known = request.locator.iter().filter_map(|hash| self.tree.find(&hash));
        let on_chain = known.filter_map(|id| {
            let height = self.tree.node(id).height;
            if self.active.contains(self.tree, id) {
                Some(height)
            } else {
                (self.tree.ancestor(id, top) == Some(tip)).then_some(top)
            }
        });
        on_chain.into_iter().next().unwrap_or(0)
    }

    /// Returns whether peers may know that we have a block (Core's `BlockRequestAllowed`): it is in
    /// the active chain, or in a branch that is about as new as the best header.
    fn is_public(&self, id: BlockId) -> bool {
        if self.active.contains(self.tree, id) {
            return true;
        }
        let block = self.tree.node(id);
        let best = self.tree.node(self.tree.best_header());
        let network = self.tree.network();
        !block.failed
            && (self.is_stored)(id)
            && i64::from(best.time) - i64::from(block.time) < STALE_RELAY_AGE_LIMIT
            && equivalent_time(best.work, block.work, best.bits, network) < STALE_RELAY_AGE_LIMIT
    }

    /// Returns the answer to a request for `item`; `target_reached` says whether the upload target
    /// is reached for old blocks.
    pub fn answer(&self, item: &InventoryItem, target_reached: bool) -> Answer {
        match item.kind {
            InventoryKind::TX | InventoryKind::WTX | InventoryKind::WITNESS_TX => {
                return Answer::NotFound;
            }
            InventoryKind::BLOCK | InventoryKind::WITNESS_BLOCK | InventoryKind::COMPACT_BLOCK => {}
            InventoryKind::FILTERED_BLOCK => return Answer::Disconnect(Refused::FilteredBlock),
            _ => return Answer::Nothing,
        }
        // A block that may not be served must look like one that is not known.
        let Some(id) = self.tree.find(&item.hash).filter(|id| self.is_public(*id)) else {
            return Answer::Nothing;
        };
        let block = self.tree.node(id);
        let best = self.tree.node(self.tree.best_header());
        let age = i64::from(best.time) - i64::from(block.time);
        if target_reached && age > HISTORICAL_BLOCK_AGE {
            return Answer::Disconnect(Refused::UploadTarget);
        }
        let depth = self.height().saturating_sub(block.height);
        let serves_all = self.services.has(Services::NETWORK);
        if !serves_all && depth > NODE_NETWORK_LIMITED_MIN_BLOCKS + LIMITED_BUFFER {
            return Answer::Disconnect(Refused::Pruned);
        }
        let form = match item.kind {
            _ if !(self.is_stored)(id) => return Answer::Nothing,
            InventoryKind::BLOCK => BlockForm::Stripped,
            InventoryKind::COMPACT_BLOCK if depth <= MAX_CMPCTBLOCK_DEPTH && self.is_recent() => {
                BlockForm::Compact
            }
            _ => BlockForm::Complete,
        };
        Answer::Block { id, form }
    }

    /// Returns the answer to `getblocktxn` for a block: the block whose transactions are sent;
    /// `None` if the answer is that to a request for all of the block, or if there is none.
    pub fn transactions_of(&self, hash: &Hash) -> Option<BlockId> {
        let id = self.tree.find(hash).filter(|id| (self.is_stored)(*id))?;
        let is_near = self.tree.node(id).height + MAX_BLOCKTXN_DEPTH >= self.height();
        is_near.then_some(id)
    }

    /// Returns the heights and hashes of the blocks whose filters the answer to a request needs
    /// (Core's `PrepareBlockFilterRequest`). For `getcfheaders` the first is the one before the
    /// requested ones, unless these begin with the genesis block.
    ///
    /// # Errors
    /// The peer is to be disconnected.
    pub fn filters(&self, request: &FilterRequest) -> Result<Vec<(u32, Hash)>, Refused> {
        if request.filter_type != BASIC_FILTER {
            return Err(Refused::FilterType(request.filter_type));
        }
        let stop = self.tree.find(&request.stop).filter(|id| self.is_public(*id));
        let stop = stop.ok_or(Refused::FiltersOfUnknown)?;
        let first = request.start_height;
        let last = self.tree.node(stop).height;
        let count = 1 + last.checked_sub(first).ok_or(Refused::FilterRange(first, last))?;
        let (most, first, step) = match request.command {
            Command::GETCFILTERS => (MAX_GETCFILTERS_SIZE, first, 1),
            Command::GETCFHEADERS => (MAX_GETCFHEADERS_SIZE, first.saturating_sub(1), 1),
            _ => (u32::MAX, CFCHECKPT_INTERVAL, CFCHECKPT_INTERVAL),
        };
        if count > most {
            return Err(Refused::TooManyFilters(count));
        }
        let heights = (first..=last).step_by(step as usize);
        let ids = heights.filter_map(|height| self.tree.ancestor(stop, height));
        let place = |id| (self.tree.node(id).height, self.tree.node(id).hash);
        Ok(ids.map(place).collect())
    }

    fn message(&self, blocks: &[BlockId]) -> Outgoing {
        let headers: Vec<Header> = blocks.iter().map(|id| self.tree.header(*id)).collect();
        Outgoing::new(&Headers(&headers))
    }
}

/// A peer that we serve.
#[derive(Debug, Default)]
pub struct Serving {
    /// Whether new blocks are announced by their headers (BIP130).
    prefers_headers: bool,
    /// The last block whose header we have sent or announced (Core's `pindexBestHeaderSent`).
    sent: Option<BlockId>,
    /// The last block whose header the peer has sent or announced (Core's `pindexBestKnownBlock`).
    has: Option<BlockId>,
    /// The tip that was announced last.
    announced: Option<BlockId>,
    /// The last block of a full answer to `getblocks`. Once it is sent, so is the hash of the tip:
    /// the peer then asks for more (Core's `m_continuation_block`).
    continuation: Option<Hash>,
}

impl Serving {
    /// Creates the state for a peer whose handshake is complete. Blocks after the present tip are
    /// announced to it.
    pub fn new(chain: ServedChain<'_>) -> Self {
        Self { announced: Some(chain.tip()), ..Self::default() }
    }

    /// Returns the block of a `getdata` after which the hash of the tip is sent, if there is one.
    pub fn continuation(&mut self, message: &Message) -> Option<Hash> {
        let Message::GetData(list) = message else { return None };
        let is_in_list = |hash: &Hash| list.iter().any(|item| item.hash == *hash);
        self.continuation.take_if(|hash| is_in_list(hash))
    }

    /// Handles a message whose answer is not read from files, and returns the answer.
    pub fn handle(&mut self, message: &Message, chain: ServedChain<'_>) -> Option<Outgoing> {
        match message {
            Message::SendHeaders => self.prefers_headers = true,
            // The peer has no header of ours then, so `sent` stays.
            Message::GetHeaders(_) if !chain.has_minimum_work() => {
                return Some(chain.message(&[]));
            }
            Message::GetHeaders(request) => {
                let blocks = chain.headers(request)?;
                // As in Core, not the higher one: a block is rather announced twice than never.
                self.sent = Some(blocks.last().copied().unwrap_or(chain.tip()));
                return Some(chain.message(&blocks));
            }
            Message::GetBlocks(request) => {
                let items = chain.inventory(request);
                if items.len() == GETBLOCKS_MAX {
                    self.continuation = items.last().map(|item| item.hash);
                }
                let inventory = Inventory(Command::INV, &items);
                return (!items.is_empty()).then(|| Outgoing::new(&inventory));
            }
            Message::Headers(list) => {
                let last = list.iter().last();
                self.note_has(last.and_then(|header| chain.tree.find(&header.hash())), chain.tree);
            }
            Message::Inv(list) => {
                let is_block = |item: &InventoryItem| item.kind == InventoryKind::BLOCK;
                let last = list.iter().filter(is_block).last();
                self.note_has(last.and_then(|item| chain.tree.find(&item.hash)), chain.tree);
            }
            _ => {}
        }
        None
    }

    fn note_has(&mut self, id: Option<BlockId>, tree: &Tree) {
        let work = |id: Option<BlockId>| id.map(|id| tree.node(id).work);
        if work(id) > work(self.has) {
            self.has = id;
        }
    }

    /// Returns whether the peer has the header of `id`, as far as we know (Core's `PeerHasHeader`).
    fn has_header(&self, tree: &Tree, id: BlockId) -> bool {
        let height = tree.node(id).height;
        let reaches = |known: BlockId| tree.ancestor(known, height) == Some(id);
        self.sent.is_some_and(reaches) || self.has.is_some_and(reaches)
    }

    /// Returns the announcement of the tip, if it is another one than the last time: the headers
    /// that the peer lacks, if it wants headers and has their parent, or else an `inv`. Nothing is
    /// announced of a chain with too little work.
    pub fn announce(&mut self, chain: ServedChain<'_>) -> Option<Outgoing> {
        let tree = chain.tree;
        let tip = chain.tip();
        let before = self.announced.replace(tip).filter(|before| *before != tip)?;
        if !chain.has_minimum_work() || self.has_header(tree, tip) {
            return None;
        }
        let fork = tree.fork(before, tip)?;
        let first = tree.node(fork).height + 1;
        let mut new = (first..=chain.height()).filter_map(|height| chain.active.at(height));
        let is_short = chain.height() + 1 - first <= MAX_BLOCKS_TO_ANNOUNCE;
        let lacks = new.find(|id| !self.has_header(tree, *id));
        let connects =
            |id: BlockId| tree.node(id).prev.is_none_or(|parent| self.has_header(tree, parent));
        if let Some(lacks) = lacks.filter(|id| self.prefers_headers && is_short && connects(*id)) {
            let blocks: Vec<BlockId> = std::iter::once(lacks).chain(new).collect();
            self.sent = Some(tip);
            return Some(chain.message(&blocks));
        }
        let item = InventoryItem { kind: InventoryKind::BLOCK, hash: tree.node(tip).hash };
        Some(Outgoing::new(&Inventory(Command::INV, &[item])))
    }
}
