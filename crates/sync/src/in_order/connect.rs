//! The thread that connects blocks in order of height: it spends the coins of each block, adds
//! those that it creates, makes blocks whose checks are finished the tip, takes back those after an
//! invalid one, and commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_coins::{Coin, Lookup, Overwrite};
use apus_consensus::{Bip30Check, RuleError, bip30_check};
use apus_disk::StoreError;
use apus_node::assumevalid::Assumed;
use apus_node::block::prepare::Prepared;
use apus_node::block::step::Step;
use apus_node::block::validate::{BranchTimes, Validation};
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_node::sources::BlockOrigin;
use apus_progress::clock::{Stage, Wait};
use apus_progress::outcome::Counts;
use apus_progress::{Phase, Progress, Watch};
use apus_wire::OutPoint;

use super::pipeline::Workers;

/// Time between two log lines about stages and queues.
const BENCH_EVERY: Duration = Duration::from_secs(10);

/// The thread that connects blocks in order.
pub(super) struct Connector<'a> {
    pub shared: &'a Shared<'a>,
    pub steps: &'a [Step],
    pub ledger: &'a mut Ledger,
    pub assumed: Assumed,
    pub times: BranchTimes,
    pub watch: Watch<'a>,
    /// The time after which blocks from peers are written to the block index, so that they need not
    /// be downloaded again after a crash.
    pub save_every: Duration,
    /// The time that each step takes, for progress.
    pub weights: Vec<u64>,
    pub weight_all: u64,
    pub weight_done: u64,
    /// Blocks whose coins are spent and added, but whose checks may be unfinished.
    pub in_flight: VecDeque<Arc<Validation>>,
    /// Number of steps whose coins are spent and added.
    pub connected: usize,
    /// Number of steps whose checks are finished; the last of these is the tip.
    pub retired: usize,
    /// The time since which no block could be connected because of a commit.
    pub stalled_since: Option<Instant>,
}

/// Why the connector takes no further block until none is in flight.
enum Halt {
    /// A commit is due, which begins when no block is in flight; then connecting goes on.
    Commit,
    /// The run was asked to stop.
    Stop,
    /// The next block cannot be connected.
    Fault(Fault),
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
        let connected = self.connect_all(workers);
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

