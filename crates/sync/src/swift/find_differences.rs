//! Finds the coins that a claim, or undo data, is wrong about, after the sums have shown that one
//! of them is wrong.
//!
//! A first pass over all blocks divides the outpoints into 2^20 groups by a keyed hash, and
//! computes a sum for each group: only groups with a wrong coin do not balance. If there are many,
//! a second pass divides their outpoints once more, by another hash. The last pass looks only at
//! the outpoints of the groups that are left, about a millionth of all for each wrong coin or far
//! fewer, and finds out what happened to them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use apus_coins::{Coin, SnapshotFile, SnapshotReadError};
use apus_consensus::CheckedBlock;
use apus_host::threads;
use apus_host::threads::Crew;
use apus_node::coin_differences::{CoinDifference, DifferenceKind, Differences};
use apus_node::fault::Fault;
use apus_node::options::Options;
use apus_node::shared::{NEVER, Shared};
use apus_node::sources::BlockBytes;
use apus_progress::{Phase, Progress, Watch};
use apus_store::FlatFilePos;
use apus_swiftsync::Salt;
use apus_wire::OutPoint;

use super::context::Context;
use super::hinted::{HintedFate, for_each_output};
use super::opened_claim::{Marks, Opened, Reading, Unspent, load, next_piece, reading_fault};
use super::plan::SwiftPlan;
use super::undo::read_coins;
use crate::claim::Claim;
use crate::unspent::BlockCoins;

/// Number of bits of the hash that select a group.
const GROUP_BITS: u32 = 20;
/// The most groups whose outpoints are all looked at. On mainnet a group has 3,000 of them, in 1
/// MB of memory.
const GROUPS_LOOKED_AT_MAX: usize = 256;
/// The most coins that are named. A claim that is wrong about more is likely for another chain.
pub(super) const COINS_MAX: usize = 1 << 16;

/// Where the data directory has undo data, by height.
pub(super) type UndoPlaces = HashMap<u32, FlatFilePos>;

/// A coin that a claim or undo data is wrong about.
pub(super) struct WrongCoin {
    pub outpoint: OutPoint,
    /// The coin as a block creates it; `None` if no block does.
    pub created: Option<Coin>,
    pub kind: DifferenceKind,
    /// The height of the block that spends it, and the coin as the undo data of that block has it,
    /// `None` if that cannot be used. Only where it differs from `created`.
    pub wrong_undo: Option<(u32, Option<Coin>)>,
}

/// The coins that a claim or undo data is wrong about.
pub(super) struct WrongCoins {
    pub coins: Vec<WrongCoin>,
    /// Whether there are more, which are not named.
    pub are_more: bool,
}

/// Finds the coins that a claim about the plan's chain is wrong about; returns `None` if `watch`
/// asks to stop.
///
/// # Errors
/// A block cannot be read, or the claim is so damaged that its coins cannot be read.
pub fn find_differences(
    shared: &Shared,
    options: &Options,
    claim: &Claim,
    plan: &SwiftPlan,
    watch: Watch,
) -> Result<Option<Differences>, Fault> {
    let search = Search { shared, options, plan, undo: None, watch };
    let Some(WrongCoins { coins, are_more }) = search.wrong_coins(claim)? else {
        return Ok(None);
    };
    Ok(Some(Differences {
        coins: coins.into_iter().map(WrongCoin::difference).collect(),
        are_more,
    }))
}

/// A search for the coins that a claim or undo data is wrong about.
pub(super) struct Search<'a> {
    pub shared: &'a Shared<'a>,
    pub options: &'a Options,
    pub plan: &'a SwiftPlan,
    /// The undo data to compare with the blocks; `None` to compare the claim alone.
    pub undo: Option<&'a UndoPlaces>,
    pub watch: Watch<'a>,
}

