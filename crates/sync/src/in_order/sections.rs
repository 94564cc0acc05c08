//! Blocks on their way through the sections of the coins cache ([`SECTIONS`]). Each section takes
//! the blocks in order and is worked on by at most one thread at a time. It may be ahead of the
//! others: a block is connected once it has passed all sections. If a coin is missing in one of
//! them, the others are taken back to the block that spends it.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use apus_coins::{Coin, SECTIONS};
use apus_disk::{StoreError, lock};
use apus_node::block::prepare::Prepared;
use apus_node::block::validate::Validation;
use apus_node::shared::Shared;
use apus_progress::clock::Stage;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::ready::{Branch, Event, Ready};

/// A block on its way through the sections.
pub struct Passage {
    /// The index of its step.
    pub index: usize,
    /// The number of coins that it spends and creates.
    pub coins: usize,
    /// The block, until it has passed all sections.
    block: RwLock<Option<Ready>>,
    /// The coins that it spent in each section that it has passed.
    spent: [Mutex<Option<Vec<Coin>>>; SECTIONS],
    /// The number of sections that it has not passed.
    left: AtomicUsize,
}

/// The sections of the cache, and the blocks that wait for each.
pub struct Sections<'w, 'a> {
    shared: &'w Shared<'a>,
    branch: &'w Branch<'w>,
    queues: [Mutex<Queue>; SECTIONS],
    /// The sections that have work and no thread.
    idle: Sender<usize>,
    /// The same, for every thread that may take one.
    pub work: Receiver<usize>,
    /// The index of the first block that no section may pass; `usize::MAX` if there is none.
    end: AtomicUsize,
    events: Sender<Event>,
}

/// The blocks that wait for one section.
#[derive(Default)]
struct Queue {
    blocks: VecDeque<Arc<Passage>>,
    /// Whether a thread works on the section, or is about to.
    is_scheduled: bool,
}

impl Passage {
    /// Lets a block, that of the step `index`, begin its way.
    pub fn new(index: usize, block: Ready) -> Self {
        Self {
            index,
            coins: block.prepared.coins(),
            block: RwLock::new(Some(block)),
            spent: Default::default(),
            left: AtomicUsize::new(SECTIONS),
        }
    }

    /// Takes the block from its way, after no section has kept a part of it.
    pub fn into_block(self: Arc<Self>) -> Option<Ready> {
        self.block.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn take_spent(&self, section: usize) -> Option<Vec<Coin>> {
        lock(&self.spent[section]).take()
    }
}

impl<'w, 'a> Sections<'w, 'a> {
    /// Returns sections without blocks. What happens to a block is reported to `events`.
    pub fn new(shared: &'w Shared<'a>, branch: &'w Branch<'w>, events: Sender<Event>) -> Self {
        // Each section is there at most once, so sending never waits.
        let (idle, work) = bounded(SECTIONS);
        let queues = Default::default();
        Self { shared, branch, queues, idle, work, end: AtomicUsize::new(usize::MAX), events }
    }

    /// Sends a block on its way; the blocks before it must have been sent.
    pub fn send(&self, block: &Arc<Passage>) {
        for section in 0..SECTIONS {
            let mut queue = lock(&self.queues[section]);
            queue.blocks.push_back(Arc::clone(block));
            if !queue.is_scheduled {
                queue.is_scheduled = true;
                let _ = self.idle.send(section);
            }
        }
    }

    /// Connects blocks in one section until none waits for it, or the next one must not pass.
    pub fn run(&self, section: usize) {
        let _timer = self.shared.clock.start(Stage::Connect);
        while let Some(block) = self.next(section) {
            match self.connect(section, &block) {
                Ok(true) => {}
                Ok(false) => self.stop_before(block.index),
                Err(error) => {
                    self.stop_before(0);
                    let _ = self.events.send(Event::Failed(error));
                }
            }
        }
        if self.end().is_some() {
            let _ = self.events.send(Event::Rests);
        }
    }

    /// Takes the next block that waits for a section. If there is none, another thread may take
    /// the section from now on.
    fn next(&self, section: usize) -> Option<Arc<Passage>> {
        let mut queue = lock(&self.queues[section]);
        let end = self.end.load(Acquire);
        let may_pass = queue.blocks.front().is_some_and(|block| block.index < end);
        queue.is_scheduled = may_pass;
        if may_pass { queue.blocks.pop_front() } else { None }
    }

