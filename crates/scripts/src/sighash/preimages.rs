//! Preimages that are hashed side by side.

use std::ops::Range;
use std::sync::LazyLock;

use apus_hash::{Hash, Midstate, Pieces, sha256d, sha256d_many};

/// The longest preimage that waits, in bytes. A usual spend has one of 150 to 300; longer ones are
/// hashed at once, so that every block needs little memory.
pub(super) const WAITING_BYTES_MAX: usize = 512;

/// The hash state after the tag of Taproot's messages.
static TAPROOT: LazyLock<Midstate> = LazyLock::new(|| Midstate::tagged("TapSighash"));

/// The messages that signatures sign. Most of them wait to be hashed together, since hashing them
/// one by one would leave most of the processor idle.
#[derive(Default)]
pub struct Preimages {
    /// The preimages that wait.
    bytes: Vec<u8>,
    /// Preimages that are hashed twice: legacy and BIP143.
    twice: Vec<Waiting>,
    /// Preimages that are hashed once, after BIP341's tag.
    tagged: Vec<Waiting>,
    /// All messages; those whose preimages still wait are meaningless.
    messages: Vec<Hash>,
    /// The work so far, as [`Preimages::work`] returns it.
    work: usize,
}

/// A message, by its index since [`Preimages::clear`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message(usize);

/// Messages that have all been hashed.
#[derive(Clone, Copy)]
pub struct Messages<'a>(&'a [Hash]);

/// A preimage that waits to be hashed.
struct Waiting {
    message: usize,
    bytes: Range<usize>,
}

impl Preimages {
    /// Returns the number of messages since [`Preimages::clear`].
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of bytes that were hashed at once or run as scripts so far, ever.
    pub fn work(&self) -> usize {
        self.work
    }

    /// Counts bytes that are hashed or run as a script.
    pub fn add_work(&mut self, bytes: usize) {
        self.work = self.work.wrapping_add(bytes);
    }

    /// Drops all messages, before the next batch.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.twice.clear();
        self.tagged.clear();
        self.messages.clear();
    }

    /// Hashes the preimages that wait, and returns all messages.
    pub fn hash_all(&mut self) -> Messages<'_> {
        let Self { bytes, twice, tagged, messages, .. } = self;
        let of = |waiting: &Waiting| -> Pieces { [&bytes[waiting.bytes.clone()], &[], &[]] };
        let hashes = sha256d_many(twice.len(), |i| of(&twice[i]));
        let tagged_hashes = TAPROOT.hashes(tagged.len(), |i| of(&tagged[i]));
        for (waiting, hash) in twice.drain(..).zip(hashes) {
            messages[waiting.message] = hash;
        }
        for (waiting, hash) in tagged.drain(..).zip(tagged_hashes) {
            messages[waiting.message] = hash;
        }
        bytes.clear();
        Messages(messages)
    }

    /// Adds a message that is already hashed.
    pub(super) fn push_hashed(&mut self, message: Hash) -> Message {
        self.messages.push(message);
        Message(self.messages.len() - 1)
    }

    /// Adds a message: the double SHA-256 of what `write` appends.
    pub(super) fn push_twice(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Message {
        let bytes = self.written(write);
        if bytes.len() > WAITING_BYTES_MAX {
            self.add_work(bytes.len());
            let message = sha256d(&self.bytes[bytes.clone()]);
            self.bytes.truncate(bytes.start);
            return self.push_hashed(message);
        }
        let message = self.push_hashed(Hash::ZERO);
        self.twice.push(Waiting { message: message.0, bytes });
        message
    }

    /// Adds a message: the SHA-256 of BIP341's tag and of what `write` appends, which is always
    /// short.
    pub(super) fn push_tagged(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Message {
        let bytes = self.written(write);
        let message = self.push_hashed(Hash::ZERO);
        self.tagged.push(Waiting { message: message.0, bytes });
        message
    }

    /// Returns the range of the bytes that `write` appends.
    fn written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        start..self.bytes.len()
    }
}

impl Messages<'_> {
    /// Returns the hash of one message.
    pub fn of(&self, message: Message) -> &[u8; 32] {
        &self.0[message.0].0
    }
}