impl Search<'_> {
    /// Does what [`find_differences`] does, and returns the coins with what their blocks say of
    /// them.
    pub fn wrong_coins(&self, claim: &Claim) -> Result<Option<WrongCoins>, Fault> {
        let Self { shared, options, plan, undo, watch } = *self;
        // The salt is not used, since no aggregate is computed.
        let salt = Salt::new([0; 64]);
        let reading = Reading::of_proof(options, plan, watch);
        let opened = match Opened::open(claim, &reading) {
            Err(Fault::Stopped) => return Ok(None),
            opened => opened?,
        };
        let context = || Context::new(shared, opened.unspent(), plan, &salt, &Default::default());
        let snapshot = match claim {
            Claim::Hints(_) => None,
            Claim::Snapshot(file) => Some(file),
        };
        let compared =
            Compared { has_snapshot: snapshot.is_some(), has_spent_coins: undo.is_some() };
        let pass = Pass { threads: options.threads, snapshot, undo, watch };
        let mut chosen = Vec::new();
        loop {
            let hasher = RandomState::new();
            let sums = || Sums::new(&chosen, &hasher, compared);
            let Some(sums) = pass.run(&context(), &sums)? else { return Ok(None) };
            let unbalanced = sums.unbalanced();
            let number = unbalanced.iter().filter(|is_unbalanced| **is_unbalanced).count();
            if number > COINS_MAX {
                return Ok(Some(WrongCoins { coins: Vec::new(), are_more: true }));
            }
            chosen.push(Groups { hasher, chosen: unbalanced });
            if number <= GROUPS_LOOKED_AT_MAX || chosen.len() == 2 {
                break;
            }
        }
        let Some(fates) = pass.run(&context(), &|| Fates::new(&chosen, compared))? else {
            return Ok(None);
        };
        let mut coins = fates.wrong_coins();
        coins.sort_unstable_by_key(|coin| (coin.height(), coin.outpoint));
        let are_more = coins.len() > COINS_MAX;
        coins.truncate(COINS_MAX);
        Ok(Some(WrongCoins { coins, are_more }))
    }
}

/// What the outputs of blocks are compared with, besides the inputs of blocks.
#[derive(Clone, Copy)]
struct Compared {
    has_snapshot: bool,
    /// Whether the coins that inputs spend are known from undo data.
    has_spent_coins: bool,
}

impl WrongCoin {
    fn height(&self) -> Option<u32> {
        self.created.as_ref().map(|coin| coin.height)
    }

    /// Returns the coin as reports name it.
    pub fn difference(self) -> CoinDifference {
        CoinDifference { outpoint: self.outpoint, height: self.height(), kind: self.kind }
    }
}

/// Groups of outpoints, some of which are chosen.
struct Groups {
    hasher: RandomState,
    chosen: Vec<bool>,
}

/// Returns whether an outpoint is in chosen groups of all these.
fn are_chosen(groups: &[Groups], outpoint: &OutPoint) -> bool {
    groups.iter().all(|groups| groups.chosen[group(&groups.hasher, outpoint).0])
}

/// What one pass over all blocks, and over all coins of a snapshot, collects.
trait Gather: Send + Sized {
    /// Adds an output that a block creates; `is_claimed` says whether the claim calls it unspent.
    fn created(&mut self, outpoint: &OutPoint, coin: &dyn Fn() -> Coin, is_claimed: bool);
    /// Adds an output that the block at `height` spends, with its coin as undo data has it.
    fn spent(&mut self, outpoint: &OutPoint, height: u32, coin: Option<&Coin>);
    /// Adds a coin of the snapshot.
    fn claimed(&mut self, outpoint: &OutPoint, coin: Coin);
    /// Adds what another worker has collected.
    fn add(&mut self, other: Self);
}

struct Pass<'a> {
    threads: usize,
    snapshot: Option<&'a SnapshotFile>,
    undo: Option<&'a UndoPlaces>,
    watch: Watch<'a>,
}

