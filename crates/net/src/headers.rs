//! Requests the headers of one peer, checks them and adds them to the tree (Core's
//! `ProcessHeadersMessage`).

use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_consensus::{RuleClass, Work, block_work, proof_of_work};
use apus_hash::{Hash, sha256d};
use apus_wire::Header;
use apus_wire::message::{GetHeaders, HEADERS_MAX, Hashes, HeaderList};

use super::presync::{Presync, PresyncParams, PresyncStart, Presynced};
use super::session::{Outgoing, PROTOCOL_VERSION};

/// Core's `HEADERS_RESPONSE_TIME`: after this time without an answer, an announcement may make us
/// ask again.
const HEADERS_RESPONSE_TIME: Duration = Duration::from_secs(2 * 60);
/// Time after which a request that was not answered is repeated.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Core's `HEADERS_DOWNLOAD_TIMEOUT_BASE`.
const HEADERS_TIMEOUT_BASE: Duration = Duration::from_secs(15 * 60);
/// Core's `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`.
const HEADERS_TIMEOUT_PER_HEADER: Duration = Duration::from_millis(1);
/// How far below the first request headers are requested after an empty answer; then that many
/// times as far.
const BELOW_FIRST: u32 = 32;
/// A chain may have less work than the tip by the work of this many blocks (Core's
/// `GetAntiDoSWorkThreshold`).
const NEAR_TIP_BLOCKS: u32 = 144;

/// The tree that headers are added to, or only looked up in.
pub struct HeaderChain<'a> {
    tree: Lent<'a>,
    /// The last block of the active chain.
    tip: BlockId,
    /// Work that a chain must have for its headers to be kept.
    minimum: Work,
    /// The time in seconds since 1970.
    unix_time: i64,
    secret: [u8; 16],
}

