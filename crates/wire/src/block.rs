use apus_hash::{Hash, Pieces, Sha256d, sha256d, sha256d_64, sha256d_many};

use super::opcodes::OP_RETURN;
use super::{
    Cursor, HEADER_BYTES, Header, MerkleRoot, OutPoint, ParseError, compact_size_len, merkle_root,
};

/// The start of the scriptPubKey of a coinbase output that commits to the witnesses (BIP141):
/// OP_RETURN, a push of 36 bytes, and the first four of these.
pub const WITNESS_COMMITMENT_HEADER: [u8; 6] = [OP_RETURN, 36, 0xaa, 0x21, 0xa9, 0xed];

/// A block: its bytes (borrowed, shared or owned), and the offsets of everything in them.
///
/// A block is parsed only once, by [`BlockView::parse`]. It copies nothing, and refuses anything
/// that is not a whole block.
#[derive(Clone)]
pub struct BlockView<B> {
    /// The bytes of the block, possibly followed by others.
    bytes: B,
    header: Header,
    /// Length of the block.
    len: usize,
    txs: Vec<TxSpan>,
    inputs: Vec<InputSpan>,
    outputs: Vec<OutputSpan>,
}

/// The location of a transaction: offsets from the start of the block, and indices into the block's
/// lists of inputs and outputs.
#[derive(Clone, Copy)]
struct TxSpan {
    start: u32,
    end: u32,
    /// End of the outputs, where the witnesses start, or the lock time if there are no witnesses.
    body_end: u32,
    has_witness: bool,
    first_input: u32,
    first_output: u32,
    input_count: u32,
    output_count: u32,
}

/// The location of an input: offsets from the start of the block.
#[derive(Clone, Copy)]
struct InputSpan {
    start: u32,
    script_start: u32,
    script_end: u32,
    /// Offset of the number of witness items; 0 if there is no witness.
    witness_start: u32,
}

/// The location of an output: offsets from the start of the block.
#[derive(Clone, Copy)]
struct OutputSpan {
    start: u32,
    script_start: u32,
    script_end: u32,
}

