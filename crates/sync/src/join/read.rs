//! The first pass: a worker reads a span of blocks in order of height. Spends of recent outputs are
//! matched at once; all other spends, and the outputs left unspent, become records.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::{compress_amount, put_compressed_script_at};
use apus_consensus::CheckedBlock;
use apus_disk::StoreError;
use apus_hash::Hash;
use apus_join::{
    BatchWriter, BlockCoins, BlockKind, Created, Layout, Met, Spend, SpendSource, TxLeft, Window,
    put_block_coins, put_spend, put_tx,
};
use apus_node::block::step::Step;
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_progress::clock::Stage;
use apus_progress::outcome::Counts;
use apus_store::{FlatFilePos, Lane};
use apus_wire::{OutPoint, TxView, VARINT_BYTES_MAX, is_unspendable, put_varint_at};

use super::context::{Context, refused_at};
use super::notes::NoteTaker;
use super::state::{ReadCounts, SpanState};
use apus_node::fault::Fault;
use apus_progress::marks::Mark;

/// How many inputs ahead memory is prefetched: the table 3 × `AHEAD` inputs ahead, the transaction
/// 2 × `AHEAD`, and the output `AHEAD`.
const AHEAD: usize = 10;

/// Percentage of the memory for the windows of all workers.
const WINDOWS_PERCENT: usize = 50;

/// A block that the first pass has read.
pub struct ReadBlock {
    /// Index among the steps.
    pub index: usize,
    /// Number of transactions.
    pub tx_count: u32,
    /// Where the first pass stored it; `None` if it was stored before, or is not kept.
    pub stored: Option<FlatFilePos>,
    /// Length in bytes.
    pub bytes: u64,
}

