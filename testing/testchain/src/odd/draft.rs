//! A script being written, with the list of what unlocks it.

use super::Place;
use crate::encode::push;
use crate::keys::Ring;
use crate::opcodes::{OP_0, OP_1, OP_CHECKMULTISIG, OP_CODESEPARATOR};
use crate::rng::Rng;
use crate::signature::{SIGHASH_ALL, der};

/// One item that a script is unlocked with.
pub enum Item {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A signature.
    Signature {
        /// The index of its key.
        key: u32,
        /// The last OP_CODESEPARATOR that was run before it is checked.
        after: Separator,
        /// How it is made.
        how: Make,
    },
    /// The key for which the signature of [`Draft::own_signature`] is valid.
    KeyOfOwn {
        /// The index of the key that stands for the signature's nonce.
        nonce: u32,
        /// The index of the key whose secret is its S.
        s: u32,
        /// Where the script code that is signed begins.
        code: usize,
    },
}

/// An OP_CODESEPARATOR, or the start of the script.
#[derive(Clone, Copy)]
pub struct Separator {
    /// Where the script goes on after it.
    pub start: usize,
    /// The number of opcodes before it (BIP 342); `u32::MAX` for the start of the script.
    pub position: u32,
}

impl Separator {
    /// The start of the script.
    pub const START: Self = Separator { start: 0, position: u32::MAX };
}

/// How a signature is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// As it should be, with a low S.
    Usual,
    /// With a high S.
    HighS,
    /// For another message.
    Wrong,
}

/// The script of a lock while it is written.
pub struct Draft<'a> {
    pub ring: &'a Ring<'a>,
    pub place: Place,
    first_key: u32,
    rng: Rng,
    pub script: Vec<u8>,
    opcodes: u32,
    pub items: Vec<Item>,
    pub annex: Option<Vec<u8>>,
    pub clumsy: bool,
}

impl<'a> Draft<'a> {
    /// Creates an empty script of the lock whose first key has this index.
    pub fn new(ring: &'a Ring<'a>, first_key: u32, place: Place) -> Self {
        Draft {
            ring,
            first_key,
            place,
            rng: Rng::new(u64::from(first_key), 7),
            script: Vec::new(),
            opcodes: 0,
            items: Vec::new(),
            annex: None,
            clumsy: false,
        }
    }

    /// Returns a number below `n` that follows from the lock.
    pub fn choose(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    /// Returns bytes that follow from the lock.
    pub fn random<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.rng.fill(&mut bytes);
        bytes
    }

    /// Returns the index of the lock's key number `n`.
    pub fn index(&self, n: u32) -> u32 {
        self.first_key.wrapping_add(n)
    }

    /// Writes opcodes without data.
    pub fn ops(&mut self, opcodes: &[u8]) -> &mut Self {
        self.script.extend_from_slice(opcodes);
        self.opcodes += opcodes.len() as u32;
        self
    }

    /// Writes a push.
    pub fn data(&mut self, bytes: &[u8]) -> &mut Self {
        push(bytes, &mut self.script);
        self.opcodes += 1;
        self
    }

    /// Writes the push of a number below 128.
    pub fn number(&mut self, number: u8) -> &mut Self {
        match number {
            0 => self.ops(&[OP_0]),
            1..=16 => self.ops(&[OP_1 - 1 + number]),
            _ => self.data(&[number]),
        }
    }

    /// Writes the lock's key number `n`, encoded as is usual in the script's place.
    pub fn key(&mut self, n: u32) -> &mut Self {
        let key = self.ring.key(self.index(n));
        match self.place.depth() {
            Some(_) => self.data(&key.xonly()),
            None => self.data(&key.pk33()),
        }
    }

    /// Returns the lock's key number `n` uncompressed, or hybrid if asked for.
    pub fn long_key(&self, n: u32, hybrid: bool) -> [u8; 65] {
        let mut bytes = self.ring.key(self.index(n)).pk65();
        if hybrid {
            bytes[0] = 6 + (bytes[64] & 1);
        }
        bytes
    }

    /// Writes `<m> <keys 0..n> <n> OP_CHECKMULTISIG`, to be unlocked by any `m` of the keys.
    pub fn multisig(&mut self, m: u8, n: u8) -> &mut Self {
        self.number(m);
        for key in 0..u32::from(n) {
            self.key(key);
        }
        self.number(n).ops(&[OP_CHECKMULTISIG]).give(&[]);
        for key in self.some(m, n) {
            self.sign(key);
        }
        self
    }

    /// Returns any `m` of the numbers below `n`, in order.
    pub fn some(&mut self, m: u8, n: u8) -> Vec<u32> {
        let mut numbers: Vec<_> = (0..u32::from(n)).collect();
        while numbers.len() > usize::from(m) {
            let index = self.choose(numbers.len() as u64) as usize;
            numbers.remove(index);
        }
        numbers
    }

    /// Writes a signature with SIGHASH_ALL whose message and key are not known yet. Returns that
    /// key, for a script code from byte `code` on, or from after the signature.
    pub fn own_signature(&mut self, code: Option<usize>) -> Item {
        let nonce = self.index(0);
        let s = self.index(1);
        let s_bytes = self.ring.key(s).secret().secret_bytes();
        let signature = der(&self.ring.key(nonce).xonly(), &s_bytes, SIGHASH_ALL);
        self.data(signature.as_slice());
        Item::KeyOfOwn { nonce, s, code: code.unwrap_or(self.script.len()) }
    }

    /// Writes OP_CODESEPARATOR.
    pub fn separator(&mut self) -> Separator {
        let position = self.opcodes;
        self.ops(&[OP_CODESEPARATOR]);
        Separator { start: self.script.len(), position }
    }

    /// Unlocks with these bytes, on top of the items before.
    pub fn give(&mut self, bytes: &[u8]) -> &mut Self {
        self.items.push(Item::Bytes(bytes.to_vec()));
        self
    }

    /// Unlocks with a signature of the lock's key number `n`, on top of the items before.
    pub fn sign(&mut self, n: u32) -> &mut Self {
        self.sign_so(n, Separator::START, Make::Usual)
    }

    /// Unlocks with a signature after an OP_CODESEPARATOR, or of another make, on top of the items
    /// before.
    pub fn sign_so(&mut self, n: u32, after: Separator, how: Make) -> &mut Self {
        self.items.push(Item::Signature { key: self.index(n), after, how });
        self
    }
}