impl<B: AsRef<[u8]>> BlockView<B> {
    /// Parses the block at the start of `bytes`. More bytes may follow, as Core allows;
    /// [`BlockView::len`] is the length of the block alone.
    ///
    /// # Errors
    /// Core would not deserialise the bytes: some are missing, a CompactSize is not in its shortest
    /// form or over 32 MiB, or a transaction has unknown flags, or a witness flag and no witness.
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let all = bytes.as_ref();
        if all.len() > u32::MAX as usize {
            return Err(ParseError { offset: 0, what: "a block of more than 4 GiB" });
        }
        let mut cursor = Cursor::new(all);
        let header = Header::parse(&mut cursor)?;
        let count = cursor.compact_size()?;
        let mut spans = Spans::with_room_for(cursor.remaining(), count);
        for _ in 0..count {
            spans.walk_tx(&mut cursor)?;
        }
        let len = cursor.position();
        let Spans { txs, inputs, outputs } = spans;
        Ok(Self { bytes, header, len, txs, inputs, outputs })
    }

    /// Returns the bytes of the block.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.as_ref()[..self.len]
    }

    /// Returns the size of the block in bytes, witnesses included (BIP141's total size).
    #[allow(clippy::len_without_is_empty, reason = "a block is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the header of the block.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the hash of the block.
    pub fn hash(&self) -> Hash {
        sha256d(&self.bytes.as_ref()[..HEADER_BYTES])
    }

    /// Returns the number of transactions.
    pub fn tx_count(&self) -> usize {
        self.txs.len()
    }

    /// Returns the number of inputs of all transactions, including that of the coinbase.
    #[inline]
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the number of outputs of all transactions.
    #[inline]
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the transaction at `index`, which must be below [`BlockView::tx_count`].
    #[inline]
    pub fn tx(&self, index: usize) -> TxView<'_> {
        TxView {
            bytes: self.bytes.as_ref(),
            span: &self.txs[index],
            inputs: &self.inputs,
            outputs: &self.outputs,
        }
    }

    /// Returns an iterator over all transactions, in order.
    pub fn txs(&self) -> impl ExactSizeIterator<Item = TxView<'_>> {
        (0..self.txs.len()).map(|index| self.tx(index))
    }

    /// Returns the size of the block in bytes, without witnesses (BIP141's base size).
    #[inline]
    pub fn base_size(&self) -> usize {
        let txs: usize = self.txs.iter().map(TxSpan::base_size).sum();
        HEADER_BYTES + compact_size_len(self.txs.len() as u64) + txs
    }

    /// Returns the weight of the block (BIP141): three times the base size plus the total size.
    pub fn weight(&self) -> usize {
        3 * self.base_size() + self.len
    }

    /// Returns whether any transaction has a witness.
    pub fn has_witness(&self) -> bool {
        self.txs.iter().any(|tx| tx.has_witness)
    }

    /// Returns the bytes of the block without its witnesses.
    pub fn without_witnesses(&self) -> Vec<u8> {
        let mut bytes = self.bytes()[..super::HEADER_BYTES].to_vec();
        super::put_compact_size(&mut bytes, self.tx_count() as u64);
        for tx in self.txs() {
            tx.base_pieces().iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
        bytes
    }

    /// Returns the txids of all transactions, in order.
    #[inline]
    pub fn txids(&self) -> Vec<Hash> {
        sha256d_many(self.txs.len(), |index| self.tx(index).base_pieces())
    }

    /// Returns the wtxids of all transactions, in order: the double SHA-256 of each with its
    /// witnesses (BIP141).
    pub fn wtxids(&self) -> Vec<Hash> {
        sha256d_many(self.txs.len(), |index| [self.tx(index).bytes(), &[], &[]])
    }

    /// Returns the merkle root of the wtxids, where the wtxid of the coinbase counts as zero
    /// (BIP141).
    pub fn witness_merkle_root(&self) -> MerkleRoot {
        let mut hashes = self.wtxids();
        if let Some(coinbase) = hashes.first_mut() {
            *coinbase = Hash::ZERO;
        }
        merkle_root(&mut hashes)
    }

    /// Returns the last witness commitment in the outputs of the coinbase, if there is one (Core's
    /// `GetWitnessCommitmentIndex`).
    pub fn witness_commitment(&self) -> Option<Hash> {
        let coinbase = (!self.txs.is_empty()).then(|| self.tx(0))?;
        let script = coinbase
            .outputs()
            .filter(|out| out.script().len() >= 38)
            .rfind(|out| out.script().starts_with(&WITNESS_COMMITMENT_HEADER))?
            .script();
        let mut commitment = Hash::ZERO;
        commitment.0.copy_from_slice(&script[6..38]);
        Some(commitment)
    }

    /// Returns the commitment to a witness merkle root and a reserved value (BIP141).
    pub fn expected_commitment(witness_root: &Hash, reserved: &[u8; 32]) -> Hash {
        let mut pair = [0; 64];
        pair[..32].copy_from_slice(&witness_root.0);
        pair[32..].copy_from_slice(reserved);
        sha256d_64(&pair)
    }
}

/// The offsets found while a block is parsed.
struct Spans {
    txs: Vec<TxSpan>,
    inputs: Vec<InputSpan>,
    outputs: Vec<OutputSpan>,
}

impl Spans {
    /// Returns empty lists with the capacity for a typical block of this size. The stated number of
    /// transactions is capped by what the bytes of the block can hold.
    fn with_room_for(bytes: usize, txs: usize) -> Self {
        Self {
            txs: Vec::with_capacity(txs.min(bytes / 60 + 1)),
            inputs: Vec::with_capacity(bytes / 180 + 1),
            outputs: Vec::with_capacity(bytes / 140 + 1),
        }
    }

    fn walk_tx(&mut self, cursor: &mut Cursor) -> Result<(), ParseError> {
        let start = cursor.position() as u32;
        let first_input = self.inputs.len() as u32;
        let first_output = self.outputs.len() as u32;
        cursor.take(4)?;
        let mut input_count = cursor.compact_size()?;
        let mut has_witness = false;
        let mut has_outputs = true;
        if input_count == 0 {
            match cursor.u8()? {
                // With no inputs and flags of 0, Core does not even read the number of outputs
                // (`UnserializeTransaction`).
                0 => has_outputs = false,
                1 => {
                    has_witness = true;
                    input_count = cursor.compact_size()?;
                }
                _ => return Err(cursor.error("unknown transaction flags")),
            }
        }
        self.walk_inputs(cursor, input_count)?;
        if has_outputs {
            self.walk_outputs(cursor)?;
        }
        let body_end = cursor.position() as u32;
        if has_witness {
            self.walk_witnesses(cursor, first_input as usize)?;
        }
        cursor.take(4)?;
        self.txs.push(TxSpan {
            start,
            end: cursor.position() as u32,
            body_end,
            has_witness,
            first_input,
            first_output,
            input_count: self.inputs.len() as u32 - first_input,
            output_count: self.outputs.len() as u32 - first_output,
        });
        Ok(())
    }

