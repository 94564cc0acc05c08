//! The state that a script runs on: stacks, branches and counters.

use apus_wire::ScriptFlags;
use smallvec::SmallVec;

use super::item::Item;
use super::{Checks, Left};
use crate::sighash::{Message, Preimages, TxSighash};

/// The largest size of a stack element, in bytes (Core's `MAX_SCRIPT_ELEMENT_SIZE`).
pub(super) const ELEMENT_BYTES_MAX: usize = 520;
/// The largest number of elements on both stacks together (Core's `MAX_STACK_SIZE`).
pub(super) const STACK_MAX: usize = 1000;
/// The largest number of opcodes in a script, without pushes but with the keys of CHECKMULTISIGs
/// (Core's `MAX_OPS_PER_SCRIPT`).
const OPERATIONS_MAX: usize = 201;

/// The largest number of messages made for one input; a usual spend has one or two.
const MESSAGES_MAX: usize = 16;

/// The rules under which a script runs (Core's `SigVersion`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Bare scripts, scriptSigs and P2SH.
    Base,
    /// Witness scripts of version 0.
    V0,
    /// Taproot leaves.
    Tapscript,
}

/// An interpreter that runs the scripts of one input, one after the other, on the same stack.
pub(super) struct Interpreter<'r, 'a> {
    pub messages: &'r mut TxSighash<'a>,
    pub input: usize,
    pub flags: ScriptFlags,
    pub preimages: &'r mut Preimages,
    pub checks: &'r mut Checks<'a>,
    /// The main stack; most scripts need only a few elements.
    pub stack: SmallVec<[Item<'a>; 6]>,
    pub altstack: Vec<Item<'a>>,
    pub branches: Branches,
    /// The number of opcodes so far, without pushes but with the keys of CHECKMULTISIGs.
    pub operations: usize,
    pub leaf: Leaf,
    /// The number of bytes that SHA-1 and RIPEMD-160 have hashed.
    pub slowly_hashed: usize,
    /// The messages that the script has asked for so far, by sighash type.
    pub signed: SmallVec<[(u8, Message); 2]>,
    /// The number of messages that all scripts of the input have asked for.
    messages_made: usize,
}

/// The branches that a script is in, the outermost first (Core's `ConditionStack`).
#[derive(Default)]
pub(super) struct Branches {
    /// Whether each branch is taken.
    all: Vec<bool>,
    /// The number of branches that are not taken. A script of 4 MB may be in a million branches.
    not_taken: usize,
}

impl Branches {
    /// Returns whether all branches are taken, so that opcodes are executed.
    pub fn is_taken(&self) -> bool {
        self.not_taken == 0
    }

    /// Returns whether the script is in no branch.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn begin(&mut self, taken: bool) {
        self.all.push(taken);
        self.not_taken += usize::from(!taken);
    }

    pub fn end(&mut self) -> Result<bool, Left> {
        let taken = self.all.pop().ok_or(Left::Limit)?;
        self.not_taken -= usize::from(!taken);
        Ok(taken)
    }
}

/// The Taproot leaf that is being run.
#[derive(Clone, Copy, Default)]
pub(super) struct Leaf {
    pub hash: [u8; 32],
    pub annex: Option<[u8; 32]>,
    /// The weight left for signatures (BIP342).
    pub weight_left: i64,
    /// The position of the last OP_CODESEPARATOR that was executed, in opcodes.
    pub code_separator: Option<u32>,
}

impl<'r, 'a> Interpreter<'r, 'a> {
    pub fn new(
        messages: &'r mut TxSighash<'a>,
        input: usize,
        flags: ScriptFlags,
        preimages: &'r mut Preimages,
        checks: &'r mut Checks<'a>,
    ) -> Self {
        Self {
            messages,
            input,
            flags,
            preimages,
            checks,
            stack: SmallVec::new(),
            altstack: Vec::new(),
            branches: Branches::default(),
            operations: 0,
            leaf: Leaf::default(),
            slowly_hashed: 0,
            signed: SmallVec::new(),
            messages_made: 0,
        }
    }

    /// Returns the message for signatures of this type: the one that the script has asked for
    /// before, or else the one that `make` computes. A script may ask for a message of a megabyte
    /// for each of its signatures; like Core, this computes only one for each type. Messages of
    /// Taproot are short, and their number is bounded by the weight of the witness.
    pub fn message(
        &mut self,
        hash_type: u8,
        version: Version,
        make: impl FnOnce(&mut Self) -> Option<Message>,
    ) -> Result<Message, Left> {
        if let Some((_, message)) = self.signed.iter().find(|(known, _)| *known == hash_type) {
            return Ok(*message);
        }
        self.messages_made += usize::from(version != Version::Tapscript);
        if self.messages_made > MESSAGES_MAX {
            return Err(Left::Limit);
        }
        let message = make(self).ok_or(Left::Encoding)?;
        self.signed.push((hash_type, message));
        Ok(message)
    }

    pub fn count_operations(&mut self, count: usize) -> Result<(), Left> {
        self.operations += count;
        if self.operations > OPERATIONS_MAX { Err(Left::Limit) } else { Ok(()) }
    }

    pub fn pop(&mut self) -> Result<Item<'a>, Left> {
        self.stack.pop().ok_or(Left::Limit)
    }

    /// Returns the element `depth` places below the top.
    pub fn peek(&self, depth: usize) -> Result<Item<'a>, Left> {
        let index = self.stack.len().checked_sub(depth + 1).ok_or(Left::Limit)?;
        Ok(self.stack[index])
    }
}