    /// Connects a block in one section. Returns false if a coin is missing there, or exists
    /// already.
    fn connect(&self, section: usize, passage: &Passage) -> Result<bool, StoreError> {
        {
            let block = passage.block.read().unwrap_or_else(PoisonError::into_inner);
            let ready = block.as_ref().expect("it has not passed this section");
            let Some(spent) = self.connect_section(section, ready)? else { return Ok(false) };
            *lock(&passage.spent[section]) = Some(spent);
        }
        if passage.left.fetch_sub(1, AcqRel) == 1 {
            let mut block = passage.block.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(ready) = block.take() {
                let spent = (0..SECTIONS).filter_map(|section| passage.take_spent(section));
                let block = self.connected(passage.index, ready, spent);
                let _ = self.events.send(Event::Connected(passage.index, block));
            }
        }
        Ok(true)
    }

    fn connect_section(
        &self,
        section: usize,
        block: &Ready,
    ) -> Result<Option<Vec<Coin>>, StoreError> {
        self.shared.cache.connect_section(section, block.coins(), |outpoints| {
            let found = self.shared.chainstate.get_many(outpoints)?;
            self.shared.clock.note_looked_up(found.iter().flatten().count());
            Ok(found)
        })
    }

    /// Connects a block in all sections, in which no other block may be. Returns the block back if
    /// a coin is missing, or exists already; the cache is then as before.
    pub fn connect_alone(
        &self,
        index: usize,
        block: Ready,
    ) -> Result<Result<Arc<Validation>, Ready>, StoreError> {
        let mut spent = Vec::with_capacity(SECTIONS);
        for section in 0..SECTIONS {
            let Some(coins) = self.connect_section(section, &block)? else {
                for (section, coins) in spent.into_iter().enumerate() {
                    self.shared.cache.disconnect_section(section, block.coins(), coins);
                }
                return Ok(Err(block));
            };
            spent.push(coins);
        }
        Ok(Ok(self.connected(index, block, spent.into_iter())))
    }

    fn connected(
        &self,
        index: usize,
        block: Ready,
        spent: impl Iterator<Item = Vec<Coin>>,
    ) -> Arc<Validation> {
        let Ready { prepared, sorted } = block;
        self.validation(index, prepared, sorted.merge(spent))
    }

    /// Returns the checks of a block that spends these coins, up to the first that is missing.
    pub fn validation(
        &self,
        index: usize,
        prepared: Prepared,
        coins: Vec<Coin>,
    ) -> Arc<Validation> {
        let tree = self.shared.tree;
        let Branch { steps, assumed, times } = self.branch;
        let id = steps[index].id;
        let scripts = (!assumed.covers(tree, id)).then(|| self.shared.script_checks(id));
        Arc::new(Validation::new(tree, id, prepared, coins, scripts, times))
    }

    /// Keeps the block at this index, and those after it, from passing sections that they have not
    /// passed.
    pub fn stop_before(&self, index: usize) {
        self.end.fetch_min(index, AcqRel);
    }

    /// Returns the index of the first block that must not pass, if there is one.
    pub fn end(&self) -> Option<usize> {
        Some(self.end.load(Acquire)).filter(|end| *end < usize::MAX)
    }

    /// Returns whether no thread works on any section.
    pub fn rest(&self) -> bool {
        (0..SECTIONS).all(|section| !lock(&self.queues[section]).is_scheduled)
    }

    /// Forgets the blocks that wait, and lets others pass. No thread may work on any section.
    pub fn clear(&self) {
        (0..SECTIONS).for_each(|section| lock(&self.queues[section]).blocks.clear());
        self.end.store(usize::MAX, Release);
    }

    /// Takes back what a block that has not passed all sections did in the others. No thread may
    /// work on any section, and later blocks must have been taken back.
    pub fn take_back(&self, passage: &Passage) {
        let block = passage.block.read().unwrap_or_else(PoisonError::into_inner);
        let Some(ready) = block.as_ref() else { return };
        for section in 0..SECTIONS {
            match passage.take_spent(section) {
                Some(spent) => {
                    self.shared.cache.disconnect_section(section, ready.coins(), spent);
                }
                None => self.shared.cache.release_section(section, ready.coins()),
            }
        }
    }
}
