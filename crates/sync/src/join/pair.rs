//! The second pass: the outputs and spends of one partition are matched in memory. Unspent outputs
//! go to the tables, spent coins to the buckets of the blocks that spend them.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::{
    Bulk, ChangeSink, CoinWriter, SortedRuns, TxidHasher, decompress_amount, key_order,
    put_coin_key,
};
use apus_disk::{PartBuffer, StoreError};
use apus_join::{
    BatchWriter, Damaged, Layout, MatchedOutput, Matcher, Spend, Taken, put_late_coin,
};
use apus_progress::clock::Stage;
use apus_wire::{Cursor, OutPoint, put_varint};

use super::base::{Base, Wanted, output_of};
use super::context::Context;
use super::state::PairCounts;
use apus_node::fault::Fault;

/// A worker of the second pass.
pub struct Pairer<'a> {
    context: &'a Context<'a>,
    dropped: &'a HashSet<u32>,
    base: Option<Base<'a>>,
    matcher: Matcher,
    outputs: PartBuffer,
    spends: PartBuffer,
    /// Spent coins, for the last pass.
    coins: BatchWriter<'a>,
    unmet: Vec<Spend>,
    changes: Vec<Change>,
    counts: PairCounts,
}

/// A change to the UTXO set that is not an unspent output of the matcher.
struct Change {
    outpoint: OutPoint,
    /// The coin as the chainstate encodes it; `None` if it is deleted.
    coin: Option<Vec<u8>>,
}

/// What a worker has done of a range of partitions.
pub struct PairedRange {
    pub done: Range<usize>,
    pub counts: PairCounts,
}

impl<'a> Pairer<'a> {
    /// Creates a worker that has matched nothing. `source` is the source number of the spent coins
    /// that it writes; records of the sources in `dropped` are skipped.
    pub fn new(
        context: &'a Context<'a>,
        source: u32,
        dropped: &'a HashSet<u32>,
    ) -> Result<Self, StoreError> {
        let buckets = context.layout.buckets();
        let batch_bytes = Layout::batch_bytes(buckets);
        let mut coins =
            BatchWriter::new(context.parts, context.layout.first_bucket(), buckets, batch_bytes);
        coins.set_source(source)?;
        Ok(Self {
            context,
            dropped,
            base: Base::of(context.shared.chainstate),
            matcher: Matcher::new(TxidHasher::of(context.hash_key)),
            outputs: PartBuffer::new(),
            spends: PartBuffer::new(),
            coins,
            unmet: Vec::new(),
            changes: Vec::new(),
            counts: PairCounts::default(),
        })
    }

    /// Matches the partitions of `range`, one after another, until `halt` is raised, and writes
    /// unspent outputs to tables of `bulk`.
    pub fn pair(
        &mut self,
        range: Range<usize>,
        bulk: &Bulk,
        halt: &AtomicBool,
        mut report: impl FnMut(u64),
    ) -> Result<PairedRange, Fault> {
        let mut writer = bulk.writer();
        let mut done = range.start..range.start;
        while done.end < range.end && !halt.load(Relaxed) {
            self.partition(done.end, &mut TableSink(&mut writer))?;
            report(self.context.parts.bytes(self.context.layout.outputs(done.end)));
            done.end += 1;
        }
        writer.finish()?;
        Ok(PairedRange { done, counts: self.finish()? })
    }

    /// Appends all spent coins to their buckets, and returns the counts since the last call.
    pub fn finish(&mut self) -> Result<PairCounts, StoreError> {
        self.coins.flush()?;
        Ok(std::mem::take(&mut self.counts))
    }

    /// Matches a partition, and writes its unspent outputs to `sink`. Does not write all of them if
    /// a block is refused.
    pub fn partition(&mut self, partition: usize, sink: &mut impl ChangeSink) -> Result<(), Fault> {
        let parts = self.context.parts;
        let layout = self.context.layout;
        let looked_up = self.base.map_or(0, |_| parts.bytes(layout.spends(partition)));
        let outputs = parts.bytes(layout.outputs(partition));
        match self.context.memory.slices(outputs, looked_up) {
            1 => self.whole(partition, sink),
            slices => self.sliced(partition, slices, sink),
        }
    }

    /// Matches a partition that fits in memory.
    fn whole(&mut self, partition: usize, sink: &mut impl ChangeSink) -> Result<(), Fault> {
        let parts = self.context.parts;
        let part = self.context.layout.outputs(partition);
        let mut buffer = std::mem::take(&mut self.outputs);
        let result = parts.with_part(part, &mut buffer, |bytes, ranges| {
            let timer = self.context.shared.clock.start(Stage::Pair);
            self.matcher.clear();
            let loaded = self.matcher.load(bytes, ranges, self.dropped);
            drop(timer);
            loaded.map_err(|damaged| self.damaged(&damaged))?;
            self.matched(partition, bytes, None, sink)
        });
        self.outputs = buffer;
        result?
    }

