//! The thread that connects blocks in order of height: it sends each block through the sections of
//! the cache, where workers spend and add its coins, makes blocks whose checks are finished the
//! tip, takes back the others after an invalid one, and commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_coins::{Coin, Lookup};
use apus_consensus::{Bip30Check, RuleError, bip30_check, is_bip30_repeat};
use apus_disk::StoreError;
use apus_node::block::prepare::Prepared;
use apus_node::block::step::Step;
use apus_node::block::validate::Validation;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_node::sources::BlockOrigin;
use apus_progress::clock::{Stage, Wait};
use apus_progress::outcome::Counts;
use apus_progress::{Phase, Progress, Watch};
use apus_wire::OutPoint;
use hashbrown::HashSet;

use super::pipeline::Workers;
use super::ready::Ready;
use super::sections::Passage;

/// Time between two log lines about stages and queues.
const BENCH_EVERY: Duration = Duration::from_secs(10);
/// A block that spends and creates fewer coins is connected by this thread if no other block is
/// being connected, which takes less time than to wake workers. Tests use short blocks.
const COINS_FOR_WORKERS: usize = if cfg!(debug_assertions) { 2 } else { 500 };

/// The thread that connects blocks in order.
pub(super) struct Connector<'a> {
    pub shared: &'a Shared<'a>,
    pub steps: &'a [Step],
    pub ledger: &'a mut Ledger,
    pub watch: Watch<'a>,
    /// The time after which blocks from peers are written to the block index, so that they need not
    /// be downloaded again after a crash.
    pub save_every: Duration,
    /// The time that each step takes, for progress.
    pub weights: Vec<u64>,
    pub weight_all: u64,
    pub weight_done: u64,
    /// Blocks that are being checked, and after them those that are being connected.
    pub in_flight: VecDeque<InFlight>,
    /// Number of steps that were retired or are in flight.
    pub taken: usize,
    /// Number of steps whose checks are finished; the last of these is the tip.
    pub retired: usize,
    /// The time since which no block could be connected because of a commit.
    pub stalled_since: Option<Instant>,
}

/// A block between those that are ready and the tip.
pub(super) enum InFlight {
    /// Workers spend and add its coins, section by section of the cache.
    Passing(Arc<Passage>),
    /// Its coins are spent and added, unless it is refused; checks may be unfinished.
    Connected(Arc<Validation>),
}

/// Why the connector takes no further block until none is in flight.
enum Halt {
    /// A commit is due, which begins when no block is in flight; then connecting goes on.
    Commit,
    /// The run was asked to stop.
    Stop,
    /// The next block cannot be prepared.
    Fault(Fault),
    /// The last block in flight cannot be connected.
    Refused,
}

impl<'a> Connector<'a> {
    /// Connects all steps, or as many as possible. Blocks from peers are stored even if they are
    /// not connected, so that they need not be downloaded again.
    ///
    /// # Errors
    /// [`Fault::Rule`], [`Fault::Damaged`] and [`Fault::Gone`] are about the block after the last
    /// connected one. After these, [`Fault::Full`] and [`Fault::Stopped`], the UTXO set in the
    /// cache is whole; after [`Fault::Store`], it may hold half a block.
    pub fn run(&mut self, workers: &mut Workers<'_, 'a>) -> Result<(), Fault> {
        let timer = self.shared.clock.connect();
        let connected = self.connect_steps(workers);
        let committed = self.finish_commit(workers);
        drop(timer);
        self.shared.clock.log();
        if matches!(connected, Err(Fault::Store(_))) {
            return connected;
        }
        committed?;
        let is_over = matches!(connected, Ok(()) | Err(Fault::Full(_)));
        let are_kept = !is_over && self.shared.peers.is_some();
        for (index, prepared) in workers.end() {
            self.shared.cache.release(&prepared.external);
            if are_kept {
                let id = self.steps[index].id;
                match self.ledger.store_block(self.shared, id, prepared.block.view()) {
                    Err(error) if error.is_full() => return Err(Fault::Full(error)),
                    stored => stored?,
                };
            }
        }
        connected
    }