enum Lent<'a> {
    Growing(&'a mut Tree),
    Fixed(&'a Tree),
}

/// A fault in a peer's headers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeadersFault {
    /// A header does not have the proof of work that it claims.
    #[error("it sent a header without proof of work")]
    ProofOfWork,
    /// A header does not build on the one before.
    #[error("it sent headers that do not build on each other")]
    NotContinuous,
    /// A header breaks a rule.
    #[error("it sent an invalid header: {0}")]
    Invalid(String),
    /// The peer's chain has too little work.
    #[error("{0}")]
    LowWork(&'static str),
    /// The headers take too long.
    #[error("it did not send its headers in time")]
    Timeout,
}

/// The headers of one peer, and the state of the requests for them.
#[derive(Default)]
pub struct HeadersOf {
    stage: Stage,
    presync: Option<Box<Presync>>,
    best: Option<BlockId>,
    /// The block after which headers were requested, and how far below it they are requested next
    /// if there are none.
    start: Option<(BlockId, u32)>,
    /// When headers were requested, if there is no answer yet.
    asked: Option<Duration>,
    /// When the request was last repeated.
    asked_again: Duration,
    /// When all headers must have arrived.
    deadline: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Nothing was requested.
    #[default]
    New,
    /// There may be more headers.
    Asking,
    /// The peer has said that there are no more.
    AtEnd,
}

impl<'a> HeaderChain<'a> {
    /// Creates a chain that adds new headers to `tree`. `tip` is the last block of the active
    /// chain; `secret` is random.
    pub fn growing(tree: &'a mut Tree, tip: BlockId, unix_time: i64, secret: [u8; 16]) -> Self {
        let minimum = threshold(tree, tip);
        Self { tree: Lent::Growing(tree), tip, minimum, unix_time, secret }
    }

    /// Creates a chain that leaves the tree unchanged: headers that are not in it are ignored.
    pub fn fixed(tree: &'a Tree, tip: BlockId) -> Self {
        let minimum = threshold(tree, tip);
        Self { tree: Lent::Fixed(tree), tip, minimum, unix_time: 0, secret: [0; 16] }
    }

    /// Returns the tree.
    pub fn tree(&self) -> &Tree {
        match &self.tree {
            Lent::Growing(tree) => tree,
            Lent::Fixed(tree) => tree,
        }
    }

    /// Returns whether headers are added to the tree.
    pub fn grows(&self) -> bool {
        matches!(self.tree, Lent::Growing(_))
    }

    /// Sets the time, in seconds since 1970.
    pub fn set_time(&mut self, unix_time: i64) {
        self.unix_time = unix_time;
    }

    /// Returns a request for the headers after `block`.
    pub fn request_after(&self, block: BlockId) -> Outgoing {
        self.request(block, None)
    }

    /// Returns a request for the headers after `block`, whose locator begins with `first`.
    fn request(&self, block: BlockId, first: Option<Hash>) -> Outgoing {
        let mut locator: Vec<Hash> = first.into_iter().collect();
        locator.extend(self.tree().locator(block).map(|id| self.tree().node(id).hash));
        Outgoing::new(&GetHeaders {
            version: PROTOCOL_VERSION as u32,
            locator: Hashes::List(&locator),
            stop: Hash::ZERO,
        })
    }
}

/// Returns Core's `GetAntiDoSWorkThreshold`: the minimum chain work, or the work of a block near
/// the tip if that is more.
fn threshold(tree: &Tree, tip: BlockId) -> Work {
    let node = tree.node(tip);
    let block = block_work(node.bits);
    let near = (0..NEAR_TIP_BLOCKS)
        .fold(node.work, |work, _| if work > block { work.minus(block) } else { Work::ZERO });
    near.max(Work::from_hash(&tree.network().minimum_chain_work))
}

impl HeadersOf {
    /// Returns the best block that the peer is known to have.
    pub fn best(&self) -> Option<BlockId> {
        self.best
    }

    /// Returns whether the peer has said that it has no more headers.
    pub fn is_at_end(&self) -> bool {
        self.stage == Stage::AtEnd
    }

    /// Returns whether headers were requested, and there may be more.
    pub fn is_asking(&self) -> bool {
        self.stage == Stage::Asking
    }

    /// Returns whether nothing was requested yet.
    pub fn is_to_be_asked(&self) -> bool {
        self.stage == Stage::New
    }

    /// Returns whether the peer may be asked again, though it has not answered.
    fn is_slow(&self, now: Duration) -> bool {
        let last = self.asked.map(|asked| asked.max(self.asked_again));
        last.is_some_and(|last| now > last + HEADERS_RESPONSE_TIME)
    }

    /// Starts again, so that the peer is asked for headers from the best one on.
    pub fn begin_anew(&mut self) {
        *self = Self { best: self.best, ..Self::default() };
    }

    /// Returns the first request: from the parent of the best header, so that the answer is not
    /// empty and shows what the peer has.
    pub fn begin(&mut self, chain: &HeaderChain, now: Duration) -> Outgoing {
        let tree = chain.tree();
        let best = tree.best_header();
        self.stage = Stage::Asking;
        self.asked = Some(now);
        let spacing = i64::from(tree.network().pow_target_spacing);
        let missing = (chain.unix_time - i64::from(tree.node(best).time)).max(0) / spacing;
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let time = HEADERS_TIMEOUT_BASE + HEADERS_TIMEOUT_PER_HEADER * missing;
        self.deadline = Some(now + time);
        let start = start_of_request(tree);
        self.start = Some((start, BELOW_FIRST));
        chain.request(start, None)
    }

    /// Repeats the request if the peer has not answered it for long: a peer that is syncing may
    /// have had no headers, and does not say so. Its time limit stays the same.
    pub fn ask_again(&mut self, chain: &HeaderChain, now: Duration) -> Option<Outgoing> {
        let asked = self.asked.filter(|_| self.stage == Stage::Asking && self.presync.is_none())?;
        if now < asked.max(self.asked_again) + ASK_AGAIN_AFTER {
            return None;
        }
        self.asked_again = now;
        Some(chain.request(start_of_request(chain.tree()), None))
    }

    /// Handles the announcement of a block by its hash. If the block is not known, requests its
    /// header.
    pub fn announced(
        &mut self,
        hash: &Hash,
        chain: &HeaderChain,
        now: Duration,
    ) -> Option<Outgoing> {
        match chain.tree().find(hash) {
            Some(block) => {
                self.note_best(block, chain.tree());
                None
            }
            None => self.ask_after(chain.tree().best_header(), chain, now),
        }
    }

    fn note_best(&mut self, block: BlockId, tree: &Tree) {
        let better = |best: BlockId| tree.node(block).work >= tree.node(best).work;
        if self.best.is_none_or(better) {
            self.best = Some(block);
        }
    }

    /// Requests the headers after `block`, unless an answer is awaited.
    fn ask_after(
        &mut self,
        block: BlockId,
        chain: &HeaderChain,
        now: Duration,
    ) -> Option<Outgoing> {
        match self.asked {
            Some(_) if !self.is_slow(now) => return None,
            // The wait counts from the first request.
            Some(_) => self.asked_again = now,
            None => self.asked = Some(now),
        }
        Some(chain.request(block, None))
    }

    /// Handles a message of headers. Returns the next request.
    ///
    /// # Errors
    /// The peer must be dropped.
    pub fn take(
        &mut self,
        list: &HeaderList,
        chain: &mut HeaderChain,
        now: Duration,
    ) -> Result<Option<Outgoing>, HeadersFault> {
        if list.is_empty() {
            if let Some(request) = self.ask_below(chain, now) {
                return Ok(Some(request));
            }
            self.end();
            return match self.presync.take() {
                Some(_) => Err(HeadersFault::LowWork("its chain has too little work")),
                None => Ok(None),
            };
        }
        let headers: Vec<Header> = list.iter().collect();
        check_work(&headers, chain.tree())?;
        let is_full = headers.len() == HEADERS_MAX;
        if matches!(chain.tree, Lent::Fixed(_)) {
            self.look_up(&headers, chain.tree());
            return Ok(None);
        }
        if self.presync.is_some() {
            return self.take_low_work(&headers, is_full, chain, now);
        }
        let Some(start) = chain.tree().find(&headers[0].prev) else {
            // An announcement of a block whose ancestors we do not know yet.
            let best = chain.tree().best_header();
            return Ok(self.ask_after(best, chain, now));
        };
        self.asked = None;
        let known = headers.last().and_then(|last| chain.tree().find(&last.hash()));
        let is_ours = known.is_some_and(|last| is_on_best(chain, last));
        if !is_ours && claimed_work(chain.tree(), start, &headers) < chain.minimum {
            if !is_full {
                self.end();
                return Ok(None);
            }
            self.presync = Some(Box::new(begin_presync(chain, start, now)));
            return self.take_low_work(&headers, is_full, chain, now);
        }
        self.accept(&headers, is_full, chain, now)
    }

    /// Requests headers from further below, after an empty answer that does not show what the peer
    /// has: the best header may be of a branch that it does not have.
    fn ask_below(&mut self, chain: &HeaderChain, now: Duration) -> Option<Outgoing> {
        let is_asking = self.stage == Stage::Asking && self.presync.is_none();
        let (start, below) = self.start.filter(|_| is_asking)?;
        let tree = chain.tree();
        let height = tree.node(start).height;
        let has_it = |best| tree.ancestor(best, height) == Some(start);
        if height == 0 || self.best.is_some_and(has_it) {
            return None;
        }
        let start = tree.ancestor(start, height.saturating_sub(below))?;
        (self.start, self.asked) = (Some((start, below.saturating_mul(below))), Some(now));
        Some(chain.request(start, None))
    }

    /// Handles headers while the tree must not change: they only show what the peer has.
    fn look_up(&mut self, headers: &[Header], tree: &Tree) {
        let known = headers.iter().rev().find_map(|header| tree.find(&header.hash()));
        // On a branch of its own, the peer has the blocks below it.
        if let Some(known) = known.or_else(|| tree.find(&headers[0].prev)) {
            self.note_best(known, tree);
        }
        self.end();
    }

    fn end(&mut self) {
        self.stage = Stage::AtEnd;
        (self.asked, self.deadline) = (None, None);
    }

    fn take_low_work(
        &mut self,
        headers: &[Header],
        is_full: bool,
        chain: &mut HeaderChain,
        now: Duration,
    ) -> Result<Option<Outgoing>, HeadersFault> {
        let Some(presync) = &mut self.presync else { return Ok(None) };
        match presync.take(headers, is_full) {
            Presynced::More(headers) => {
                let last = presync.last();
                let start = presync.start();
                if !headers.is_empty() {
                    self.keep(&headers, chain)?;
                }
                self.asked = Some(now);
                let start = chain.tree().find(&start).unwrap_or(chain.tree().genesis());
                Ok(Some(chain.request(start, Some(last))))
            }
            Presynced::Complete(headers) => {
                self.presync = None;
                self.asked = None;
                self.accept(&headers, is_full, chain, now)
            }
            Presynced::Ended(why) => {
                self.presync = None;
                Err(HeadersFault::LowWork(why))
            }
        }
    }

    /// Adds headers of a chain with enough work to the tree, and requests more if there may be
    /// more.
    fn accept(
        &mut self,
        headers: &[Header],
        is_full: bool,
        chain: &mut HeaderChain,
        now: Duration,
    ) -> Result<Option<Outgoing>, HeadersFault> {
        let before = chain.tree().len();
        let best = self.best.map(|best| chain.tree().node(best).work);
        let last = self.keep(headers, chain)?;
        let best_now = self.best.map(|best| chain.tree().node(best).work);
        // A peer that repeats its headers has no more.
        let has_news = chain.tree().len() > before || best_now > best;
        match (is_full && has_news, last) {
            (true, Some(last)) => {
                self.stage = Stage::Asking;
                Ok(self.ask_after(last, chain, now))
            }
            _ => {
                self.end();
                Ok(None)
            }
        }
    }

    /// Adds headers to the tree, and returns the last one.
    fn keep(
        &mut self,
        headers: &[Header],
        chain: &mut HeaderChain,
    ) -> Result<Option<BlockId>, HeadersFault> {
        let Lent::Growing(tree) = &mut chain.tree else { return Ok(None) };
        let mut last = None;
        for header in headers {
            match tree.accept_header(header, chain.unix_time) {
                Ok(id) => last = Some(id),
                // Our clock may be wrong, or theirs.
                Err(error) if error.class == RuleClass::TimeFuture => break,
                Err(error) => return Err(HeadersFault::Invalid(error.to_string())),
            }
        }
        if let Some(last) = last {
            self.note_best(last, chain.tree());
        }
        Ok(last)
    }

    /// Checks that the headers do not take too long.
    ///
    /// # Errors
    /// The headers take too long and the best header is old: the peer must be dropped.
    pub fn tick(&self, chain: &HeaderChain, now: Duration) -> Result<(), HeadersFault> {
        let best = chain.tree().node(chain.tree().best_header());
        let is_old = i64::from(best.time) <= chain.unix_time - 24 * 60 * 60;
        let is_late = self.deadline.is_some_and(|deadline| now > deadline);
        if is_late && is_old { Err(HeadersFault::Timeout) } else { Ok(()) }
    }
}

/// Returns the block after which headers are requested first: the parent of the best header, so
/// that the answer is not empty.
fn start_of_request(tree: &Tree) -> BlockId {
    let best = tree.best_header();
    tree.node(best).prev.unwrap_or(best)
}

/// Checks that each header has the proof of work that it claims, and builds on the one before.
fn check_work(headers: &[Header], tree: &Tree) -> Result<(), HeadersFault> {
    let mut prev: Option<Hash> = None;
    for header in headers {
        let hash = header.hash();
        if !proof_of_work(&hash, header.bits, tree.network()) {
            return Err(HeadersFault::ProofOfWork);
        }
        if prev.is_some_and(|prev| prev != header.prev) {
            return Err(HeadersFault::NotContinuous);
        }
        prev = Some(hash);
    }
    Ok(())
}

fn claimed_work(tree: &Tree, start: BlockId, headers: &[Header]) -> Work {
    let work = tree.node(start).work;
    headers.iter().fold(work, |sum, header| sum.plus(block_work(header.bits)))
}

/// Returns whether a block is on the branch of the best header or of the tip, so that its header
/// takes no further memory.
fn is_on_best(chain: &HeaderChain, block: BlockId) -> bool {
    let tree = chain.tree();
    let height = tree.node(block).height;
    [tree.best_header(), chain.tip].iter().any(|end| tree.ancestor(*end, height) == Some(block))
}

pub(super) fn begin_presync(chain: &HeaderChain, start: BlockId, now: Duration) -> Presync {
    let tree = chain.tree();
    let node = tree.node(start);
    let start = PresyncStart {
        hash: node.hash,
        height: node.height,
        bits: node.bits,
        work: node.work,
        median_time_past: tree.median_time_past(start),
    };
    let params = PresyncParams::of(tree.network());
    // Another one for each attempt, so that none learns from those before.
    let attempt = sha256d(&[&chain.secret[..], &now.as_nanos().to_le_bytes()].concat());
    let secret = *attempt.0.first_chunk().expect("a hash has 32 bytes");
    Presync::new(tree.network(), params, start, chain.minimum, chain.unix_time, secret)
}
