//! Hands blocks from peers to the threads that wait for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use apus_chain::{BlockId, Tree};
use apus_host::memory::pressure::Squeeze;
use apus_net::PeerId;
use apus_node::block::step::Step;
use apus_node::block_peers::Wanted;
use apus_node::fault::Fault;
use apus_node::sources::BlockBytes;
use crossbeam_channel::Sender;

use super::early::{EarlyBlock, EarlyBlocks, Part};

/// How often a thread that waits for a block checks whether it must end.
const WAIT: Duration = Duration::from_millis(50);

/// A report to the thread that talks to peers.
pub(super) enum Note {
    /// A thread waits for the next block of this lane.
    Waits(usize),
    /// This block of this lane passed all rules that need no coins.
    Good(usize, BlockId),
    /// The peer sent bytes that do not match the block's hash.
    Changed(PeerId, BlockId, String),
    /// The peer sent a block that breaks a rule.
    Invalid(PeerId, String),
    /// A thread waits for the coins that a block spends.
    WaitsForCoins,
    /// The coins that this block spends were taken, and fit it.
    TookCoins(BlockId),
    /// The peer sent coins that are not those that the block spends.
    WrongCoins(PeerId, BlockId, String),
}

/// Blocks that have arrived and wait to be taken.
pub struct Feed {
    state: Mutex<FeedState>,
    arrived: Condvar,
    /// Wakes the thread that talks to peers.
    wake: Sender<()>,
}

struct FeedState {
    wanted: Wanted,
    blocks: EarlyBlocks,
    /// Blocks that have arrived and that no thread waits for, in order of arrival.
    order: VecDeque<BlockId>,
    /// Blocks that threads wait for.
    awaited: HashSet<BlockId>,
    /// The peers that sent the blocks that are being checked.
    senders: HashMap<BlockId, PeerId>,
    notes: Vec<Note>,
    /// Blocks that do not come.
    gone: HashSet<BlockId>,
    /// Blocks whose coins do not come.
    coins_gone: HashSet<BlockId>,
    waits: Waits,
    talk: Talk,
}

/// The time in which threads have waited for blocks.
#[derive(Default)]
struct Waits {
    /// Number of threads that wait now.
    threads: usize,
    /// Since when at least one of them waits.
    since: Option<Instant>,
    /// The time in which at least one thread waited before that.
    total: Duration,
}

impl Waits {
    fn begin(&mut self, now: Instant) {
        self.threads += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.threads -= 1;
        if self.threads == 0 {
            self.total = self.total(now);
            self.since = None;
        }
    }

    fn total(&self, now: Instant) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// Whether the thread that talks to peers still runs.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Talk {
    #[default]
    GoesOn,
    /// It has ended: no more blocks are wanted.
    Over,
    /// It has panicked.
    Panicked,
}

impl FeedState {
    /// Returns whether the coins that a block spends are wanted and are still to come.
    fn waits_for_coins(&self, tree: &Tree, id: BlockId) -> bool {
        self.wanted.wants_coins(tree, id)
            && !self.blocks.has((id, Part::Coins))
            && !self.coins_gone.contains(&id)
    }

    /// Returns whether the thread that talks to peers has ended.
    ///
    /// # Panics
    /// The thread has panicked. A caller that took this for a request to stop would save and start
    /// over, again and again.
    fn is_over(&self) -> bool {
        if self.talk == Talk::Panicked {
            // The thread has printed its message already.
            std::panic::resume_unwind(Box::new("the thread that talks to peers has panicked"));
        }
        self.talk == Talk::Over
    }
}

impl Feed {
    /// Creates a feed without blocks. A message to `wake` makes the thread that talks to peers read
    /// the notes. More than `memory_max` bytes of blocks, or what `squeeze` leaves of them, are
    /// kept in a file next to `path`.
    pub fn new(wake: Sender<()>, path: PathBuf, memory_max: u64, squeeze: Arc<Squeeze>) -> Self {
        let blocks = EarlyBlocks::new(path, memory_max, squeeze);
        let state = Mutex::new(FeedState {
            wanted: Wanted::default(),
            blocks,
            order: VecDeque::new(),
            awaited: HashSet::new(),
            senders: HashMap::new(),
            notes: Vec::new(),
            gone: HashSet::new(),
            coins_gone: HashSet::new(),
            waits: Waits::default(),
            talk: Talk::default(),
        });
        Self { state, arrived: Condvar::new(), wake }
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, state: &mut FeedState, note: Note) {
        state.notes.push(note);
        // If the channel is full, the thread is awake already.
        self.wake();
    }