    /// Matches a partition that does not fit in memory, a slice of its transactions at a time.
    fn sliced(
        &mut self,
        partition: usize,
        slices: u64,
        sink: &mut impl ChangeSink,
    ) -> Result<(), Fault> {
        let parts = self.context.parts;
        let part = self.context.layout.outputs(partition);
        tracing::debug!(
            target: "validation",
            partition, slices, "a partition is larger than its memory"
        );
        let mut runs = SortedRuns::new(&parts.path().with_extension(format!("{partition}")));
        let mut bytes = Vec::new();
        for slice in 0..slices {
            bytes.clear();
            self.matcher.clear();
            let matcher = &self.matcher;
            let dropped = self.dropped;
            let slice = (slice, slices);
            let keep = |piece: &[u8]| -> Result<(), Fault> {
                matcher
                    .keep_slice(piece, dropped, slice, &mut bytes)
                    .map_err(|damaged| Fault::Store(damaged_part(parts.path(), &damaged)))
            };
            parts.for_each_piece(part, &mut self.outputs, keep)?;
            let all = 0..bytes.len();
            self.matcher
                .load(&bytes, std::slice::from_ref(&all), &HashSet::new())
                .map_err(|damaged| self.damaged(&damaged))?;
            runs.begin()?;
            self.matched(partition, &bytes, Some(slice), &mut runs)?;
        }
        Ok(runs.merge(sink)?)
    }

    /// Matches the spends of a partition with the outputs that were loaded from `bytes`, and writes
    /// spent coins and changes to the UTXO set.
    fn matched(
        &mut self,
        partition: usize,
        bytes: &[u8],
        slice: Option<(u64, u64)>,
        sink: &mut impl ChangeSink,
    ) -> Result<(), Fault> {
        let _timer = self.context.shared.clock.start(Stage::Pair);
        self.add_existing(bytes)?;
        self.take(partition, bytes, slice)?;
        self.changes.clear();
        self.take_from_base()?;
        self.replay()?;
        if self.context.fault().is_some() {
            // A block is refused, so the join ends below it, and this partition is matched again.
            return Ok(());
        }
        let coins = &mut self.coins;
        let counts = &mut self.counts;
        let layout = self.context.layout;
        self.matcher.for_each_taken(bytes, |height, place, output| {
            counts.taken += 1;
            coins.push(layout.bucket_of(height), |out| {
                put_late_coin(out, height, place, output.code, output.output);
            })
        })?;
        self.write_left(bytes, sink)
    }

    /// Looks up the outputs that may exist already, and adds those that the base has to the
    /// matcher.
    fn add_existing(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(base) = self.base else { return Ok(()) };
        for (outpoint, coin) in base.existing(&self.matcher.may_exist(bytes))? {
            let output = output_of(&coin);
            self.matcher.add_base(bytes, &outpoint, coin.parts().code, output);
        }
        Ok(())
    }

    /// Matches all spends with outputs. A spend without an output is kept for a look-up in the
    /// base; if there is no base, its block is refused.
    fn take(
        &mut self,
        partition: usize,
        bytes: &[u8],
        slice: Option<(u64, u64)>,
    ) -> Result<(), Fault> {
        let Self { context, dropped, base, matcher, spends, unmet, .. } = self;
        unmet.clear();
        let mut note = |spend: &Spend, taken: Taken| match taken {
            Taken::Met => {}
            Taken::Twice(height) => context.refuse(height),
            Taken::Unmet if base.is_some() => unmet.push(*spend),
            Taken::TooEarly(created) if base.is_some() => {
                // If the base has the coin, the block at that height creates the transaction again.
                context.refuse(created);
                unmet.push(*spend);
            }
            Taken::Unmet | Taken::TooEarly(_) => context.refuse(spend.height),
        };
        let take = |piece: &[u8]| -> Result<(), Fault> {
            matcher
                .take_all(bytes, piece, dropped, slice, &mut note)
                .map_err(|damaged| Fault::Store(damaged_part(context.parts.path(), &damaged)))
        };
        context.parts.for_each_piece(context.layout.spends(partition), spends, take)
    }