/// A worker of the first pass.
pub struct Reader<'a> {
    context: &'a Context<'a>,
    window: Window,
    /// Records of outputs and spends.
    records: BatchWriter<'a>,
    /// The facts on each block that the last pass needs.
    blocks: BatchWriter<'a>,
    /// The bucket of the last block.
    bucket: usize,
    lane: Lane,
    /// For each input, the window's hash of the txid that it spends, and the output's index.
    hashes: Vec<(u64, u32)>,
    notes: NoteTaker<'a>,
    scratch: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Creates a worker that has read nothing.
    pub fn new(context: &'a Context<'a>) -> Self {
        let layout = context.layout;
        let memory = context.memory;
        let window = memory.bytes / 100 * WINDOWS_PERCENT / memory.workers.max(1);
        let records = 2 * layout.partitions();
        let buckets = layout.buckets();
        let batch_bytes = Layout::batch_bytes(records);
        Self {
            context,
            window: Window::new(window),
            records: BatchWriter::new(context.parts, 0, records, batch_bytes),
            blocks: BatchWriter::new(context.parts, layout.first_bucket(), buckets, BLOCKS_BYTES),
            bucket: 0,
            lane: Lane::default(),
            hashes: Vec::new(),
            notes: NoteTaker::default(),
            scratch: Vec::new(),
        }
    }

    /// Reads a span until its end, until a block is refused, or until `halt` is raised. Afterwards
    /// all records are appended to their parts, and the window is empty.
    pub fn read(
        &mut self,
        span: &mut SpanState,
        halt: &AtomicBool,
        mut report: impl FnMut(ReadBlock),
    ) -> Result<(), Fault> {
        self.records.set_source(span.source)?;
        self.blocks.set_source(span.source)?;
        let mut result = Ok(());
        while span.next < span.end && !halt.load(Relaxed) {
            let height = self.context.plan.height(span.next);
            if self.context.is_refused(height) {
                break;
            }
            match self.block(span.next, &mut span.read, halt) {
                Ok(block) => {
                    self.context.shared.marks.set(height, Mark::Read);
                    report(block);
                    span.next += 1;
                }
                Err(Fault::Unjudged(height)) => {
                    // The block may have spent outputs in the window and left records, so the span
                    // counts as read beyond it; the blocks below it are then read again.
                    span.next += 1;
                    self.context.refuse(height);
                }
                Err(Fault::Stopped) => break,
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        let handed_over = self.hand_over();
        // After an error of the disk, an error of the hand-over says less.
        if !matches!(result, Err(Fault::Store(_))) {
            handed_over?;
        }
        result
    }

    /// Ends the span's file lane, empties the window, and appends all records to their parts.
    fn hand_over(&mut self) -> Result<(), StoreError> {
        let Self { context, window, records, blocks, lane, .. } = self;
        context.shared.files.end_lane(std::mem::take(lane))?;
        window.clear(|tx| put_left(records, context.layout, tx))?;
        records.flush()?;
        blocks.flush()
    }

    fn block(
        &mut self,
        index: usize,
        read: &mut ReadCounts,
        halt: &AtomicBool,
    ) -> Result<ReadBlock, Fault> {
        let shared = self.context.shared;
        let plan = self.context.plan;
        let step = plan.steps[index];
        let height = plan.height(index);
        let block = shared.checked(step, halt).map_err(|fault| refused_at(height, fault))?;
        let timer = shared.clock.start(Stage::Join);
        let mut counts = *read;
        // Whether the last pass checks the block's scripts.
        let has_scripts = !plan.assumed.covers(shared.tree, step.id);
        self.notes.begin(&block, self.context.block_context(index), has_scripts);
        match plan.kind(height) {
            BlockKind::Once => self.meet(&block, height, &mut counts)?,
            BlockKind::LookUp | BlockKind::Repeat => self.spill(&block, height, &mut counts)?,
        }
        let digest = has_scripts.then(|| self.context.hash_key.hash(block.view().bytes()));
        let coins = BlockCoins { height, digest, list: self.notes.list() };
        let bucket = self.context.layout.bucket_of(height);
        if std::mem::replace(&mut self.bucket, bucket) != bucket {
            // Frees the memory of the previous bucket, for which this span has no more blocks.
            self.blocks.flush()?;
        }
        self.blocks.push(bucket, |out| put_block_coins(out, &coins))?;
        drop(timer);
        let stored = self.store(step, &block)?;
        let view = block.view();
        let bytes = view.len() as u64;
        let tx_count = view.tx_count() as u32;
        let transactions = u64::from(tx_count);
        let inputs = view.input_count() as u64 - 1;
        let scripts = if has_scripts { inputs } else { 0 };
        let one = Counts { blocks: 1, bytes, transactions, inputs, scripts };
        *read = ReadCounts { counts: counts.counts.plus(one), ..counts };
        Ok(ReadBlock { index, tx_count, stored, bytes })
    }

    /// Adds the block's transactions to the window, and matches the spends whose outputs are there.
    /// The other spends become records.
    fn meet(
        &mut self,
        block: &CheckedBlock<BlockBytes>,
        height: u32,
        counts: &mut ReadCounts,
    ) -> Result<(), Fault> {
        self.enter(block, height, counts)?;
        let Self { context, window, records, hashes, notes, .. } = self;
        let view = block.view();
        hashes.clear();
        for tx in view.txs().skip(1) {
            hashes.extend(tx.inputs().map(|input| {
                let OutPoint { txid, vout } = input.outpoint();
                (window.hash(&txid), vout)
            }));
        }
        hashes.iter().take(3 * AHEAD).for_each(|(hash, _)| window.prefetch(*hash));
        let mut place = 0;
        for (spender, tx) in view.txs().enumerate().skip(1) {
            notes.tx(block, spender);
            for input in tx.inputs() {
                if let Some((hash, _)) = hashes.get(place + 3 * AHEAD) {
                    window.prefetch(*hash);
                }
                if let Some((hash, vout)) = hashes.get(place + 2 * AHEAD) {
                    window.prefetch_tx(*hash, *vout);
                }
                if let Some((hash, vout)) = hashes.get(place + AHEAD) {
                    window.prefetch_output(*hash, *vout);
                }
                let outpoint = input.outpoint();
                match window.spend(&outpoint, hashes[place].0, height, spender as u32) {
                    Met::Missing => return Err(Fault::Unjudged(height)),
                    Met::Output { code, output } => {
                        notes.input(&input, SpendSource::Early { code, output });
                        if code >> 1 == height { counts.inside += 1 } else { counts.early += 1 }
                    }
                    Met::Elsewhere => {
                        notes.input(&input, SpendSource::Late);
                        let spend = Spend { outpoint, height, place: place as u32 };
                        put_late(records, context.layout, &spend)?;
                        counts.late += 1;
                    }
                }
                place += 1;
            }
        }
        Ok(())
    }

    /// Adds the block's transactions to the window, but makes a record of the coinbase: it cannot
    /// be spent for 100 blocks, and its partition finds any other transaction with its txid, which
    /// no later block of a valid chain has.
    fn enter(
        &mut self,
        block: &CheckedBlock<BlockBytes>,
        height: u32,
        counts: &mut ReadCounts,
    ) -> Result<(), Fault> {
        let Self { context, window, records, scratch, .. } = self;
        let view = block.view();
        let room = |tx: TxView| {
            let scripts = tx.outputs().map(|output| output.script().len()).sum();
            Window::bytes_of_tx(tx.output_count(), scripts)
        };
        let room = view.txs().skip(1).map(room).sum();
        window.begin_block(room, |tx| put_left(records, context.layout, tx))?;
        let txids = block.txids();
        let coinbase = Created { height, is_coinbase: true, ready: None };
        let of_coinbase = (&view.tx(0), &txids[0]);
        counts.created += put_whole(records, context.layout, scratch, of_coinbase, coinbase)?;
        for (tx, (view, txid)) in view.txs().zip(txids).enumerate().skip(1) {
            if let Some(ahead) = txids.get(tx + AHEAD) {
                window.prefetch(window.hash(ahead));
            }
            let code = height << 1;
            let outputs = view.output_count();
            let put = |vout: usize, out: &mut [u8]| {
                let output = view.output(vout);
                let is_coin = !is_unspendable(output.script());
                is_coin.then(|| put_output_at(out, output.value(), output.script()))
            };
            let coins = window.push_tx(txid, code, tx as u32, outputs, put);
            counts.created += u64::from(coins);
        }
        Ok(())
    }

    /// Makes records of everything that the block creates and spends, because the block may create
    /// a transaction that exists already (BIP30).
    fn spill(
        &mut self,
        block: &CheckedBlock<BlockBytes>,
        height: u32,
        counts: &mut ReadCounts,
    ) -> Result<(), Fault> {
        let Self { context, records, notes, scratch, .. } = self;
        let mut place = 0;
        for (index, (tx, txid)) in block.view().txs().zip(block.txids()).enumerate() {
            let inputs = if index > 0 { tx.input_count() } else { 0 };
            if inputs > 0 {
                notes.tx(block, index);
            }
            for input in tx.inputs().take(inputs) {
                notes.input(&input, SpendSource::Late);
                let spend = Spend { outpoint: input.outpoint(), height, place };
                put_late(records, context.layout, &spend)?;
                place += 1;
            }
            let created = Created { height, is_coinbase: index == 0, ready: Some(place) };
            counts.created += put_whole(records, context.layout, scratch, (&tx, txid), created)?;
        }
        counts.late += u64::from(place);
        Ok(())
    }

    /// Appends a block that is not stored yet to the block files, if blocks are kept, and returns
    /// its position there.
    fn store(
        &mut self,
        step: Step,
        block: &CheckedBlock<BlockBytes>,
    ) -> Result<Option<FlatFilePos>, Fault> {
        if matches!(step.place, BlockOrigin::Stored(_)) || !self.context.plan.keeps {
            return Ok(None);
        }
        let shared = self.context.shared;
        let _timer = shared.clock.start(Stage::Store);
        let node = shared.tree.node(step.id);
        let bytes = block.view().bytes();
        let time = node.time;
        let pos = shared.files.append_block_in(&mut self.lane, bytes, node.height, time)?;
        Ok(Some(pos))
    }
}

/// Bytes that a worker gathers for each bucket before it appends them.
const BLOCKS_BYTES: usize = 64 << 10;

/// Writes the amount and script of an output in compressed form to the start of `out`, and returns
/// their length.
#[inline]
fn put_output_at(out: &mut [u8], amount: i64, script: &[u8]) -> usize {
    let len = put_varint_at(out, compress_amount(amount.unsigned_abs()));
    len + put_compressed_script_at(&mut out[len..], script)
}

/// Makes a record of a transaction with all its spendable outputs, and returns their number.
fn put_whole(
    records: &mut BatchWriter,
    layout: &Layout,
    scratch: &mut Vec<u8>,
    (tx, txid): (&TxView, &Hash),
    created: Created,
) -> Result<u64, StoreError> {
    scratch.clear();
    let mut spendable = Vec::new();
    for (vout, output) in tx.outputs().enumerate() {
        if !is_unspendable(output.script()) {
            let start = scratch.len();
            let script = output.script();
            scratch.resize(start + script.len() + 2 * VARINT_BYTES_MAX, 0);
            let len = put_output_at(&mut scratch[start..], output.value(), script);
            scratch.truncate(start + len);
            spendable.push((vout as u32, start..start + len));
        }
    }
    let count = spendable.len() as u32;
    if count > 0 {
        let outputs = spendable.iter().map(|(vout, range)| (*vout, &scratch[range.clone()]));
        records
            .push(layout.partition_of(txid), |out| put_tx(out, txid, created, count, outputs))?;
    }
    Ok(count.into())
}

#[inline]
fn put_left(records: &mut BatchWriter, layout: &Layout, tx: &TxLeft) -> Result<(), StoreError> {
    records.push(layout.partition_of(&tx.txid), |out| {
        put_tx(out, &tx.txid, tx.created, tx.count, tx.outputs());
    })
}

#[inline]
fn put_late(records: &mut BatchWriter, layout: &Layout, spend: &Spend) -> Result<(), StoreError> {
    let part = layout.spends(layout.partition_of(&spend.outpoint.txid));
    records.push(part, |out| put_spend(out, spend))
}
