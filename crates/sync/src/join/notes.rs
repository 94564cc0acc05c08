//! The notes that the first pass takes of a block. From them, the last pass checks the block's
//! spends without reading it again, unless it checks scripts.

use apus_coins::{Compressed, decompress_amount, take_compressed};
use apus_consensus::{
    BlockContext, CheckedBlock, FactSpends, InputFacts, RuleError, SigopCosts, SpentAs, SpentCoin,
    TxFacts, script_flags,
};
use apus_hash::Hash;
use apus_join::{BlockCoins, InputNotes, SpendSource, TxNotes};
use apus_leveldb::append_short;
use apus_node::block::validate::BranchTimes;
use apus_node::sources::BlockBytes;
use apus_wire::{Cursor, InputView, ParseError, ScriptFlags, put_compact_size, put_varint};

/// Takes notes of one block after another: of all its transactions and inputs, in order.
#[derive(Default)]
pub(super) struct NoteTaker<'a> {
    list: Vec<u8>,
    /// `None` for a block that is read again, of which only the source of each spent coin is noted.
    rules: Option<(BlockContext<'a>, ScriptFlags)>,
    /// The notes of the transaction whose inputs follow.
    tx: Option<TxNotes>,
}

impl<'a> NoteTaker<'a> {
    /// Begins the notes of a block, with its coinbase.
    pub fn begin(
        &mut self,
        block: &CheckedBlock<BlockBytes>,
        context: BlockContext<'a>,
        is_read_again: bool,
    ) {
        let flags = || script_flags(context.network, context.height, block.hash());
        self.rules = (!is_read_again).then(|| (context, flags()));
        self.list.clear();
        if !is_read_again {
            put_varint(&mut self.list, block.view().tx_count() as u64);
            self.tx(block, 0);
        }
    }

    /// Begins the notes of the transaction at `index` of the block.
    pub fn tx(&mut self, block: &CheckedBlock<BlockBytes>, index: usize) {
        let Some((context, _)) = &self.rules else { return };
        let facts = TxFacts::of(block, index, context);
        let inputs = if index > 0 { block.view().tx(index).input_count() } else { 0 };
        let notes = TxNotes {
            inputs: inputs as u32,
            value_out: facts.value_out as u64,
            sigop_cost: facts.sigop_cost,
            has_locks: facts.has_locks,
        };
        notes.put(&mut self.list);
        self.tx = Some(notes);
    }

    /// Notes the next input of the transaction, and where its coin comes from.
    #[inline]
    pub fn input(&mut self, input: &InputView, source: SpendSource) {
        let (Some((_, flags)), Some(tx)) = (&self.rules, &self.tx) else {
            source.put(&mut self.list);
            return;
        };
        let costs = match source {
            SpendSource::Late => SigopCosts::of(input, *flags),
            SpendSource::Early { output, .. } => {
                let mut output = Cursor::new(output);
                output.varint().expect(OURS);
                SigopCosts::of_spent_as(input, spent_as(output), *flags)
            }
        };
        let sequence = if tx.has_locks { input.sequence() } else { 0 };
        let sigop_costs = [costs.p2sh, costs.witness_script_hash];
        InputNotes { sequence, sigop_costs, source }.put(tx, &mut self.list);
    }

    /// Returns the [`BlockCoins::list`] of the block.
    pub fn list(&self) -> &[u8] {
        &self.list
    }
}