    /// Looks up in the base the coins that no block of the join creates, and deletes those that are
    /// spent.
    fn take_from_base(&mut self) -> Result<(), StoreError> {
        let Self { context, base, unmet, coins, changes, counts, .. } = self;
        let Some(base) = base else { return Ok(()) };
        let _timer = context.shared.clock.start(Stage::LookUp);
        base.look_up(unmet, |Wanted { outpoint, coin, spends }| {
            let taken = usize::from(coin.is_some());
            spends.iter().skip(taken).for_each(|spend| context.refuse(spend.height));
            let (Some(coin), [first, ..]) = (coin, spends) else { return Ok(()) };
            counts.base_taken += 1;
            counts.base_amount += coin.amount;
            changes.push(Change { outpoint, coin: None });
            let code = coin.parts().code;
            let output = output_of(&coin);
            coins.push(context.layout.bucket_of(first.height), |out| {
                put_late_coin(out, first.height, first.place, code, &output);
            })
        })
    }

    /// Replays the transactions that are created more than once.
    fn replay(&mut self) -> Result<(), StoreError> {
        let Self { context, matcher, coins, changes, counts, .. } = self;
        for (txid, replayed) in matcher.replayed(|height| context.plan.kind(height)) {
            if let Some(height) = replayed.fault {
                context.refuse(height);
            }
            let outpoint = |vout| OutPoint { txid, vout };
            let mut base_gone = replayed.overwritten_base.clone();
            for (vout, height, place, coin) in replayed.taken {
                if coin.is_base {
                    counts.base_taken += 1;
                    counts.base_amount += amount(&coin.output);
                    base_gone.push(vout);
                } else {
                    counts.taken += 1
                }
                coins.push(context.layout.bucket_of(height), |out| {
                    put_late_coin(out, height, place, coin.code, &coin.output);
                })?;
            }
            for (vout, coin) in replayed.left.iter().filter(|(_, coin)| !coin.is_base) {
                counts.left += 1;
                counts.left_amount += amount(&coin.output);
                let mut bytes = Vec::with_capacity(coin.output.len() + 5);
                put_varint(&mut bytes, coin.code.into());
                bytes.extend_from_slice(&coin.output);
                changes.push(Change { outpoint: outpoint(*vout), coin: Some(bytes) });
            }
            // A coin that was created again is overwritten, and not deleted.
            let gone = base_gone.into_iter().filter(|vout| !replayed.left.contains_key(vout));
            changes.extend(gone.map(|vout| Change { outpoint: outpoint(vout), coin: None }));
            let base = replayed.overwritten_base.len() as u64;
            counts.overwritten += replayed.overwritten - base;
            counts.base_overwritten += base;
        }
        Ok(())
    }

    /// Writes the unspent outputs and the other changes, in the order of the tables.
    fn write_left(&mut self, bytes: &[u8], sink: &mut impl ChangeSink) -> Result<(), Fault> {
        let Self { matcher, changes, counts, .. } = self;
        changes.sort_by(|a, b| key_order(&a.outpoint, &b.outpoint));
        let mut changes = changes.drain(..).peekable();
        let mut key = Vec::new();
        let mut coin = Vec::new();
        matcher.for_each_left(bytes, |outpoint, MatchedOutput { code, output }| {
            let is_before = |change: &Change| key_order(&change.outpoint, outpoint).is_lt();
            while let Some(change) = changes.next_if(is_before) {
                write_change(change, sink)?;
            }
            counts.left += 1;
            counts.left_amount += amount(output);
            key.clear();
            put_coin_key(&mut key, outpoint);
            coin.clear();
            put_varint(&mut coin, code.into());
            coin.extend_from_slice(output);
            sink.put(&key, &mut coin)
        })?;
        Ok(changes.try_for_each(|change| write_change(change, sink))?)
    }

    fn damaged(&self, damaged: &Damaged) -> Fault {
        Fault::Store(damaged_part(self.context.parts.path(), damaged))
    }
}

/// Returns the amount of an output, given in compressed form.
#[inline]
fn amount(output: &[u8]) -> u64 {
    Cursor::new(output).varint().map_or(0, decompress_amount)
}

fn write_change(change: Change, sink: &mut impl ChangeSink) -> Result<(), StoreError> {
    let mut key = Vec::with_capacity(38);
    put_coin_key(&mut key, &change.outpoint);
    match change.coin {
        Some(mut coin) => sink.put(&key, &mut coin),
        None => sink.delete(&key),
    }
}

/// Returns the error for damaged records in the spill file at `path`.
pub(super) fn damaged_part(path: &std::path::Path, damaged: &Damaged) -> StoreError {
    StoreError::new(path, damaged.to_string())
}

/// The tables that a partition is written to.
struct TableSink<'a, 'b>(&'a mut CoinWriter<'b>);

impl ChangeSink for TableSink<'_, '_> {
    fn put(&mut self, key: &[u8], coin: &mut [u8]) -> Result<(), StoreError> {
        self.0.put_raw(key, coin)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.delete_raw(key)
    }
}