impl Pass<'_> {
    /// Collects from all blocks, and then from all coins of the snapshot; returns `None` if `watch`
    /// asks to stop.
    fn run<G: Gather>(
        &self,
        context: &Context,
        new: &(dyn Fn() -> G + Sync),
    ) -> Result<Option<G>, Fault> {
        let pieces = self.snapshot.map(|file| Mutex::new(file.pieces()));
        let height = context.plan.chain.height().unwrap_or(0);
        let total = context.todo().len() as u64;
        let mut done = 0;
        let work = |crew: &Crew<()>| -> Result<G, Fault> {
            let mut gathered = new();
            let mut buffers = Buffers::default();
            while !crew.is_halted()
                && let Some(step) = context.take_step(crew.halt())
            {
                match self.undo {
                    None => gather_block(context, step, &mut buffers, &mut gathered)?,
                    Some(undo) => {
                        gather_with_undo(context, step, undo, &mut buffers, &mut gathered)?;
                    }
                }
                crew.report(());
            }
            while let Some(pieces) = pieces.as_ref().filter(|_| !crew.is_halted())
                && let Some((piece, _)) = next_piece(pieces).map_err(Fault::Snapshot)?
            {
                let gather = |outpoint: &OutPoint, coin| -> Result<(), SnapshotReadError> {
                    gathered.claimed(outpoint, coin);
                    Ok(())
                };
                piece.for_each(gather).map_err(reading_fault)?;
            }
            Ok(gathered)
        };
        let results = threads::work_until_halt("differ", self.threads, work, |report| {
            done += u64::from(report.is_some());
            self.watch.observer.observe(&Progress {
                height,
                blocks: done,
                blocks_all: total,
                fraction: done as f64 / total.max(1) as f64,
                ..Progress::of(Phase::NamingCoins)
            });
            self.watch.is_stopped()
        });
        let mut all: Option<G> = None;
        for gathered in results {
            let gathered = gathered?;
            match &mut all {
                None => all = Some(gathered),
                Some(all) => all.add(gathered),
            }
        }
        Ok(all.filter(|_| !self.watch.is_stopped()))
    }
}

/// Buffers for one block, reused for the next.
#[derive(Default)]
struct Buffers {
    /// The indices of the outputs that hints have as unspent.
    unspent: Vec<u32>,
    /// The coins that a snapshot has of the block.
    coins: BlockCoins,
}

/// Collects the outputs and inputs of one block.
fn gather_block<G: Gather>(
    context: &Context,
    index: usize,
    buffers: &mut Buffers,
    gathered: &mut G,
) -> Result<(), Fault> {
    let shared = context.shared;
    let step = context.plan.steps[index];
    let block = shared.checked(step, &NEVER)?;
    let height = shared.tree.node(step.id).height;
    gather_created(context, &block, height, buffers, |outpoint, coin, is_claimed| {
        gathered.created(outpoint, coin, is_claimed);
    })?;
    for tx in block.view().txs().skip(1) {
        tx.inputs().for_each(|input| gathered.spent(&input.outpoint(), height, None));
    }
    Ok(())
}

/// Collects the coins that one block creates for others, and those that it spends with its undo
/// data. Outputs that the block itself spends are left out: a worker that checks all rules has
/// taken hints for them as wrong already.
fn gather_with_undo<G: Gather>(
    context: &Context,
    index: usize,
    undo: &UndoPlaces,
    buffers: &mut Buffers,
    gathered: &mut G,
) -> Result<(), Fault> {
    let shared = context.shared;
    let step = context.plan.steps[index];
    let prepared = shared.prepare(step, &NEVER)?;
    let height = prepared.height;
    let mut left = prepared.created.iter().peekable();
    gather_created(context, &prepared.block, height, buffers, |outpoint, coin, is_claimed| {
        if left.next_if(|(created, _)| created == outpoint).is_some() {
            gathered.created(outpoint, coin, is_claimed);
        }
    })?;
    let coins = match undo.get(&height) {
        Some(at) => read_coins(shared, step.id, *at, &prepared)?,
        None => None,
    };
    for (at, outpoint) in prepared.external.iter().enumerate() {
        let coin = coins.as_ref().map(|coins| &coins[at]);
        gathered.spent(outpoint, height, coin);
    }
    Ok(())
}