    fn connect_steps(&mut self, workers: &mut Workers<'_, 'a>) -> Result<(), Fault> {
        let mut halt = None;
        loop {
            self.let_ahead(workers);
            let refused = workers.sections.end().filter(|_| workers.sections.rest());
            if refused.is_some() {
                workers.note_events();
            }
            if let Some(error) = workers.take_failure() {
                return Err(self.give_up(error, workers));
            }
            for block in self.note_connected(workers) {
                workers.check(&block);
            }
            if let Some(index) = refused {
                self.refuse_connected(index, workers)?;
                halt = Some(Halt::Refused);
            }
            while halt.is_none() && self.may_take(workers) {
                let Some(ready) = workers.take_ready(self.taken) else { break };
                self.shared.clock.note_queues(workers.ready(), self.in_flight.len());
                if let Some(since) = self.stalled_since.take() {
                    self.shared.clock.note_stall(since.elapsed());
                }
                match ready {
                    Ok(block) => {
                        if let Err(error) = self.store(&block.prepared) {
                            self.shared.cache.release(&block.prepared.external);
                            return Err(self.give_up(error, workers));
                        }
                        self.connect(block, workers)?;
                    }
                    Err(fault) => halt = Some(Halt::Fault(fault)),
                }
                if halt.is_none() {
                    halt = self.reason_to_halt();
                }
            }
            self.retire(workers)?;
            if let Some(written) = workers.take_committed() {
                self.end_commit(written)?;
                workers.merge();
            }
            if self.shared.peers.is_some() {
                self.ledger.write_index_every(self.save_every, self.shared)?;
            }
            self.ledger.write_index_of_many(self.shared)?;
            self.ledger.prune_meanwhile(self.shared)?;
            self.report();
            self.shared.clock.log_every(BENCH_EVERY);
            if self.in_flight.is_empty() {
                match halt.take() {
                    Some(Halt::Commit) => {
                        let _timer = self.shared.clock.wait(Wait::Commit);
                        workers.commit(self.ledger.begin_commit(self.shared)?);
                    }
                    // `activate` commits.
                    Some(Halt::Stop) => return Err(Fault::Stopped),
                    Some(Halt::Fault(fault)) => return Err(fault),
                    None if self.retired == self.steps.len() => return Ok(()),
                    Some(Halt::Refused) | None => {}
                }
            }
            if halt.is_none() {
                halt = self.reason_to_halt();
            }
            if matches!(halt, Some(Halt::Stop)) {
                workers.let_go();
            }
            if !self.can_go_on(workers, halt.is_some()) {
                let wait = self.waits_for(workers, halt.is_some());
                if wait == Wait::Commit || matches!(halt, Some(Halt::Commit)) {
                    self.stalled_since.get_or_insert_with(Instant::now);
                }
                let _timer = self.shared.clock.wait(wait);
                self.help(workers);
                workers.wait();
            }
        }
    }

    /// Lets workers prepare the next blocks.
    fn let_ahead(&self, workers: &mut Workers) {
        // Coins with long scripts take more memory than is expected of a coin, and coins that
        // blocks ahead spend cannot be dropped.
        let share = self.ledger.limit.share_now();
        let most = share.cache_bytes;
        let is_over = self.shared.cache.sizes().bytes > most + most / 8;
        let most = if is_over { 0 } else { most };
        workers.let_ahead(self.taken, share.blocks_ahead, most);
    }

    /// Takes part in connecting and checking the blocks in flight, if all workers may be waiting
    /// for blocks from peers.
    fn help(&self, workers: &Workers) {
        if self.shared.peers.is_none() {
            return;
        }
        workers.help_sections();
        for block in &self.in_flight {
            if let InFlight::Connected(block) = block {
                block.work(self.shared.network, self.shared.scripts);
            }
        }
    }

    /// Returns whether the connector has something to do without an event from the workers.
    fn can_go_on(&self, workers: &Workers, halted: bool) -> bool {
        let refused = workers.sections.end().is_some() && workers.sections.rest();
        let finished = self.in_flight.is_empty() && (halted || self.retired == self.steps.len());
        let may_take = || !halted && workers.next(self.taken).is_some() && self.may_take(workers);
        refused || self.is_front_done() || finished || may_take()
    }