    fn walk_inputs(&mut self, cursor: &mut Cursor, count: usize) -> Result<(), ParseError> {
        for _ in 0..count {
            let start = cursor.position() as u32;
            cursor.take(36)?;
            let script_len = cursor.compact_size()?;
            let script_start = cursor.position() as u32;
            cursor.take(script_len)?;
            let script_end = cursor.position() as u32;
            cursor.take(4)?;
            self.inputs.push(InputSpan { start, script_start, script_end, witness_start: 0 });
        }
        Ok(())
    }

    fn walk_outputs(&mut self, cursor: &mut Cursor) -> Result<(), ParseError> {
        for _ in 0..cursor.compact_size()? {
            let start = cursor.position() as u32;
            cursor.take(8)?;
            let script_len = cursor.compact_size()?;
            let script_start = cursor.position() as u32;
            cursor.take(script_len)?;
            let script_end = cursor.position() as u32;
            self.outputs.push(OutputSpan { start, script_start, script_end });
        }
        Ok(())
    }

    fn walk_witnesses(&mut self, cursor: &mut Cursor, first: usize) -> Result<(), ParseError> {
        let mut any = false;
        for input in &mut self.inputs[first..] {
            input.witness_start = cursor.position() as u32;
            let items = cursor.compact_size()?;
            any |= items > 0;
            for _ in 0..items {
                let len = cursor.compact_size()?;
                cursor.take(len)?;
            }
        }
        if any { Ok(()) } else { Err(cursor.error("witness flag without a witness")) }
    }
}

impl TxSpan {
    /// Returns the size in bytes, without marker, flag and witnesses.
    #[inline]
    fn base_size(&self) -> usize {
        if self.has_witness {
            (self.body_end - self.start) as usize - 2 + 4
        } else {
            (self.end - self.start) as usize
        }
    }
}

/// A transaction in the bytes of a block.
#[derive(Clone, Copy)]
pub struct TxView<'a> {
    bytes: &'a [u8],
    span: &'a TxSpan,
    inputs: &'a [InputSpan],
    outputs: &'a [OutputSpan],
}

impl<'a> TxView<'a> {
    /// Returns the bytes of the transaction, witnesses included.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.span.start as usize..self.span.end as usize]
    }

    /// Returns the version, an unsigned number as in Core.
    #[inline]
    pub fn version(&self) -> u32 {
        le_u32(self.bytes, self.span.start as usize)
    }

    /// Returns the lock time (`nLockTime`): a height if below 500,000,000, otherwise seconds since
    /// 1970.
    #[inline]
    pub fn lock_time(&self) -> u32 {
        le_u32(self.bytes, self.span.end as usize - 4)
    }

    /// Returns the size of the transaction in bytes, without witnesses.
    #[inline]
    pub fn base_size(&self) -> usize {
        self.span.base_size()
    }

    /// Returns whether any input has a witness.
    pub fn has_witness(&self) -> bool {
        self.span.has_witness
    }

    /// Returns the number of inputs.
    #[inline]
    pub fn input_count(&self) -> usize {
        self.span.input_count as usize
    }

    /// Returns the number of outputs.
    #[inline]
    pub fn output_count(&self) -> usize {
        self.span.output_count as usize
    }

    /// Returns the input at `index`, which must be below [`TxView::input_count`].
    #[inline]
    pub fn input(&self, index: usize) -> InputView<'a> {
        InputView { bytes: self.bytes, span: self.input_spans()[index] }
    }

    /// Returns an iterator over the inputs, in order.
    #[inline]
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = InputView<'a>> + use<'a> {
        let bytes = self.bytes;
        self.input_spans().iter().map(move |span| InputView { bytes, span: *span })
    }

    /// Returns the output at `index`, which must be below [`TxView::output_count`].
    #[inline]
    pub fn output(&self, index: usize) -> OutputView<'a> {
        OutputView { bytes: self.bytes, span: self.output_spans()[index] }
    }

    /// Returns an iterator over the outputs, in order.
    #[inline]
    pub fn outputs(
        &self,
    ) -> impl ExactSizeIterator<Item = OutputView<'a>> + DoubleEndedIterator + use<'a> {
        let bytes = self.bytes;
        self.output_spans().iter().map(move |span| OutputView { bytes, span: *span })
    }

    #[inline]
    fn input_spans(&self) -> &'a [InputSpan] {
        let first = self.span.first_input as usize;
        &self.inputs[first..first + self.input_count()]
    }

    #[inline]
    fn output_spans(&self) -> &'a [OutputSpan] {
        let first = self.span.first_output as usize;
        &self.outputs[first..first + self.output_count()]
    }

    /// Returns the serialised outputs, without their number.
    pub fn outputs_bytes(&self) -> &'a [u8] {
        let outputs = self.output_spans();
        let (Some(first), Some(last)) = (outputs.first(), outputs.last()) else { return &[] };
        &self.bytes[first.start as usize..last.script_end as usize]
    }

    /// Returns whether the transaction is a coinbase: it has one input, whose outpoint is null
    /// (Core's `IsCoinBase`).
    #[inline]
    pub fn is_coinbase(&self) -> bool {
        self.input_count() == 1 && self.input(0).outpoint().is_null()
    }

    /// Returns the txid: the double SHA-256 of the transaction without its witnesses.
    #[inline]
    pub fn txid(&self) -> Hash {
        let mut hasher = Sha256d::default();
        self.base_pieces().iter().for_each(|piece| hasher.update(piece));
        hasher.finish()
    }

    /// Returns the bytes of the transaction without marker, flag and witnesses.
    #[inline]
    fn base_pieces(&self) -> Pieces<'a> {
        if !self.span.has_witness {
            return [self.bytes(), &[], &[]];
        }
        let start = self.span.start as usize;
        let end = self.span.end as usize;
        let body = &self.bytes[start + 6..self.span.body_end as usize];
        [&self.bytes[start..start + 4], body, &self.bytes[end - 4..end]]
    }
}