/// Checks the rules on spends for a block that is not read again, and returns its undo data. `late`
/// are the block's late coins, in the order of its inputs.
///
/// # Errors
/// The block breaks a rule; the error does not say where.
///
/// # Panics
/// A coin is missing, or there is one too many.
#[inline]
pub(super) fn check_noted<'a>(
    coins: &BlockCoins<'a>,
    late: impl Iterator<Item = (u32, &'a [u8])>,
    hash: &Hash,
    context: BlockContext,
    times: &BranchTimes,
) -> Result<Vec<u8>, RuleError> {
    let mut reader = NoteReader {
        notes: Cursor::new(coins.list),
        late,
        place: 0,
        undo: Vec::with_capacity(coins.list.len() * 2),
    };
    let txs = reader.notes.varint().expect(OURS);
    let coinbase = TxNotes::read(&mut reader.notes).expect(OURS);
    let mut spends = FactSpends::new(hash, context, &facts(&coinbase));
    put_compact_size(&mut reader.undo, txs - 1);
    for _ in 1..txs {
        let tx = TxNotes::read(&mut reader.notes).expect(OURS);
        put_compact_size(&mut reader.undo, tx.inputs.into());
        let inputs = (0..tx.inputs).map(|_| reader.input(&tx));
        spends.tx(&facts(&tx), inputs, |height| times.at(height))?;
    }
    spends.finish()?;
    assert!(reader.notes.remaining() == 0, "{OURS}");
    assert!(reader.late.next().is_none(), "no spend has met two coins");
    Ok(reader.undo)
}

/// The panic for notes that cannot be read. The spill file has checksums, so what is read is what
/// was written.
const OURS: &str = "notes are encoded by this program";

/// Reads the notes of inputs, and encodes the undo data of their coins.
struct NoteReader<'a, L> {
    notes: Cursor<'a>,
    late: L,
    place: u32,
    undo: Vec<u8>,
}

impl<'a, L: Iterator<Item = (u32, &'a [u8])>> NoteReader<'a, L> {
    #[inline]
    fn input(&mut self, tx: &TxNotes) -> (InputFacts, SpentCoin) {
        let notes = InputNotes::read(tx, &mut self.notes).expect(OURS);
        let (code, output) = next_coin(Ok(notes.source), &mut self.late, self.place);
        self.place += 1;
        put_varint(&mut self.undo, code.into());
        if code > 1 {
            self.undo.push(0);
        }
        append_short(&mut self.undo, output);
        let mut cursor = Cursor::new(output);
        let amount = decompress_amount(cursor.varint().expect(OURS)) as i64;
        let spent_as = spent_as(cursor);
        let height = code >> 1;
        let is_coinbase = code & 1 == 1;
        let [p2sh, witness_script_hash] = notes.sigop_costs;
        let sigops = SigopCosts { p2sh, witness_script_hash };
        let facts = InputFacts { sequence: notes.sequence, sigops };
        (facts, SpentCoin { amount, height, is_coinbase, spent_as })
    }
}

fn facts(notes: &TxNotes) -> TxFacts {
    let TxNotes { value_out, sigop_cost, has_locks, .. } = *notes;
    TxFacts { value_out: value_out as i64, sigop_cost, has_locks }
}

/// Returns the coin of the next input, at `place`: 2 × height + coinbase, and the amount and script
/// in compressed form. `late` are the block's late coins.
///
/// # Panics
/// The input has no coin.
#[inline]
pub(super) fn next_coin<'a>(
    source: Result<SpendSource<'a>, ParseError>,
    late: &mut impl Iterator<Item = (u32, &'a [u8])>,
    place: u32,
) -> (u32, &'a [u8]) {
    if let SpendSource::Early { code, output } = source.expect(OURS) {
        return (code, output);
    }
    let (met, coin) = late.next().expect("every spend has met its coin");
    assert_eq!(met, place, "every spend has met its coin");
    let mut cursor = Cursor::new(coin);
    let code = cursor.varint().ok().and_then(|code| u32::try_from(code).ok()).expect(OURS);
    (code, &coin[cursor.position()..])
}

/// Returns how a coin with this compressed script is spent.
#[inline]
fn spent_as(mut script: Cursor) -> SpentAs {
    match take_compressed(&mut script).expect(OURS) {
        Compressed::P2sh => SpentAs::P2sh,
        Compressed::PublicKey => SpentAs::Script,
        Compressed::Script(script) => SpentAs::by(script),
    }
}