/// Calls `created` with each output of a block that can be spent, its coin, and whether the claim
/// calls it unspent.
fn gather_created(
    context: &Context,
    block: &CheckedBlock<BlockBytes>,
    height: u32,
    buffers: &mut Buffers,
    mut created: impl FnMut(&OutPoint, &dyn Fn() -> Coin, bool),
) -> Result<(), Fault> {
    let Buffers { unspent, coins } = buffers;
    let marks = match context.unspent {
        Unspent::Hints(hints) => {
            hints.reader.unspent(height, unspent).map_err(Fault::Hints)?;
            Marks::Indices(unspent)
        }
        // `Marks::Coins` would fail at a coin that matches no output of the block.
        Unspent::Snapshot(by_height) => {
            load(by_height, height, coins)?;
            Marks::Indices(&[])
        }
    };
    let mut of_tx = HashSet::new();
    for_each_output(block, height, &context.unspent, marks, |output| {
        let OutPoint { txid, vout } = output.outpoint;
        if vout == 0 {
            of_tx.clear();
            of_tx.extend(coins.of_tx(&txid).into_iter().flatten().map(|(vout, _)| vout));
        }
        let is_claimed = match output.fate {
            HintedFate::NoCoin | HintedFate::Unspendable => return Ok(()),
            HintedFate::Unspent => true,
            HintedFate::Spent => of_tx.contains(&vout),
        };
        let coin = || {
            let script = output.view.script();
            let amount = output.view.value().unsigned_abs();
            Coin::new(amount, script, height, output.tx == 0)
        };
        created(&output.outpoint, &coin, is_claimed);
        Ok(())
    })
}

/// Returns the group of an outpoint, and the number that represents it in the group's sum.
fn group(hasher: &RandomState, outpoint: &OutPoint) -> (usize, u64) {
    let hash = hasher.hash_one(outpoint.to_bytes());
    ((hash >> (u64::BITS - GROUP_BITS)) as usize, hash)
}

/// The sum of each group: outputs created and not claimed minus outputs spent, with their coins if
/// these are known from undo data. With a snapshot also the coins of outputs created and claimed
/// minus the coins of the snapshot.
struct Sums<'a> {
    /// The groups whose outpoints are summed; all outpoints if there are none.
    within: &'a [Groups],
    hasher: &'a RandomState,
    compared: Compared,
    sums: Vec<u64>,
}

impl<'a> Sums<'a> {
    fn new(within: &'a [Groups], hasher: &'a RandomState, compared: Compared) -> Self {
        Self { within, hasher, compared, sums: vec![0; 1 << GROUP_BITS] }
    }

    fn add_to_group(&mut self, outpoint: &OutPoint, value: u64) {
        if !are_chosen(self.within, outpoint) {
            return;
        }
        let (group, _) = group(self.hasher, outpoint);
        self.sums[group] = self.sums[group].wrapping_add(value);
    }

    fn of_coin(&self, outpoint: &OutPoint, coin: &Coin) -> u64 {
        let mut bytes = outpoint.to_bytes().to_vec();
        coin.encode(&mut bytes);
        self.hasher.hash_one(bytes)
    }

    /// Returns for each group whether it does not balance.
    fn unbalanced(&self) -> Vec<bool> {
        self.sums.iter().map(|sum| *sum != 0).collect()
    }
}

impl Gather for Sums<'_> {
    fn created(&mut self, outpoint: &OutPoint, coin: &dyn Fn() -> Coin, is_claimed: bool) {
        let Compared { has_snapshot, has_spent_coins } = self.compared;
        if is_claimed && !has_snapshot {
            return;
        }
        let value = if is_claimed || has_spent_coins {
            self.of_coin(outpoint, &coin())
        } else {
            group(self.hasher, outpoint).1
        };
        self.add_to_group(outpoint, value);
    }

    fn spent(&mut self, outpoint: &OutPoint, _: u32, coin: Option<&Coin>) {
        let value = match coin {
            Some(coin) => self.of_coin(outpoint, coin),
            // If coins are compared and this one is not known, the group does not balance.
            None => group(self.hasher, outpoint).1,
        };
        self.add_to_group(outpoint, value.wrapping_neg());
    }

    fn claimed(&mut self, outpoint: &OutPoint, coin: Coin) {
        let value = self.of_coin(outpoint, &coin);
        self.add_to_group(outpoint, value.wrapping_neg());
    }

    fn add(&mut self, other: Self) {
        let pairs = self.sums.iter_mut().zip(other.sums);
        pairs.for_each(|(sum, other)| *sum = sum.wrapping_add(other));
    }
}

/// The creations and spends of the outpoints of some groups.
struct Fates<'a> {
    /// The groups whose outpoints are looked at.
    groups: &'a [Groups],
    compared: Compared,
    fates: HashMap<OutPoint, Fate>,
}