    /// Replaces the wanted blocks, and drops all blocks and notes.
    pub(super) fn begin(&self, wanted: Wanted) {
        let mut state = self.state();
        state.blocks.clear();
        state.order.clear();
        state.awaited.clear();
        state.senders.clear();
        state.notes.clear();
        state.gone.clear();
        state.coins_gone.clear();
        (state.wanted, state.talk) = (wanted, Talk::GoesOn);
    }

    /// Wakes the thread that talks to peers.
    pub(super) fn wake(&self) {
        let _ = self.wake.try_send(());
    }

    /// Ends all waits, now and later. If this thread is panicking, the threads that wait panic too.
    pub(super) fn end(&self) {
        let is_panic = std::thread::panicking();
        self.state().talk = if is_panic { Talk::Panicked } else { Talk::Over };
        self.arrived.notify_all();
    }

    /// Returns the notes of threads, and removes them.
    pub(super) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.state().notes)
    }

    /// Hands over a block that a peer has sent.
    pub(super) fn arrive(&self, id: BlockId, from: PeerId, bytes: BlockBytes) {
        self.arrive_part((id, Part::Block), from, bytes, |state| {
            if !state.awaited.contains(&id) {
                state.order.push_back(id);
            }
            state.gone.remove(&id);
        });
    }

    /// Hands over the coins that a block spends, which a peer has sent.
    pub(super) fn arrive_coins(&self, id: BlockId, from: PeerId, bytes: BlockBytes) {
        self.arrive_part((id, Part::Coins), from, bytes, |state| {
            state.coins_gone.remove(&id);
        });
    }

    fn arrive_part(
        &self,
        part: (BlockId, Part),
        from: PeerId,
        bytes: BlockBytes,
        note: impl FnOnce(&mut FeedState),
    ) {
        // The lock is free while the file is written.
        let file = {
            let mut state = self.state();
            let is_awaited = state.awaited.contains(&part.0);
            state.blocks.file_for(bytes.len()).filter(|_| !is_awaited)
        };
        let written = file.map(|file| {
            let offset = file.append(&bytes);
            (file, offset)
        });
        let mut state = self.state();
        note(&mut state);
        state.blocks.insert(part, from, bytes, written);
        self.arrived.notify_all();
    }

    /// Tells the threads that wait for these blocks that they do not come.
    pub(super) fn gone(&self, ids: impl IntoIterator<Item = BlockId>) {
        self.state().gone.extend(ids);
        self.arrived.notify_all();
    }

    /// Tells the threads that wait for the coins of this block that they do not come.
    pub(super) fn coins_gone(&self, id: BlockId) {
        self.state().coins_gone.insert(id);
        self.arrived.notify_all();
    }

    /// Drops the coins that have arrived and that no thread has taken.
    pub(super) fn drop_coins(&self) {
        self.state().blocks.drop_coins();
    }

    /// Takes a block that has arrived and that no thread has taken, with the peer that sent it.
    pub fn take_left(&self) -> Option<(BlockId, PeerId, BlockBytes)> {
        loop {
            let (id, from, held) = self.state().blocks.pop()?;
            // A block that cannot be read is requested again.
            if let Ok(bytes) = held.read() {
                return Some((id, from, bytes));
            }
        }
    }

    /// Returns whether no block has arrived that no thread has taken.
    pub(super) fn has_none(&self) -> bool {
        self.state().blocks.is_empty()
    }

    /// Drops the blocks that have arrived and that no thread has taken, with their file.
    pub fn drop_left(&self) {
        self.state().blocks.clear();
    }

    /// Keeps at least `bytes` of the disk free from now on, and never fewer than Core does.
    pub fn keep_free(&self, bytes: u64) {
        self.state().blocks.keep_free(bytes);
    }

    /// Returns the most bytes of blocks that may wait if memory alone can hold them, since the file
    /// cannot be written; `None` if it can.
    pub(super) fn memory_alone(&self) -> Option<u64> {
        let state = self.state();
        state.blocks.has_failed().then(|| state.blocks.memory_max())
    }

    /// Returns the time in which at least one thread has waited for a block.
    pub(super) fn waited(&self) -> Duration {
        self.state().waits.total(Instant::now())
    }

    /// Returns the expected size in bytes of a wanted block.
    pub(super) fn expected_bytes(&self, tree: &Tree, id: BlockId) -> u64 {
        self.state().wanted.bytes_of(tree, id)
    }

    /// Waits a moment for a block to arrive.
    fn wait<'a>(&self, mut state: MutexGuard<'a, FeedState>) -> MutexGuard<'a, FeedState> {
        state.waits.begin(Instant::now());
        let waited = self.arrived.wait_timeout(state, WAIT);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waits.end(Instant::now());
        state
    }

    /// Waits for the block of `step` and, if they are wanted, the coins that it spends, and takes
    /// the block: a thread that has taken it need not wait any more, so that no block is lost.
    ///
    /// # Errors
    /// `halt` was raised, or no peer has the block.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    pub fn fetch(&self, tree: &Tree, step: Step, halt: &AtomicBool) -> Result<BlockBytes, Fault> {
        let id = step.id;
        let mut state = self.state();
        let mut is_noted = false;
        let result = loop {
            let waits_for_coins = state.waits_for_coins(tree, id);
            if !waits_for_coins && let Some((from, held)) = state.blocks.remove((id, Part::Block)) {
                state.senders.insert(id, from);
                break Ok(held);
            }
            if halt.load(Relaxed) || state.is_over() {
                break Err(Fault::Stopped);
            }
            if state.gone.contains(&id) {
                break Err(Fault::Gone(step));
            }
            if !std::mem::replace(&mut is_noted, true) {
                state.awaited.insert(id);
                if let Some(lane) = state.wanted.lane_of(tree, id) {
                    self.note(&mut state, Note::Waits(lane));
                }
                if waits_for_coins {
                    self.note(&mut state, Note::WaitsForCoins);
                }
            }
            state = self.wait(state);
        };
        // After an error, the block stays in `awaited`: the thread that processes it next fetches
        // it.
        if result.is_ok() {
            state.awaited.remove(&id);
        }
        drop(state);
        result.and_then(|held: EarlyBlock| held.read().map_err(Fault::Store))
    }

    /// Waits for the coins that the block of `step` spends, and takes them, with the peer that sent
    /// them; `None` if no peer has them.
    ///
    /// # Errors
    /// `halt` was raised, or the disk fails.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    pub fn fetch_coins(
        &self,
        tree: &Tree,
        step: Step,
        halt: &AtomicBool,
    ) -> Result<Option<(PeerId, BlockBytes)>, Fault> {
        let mut state = self.state();
        let mut is_noted = false;
        let (from, held) = loop {
            if let Some(found) = state.blocks.remove((step.id, Part::Coins)) {
                break found;
            }
            if !state.waits_for_coins(tree, step.id) {
                return Ok(None);
            }
            if halt.load(Relaxed) || state.is_over() {
                return Err(Fault::Stopped);
            }
            if !std::mem::replace(&mut is_noted, true) {
                self.note(&mut state, Note::WaitsForCoins);
            }
            state = self.wait(state);
        };
        drop(state);
        Ok(Some((from, held.read()?)))
    }

    /// Records that the coins that were fetched fit the block.
    pub fn took_coins(&self, id: BlockId) {
        self.note(&mut self.state(), Note::TookCoins(id));
    }

    /// Records that the coins that were fetched are not those that the block spends. Another peer
    /// is asked for them.
    pub fn wrong_coins(&self, from: PeerId, id: BlockId, what: String) {
        self.note(&mut self.state(), Note::WrongCoins(from, id, what));
    }

    /// Waits for any wanted block that no thread has taken; `None` if `halt` was raised.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    pub fn next(&self, halt: &AtomicBool) -> Option<BlockId> {
        let mut state = self.state();
        let mut is_noted = false;
        while !halt.load(Relaxed) && !state.is_over() {
            if let Some(id) = state.order.pop_front() {
                // A thread waits for the block from now on.
                state.awaited.insert(id);
                return Some(id);
            }
            if !std::mem::replace(&mut is_noted, true) {
                self.note(&mut state, Note::Waits(0));
            }
            state = self.wait(state);
        }
        None
    }

    /// Records that a block that was fetched is good as far as its bytes tell.
    pub fn good(&self, tree: &Tree, id: BlockId) {
        let mut state = self.state();
        state.senders.remove(&id);
        if let Some(lane) = state.wanted.lane_of(tree, id) {
            self.note(&mut state, Note::Good(lane, id));
        }
    }

    /// Records that the bytes that were fetched do not match the block's hash. Another peer is
    /// asked for them.
    pub fn changed(&self, id: BlockId, what: String) {
        let mut state = self.state();
        state.awaited.insert(id);
        if let Some(from) = state.senders.remove(&id) {
            self.note(&mut state, Note::Changed(from, id, what));
        }
    }

    /// Records that the block that was fetched breaks a rule.
    pub fn invalid(&self, id: BlockId, why: String) {
        let mut state = self.state();
        if let Some(from) = state.senders.remove(&id) {
            self.note(&mut state, Note::Invalid(from, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apus_wire::{Chain, Network, genesis_block};
    use crossbeam_channel::bounded;

    use apus_node::sources::BlockOrigin;

    use super::*;

    /// The longest that a thread may take until it waits for a block.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn time_counts_once_however_many_threads_wait() {
        let mut waits = Waits::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        waits.begin(at(1));
        waits.begin(at(2));
        waits.end(at(4));
        assert_eq!(waits.total(at(5)), Duration::from_secs(4));
        waits.end(at(6));
        assert_eq!(waits.total(at(9)), Duration::from_secs(5));
    }

    /// A thread that has taken a block must not wait for its coins: the block would be lost if the
    /// thread had to end.
    #[test]
    fn a_block_is_taken_once_its_coins_are_here_or_do_not_come() {
        let network = Network::new(Chain::Regtest);
        let bytes = genesis_block(&network);
        let tree = Tree::new(network);
        let id = tree.genesis();
        let lanes = std::iter::once(0..1).collect();
        let wanted =
            Wanted { blocks: Arc::new([id]), lanes, coins: Arc::new([id]), ..Wanted::default() };
        let dir = tempfile::tempdir().unwrap();
        let feed = Feed::new(bounded(1).0, dir.path().join("early"), 1 << 20, Arc::default());
        let step = Step { id, place: BlockOrigin::Peers, weight: 0 };
        let halt = AtomicBool::new(true);
        feed.begin(wanted.clone());
        feed.arrive(id, PeerId(1), bytes.clone());
        assert!(matches!(feed.fetch(&tree, step, &halt), Err(Fault::Stopped)));
        assert!(matches!(feed.fetch_coins(&tree, step, &halt), Err(Fault::Stopped)));
        assert!(matches!(feed.take_notes()[..], []), "a thread that ends waits for nothing");
        feed.arrive_coins(id, PeerId(2), vec![0]);
        assert!(feed.fetch(&tree, step, &halt).is_ok_and(|block| block == bytes));
        let coins = feed.fetch_coins(&tree, step, &halt);
        assert!(coins.is_ok_and(|coins| coins == Some((PeerId(2), vec![0]))));
        feed.wrong_coins(PeerId(2), id, "why".to_string());
        assert!(matches!(&feed.take_notes()[..], [Note::WrongCoins(PeerId(2), _, _)]));
        feed.coins_gone(id);
        feed.arrive(id, PeerId(1), bytes.clone());
        assert!(feed.fetch(&tree, step, &halt).is_ok());
        assert!(feed.fetch_coins(&tree, step, &halt).is_ok_and(|coins| coins.is_none()));
        feed.arrive_coins(id, PeerId(1), vec![1]);
        feed.drop_coins();
        assert!(feed.has_none());
    }

    /// Notes and blocks that have arrived belong to the blocks that were wanted then.
    #[test]
    fn what_was_before_is_forgotten_when_others_are_wanted() {
        let network = Network::new(Chain::Regtest);
        let bytes = genesis_block(&network);
        let tree = Tree::new(network);
        let id = tree.genesis();
        let lanes = std::iter::once(0..1).collect();
        let wanted = Wanted { blocks: Arc::new([id]), lanes, ..Wanted::default() };
        let (wake, wakes) = bounded(1);
        let dir = tempfile::tempdir().unwrap();
        let feed = Feed::new(wake, dir.path().join("early"), 1 << 20, Arc::default());
        let go_on = AtomicBool::new(false);
        let halt = AtomicBool::new(true);
        feed.begin(wanted.clone());
        assert_eq!(feed.next(&halt), None);
        feed.arrive(id, PeerId(1), bytes.clone());
        assert_eq!(feed.next(&go_on), Some(id));
        let step = Step { id, place: BlockOrigin::Peers, weight: 0 };
        let Ok(taken) = feed.fetch(&tree, step, &go_on) else { panic!("it is here") };
        feed.good(&tree, id);
        feed.arrive(id, PeerId(1), taken);
        feed.gone([id]);
        feed.begin(wanted);
        assert!(feed.take_notes().is_empty(), "a lane was another one then");
        assert!(feed.take_left().is_none());
        // No peer has the block, and a thread that waits for it ends when it must stop.
        assert!(wakes.try_recv().is_ok(), "a note wakes the thread that talks to peers");
        let fetched = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| feed.fetch(&tree, step, &go_on));
            let is_noted = wakes.recv_timeout(LIMIT);
            go_on.store(true, Relaxed);
            assert!(is_noted.is_ok(), "it waits for the block");
            waiting.join().unwrap()
        });
        assert!(matches!(fetched, Err(Fault::Stopped)));
        assert!(matches!(feed.take_notes()[..], [Note::Waits(0)]));
    }
}
