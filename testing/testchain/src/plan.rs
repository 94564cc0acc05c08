//! The plan of a busy block: what its transactions spend and create. Everything random happens
//! here, in one thread and in order, at a tenth of the cost of signing.

use crate::block::{median_time_past, subsidy};
use crate::coin::{Coin, Pool};
use crate::lock::{Kind, Lock};
use crate::payment::{Output, Payment, Spend, Target};
use crate::rng::Rng;
use crate::spec::Spec;

/// Maximum weight, which leaves room for the header, the coinbase and rounding.
const WEIGHT_MAX: u64 = 3_980_000;
/// Maximum signature operation cost, with some room below the 80,000 allowed.
const SIGOPS_MAX: u64 = 78_000;
/// Longest chain of transactions that spend one another within a block.
const DEPTH_MAX: u32 = 8;
/// Percentage of outputs whose keys have been used before. Fewer of the signatures are by keys seen
/// before, because not all outputs are spent.
const OLD_KEYS_PERCENT: u64 = 33;
/// An output worth less is not created if a transaction can do with fewer outputs.
const DUST: u64 = 330;
/// The number of blocks after which only small amounts are still unspent, so that large ones are
/// spent again and again and do not run out over thousands of blocks.
const LONG_LIFE: u32 = 300;

/// The transactions of a block, to be signed in waves of equal depth.
#[derive(Debug, Default)]
pub(crate) struct BlockPlan {
    pub txs: Vec<Draft>,
    /// New outputs that are still unspent at the end of the block.
    pub fresh: Vec<Fresh>,
    /// Sum of all fees, in satoshis.
    pub fees: u64,
    pub inputs: u64,
    pub outputs: u64,
}

/// A transaction, and which of its inputs spend others of the same block.
#[derive(Debug)]
pub(crate) struct Draft {
    pub payment: Payment,
    /// Pairs of input index and the parent's place in the plan.
    pub parents: Vec<(u32, u32)>,
    /// 0 without parents, else one more than the deepest parent.
    pub depth: u32,
    /// The number of the first nonce of its signatures.
    pub nonce: u32,
}

/// An output of the block being planned: its transaction id is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    pub tx: u32,
    pub vout: u16,
    pub amount: u64,
    pub lock: Lock,
    /// Blocks until it is to be spent; `None` for never.
    pub life: Option<u32>,
}

/// Returns the number of blocks for which an output will be unspent: mostly few, with a long tail.
/// `None` if it is never spent.
pub(crate) fn draw_life(rng: &mut Rng, spec: &Spec) -> Option<u32> {
    if rng.percent(u64::from(spec.never_spent_percent)) {
        return None;
    }
    Some(rng.power_law(187) as u32)
}

/// The numbers of keys and nonces used so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub keys: u32,
    pub nonces: u32,
}

impl Used {
    /// Returns a lock of this kind, with new keys or sometimes with those of an earlier lock,
    /// mostly a recent one.
    pub fn draw_lock(&mut self, kind: Kind, rng: &mut Rng) -> Lock {
        if kind == Kind::OpReturn {
            return Lock { kind, key: rng.below(1 << 16) as u32 };
        }
        if rng.percent(OLD_KEYS_PERCENT) {
            let back = rng.power_law(200) as u32;
            return Lock { kind, key: self.keys.saturating_sub(back) };
        }
        let lock = Lock { kind, key: self.keys };
        self.keys = self.keys.wrapping_add(kind.keys());
        lock
    }
}

/// Plans the block at `height`.
pub(crate) fn plan(
    spec: &Spec,
    height: u32,
    pool: &mut Pool,
    used: &mut Used,
    rng: &mut Rng,
) -> BlockPlan {
    // A typical input takes 200 bytes with its share of everything else.
    let wanted = (spec.busy_bytes / 200) as usize;
    if spec.is_top(height) {
        pool.advance_keyless(spec.busy_end() + 1, height)
    } else {
        pool.advance(height, wanted)
    }
    let ready = pool.ready();
    let scarce = ready < wanted;
    let mut planner = Planner {
        spec,
        height,
        pool,
        used,
        rng,
        plan: BlockPlan::default(),
        fan_out: scarce.then(|| (spec.busy_bytes / (ready as u64).max(1) / 36).clamp(2, 1_500)),
        plenty: ready > 3 * wanted,
        bytes: 400,
        weight: 1_600,
        sigops: 400,
        // Inputs without signatures are small: as many as in the other busy blocks.
        inputs_max: if spec.is_top(height) { spec.busy_bytes / 210 } else { u64::MAX },
    };
    while planner.has_room() && planner.add() {}
    planner.plan
}

struct Planner<'a> {
    spec: &'a Spec,
    height: u32,
    pool: &'a mut Pool,
    used: &'a mut Used,
    rng: &'a mut Rng,
    plan: BlockPlan,
    /// The number of outputs of a transaction, if there are too few coins to fill the block
    /// otherwise.
    fan_out: Option<u64>,
    /// More coins are due than the block can spend.
    plenty: bool,
    bytes: u64,
    weight: u64,
    sigops: u64,
    inputs_max: u64,
}