    fn connect_all(&mut self, workers: &mut Workers<'_, 'a>) -> Result<(), Fault> {
        let mut halt = None;
        loop {
            // Coins with long scripts take more memory than is expected of a coin, and coins that
            // blocks ahead spend cannot be dropped.
            let share = self.ledger.limit.share_now();
            let most = share.cache_bytes;
            let is_over = self.shared.cache.bytes() > most + most / 8;
            let most = if is_over { 0 } else { most };
            workers.let_ahead(self.connected, share.blocks_ahead, most);
            while halt.is_none() && self.has_room(workers) {
                let Some(ready) = workers.take_ready(self.connected) else { break };
                self.shared.clock.note_queues(workers.ready(), self.in_flight.len());
                if let Some(since) = self.stalled_since.take() {
                    self.shared.clock.note_stall(since.elapsed());
                }
                match ready {
                    Ok(prepared) => {
                        if let Err(error) = self.store(&prepared) {
                            return Err(self.give_up(error));
                        }
                        self.connect(prepared, workers)?;
                    }
                    Err(fault) => halt = Some(Halt::Fault(fault)),
                }
                if halt.is_none() {
                    halt = self.reason_to_halt();
                }
            }
            self.retire()?;
            if let Some(error) = workers.take_failure() {
                return Err(self.give_up(error));
            }
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
                    None => {}
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
                self.help();
                workers.wait();
            }
        }
    }

    /// Takes part in the checks of blocks in flight, if all workers may be waiting for blocks from
    /// peers.
    fn help(&self) {
        if self.shared.peers.is_some() {
            for block in &self.in_flight {
                block.work(self.shared.network, self.shared.scripts);
            }
        }
    }

    /// Returns whether the connector has something to do without an event from the workers.
    fn can_go_on(&self, workers: &Workers, halted: bool) -> bool {
        let front_done = self.in_flight.front().is_some_and(|block| block.is_done());
        let may_connect = || !halted && workers.is_ready(self.connected) && self.has_room(workers);
        let finished = self.in_flight.is_empty() && (halted || self.retired == self.steps.len());
        front_done || finished || may_connect()
    }

    /// Returns whether another block may be connected: few blocks have unfinished checks, and the
    /// cache has room.
    fn has_room(&self, workers: &Workers) -> bool {
        self.may_fly(workers) && self.ledger.make_room(self.shared.cache)
    }

    /// Returns whether few blocks have unfinished checks.
    fn may_fly(&self, workers: &Workers) -> bool {
        workers.has_room(self.in_flight.len(), self.ledger.limit.share_now().blocks_in_flight)
    }

    /// Returns what the connector waits for, if it has nothing to do.
    fn waits_for(&self, workers: &Workers, halted: bool) -> Wait {
        let next = self.steps.get(self.connected);
        match next.filter(|_| !halted && self.may_fly(workers)) {
            None => Wait::Checks,
            Some(_) if self.ledger.is_full(self.shared.cache) => Wait::Commit,
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
        self.shared.keep_free(self.ledger.room_for_coins(self.shared.cache));
        let step = self.steps[self.connected];
        if matches!(step.place, BlockOrigin::Stored(_)) {
            return Ok(());
        }
        let _timer = self.shared.clock.start(Stage::Store);
        self.ledger.store_block(self.shared, step.id, prepared.block.view())
    }

    /// Returns the fault for an error of the disk. If the disk is full, takes back the blocks whose
    /// checks are unfinished, so that the finished ones can be committed.
    fn give_up(&mut self, error: StoreError) -> Fault {
        if !error.is_full() {
            return Fault::Store(error);
        }
        self.take_back();
        Fault::Full(error)
    }

    /// Spends the coins of a block, adds those that it creates, and queues its checks.
    fn connect(&mut self, prepared: Prepared, workers: &Workers) -> Result<(), StoreError> {
        let step = self.steps[self.connected];
        let _timer = self.shared.clock.start(Stage::Connect);
        self.connected += 1;
        let bip30 = self.bip30(&step);
        if bip30 == Bip30Check::LookUp && self.overwrites(&prepared)? {
            self.refuse(&step, prepared, RuleError::bip30());
            return Ok(());
        }
        let coins = self.spend(&prepared)?;
        if prepared.first_missing(coins.len()).is_some() {
            let taken = prepared.external.iter().zip(&coins);
            taken.for_each(|(outpoint, coin)| self.shared.cache.restore(outpoint, coin));
            // The UTXO set is again as before the block, and BIP30 is about that set.
            if bip30 == Bip30Check::Implied && self.overwrites(&prepared)? {
                self.refuse(&step, prepared, RuleError::bip30());
                return Ok(());
            }
        } else {
            // Where BIP30 needs no look-up, no valid chain overwrites a coin: this UTXO set is of
            // another chain.
            self.add(&prepared).map_err(|error| {
                StoreError::new(self.shared.chainstate.dir(), format!("the coin {error}"))
            })?;
        }
        let tree = self.shared.tree;
        let is_assumed = self.assumed.covers(tree, step.id);
        let scripts = (!is_assumed).then(|| self.shared.script_checks(step.id));
        let block = Validation::new(tree, step.id, prepared, coins, scripts, &self.times);
        let block = Arc::new(block);
        workers.check(&block);
        self.in_flight.push_back(block);
        Ok(())
    }

    /// Takes the coins of [`Prepared::external`] from the UTXO set, up to the first missing one.
    fn spend(&self, prepared: &Prepared) -> Result<Vec<Coin>, StoreError> {
        let cache = self.shared.cache;
        let lookups = cache.spend_batch(&prepared.external);
        let mut from_tables = self.look_up(prepared, &lookups)?.into_iter();
        let mut coins = Vec::with_capacity(prepared.external.len());
        let mut is_missing = false;
        for (outpoint, lookup) in prepared.external.iter().zip(lookups) {
            let coin = match lookup {
                Lookup::Hit(coin) => Some(coin),
                Lookup::Spent => None,
                Lookup::Unknown => {
                    let found = from_tables.next().flatten();
                    // The cache may know the coin by now: the block may spend the outpoint twice,
                    // or a worker may have filled it in.
                    match cache.spend(outpoint) {
                        Lookup::Hit(coin) => Some(coin),
                        Lookup::Spent => None,
                        Lookup::Unknown => found.inspect(|_| cache.remove(outpoint)),
                    }
                }
            };
            match coin {
                // Coins after the first missing one are put back.
                Some(coin) if is_missing => cache.restore(outpoint, &coin),
                Some(coin) => coins.push(coin),
                None => is_missing = true,
            }
        }
        Ok(coins)
    }

    /// Reads from the tables the coins of [`Prepared::external`] that the cache does not know:
    /// those that were written and dropped since a worker looked them up.
    fn look_up(
        &self,
        prepared: &Prepared,
        lookups: &[Lookup],
    ) -> Result<Vec<Option<Coin>>, StoreError> {
        let all = prepared.external.iter().zip(lookups);
        let unknown = all.filter(|(_, lookup)| **lookup == Lookup::Unknown);
        let unknown: Vec<OutPoint> = unknown.map(|(outpoint, _)| *outpoint).collect();
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.shared.chainstate.get_many(&unknown)?;
        self.shared.clock.note_looked_up(found.iter().flatten().count());
        Ok(found)
    }

    fn add(&self, prepared: &Prepared) -> Result<(), apus_coins::Overwritten> {
        let (by_coinbase, others) = prepared.created.split_at(prepared.created_by_coinbase);
        // Before BIP30 a coinbase could occur twice, so the tables may have its coins already.
        self.shared.cache.add_batch(by_coinbase, Overwrite::Possible)?;
        self.shared.cache.add_batch(others, Overwrite::Never)
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

    /// Adds a block, refused before any of its coins is spent, to those in flight.
    fn refuse(&mut self, step: &Step, prepared: Prepared, error: RuleError) {
        let block = Validation::refused(self.shared.tree, step.id, prepared, error);
        self.in_flight.push_back(Arc::new(block));
    }

    /// Returns whether a block creates a coin that exists already.
    fn overwrites(&self, prepared: &Prepared) -> Result<bool, StoreError> {
        let block = &prepared.block;
        for (tx, txid) in block.view().txs().zip(block.txids()) {
            for vout in 0..tx.output_count() as u32 {
                let outpoint = OutPoint { txid: *txid, vout };
                let exists = match self.shared.cache.peek(&outpoint) {
                    Lookup::Hit(_) => true,
                    Lookup::Spent => false,
                    Lookup::Unknown if self.shared.chainstate.is_empty() => false,
                    Lookup::Unknown => self.shared.chainstate.get(&outpoint)?.is_some(),
                };
                if exists {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Makes the blocks in flight the tip, one after another, as far as their checks are finished.
    fn retire(&mut self) -> Result<(), Fault> {
        while self.in_flight.front().is_some_and(|block| block.is_done()) {
            let Some(block) = self.in_flight.pop_front() else { break };
            let step = self.steps[self.retired];
            if let Some(error) = block.take_error() {
                self.in_flight.push_front(block);
                self.take_back();
                return Err(Fault::Rule(step, error));
            }
            let _timer = self.shared.clock.start(Stage::Undo);
            if let Err(error) = self.ledger.retire(self.shared, &block) {
                self.in_flight.push_front(block);
                return Err(self.give_up(error));
            }
            self.ledger.show_tip(self.shared, self.watch.observer);
            self.weight_done += self.weights[self.retired];
            self.retired += 1;
        }
        Ok(())
    }

    /// Undoes the changes of all blocks in flight to the cache, the last block first.
    fn take_back(&mut self) {
        let cache = self.shared.cache;
        while let Some(block) = self.in_flight.pop_back() {
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
            coins: self.shared.cache.len() as u64,
            fraction: self.weight_done as f64 / self.weight_all.max(1) as f64,
            ..Progress::of(Phase::Connecting)
        });
    }
}