/// The creations and spends of an outpoint.
#[derive(Default)]
struct Fate {
    /// The coin that a block creates, and whether the claim says that it is unspent.
    created: Option<(Coin, bool)>,
    /// Whether two blocks create it, for which no claim is to blame.
    is_created_again: bool,
    /// Height of a block that spends it, and the coin as undo data has it.
    spent: Option<(u32, Option<Coin>)>,
    /// Whether two blocks spend it, for which neither claim nor undo data is to blame.
    is_spent_again: bool,
    /// Coins of the snapshot with this outpoint.
    claimed: Vec<Coin>,
}

impl<'a> Fates<'a> {
    fn new(groups: &'a [Groups], compared: Compared) -> Self {
        Self { groups, compared, fates: HashMap::new() }
    }

    /// Returns the fate of an outpoint; `None` if its group is not looked at.
    fn of(&mut self, outpoint: &OutPoint) -> Option<&mut Fate> {
        are_chosen(self.groups, outpoint).then(|| self.fates.entry(*outpoint).or_default())
    }

    /// Returns the coins that the claim is wrong about.
    fn wrong_coins(self) -> Vec<WrongCoin> {
        let compared = self.compared;
        let wrong = |(outpoint, fate): (OutPoint, Fate)| {
            let created = fate.created.as_ref().map(|(coin, _)| coin.clone());
            let is_wrong = |(_, undo): &(u32, Option<Coin>)| *undo != created;
            let spent = fate.spent.as_ref().filter(|_| compared.has_spent_coins);
            let wrong_undo = spent.filter(|spent| is_wrong(spent)).cloned();
            let kind = fate.difference(compared)?;
            Some(WrongCoin { outpoint, created, kind, wrong_undo })
        };
        self.fates.into_iter().filter_map(wrong).collect()
    }
}

impl Fate {
    fn difference(mut self, compared: Compared) -> Option<DifferenceKind> {
        let is_claimed = if compared.has_snapshot {
            !self.claimed.is_empty()
        } else {
            self.created.as_ref().is_some_and(|(_, is_hinted)| *is_hinted)
        };
        match (self.created, self.spent) {
            _ if self.claimed.len() > 1 => Some(DifferenceKind::Repeated),
            _ if self.is_created_again || self.is_spent_again => None,
            (Some(_), Some((height, _))) if is_claimed => Some(DifferenceKind::Spent(height)),
            (Some((chain, _)), Some((height, undo)))
                if compared.has_spent_coins && undo.as_ref() != Some(&chain) =>
            {
                Some(DifferenceKind::Undo { height, chain, undo })
            }
            (Some(_), None) if !is_claimed => Some(DifferenceKind::Missing),
            (None, _) if is_claimed => Some(DifferenceKind::NeverCreated),
            (Some((chain, _)), None) => {
                let snapshot = self.claimed.pop().filter(|snapshot| *snapshot != chain)?;
                Some(DifferenceKind::Changed { chain, snapshot })
            }
            _ => None,
        }
    }
}

impl Gather for Fates<'_> {
    fn created(&mut self, outpoint: &OutPoint, coin: &dyn Fn() -> Coin, is_claimed: bool) {
        if let Some(fate) = self.of(outpoint) {
            fate.is_created_again |= fate.created.is_some();
            fate.created = Some((coin(), is_claimed));
        }
    }

    fn spent(&mut self, outpoint: &OutPoint, height: u32, coin: Option<&Coin>) {
        if let Some(fate) = self.of(outpoint) {
            fate.is_spent_again |= fate.spent.is_some();
            fate.spent = Some((height, coin.cloned()));
        }
    }

    fn claimed(&mut self, outpoint: &OutPoint, coin: Coin) {
        if let Some(fate) = self.of(outpoint) {
            fate.claimed.push(coin);
        }
    }

    fn add(&mut self, other: Self) {
        for (outpoint, other) in other.fates {
            let fate = self.fates.entry(outpoint).or_default();
            let is_again = fate.created.is_some() && other.created.is_some();
            fate.is_created_again |= other.is_created_again || is_again;
            fate.created = fate.created.take().or(other.created);
            let is_again = fate.spent.is_some() && other.spent.is_some();
            fate.is_spent_again |= other.is_spent_again || is_again;
            fate.spent = fate.spent.take().or(other.spent);
            fate.claimed.extend(other.claimed);
        }
    }
}
