//! The thread that connects blocks in order of height: it takes the coins that each spends, adds
//! those that it creates, makes blocks whose checks are finished the tip, takes back those after an
//! invalid one, and commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_coins::{Coin, Lookup, Overwrite};
use apus_disk::StoreError;
use apus_node::assumevalid::Assumed;
use apus_node::block::prepare::Prepared;
use apus_node::block::step::Step;
use apus_node::block::validate::{BranchTimes, Validation};
use apus_node::clock::{Stage, Wait};
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::outcome::Counts;
use apus_node::progress::{Phase, Progress, Watch};
use apus_node::shared::Shared;
use apus_node::sources::Place;
use apus_rules::{Bip30Check, RuleError, bip30_check};
use apus_wire::OutPoint;

use super::pipeline::Workers;

/// The time between two lines of the log about stages and queues.
const BENCH_EVERY: Duration = Duration::from_secs(10);

/// The thread that connects blocks in order.
pub(super) struct Connector<'a> {
    pub shared: &'a Shared<'a>,
    pub steps: &'a [Step],
    pub ledger: &'a mut Ledger,
    pub assumed: Assumed,
    pub times: BranchTimes,
    pub watch: Watch<'a>,
    /// The time after which blocks that peers have sent are written to the block index, so that
    /// they need not come again after a crash.
    pub save_every: Duration,
    pub weight_total: u64,
    pub weight_done: u64,
    /// Blocks whose coins are taken and added, and whose checks may not be finished.
    pub in_flight: VecDeque<Arc<Validation>>,
    /// How many steps' coins are taken and added.
    pub connected: usize,
    /// How many steps' checks are finished; the last of these is the tip.
    pub retired: usize,
    /// Since when no block is connected because of a commit.
    pub stalled_since: Option<Instant>,
}

/// Why the connector takes no further block until none is in flight.
enum Halt {
    /// It is time to begin a commit, for which no block may be in flight; after that it goes on.
    Commit,
    /// Somebody asked to stop.
    Stop,
    /// The next block cannot be connected.
    Fault(Fault),
}

impl<'a> Connector<'a> {
    /// Connects all steps, or as many as can be. Blocks that peers have sent are stored even if
    /// they are not connected, so that they need not come again.
    ///
    /// # Errors
    /// [`Fault::Rule`], [`Fault::Damaged`] and [`Fault::Gone`] are about the block after the last
    /// one that was connected, and [`Fault::Full`] and [`Fault::Stopped`] come after it: the UTXO
    /// set in the cache is whole. After [`Fault::Store`] it may hold half a block.
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
            // Coins with long scripts take more than is expected of a coin, and those that blocks
            // ahead spend cannot be dropped.
            let most = self.ledger.cache_bytes_max;
            let is_over = self.shared.cache.bytes() > most + most / 8;
            workers.let_ahead(self.connected, if is_over { 0 } else { most });
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
            self.ledger.prune_meanwhile(self.shared)?;
            self.report();
            self.shared.clock.log_every(BENCH_EVERY);
            if self.in_flight.is_empty() {
                match halt.take() {
                    Some(Halt::Commit) => {
                        let _timer = self.shared.clock.wait(Wait::Commit);
                        workers.commit(self.ledger.begin_commit(self.shared)?);
                    }
                    // `activate_best_chain` commits.
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

    /// Takes part in the checks of blocks in flight, if every worker may be waiting for a block of
    /// a peer.
    fn help(&self) {
        if self.shared.peers.is_some() {
            for block in &self.in_flight {
                block.work(self.shared.network, self.shared.scripts);
            }
        }
    }

    /// Whether there is something to do without news from the workers.
    fn can_go_on(&self, workers: &Workers, halted: bool) -> bool {
        let front_done = self.in_flight.front().is_some_and(|block| block.is_done());
        let may_connect = || !halted && workers.is_ready(self.connected) && self.has_room(workers);
        let finished = self.in_flight.is_empty() && (halted || self.retired == self.steps.len());
        front_done || finished || may_connect()
    }

    /// Whether another block may be connected: there are few whose checks are not finished, and
    /// the cache has room.
    fn has_room(&self, workers: &Workers) -> bool {
        workers.has_room(self.in_flight.len()) && self.ledger.make_room(self.shared.cache)
    }

    /// What there is to wait for, if there is nothing to do.
    fn waits_for(&self, workers: &Workers, halted: bool) -> Wait {
        let next = self.steps.get(self.connected);
        match next.filter(|_| !halted && workers.has_room(self.in_flight.len())) {
            None => Wait::Checks,
            Some(_) if self.ledger.is_full(self.shared.cache) => Wait::Commit,
            Some(step) if step.place == Place::Peers => Wait::Peers,
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

    /// Stores the next block, unless it is stored. Room for the coins that have changed stays free.
    fn store(&mut self, prepared: &Prepared) -> Result<(), StoreError> {
        self.shared.files.keep_free(self.ledger.room_for_coins(self.shared.cache));
        let step = self.steps[self.connected];
        if matches!(step.place, Place::Stored(_)) {
            return Ok(());
        }
        let _timer = self.shared.clock.start(Stage::Store);
        self.ledger.store_block(self.shared, step.id, prepared.block.view())
    }

    /// Ends after an error of the disk. If that is full, blocks whose checks are not finished are
    /// taken back, so that what is finished can be committed.
    fn give_up(&mut self, error: StoreError) -> Fault {
        if !error.is_full() {
            return Fault::Store(error);
        }
        self.take_back();
        Fault::Full(error)
    }

    /// Takes a block's coins and adds those that it creates.
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
            // The UTXO set is again as it was before the block, which is what BIP30 asks about.
            if bip30 == Bip30Check::Implied && self.overwrites(&prepared)? {
                self.refuse(&step, prepared, RuleError::bip30());
                return Ok(());
            }
        } else {
            // Where BIP30 is not looked up, no valid chain breaks it: this UTXO set is another's.
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

    /// Takes the coins of [`Prepared::external`] from the UTXO set, up to the first that is
    /// missing.
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
                    // The block may spend an outpoint twice: then the first time made it known. A
                    // worker may have filled it in.
                    match cache.spend(outpoint) {
                        Lookup::Hit(coin) => Some(coin),
                        Lookup::Spent => None,
                        Lookup::Unknown => found.inspect(|_| cache.remove(outpoint)),
                    }
                }
            };
            match coin {
                // After the first that is missing, all are put back.
                Some(coin) if is_missing => cache.restore(outpoint, &coin),
                Some(coin) => coins.push(coin),
                None => is_missing = true,
            }
        }
        Ok(coins)
    }