    fn is_front_done(&self) -> bool {
        matches!(self.in_flight.front(), Some(InFlight::Connected(block)) if block.is_done())
    }

    /// Returns whether another block may be taken: few blocks are in flight, the cache has room,
    /// every coin was there until now, and no other block is being connected if this one is to be
    /// connected alone.
    fn may_take(&self, workers: &Workers) -> bool {
        let must_wait = || match workers.next(self.taken) {
            Some(Ok(block)) => self.is_passing() && self.is_connected_alone(self.taken, block),
            _ => false,
        };
        self.may_fly(workers)
            && workers.sections.end().is_none()
            && !must_wait()
            && self.ledger.make_room(self.shared.cache, self.coins_coming())
    }

    /// Returns whether a block is being connected.
    fn is_passing(&self) -> bool {
        matches!(self.in_flight.back(), Some(InFlight::Passing(_)))
    }

    /// Returns the most coins that blocks which are being connected can add to the cache.
    fn coins_coming(&self) -> usize {
        let passing = self.in_flight.iter().rev().map_while(|block| match block {
            InFlight::Passing(passage) => Some(passage.coins),
            InFlight::Connected(_) => None,
        });
        passing.sum()
    }

    /// Returns whether few blocks are in flight.
    fn may_fly(&self, workers: &Workers) -> bool {
        workers.has_room(self.in_flight.len(), self.ledger.limit.share_now().blocks_in_flight)
    }

    /// Returns what the connector waits for, if it has nothing to do.
    fn waits_for(&self, workers: &Workers, halted: bool) -> Wait {
        let next = self.steps.get(self.taken);
        match next.filter(|_| !halted && self.may_fly(workers)) {
            None => Wait::Checks,
            Some(_) if self.ledger.is_full(self.shared.cache, self.coins_coming()) => Wait::Commit,
            Some(_) if workers.next(self.taken).is_some() => Wait::Checks,
            Some(step) if step.place == BlockOrigin::Peers => Wait::Peers,
            Some(_) => Wait::Blocks,
        }
    }

    fn reason_to_halt(&self) -> Option<Halt> {
        if self.watch.is_stopped() {
            Some(Halt::Stop)
        } else if self.ledger.wants_commit(self.shared.cache) {
            Some(Halt::Commit)
        } else {
            None
        }
    }

    /// Stores the next block, unless it is stored already. Keeps enough space free for the changed
    /// coins.
    fn store(&mut self, prepared: &Prepared) -> Result<(), StoreError> {
        self.shared.keep_free(self.ledger.room_for_coins(self.shared.cache, self.coins_coming()));
        let step = self.steps[self.taken];
        if matches!(step.place, BlockOrigin::Stored(_)) {
            return Ok(());
        }
        let _timer = self.shared.clock.start(Stage::Store);
        self.ledger.store_block(self.shared, step.id, prepared.block.view())
    }

    /// Returns the fault for an error of the disk. If the disk is full, takes back the blocks whose
    /// checks are unfinished, so that the finished ones can be committed.
    fn give_up(&mut self, error: StoreError, workers: &mut Workers) -> Fault {
        if !error.is_full() {
            return Fault::Store(error);
        }
        self.take_back(workers);
        Fault::Full(error)
    }

    /// Lets workers spend and add the coins of a block, or does it here; then queues its checks.
    fn connect(&mut self, block: Ready, workers: &Workers) -> Result<(), StoreError> {
        let index = self.taken;
        self.taken += 1;
        if !self.is_connected_alone(index, &block)
            && (self.is_passing() || block.prepared.coins() >= COINS_FOR_WORKERS)
        {
            let passage = Arc::new(Passage::new(index, block));
            workers.sections.send(&passage);
            self.in_flight.push_back(InFlight::Passing(passage));
            return Ok(());
        }
        let _timer = self.shared.clock.start(Stage::Connect);
        let bip30 = self.bip30(&self.steps[index]);
        let block = if bip30 == Bip30Check::LookUp && self.overwrites(&block.prepared)? {
            self.refused(index, block.prepared)
        } else if block.prepared.missing_inside.is_some() {
            self.without_coins(index, block.prepared, workers)?
        } else {
            match workers.sections.connect_alone(index, block)? {
                Ok(connected) => connected,
                Err(block) => self.without_coins(index, block.prepared, workers)?,
            }
        };
        workers.check(&block);
        self.in_flight.push_back(InFlight::Connected(block));
        Ok(())
    }

