//! What all connections serve from, and the sending of the blocks that one of them requests.

use std::io::{self, ErrorKind, IoSlice, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use apus_chain::BlockId;
use apus_net::{Answer, Outgoing, Refused, UploadTarget, Writer};
use apus_node::served::Served;
use apus_wire::BlockView;
use apus_wire::message::{Command, Inventory, InventoryItem, InventoryList, Raw};

/// The most items of a `notfound` message.
const NOT_FOUND_MAX: usize = 1000;

/// What all connections serve from, with the limits that they share and what they have sent.
pub(super) struct Stock {
    pub served: Arc<Served>,
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
    /// Returns what is served, with at most `bytes_max` to be sent in a day.
    pub fn new(served: Arc<Served>, bytes_max: Option<u64>) -> Self {
        Self {
            served,
            target: Mutex::new(UploadTarget::new(bytes_max)),
            started: Instant::now(),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
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
    pub fn send(&self, message: Raw, writer: &mut Writer, to: &TcpStream) -> io::Result<()> {
        let mut buffer = Vec::new();
        let (first, second) = writer.frame(message, &mut buffer);
        write_both(to, first, second)?;
        let bytes = (first.len() + second.len()) as u64;
        self.bytes.fetch_add(bytes, Relaxed);
        self.target().sent(bytes, self.now());
        Ok(())
    }

    /// Sends the requested blocks. Each is read when the one before is written, so that a request
    /// takes the memory of one block, however many it names.
    ///
    /// # Errors
    /// The peer is to be disconnected.
    pub fn send_requested(
        &self,
        list: InventoryList,
        writer: &mut Writer,
        to: &TcpStream,
    ) -> Result<(), NotSent> {
        let (mut block, mut missing) = (Vec::new(), Vec::new());
        for item in list.iter() {
            let is_reached = self.target().is_reached_for_old_blocks(self.now());
            match self.served.look(|chain| chain.answer(&item, is_reached)) {
                Answer::Block { id, with_witnesses } => {
                    self.read(id, with_witnesses, &mut block)?;
                    self.send(Raw(Command::BLOCK, &block), writer, to)?;
                    self.blocks.fetch_add(1, Relaxed);
                }
                Answer::NotFound => missing.push(item),
                Answer::Disconnect(why) => return Err(why.into()),
            }
            if missing.len() == NOT_FOUND_MAX {
                self.send_not_found(&mut missing, writer, to)?;
            }
        }
        self.send_not_found(&mut missing, writer, to)?;
        Ok(())
    }

    fn read(&self, id: BlockId, with_witnesses: bool, block: &mut Vec<u8>) -> Result<(), NotSent> {
        let unreadable = |why: &dyn ToString| NotSent::Unreadable(why.to_string());
        match self.served.read_block(id, block) {
            Ok(true) => {}
            Ok(false) => return Err(unreadable(&"it was pruned")),
            Err(error) => return Err(unreadable(&error)),
        }
        if !with_witnesses {
            let view = BlockView::parse(&block[..]).map_err(|error| unreadable(&error))?;
            let stripped = view.without_witnesses();
            *block = stripped;
        }
        Ok(())
    }

    fn send_not_found(
        &self,
        missing: &mut Vec<InventoryItem>,
        writer: &mut Writer,
        to: &TcpStream,
    ) -> io::Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let Outgoing { command, payload } = Outgoing::new(&Inventory(Command::NOTFOUND, missing));
        missing.clear();
        self.send(Raw(command, &payload), writer, to)
    }
}

/// Writes two slices one after the other, if possible with one call.
fn write_both(mut to: &TcpStream, first: &[u8], second: &[u8]) -> io::Result<()> {
    let written = loop {
        match to.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    to.write_all(&first[written.min(first.len())..])?;
    to.write_all(&second[written.saturating_sub(first.len())..])
}