    /// The coins of [`Prepared::external`] that the cache does not know, from the tables: those
    /// that were written and dropped since a worker has looked for them.
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
        // Before BIP30 a coinbase could come twice, so that the tables may hold one already.
        self.shared.cache.add_batch(by_coinbase, Overwrite::Possible)?;
        self.shared.cache.add_batch(others, Overwrite::Never)
    }

    /// How to find out whether a block keeps BIP30.
    fn bip30(&self, step: &Step) -> Bip30Check {
        let (tree, network) = (self.shared.tree, self.shared.network);
        let node = tree.node(step.id);
        let bip34 = node.prev.and_then(|parent| tree.ancestor(parent, network.bip34_height));
        let matches = bip34.is_some_and(|id| tree.node(id).hash == network.bip34_hash);
        bip30_check(network, node.height, &node.hash, matches)
    }

    /// Queues a block that is refused before any of its coins is taken, after those in flight.
    fn refuse(&mut self, step: &Step, prepared: Prepared, error: RuleError) {
        let block = Validation::refused(self.shared.tree, step.id, prepared, error);
        self.in_flight.push_back(Arc::new(block));
    }

    /// Whether a block creates a coin that exists before it.
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

    /// Makes the blocks in flight the tip, one after another, while their checks are finished.
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
            self.retired += 1;
            self.weight_done += step.weight;
        }
        Ok(())
    }

    /// Takes back the coins of all blocks in flight, last first.
    fn take_back(&mut self) {
        let cache = self.shared.cache;
        while let Some(block) = self.in_flight.pop_back() {
            // Workers may still be checking it; they only read what the block holds.
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
        self.ledger.end_commit(written)?;
        self.shared.clock.log();
        self.ledger.prune(self.shared)
    }

    fn report(&self) {
        let Some(tip) = self.ledger.active.tip() else { return };
        let node = self.shared.tree.node(tip);
        let Counts { blocks, bytes, .. } = self.ledger.counts;
        self.watch.observer.observe(&Progress {
            height: node.height,
            time: node.time,
            blocks,
            bytes,
            coins: self.shared.cache.len() as u64,
            fraction: self.weight_done as f64 / self.weight_total.max(1) as f64,
            ..Progress::of(Phase::Connecting)
        });
    }
}