    /// Returns whether a block can only be connected while no other is: whether it keeps BIP30 must
    /// be looked up, it overwrites coins, or a coin is known to be missing.
    fn is_connected_alone(&self, index: usize, block: &Ready) -> bool {
        let Prepared { missing_inside, height, block, .. } = &block.prepared;
        missing_inside.is_some()
            || is_bip30_repeat(*height, block.hash())
            || self.bip30(&self.steps[index]) == Bip30Check::LookUp
    }

    /// Notes the blocks that workers have connected, and returns them.
    fn note_connected(&mut self, workers: &mut Workers) -> Vec<Arc<Validation>> {
        let mut blocks = Vec::new();
        for (index, block) in workers.take_connected() {
            self.in_flight[index - self.retired] = InFlight::Connected(Arc::clone(&block));
            blocks.push(block);
        }
        blocks
    }

    /// Takes back what sections of the cache did with the block at this index, which lacks a coin
    /// in one of them, and with later ones, and makes it the last block in flight.
    fn refuse_connected(&mut self, index: usize, workers: &mut Workers) -> Result<(), StoreError> {
        workers.sections.clear();
        let mut refused = None;
        while self.taken > index {
            let Some(InFlight::Passing(passage)) = self.in_flight.pop_back() else {
                unreachable!("a block that lacks a coin is connected");
            };
            workers.sections.take_back(&passage);
            self.taken -= 1;
            refused = passage.into_block();
        }
        let Some(block) = refused else { return Ok(()) };
        self.taken += 1;
        let block = self.without_coins(index, block.prepared, workers)?;
        workers.check(&block);
        self.in_flight.push_back(InFlight::Connected(block));
        Ok(())
    }

    /// Returns the checks, which will fail, of a block that spends a missing coin or creates an
    /// existing one. The UTXO set is that before the block.
    ///
    /// # Errors
    /// The disk fails; or no coin is missing, and this UTXO set is of another chain.
    fn without_coins(
        &self,
        index: usize,
        prepared: Prepared,
        workers: &Workers,
    ) -> Result<Arc<Validation>, StoreError> {
        let coins = self.coins_until_missing(&prepared.external)?;
        if prepared.first_missing(coins.len()).is_none() {
            // Where BIP30 needs no look-up, no valid chain overwrites a coin.
            let what = format!("it has a coin that block {} creates", prepared.block.hash());
            return Err(StoreError::new(self.shared.chainstate.dir(), what));
        }
        if self.bip30(&self.steps[index]) == Bip30Check::Implied && self.overwrites(&prepared)? {
            return Ok(self.refused(index, prepared));
        }
        Ok(workers.sections.validation(index, prepared, coins))
    }

    /// Returns the coins with these outpoints, which are spent one after another, up to the first
    /// that is missing.
    fn coins_until_missing(&self, outpoints: &[OutPoint]) -> Result<Vec<Coin>, StoreError> {
        let mut spent = HashSet::with_capacity(outpoints.len());
        let mut coins = Vec::new();
        for outpoint in outpoints {
            match self.coin(outpoint)?.filter(|_| spent.insert(*outpoint)) {
                Some(coin) => coins.push(coin),
                None => break,
            }
        }
        Ok(coins)
    }

    fn coin(&self, outpoint: &OutPoint) -> Result<Option<Coin>, StoreError> {
        match self.shared.cache.peek(outpoint) {
            Lookup::Hit(coin) => Ok(Some(coin)),
            Lookup::Spent => Ok(None),
            Lookup::Unknown if self.shared.chainstate.is_empty() => Ok(None),
            Lookup::Unknown => self.shared.chainstate.get(outpoint),
        }
    }