impl Planner<'_> {
    fn has_room(&self) -> bool {
        self.plan.txs.len() < self.spec.busy_txs_max as usize
            && self.bytes < self.spec.busy_bytes
            && self.weight < WEIGHT_MAX
            && self.sigops < SIGOPS_MAX
            && self.plan.inputs < self.inputs_max
    }

    /// Adds one transaction; returns false if there is nothing left to spend.
    fn add(&mut self) -> bool {
        let (mut wanted_inputs, mut wanted_outputs) = self.shape();
        let mut draft = Draft {
            payment: Payment { version: 2, lock_time: 0, inputs: Vec::new(), outputs: Vec::new() },
            parents: Vec::new(),
            depth: 0,
            nonce: self.used.nonces,
        };
        let mut total = 0;
        // Coins of little value are joined with others and not split into dust.
        while wanted_inputs > 0 || (total < DUST * 2 && draft.payment.inputs.len() < 4) {
            if !self.add_input(&mut draft) {
                break;
            }
            wanted_inputs = wanted_inputs.saturating_sub(1);
            total += draft.payment.inputs.last().map_or(0, |input| input.amount);
        }
        if draft.payment.inputs.is_empty() {
            return false;
        }
        wanted_outputs = wanted_outputs.min(1 + total / (2 * DUST));
        // No transaction may take the block far beyond its limits.
        wanted_outputs = wanted_outputs.min(1 + (WEIGHT_MAX - self.weight.min(WEIGHT_MAX)) / 300);
        self.set_locks(&mut draft.payment);
        self.add_outputs(&mut draft.payment, total, wanted_outputs);
        self.plan.inputs += draft.payment.inputs.len() as u64;
        self.plan.outputs += draft.payment.outputs.len() as u64;
        self.bytes += 11;
        self.weight += 44;
        let signatures = draft.payment.signatures() as u32;
        self.used.nonces = self.used.nonces.wrapping_add(signatures);
        self.plan.txs.push(draft);
        true
    }

    /// Returns the numbers of inputs and outputs.
    fn shape(&mut self) -> (u64, u64) {
        let rng = &mut *self.rng;
        if let Some(outputs) = self.fan_out {
            return (rng.between(1, 2), rng.between(1 + outputs / 2, 2 + 2 * outputs));
        }
        let consolidation = if self.plenty { 30 } else { 14 };
        match rng.below(1_000) {
            n if n < consolidation => (rng.between(8, 70), 1),
            0..120 => (1, 1),
            120..600 => (1, 2),
            600..730 => (2, 2),
            730..790 => (2, 1),
            790..840 => (rng.between(3, 6), rng.between(1, 2)),
            840..910 => (rng.between(1, 2), rng.between(3, 4)),
            910..989 => (rng.between(1, 3), rng.between(8, 40)),
            _ => (rng.between(1, 4), rng.between(31, 100)),
        }
    }

    /// Adds an input to `draft`; returns false if no coin is ready.
    fn add_input(&mut self, draft: &mut Draft) -> bool {
        let in_block = self.rng.percent(u64::from(self.spec.in_block_percent));
        let mut spend = match in_block.then(|| self.take_fresh()).flatten() {
            Some(fresh) => {
                draft.parents.push((draft.payment.inputs.len() as u32, fresh.tx));
                let parent = &self.plan.txs[fresh.tx as usize];
                draft.depth = draft.depth.max(parent.depth + 1);
                let vout = u32::from(fresh.vout);
                let amount = fresh.amount;
                let lock = fresh.lock;
                let sequence = self.sequence(None, lock);
                Spend { txid: [0; 32], vout, amount, lock, sequence, hash_type: None }
            }
            None => {
                let Some(coin) = self.pool.take(self.rng) else { return false };
                let sequence = self.sequence(Some(&coin), coin.lock);
                Spend { sequence, ..Spend::from(&coin) }
            }
        };
        spend.hash_type = self.spec.mix.draw_hash_type(self.rng);
        let (base, witness) = spend.lock.kind.input_bytes();
        self.bytes += base + witness;
        self.weight += 4 * base + witness;
        self.sigops += spend.lock.kind.input_sigops();
        draft.payment.inputs.push(spend);
        true
    }

    /// Takes an output of this block that may be spent in it.
    fn take_fresh(&mut self) -> Option<Fresh> {
        let fresh = &mut self.plan.fresh;
        for _ in 0..4 {
            let index = self.rng.below(fresh.len() as u64) as usize;
            let found = fresh.get(index)?;
            let waits = found.lock.kind == Kind::P2wshCsv && found.lock.csv_blocks() > 0;
            let deep = self.plan.txs[found.tx as usize].depth >= DEPTH_MAX;
            if found.life.is_some() && !waits && !deep {
                return Some(fresh.swap_remove(index));
            }
        }
        None
    }

    /// Returns a sequence number: final, replaceable, or sometimes a relative lock that has passed.
    fn sequence(&mut self, coin: Option<&Coin>, lock: Lock) -> u32 {
        if lock.kind == Kind::P2wshCsv {
            return lock.csv_blocks();
        }
        let age = coin.map_or(0, |coin| self.height - coin.height);
        match self.rng.below(100) {
            0..45 => u32::MAX,
            45..90 => 0xffff_fffd,
            90..93 => age.min(0xffff),
            93..96 => self.rng.below(u64::from(age.min(0xffff)) + 1) as u32,
            96..98 => (1 << 22) | self.passed_512_seconds(coin),
            _ => 0xffff_fffe,
        }
    }

    /// Returns the longest relative time lock (BIP 68), in units of 512 seconds, that is over for
    /// `coin`.
    fn passed_512_seconds(&self, coin: Option<&Coin>) -> u32 {
        let Some(coin) = coin else { return 0 };
        let now = median_time_past(self.spec.seed, self.height - 1);
        let then = median_time_past(self.spec.seed, coin.height.saturating_sub(1));
        (now.saturating_sub(then) / 512).min(0xffff)
    }

    /// Sets the version and lock time that the inputs need.
    fn set_locks(&mut self, payment: &mut Payment) {
        let cltv = payment.inputs.iter().any(|input| input.lock.needs_lock_time());
        let csv = payment.inputs.iter().any(|input| input.lock.kind == Kind::P2wshCsv);
        payment.version = if !csv && self.rng.percent(15) { 1 } else { 2 };
        let draw = self.rng.below(100);
        if cltv || draw < 20 {
            payment.lock_time = self.height - 1;
        } else if draw < 23 {
            let now = median_time_past(self.spec.seed, self.height - 1);
            payment.lock_time = now - 1 - self.rng.below(100_000) as u32;
        }
        if payment.lock_time != 0 {
            for input in payment.inputs.iter_mut().filter(|input| input.sequence == u32::MAX) {
                input.sequence = 0xffff_fffe;
            }
        }
    }

    /// Adds `count` outputs that share `total` less a fee.
    fn add_outputs(&mut self, payment: &mut Payment, total: u64, count: u64) {
        let size = 100 * payment.inputs.len() as u64 + 34 * count;
        let fee = (size * self.rng.below(8)).min(total / 10);
        self.plan.fees += fee;
        let mut left = total - fee;
        let tx = self.plan.txs.len() as u32;
        for vout in 0..count {
            let last = vout + 1 == count;
            let (mut kind, mut life) = self.draw_output();
            if last {
                // The change, which is spent again soon.
                if !kind.is_spendable() {
                    kind = self.draw_spendable();
                }
                life = life.map(|life| life.min(LONG_LIFE)).or(Some(1));
            }
            let lock = self.used.draw_lock(kind, self.rng);
            let amount = if last {
                left
            } else if kind.is_spendable() {
                self.amount(left, count - vout, life)
            } else {
                0
            };
            left -= amount;
            self.bytes += lock.kind.output_bytes();
            self.weight += 4 * lock.kind.output_bytes();
            self.sigops += lock.kind.output_sigops();
            payment.outputs.push(Output { amount, to: Target::Lock(lock) });
            if lock.kind.is_spendable() {
                self.plan.fresh.push(Fresh { tx, vout: vout as u16, amount, lock, life });
            }
        }
    }

    fn draw_output(&mut self) -> (Kind, Option<u32>) {
        let mut kind = self.spec.mix.draw(self.rng);
        let mut life = draw_life(self.rng, self.spec);
        if self.spec.top_blocks == 0 || !kind.is_spendable() {
            return (kind, life);
        }
        if self.spec.is_top(self.height) {
            kind = self.draw_spendable();
        } else if life.is_none() && self.rng.percent(self.spec.for_top_percent()) {
            kind = Kind::OpTrue;
            let spent_at = 1 + self.rng.below(u64::from(self.spec.top_blocks)) as u32;
            life = Some(self.spec.top_start() - self.height + spent_at);
        }
        (kind, life)
    }

    /// Returns a kind that can be spent, and in the topmost blocks without a signature.
    fn draw_spendable(&mut self) -> Kind {
        if self.spec.is_top(self.height) {
            Kind::OpTrue
        } else {
            self.spec.mix.draw_spendable(self.rng)
        }
    }

    /// Returns a share of `left` for one of `count` outputs; a small one for those that live long.
    fn amount(&mut self, left: u64, count: u64, life: Option<u32>) -> u64 {
        let rng = &mut *self.rng;
        if life.is_none_or(|life| life > LONG_LIFE) {
            let small = rng.power_law(200).min(1 << 17) + DUST;
            return small.min(left / count);
        }
        let share = left / count * (64 + rng.below(128)) / 128;
        let share = share.min(left);
        if share > 200_000 && rng.percent(50) { share - share % 10_000 } else { share }
    }
}

/// Returns what the coinbase of the block at `height` claims: all that it may, except that every
/// 50th leaves a satoshi.
pub(crate) fn reward(height: u32, fees: u64) -> u64 {
    (subsidy(height) + fees).saturating_sub(u64::from(height % 50 == 7))
}
