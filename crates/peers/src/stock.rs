//! The stock of blocks that all connections serve from, and the sending of requested blocks.

use std::io::{self, ErrorKind, IoSlice, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use apus_chain::BlockId;
use apus_coins::put_spent_coins;
use apus_disk::{Disk, StoreError};
use apus_hash::Hash;
use apus_indexes::IndexReader;
use apus_net::{Answer, BlockForm, OfferedFeature, Outgoing, Refused, UploadTarget, Writer};
use apus_node::options::Options;
use apus_node::served::Served;
use apus_node::shared::NEVER;
use apus_node::view::View;
use apus_wire::BlockView;
use apus_wire::message::{
    Command, FilterRequest, GetBlockTxn, GetHints, GetSpentCoins, HINTS_CHUNK_BYTES, Inventory,
    InventoryItem, InventoryKind, InventoryList, Message, PAYLOAD_BYTES_MAX, Raw, Services,
    block_transactions, compact_block,
};

use super::budget::{Budget, Permit, Socket};
use super::hints::ServedHints;
use super::random::random;

/// The most bytes of blocks that wait in memory for peers to read them. Beyond these, blocks are
/// sent in pieces.
const BLOCKS_BYTES_MAX: usize = 64 << 20;
/// The most bytes that a block takes while it is read and encoded.
const ENCODING_BYTES: usize = 2 * PAYLOAD_BYTES_MAX;
/// The number of blocks that are encoded at the same time to be sent in pieces. No peer is waited
/// for meanwhile.
const ENCODING_MAX: usize = 2;
/// The bytes of a block that are read at a time when it is sent in pieces: this much memory each
/// connection may take.
const PIECE_BYTES: usize = 64 << 10;
/// The most items of a `notfound` message.
const NOT_FOUND_MAX: usize = 1000;

/// The blocks that all connections serve from, their shared limits, and counts of sent data.
pub(super) struct Stock {
    pub served: Served,
    /// Reads the filters of blocks, if they are served.
    filters: Option<IndexReader>,
    /// The hints file that is served.
    hints: Option<ServedHints>,
    /// Memory for blocks that are being sent.
    sending: Budget,
    /// Memory for blocks that are encoded, to be sent in pieces.
    encoding: Budget,
    target: Mutex<UploadTarget>,
    started: Instant,
    blocks: AtomicU64,
    bytes: AtomicU64,
}

/// Why blocks are not sent, and the connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    /// The connection is closed or broken, or the peer does not read.
    #[error("{}", words(.0))]
    Io(#[from] io::Error),
    /// The peer may not have the block.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no such chunk of a hints file.
    #[error("it asked for a chunk of a hints file that we do not offer")]
    NoChunk,
    /// The block cannot be read.
    #[error("the block cannot be read: {0}")]
    Unreadable(String),
}

/// Returns words for an error of a connection, by the peer's doing.
fn words(error: &io::Error) -> String {
    match error.kind() {
        // A timeout is the one on some systems, and the other on others.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not read what we send".to_string(),
        _ => error.to_string(),
    }
}

impl Stock {
    /// Returns what is served: what `view` shows and `filters`, with at most `bytes_max` to be sent
    /// in a day.
    pub fn new(view: Arc<View>, filters: Option<IndexReader>, bytes_max: Option<u64>) -> Self {
        let has_filters = filters.is_some();
        let others = if has_filters { Services::COMPACT_FILTERS } else { Services::default() };
        Self {
            served: Served::new(view, others),
            filters,
            hints: None,
            sending: Budget::new(BLOCKS_BYTES_MAX),
            encoding: Budget::new(ENCODING_MAX * ENCODING_BYTES),
            target: Mutex::new(UploadTarget::new(bytes_max)),
            started: Instant::now(),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Serves a hints file, too.
    pub fn with_hints(self, hints: Option<ServedHints>) -> Self {
        Self { hints, ..self }
    }

    /// Returns the features that peers are told of.
    pub fn features(&self) -> Vec<OfferedFeature> {
        let mut features = self.served.features();
        features.extend(self.hints.as_ref().map(ServedHints::feature));
        features
    }

    /// Returns the time since this was created.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the number of blocks that were sent.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Returns the number of bytes that were sent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn target(&self) -> MutexGuard<'_, UploadTarget> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection is broken, or nothing could be sent until its time limit for writing.
    pub fn send(&self, message: Raw, writer: &mut Writer, to: &Socket) -> io::Result<()> {
        let mut buffer = Vec::new();
        let (first, second) = writer.frame(message, &mut buffer);
        self.write(first, second, to)
    }

    /// Writes two slices one after the other, and counts their bytes.
    fn write(&self, first: &[u8], second: &[u8], to: &Socket) -> io::Result<()> {
        write_both(to, first, second)?;
        let bytes = (first.len() + second.len()) as u64;
        self.bytes.fetch_add(bytes, Relaxed);
        self.target().sent(bytes, self.now());
        Ok(())
    }

    /// Answers a request whose answer is read from block files. After the block `continuation`, the
    /// hash of the tip is sent.
    ///
    /// # Errors
    /// The peer is to be disconnected.
    pub fn send_requested(
        &self,
        message: &Message,
        continuation: Option<Hash>,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        match message {
            Message::GetData(list) => self.send_items(*list, continuation, writer, to),
            Message::GetBlockTxn(request) => self.send_transactions(request, writer, to),
            Message::GetFilters(request) => self.send_filters(request, writer, to),
            Message::GetSpentCoins(request) => self.send_spent_coins(request, writer, to),
            Message::GetHints(request) => self.send_hints(request, writer, to),
            _ => Ok(()),
        }
    }

    /// Sends the requested blocks. Each is read when the one before is written, so that a request
    /// takes the memory of one block at most, however many it names.
    ///
    /// # Errors
    /// The peer is to be disconnected.
    fn send_items(
        &self,
        list: InventoryList,
        continuation: Option<Hash>,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        let mut missing = Vec::new();
        for item in list.iter() {
            match self.answer(&item) {
                Answer::Block { id, form } => {
                    self.send_block(id, form, writer, to)?;
                    if continuation == Some(item.hash) {
                        self.send_tip(writer, to)?;
                    }
                }
                Answer::NotFound => missing.push(item),
                Answer::Nothing => {}
                Answer::Disconnect(why) => return Err(why.into()),
            }
            if missing.len() == NOT_FOUND_MAX {
                self.send_not_found(&mut missing, writer, to)?;
            }
        }
        self.send_not_found(&mut missing, writer, to)?;
        Ok(())
    }

    fn answer(&self, item: &InventoryItem) -> Answer {
        let is_reached = self.target().is_reached_for_old_blocks(self.now());
        self.served.look(|chain| chain.answer(item, is_reached))
    }

    /// Sends a block from memory, or in pieces if no memory is left.
    fn send_block(
        &self,
        id: BlockId,
        form: BlockForm,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        match self.sending.try_take(ENCODING_BYTES) {
            Some(memory) => {
                let block = self.read(id, form)?;
                let command = match form {
                    BlockForm::Stripped | BlockForm::Complete => Command::BLOCK,
                    BlockForm::Compact => Command::CMPCTBLOCK,
                };
                self.send_whole(command, block, writer, to, memory)?;
            }
            None => self.send_in_pieces(id, form != BlockForm::Stripped, writer, to)?,
        }
        self.blocks.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Sends transactions of a block near the tip, or all of another block, as Core does; a peer
    /// that names no transaction is disconnected.
    fn send_transactions(
        &self,
        request: &GetBlockTxn,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        if request.indexes.is_empty() {
            return Err(Refused::NoTransaction.into());
        }
        if let Some(id) = self.served.look(|chain| chain.transactions_of(&request.block))
            && let Some(memory) = self.sending.try_take(ENCODING_BYTES)
        {
            let block = self.read(id, BlockForm::Complete)?;
            let view = BlockView::parse(&block[..]).map_err(|error| unreadable(&error))?;
            let payload = block_transactions(&view, request).ok_or(Refused::NoSuchTransaction)?;
            drop(block);
            return self.send_whole(Command::BLOCKTXN, payload, writer, to, memory);
        }
        let item = InventoryItem { kind: InventoryKind::WITNESS_BLOCK, hash: request.block };
        match self.answer(&item) {
            Answer::Block { id, form } => self.send_block(id, form, writer, to),
            Answer::NotFound | Answer::Nothing => Ok(()),
            Answer::Disconnect(why) => Err(why.into()),
        }
    }

    /// Sends the filters that a peer asks for, or their headers or hashes; as Core does, nothing
    /// if the index lacks one of them.
    fn send_filters(
        &self,
        request: &FilterRequest,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        let blocks = self.served.look(|chain| chain.filters(request))?;
        let Some(reader) = &self.filters else { return Ok(()) };
        let Some(entries) = reader.filter_entries(&blocks).unwrap_or_else(no_filter) else {
            return Ok(());
        };
        let (command, payload) = match request.command {
            Command::GETCFILTERS => {
                for (height, hash) in blocks {
                    let filter = reader.filter(height, &hash).unwrap_or_else(no_filter);
                    let Some(filter) = filter else { return Ok(()) };
                    let payload = request.filter(&hash, &filter.bytes);
                    self.send(Raw(Command::CFILTER, &payload), writer, to)?;
                }
                return Ok(());
            }
            Command::GETCFHEADERS => {
                let before = entries.first().filter(|_| request.start_height > 0);
                let filters = &entries[usize::from(before.is_some())..];
                let before = before.map_or(Hash::ZERO, |entry| entry.header);
                let hashes = filters.iter().map(|entry| entry.hash);
                (Command::CFHEADERS, request.headers(&before, hashes))
            }
            _ => {
                let headers = entries.iter().map(|entry| entry.header);
                (Command::CFCHECKPT, request.checkpoints(headers))
            }
        };
        Ok(self.send(Raw(command, &payload), writer, to)?)
    }

    /// Sends coins that a block spends, under the limits of the block itself; or `notfound` if
    /// there are none that may be sent, or they exceed the limit of a message.
    fn send_spent_coins(
        &self,
        request: &GetSpentCoins,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        let of_block = InventoryItem { kind: InventoryKind::WITNESS_BLOCK, hash: request.block };
        let id = match self.answer(&of_block) {
            Answer::Block { id, .. } => Some(id),
            Answer::NotFound | Answer::Nothing | Answer::Disconnect(Refused::Pruned) => None,
            Answer::Disconnect(why) => return Err(why.into()),
        };
        let is_sent = match (id, self.sending.try_take(ENCODING_BYTES)) {
            (None, _) => false,
            (Some(id), Some(memory)) => match self.read_spent_coins(id, request) {
                Some(coins) => {
                    self.send_whole(Command::BSPENT, coins, writer, to, memory)?;
                    true
                }
                None => false,
            },
            (Some(id), None) => self.send_spent_coins_in_pieces(id, request, writer, to)?,
        };
        if is_sent {
            return Ok(());
        }
        // The kind tells it from a block, which is asked for with its witnesses.
        let item = InventoryItem { kind: InventoryKind::BLOCK, hash: request.block };
        Ok(self.send_not_found(&mut vec![item], writer, to)?)
    }

    /// Sends the coins as the peer reads them: they are made once for the frame of the message, and
    /// again for each piece. Returns `false` if there are none to send.
    fn send_spent_coins_in_pieces(
        &self,
        id: BlockId,
        request: &GetSpentCoins,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<bool, NotSent> {
        let read = || -> Result<_, NotSent> {
            let memory = self.encoding.take(ENCODING_BYTES, &NEVER)?;
            Ok((self.read_spent_coins(id, request), memory))
        };
        let (Some(coins), memory) = read()? else { return Ok(false) };
        let frame = writer.outline(Raw(Command::BSPENT, &coins), &mut Vec::new());
        let len = coins.len();
        drop((coins, memory));
        self.write(&frame.head, &[], to)?;
        for start in (0..len).step_by(PIECE_BYTES) {
            let part = start..len.min(start + PIECE_BYTES);
            let (coins, memory) = read()?;
            let bytes = coins.as_ref().and_then(|coins| coins.get(part));
            let mut piece = bytes.ok_or_else(|| unreadable(&"its undo data has changed"))?.to_vec();
            drop((coins, memory));
            frame.encode(start, &mut piece);
            self.write(&piece, &[], to)?;
        }
        self.write(&frame.tail, &[], to)?;
        Ok(true)
    }

    /// Returns the payload of `bspent`; `None` if it cannot be sent.
    fn read_spent_coins(&self, id: BlockId, request: &GetSpentCoins) -> Option<Vec<u8>> {
        let mut undo = Vec::new();
        match self.served.read_undo(id, PAYLOAD_BYTES_MAX, &mut undo) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                tracing::debug!(target: "net", %why, "undo data cannot be read");
                return None;
            }
        }
        let mut payload = request.block.0.to_vec();
        let bytes_max = PAYLOAD_BYTES_MAX - payload.len();
        match put_spent_coins(&undo, request.cutoff, bytes_max, &mut payload) {
            Ok(fits) => fits.then_some(payload),
            Err(why) => {
                tracing::debug!(target: "net", %why, "undo data cannot be sent");
                None
            }
        }
    }

    /// Sends a chunk of the hints file. Like old blocks, it counts towards the upload target.
    ///
    /// # Errors
    /// There is no such chunk, the upload target is reached, or the connection is broken.
    fn send_hints(
        &self,
        request: &GetHints,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        if self.target().is_reached_for_old_blocks(self.now()) {
            return Err(Refused::UploadTarget.into());
        }
        let memory = self.sending.take(2 * HINTS_CHUNK_BYTES as usize, &NEVER)?;
        let chunk = self.hints.as_ref().and_then(|hints| hints.answer(request).transpose());
        let Some(chunk) = chunk else {
            return Err(NotSent::NoChunk);
        };
        let payload = chunk.map_err(|why| unreadable(&why))?;
        self.send(Raw(Command::HINTS, &payload), writer, to)?;
        drop(memory);
        Ok(())
    }

    /// Sends the hash of the tip.
    fn send_tip(&self, writer: &mut Writer, to: &Socket) -> io::Result<()> {
        let hash = self.served.look(|chain| chain.tree.node(chain.tip()).hash);
        let items = [InventoryItem { kind: InventoryKind::BLOCK, hash }];
        let Outgoing { command, payload } = Outgoing::new(&Inventory(Command::INV, &items));
        self.send(Raw(command, &payload), writer, to)
    }

    /// Sends a message from memory, which it takes until the peer has read it.
    fn send_whole(
        &self,
        command: Command,
        mut payload: Vec<u8>,
        writer: &mut Writer,
        to: &Socket,
        mut memory: Permit,
    ) -> Result<(), NotSent> {
        let mut first = Vec::new();
        let (_, second) = writer.frame(Raw(command, &payload), &mut first);
        if second.is_empty() {
            payload = Vec::new();
        }
        memory.shrink_to(first.capacity() + payload.capacity());
        Ok(self.write(&first, &payload, to)?)
    }

    /// Sends a block as the peer reads it: it is encoded once, and then its pieces are read again.
    fn send_in_pieces(
        &self,
        id: BlockId,
        with_witnesses: bool,
        writer: &mut Writer,
        to: &Socket,
    ) -> Result<(), NotSent> {
        let form = if with_witnesses { BlockForm::Complete } else { BlockForm::Stripped };
        let (frame, len) = {
            let _memory = self.encoding.take(ENCODING_BYTES, &NEVER)?;
            let block = self.read(id, form)?;
            (writer.outline(Raw(Command::BLOCK, &block), &mut Vec::new()), block.len())
        };
        self.write(&frame.head, &[], to)?;
        let mut piece = Vec::new();
        for start in (0..len).step_by(PIECE_BYTES) {
            let part = start..len.min(start + PIECE_BYTES);
            self.read_piece(id, with_witnesses, part, &mut piece)?;
            frame.encode(start, &mut piece);
            self.write(&piece, &[], to)?;
        }
        Ok(self.write(&frame.tail, &[], to)?)
    }

    fn read(&self, id: BlockId, form: BlockForm) -> Result<Vec<u8>, NotSent> {
        let mut block = Vec::new();
        is_read(self.served.read_block(id, &mut block))?;
        if form == BlockForm::Complete {
            return Ok(block);
        }
        let view = BlockView::parse(&block[..]).map_err(|error| unreadable(&error))?;
        Ok(match form {
            BlockForm::Compact => compact_block(&view, random()),
            _ => view.without_witnesses(),
        })
    }

    /// Reads a part of a block into `piece`, whose content is replaced.
    fn read_piece(
        &self,
        id: BlockId,
        with_witnesses: bool,
        part: Range<usize>,
        piece: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        if with_witnesses {
            return is_read(self.served.read_piece(id, part, piece));
        }
        let _memory = self.encoding.take(ENCODING_BYTES, &NEVER)?;
        let block = self.read(id, BlockForm::Stripped)?;
        let bytes = block.get(part).ok_or_else(|| unreadable(&"it has changed"))?;
        piece.clear();
        piece.extend_from_slice(bytes);
        Ok(())
    }

    fn send_not_found(
        &self,
        missing: &mut Vec<InventoryItem>,
        writer: &mut Writer,
        to: &Socket,
    ) -> io::Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let Outgoing { command, payload } = Outgoing::new(&Inventory(Command::NOTFOUND, missing));
        missing.clear();
        self.send(Raw(command, &payload), writer, to)
    }
}

/// Returns what reads the filters of blocks, if the options say that they are served.
pub(super) fn filters_of(options: &Options) -> Option<IndexReader> {
    options.peerblockfilters.then(|| IndexReader::new(&Disk::new(), &options.network_dir()))
}

/// Returns whether [`Stock::send_requested`] answers a message.
pub(super) fn is_read_from_files(message: &Message) -> bool {
    matches!(
        message,
        Message::GetData(_)
            | Message::GetBlockTxn(_)
            | Message::GetFilters(_)
            | Message::GetSpentCoins(_)
            | Message::GetHints(_)
    )
}

/// Says in the log why a filter cannot be read.
fn no_filter<T>(why: StoreError) -> Option<T> {
    tracing::debug!(target: "net", %why, "a filter cannot be read");
    None
}

fn unreadable(why: &dyn ToString) -> NotSent {
    NotSent::Unreadable(why.to_string())
}

/// Returns an error unless a block was read.
fn is_read(read: Result<bool, StoreError>) -> Result<(), NotSent> {
    match read {
        Ok(true) => Ok(()),
        Ok(false) => Err(unreadable(&"it was pruned")),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Writes two slices one after the other, if possible with one call.
fn write_both(socket: &Socket, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut to: &TcpStream = socket;
    let written = loop {
        match to.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    to.write_all(&first[written.min(first.len())..])?;
    to.write_all(&second[written.saturating_sub(first.len())..])?;
    socket.sent.add(first.len() + second.len());
    Ok(())
}