/// An input of a transaction in the bytes of a block.
#[derive(Clone, Copy)]
pub struct InputView<'a> {
    bytes: &'a [u8],
    span: InputSpan,
}

impl<'a> InputView<'a> {
    /// Returns the outpoint that the input spends.
    #[inline]
    pub fn outpoint(&self) -> OutPoint {
        OutPoint::from_bytes(self.outpoint_bytes())
    }

    /// Returns the 36 bytes of the outpoint that the input spends.
    #[inline]
    pub fn outpoint_bytes(&self) -> &'a [u8; 36] {
        let start = self.span.start as usize;
        self.bytes[start..start + 36].try_into().expect("36 bytes")
    }

    /// Returns the scriptSig of the input.
    #[inline]
    pub fn script_sig(&self) -> &'a [u8] {
        &self.bytes[self.span.script_start as usize..self.span.script_end as usize]
    }

    /// Returns the sequence number of the input (`nSequence`; BIP68).
    #[inline]
    pub fn sequence(&self) -> u32 {
        le_u32(self.bytes, self.span.script_end as usize)
    }

    /// Returns the witness stack of the input, bottom first; empty if there is no witness.
    #[inline]
    pub fn witness(&self) -> Witness<'a> {
        if self.span.witness_start == 0 {
            return Witness { cursor: Cursor::new(&[]), left: 0 };
        }
        let mut cursor = Cursor::at(self.bytes, self.span.witness_start as usize);
        let left = cursor.compact_size().unwrap_or(0);
        Witness { cursor, left }
    }
}

/// The items of the witness stack of an input, bottom first.
#[derive(Clone)]
pub struct Witness<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Iterator for Witness<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.compact_bytes().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Witness<'_> {}

/// An output of a transaction in the bytes of a block.
#[derive(Clone, Copy)]
pub struct OutputView<'a> {
    bytes: &'a [u8],
    span: OutputSpan,
}

impl<'a> OutputView<'a> {
    /// Returns the amount in satoshis, which is out of range in some invalid blocks.
    #[inline]
    pub fn value(&self) -> i64 {
        let start = self.span.start as usize;
        i64::from_le_bytes(self.bytes[start..start + 8].try_into().expect("8 bytes"))
    }

    /// Returns the serialised output.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.span.start as usize..self.span.script_end as usize]
    }

    /// Returns the scriptPubKey of the output.
    #[inline]
    pub fn script(&self) -> &'a [u8] {
        &self.bytes[self.span.script_start as usize..self.span.script_end as usize]
    }
}

#[inline]
fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}