    /// Returns how to check that a block keeps BIP30.
    fn bip30(&self, step: &Step) -> Bip30Check {
        let tree = self.shared.tree;
        let network = self.shared.network;
        let node = tree.node(step.id);
        let bip34 = node.prev.and_then(|parent| tree.ancestor(parent, network.bip34_height));
        let matches = bip34.is_some_and(|id| tree.node(id).hash == network.bip34_hash);
        bip30_check(network, node.height, &node.hash, matches)
    }

    /// Returns a block that does not keep BIP30.
    fn refused(&self, index: usize, prepared: Prepared) -> Arc<Validation> {
        let id = self.steps[index].id;
        Arc::new(Validation::refused(self.shared.tree, id, prepared, RuleError::bip30()))
    }

    /// Returns whether a block creates a coin that exists already.
    fn overwrites(&self, prepared: &Prepared) -> Result<bool, StoreError> {
        let block = &prepared.block;
        for (tx, txid) in block.view().txs().zip(block.txids()) {
            for vout in 0..tx.output_count() as u32 {
                if self.coin(&OutPoint { txid: *txid, vout })?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Makes the blocks in flight the tip, one after another, as far as their checks are finished.
    fn retire(&mut self, workers: &mut Workers) -> Result<(), Fault> {
        while self.is_front_done() {
            let Some(InFlight::Connected(block)) = self.in_flight.front() else { break };
            let block = Arc::clone(block);
            let step = self.steps[self.retired];
            if let Some(error) = block.take_error() {
                self.take_back(workers);
                return Err(Fault::Rule(step, error));
            }
            let _timer = self.shared.clock.start(Stage::Undo);
            if let Err(error) = self.ledger.retire(self.shared, &block) {
                return Err(self.give_up(error, workers));
            }
            self.in_flight.pop_front();
            self.ledger.show_tip(self.shared, self.watch.observer);
            self.weight_done += self.weights[self.retired];
            self.retired += 1;
        }
        Ok(())
    }

    /// Undoes the changes of all blocks in flight to the cache, the last block first.
    fn take_back(&mut self, workers: &mut Workers) {
        workers.sections.stop_before(0);
        loop {
            workers.help_sections();
            if workers.sections.rest() {
                break;
            }
            workers.wait();
        }
        workers.note_events();
        self.note_connected(workers);
        workers.sections.clear();
        let cache = self.shared.cache;
        while let Some(last) = self.in_flight.pop_back() {
            let block = match last {
                InFlight::Connected(block) => block,
                InFlight::Passing(passage) => {
                    workers.sections.take_back(&passage);
                    continue;
                }
            };
            // Workers may still be checking it, but they only read what the block holds.
            if !block.has_all_coins() {
                cache.release(&block.prepared.external);
                continue;
            }
            let created: Vec<OutPoint> = block.prepared.created.iter().map(|c| c.0).collect();
            cache.remove_batch(&created);
            for (outpoint, coin) in block.prepared.external.iter().zip(&block.coins) {
                cache.restore(outpoint, coin);
            }
        }
    }

    /// Waits for the commit that is being written, if there is one.
    fn finish_commit(&mut self, workers: &mut Workers) -> Result<(), StoreError> {
        let _timer = self.shared.clock.wait(Wait::Commit);
        while self.ledger.is_committing() {
            match workers.take_committed() {
                Some(written) => self.end_commit(written)?,
                None => workers.wait(),
            }
        }
        Ok(())
    }

    fn end_commit(&mut self, written: Result<(), StoreError>) -> Result<(), StoreError> {
        self.ledger.end_commit(self.shared, written)?;
        self.shared.clock.log();
        self.ledger.prune(self.shared)
    }

    fn report(&self) {
        let Some(tip) = self.ledger.active.tip() else { return };
        let node = self.shared.tree.node(tip);
        let Counts { blocks, bytes, .. } = self.ledger.done.counts;
        self.watch.observer.observe(&Progress {
            height: node.height,
            time: node.time,
            blocks,
            bytes,
            coins: self.shared.cache.sizes().entries as u64,
            fraction: self.weight_done as f64 / self.weight_all.max(1) as f64,
            ..Progress::of(Phase::Connecting)
        });
    }
}
