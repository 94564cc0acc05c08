//! Runs one script (Core's `EvalScript`).

use super::item::Item;
use super::{Check, Left};
use crate::sighash::TxSighash;
use crate::wire::opcodes::*;
use crate::wire::{MAX_SCRIPT_BYTES, Op, Ops, ScriptFlags};

/// The most bytes of an element (Core's `MAX_SCRIPT_ELEMENT_SIZE`).
pub(super) const ELEMENT_BYTES_MAX: usize = 520;
/// The most elements on both stacks together (Core's `MAX_STACK_SIZE`).
pub(super) const STACK_MAX: usize = 1000;
/// The most opcodes but pushes in a script, with the keys of its CHECKMULTISIGs (Core's
/// `MAX_OPS_PER_SCRIPT`).
const OPERATIONS_MAX: usize = 201;

/// Under which rules a script runs (Core's `SigVersion`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Bare scripts, scriptSigs and P2SH.
    Base,
    /// Witness scripts of version 0.
    V0,
    /// Leaves of Taproot.
    Tapscript,
}

/// Runs scripts of one input, one after the other, on the same stack.
pub(super) struct Interpreter<'r, 'a> {
    pub messages: &'r mut TxSighash<'a>,
    pub input: usize,
    pub flags: ScriptFlags,
    pub checks: &'r mut Vec<Check<'a>>,
    pub stack: Vec<Item<'a>>,
    pub altstack: Vec<Item<'a>>,
    branches: Branches,
    operations: usize,
    pub leaf: Leaf<'a>,
}

/// The branches that a script is in, the outermost first (Core's `ConditionStack`).
#[derive(Default)]
struct Branches {
    /// Whether each is taken.
    all: Vec<bool>,
    /// How many are not. A script of 4 MB may be in a million.
    not_taken: usize,
}

impl Branches {
    fn begin(&mut self, taken: bool) {
        self.all.push(taken);
        self.not_taken += usize::from(!taken);
    }

    fn end(&mut self) -> Result<bool, Left> {
        let taken = self.all.pop().ok_or(Left::Limit)?;
        self.not_taken -= usize::from(!taken);
        Ok(taken)
    }
}

/// What is known of a leaf of Taproot that is run.
#[derive(Clone, Copy, Default)]
pub(super) struct Leaf<'a> {
    pub hash: [u8; 32],
    pub annex: Option<&'a [u8]>,
    /// The weight that is left for signatures (BIP342).
    pub weight_left: i64,
}

impl<'r, 'a> Interpreter<'r, 'a> {
    pub fn new(
        messages: &'r mut TxSighash<'a>,
        input: usize,
        flags: ScriptFlags,
        checks: &'r mut Vec<Check<'a>>,
    ) -> Self {
        Self {
            messages,
            input,
            flags,
            checks,
            stack: Vec::with_capacity(8),
            altstack: Vec::new(),
            branches: Branches::default(),
            operations: 0,
            leaf: Leaf::default(),
        }
    }

    /// Runs a script on the stack as it is.
    pub fn run(&mut self, script: &'a [u8], version: Version) -> Result<(), Left> {
        let is_limited = version != Version::Tapscript;
        if is_limited && script.len() > MAX_SCRIPT_BYTES {
            return Err(Left::Limit);
        }
        self.operations = 0;
        let mut ops = Ops::new(script);
        for op in &mut ops {
            if op.data.len() > ELEMENT_BYTES_MAX {
                return Err(Left::Limit);
            }
            if is_limited && op.code > OP_16 {
                self.count_operations(1)?;
            }
            self.step(op, script, version)?;
            if self.stack.len() + self.altstack.len() > STACK_MAX {
                return Err(Left::Limit);
            }
        }
        // Each script has a stack for the opcodes that set aside of its own.
        self.altstack.clear();
        match ops.truncated || !self.branches.all.is_empty() {
            true => Err(Left::Limit),
            false => Ok(()),
        }
    }

    pub fn count_operations(&mut self, count: usize) -> Result<(), Left> {
        self.operations += count;
        if self.operations > OPERATIONS_MAX { Err(Left::Limit) } else { Ok(()) }
    }

    /// One opcode. What is not named here is left to the engine even in a branch that is not taken:
    /// some of it fails there, some makes every script valid that contains it (OP_SUCCESS of
    /// BIP342), and OP_CODESEPARATOR changes what signatures sign.
    fn step(&mut self, op: Op<'a>, script: &'a [u8], version: Version) -> Result<(), Left> {
        let is_taken = self.branches.not_taken == 0;
        match op.code {
            OP_0..=OP_PUSHDATA4 => {
                if is_taken {
                    self.stack.push(Item::Found(op.data));
                }
                Ok(())
            }
            OP_IF | OP_NOTIF => self.begin_branch(op.code, is_taken, version),
            OP_ELSE => {
                let taken = self.branches.end()?;
                self.branches.begin(!taken);
                Ok(())
            }
            OP_ENDIF => self.branches.end().map(|_| ()),
            OP_CHECKSIG..=OP_CHECKMULTISIGVERIFY | OP_CHECKSIGADD => {
                let is_tapscript = version == Version::Tapscript;
                let is_known = match op.code {
                    OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => !is_tapscript,
                    OP_CHECKSIGADD => is_tapscript,
                    _ => true,
                };
                match (is_known, is_taken) {
                    (false, _) => Err(Left::Opcode(op.code)),
                    (true, false) => Ok(()),
                    (true, true) => self.signature_operation(op.code, script, version),
                }
            }
            code if is_operation(code) => {
                if is_taken {
                    self.operation(code)
                } else {
                    Ok(())
                }
            }
            code => Err(Left::Opcode(code)),
        }
    }

    fn begin_branch(&mut self, code: u8, is_taken: bool, version: Version) -> Result<(), Left> {
        let mut taken = false;
        if is_taken {
            let condition = self.pop()?;
            let bytes = condition.bytes();
            let is_minimal = bytes.is_empty() || bytes == [1];
            if version == Version::Tapscript && !is_minimal {
                return Err(Left::Limit);
            }
            taken = condition.is_true() == (code == OP_IF);
        }
        self.branches.begin(taken);
        Ok(())
    }

    pub fn pop(&mut self) -> Result<Item<'a>, Left> {
        self.stack.pop().ok_or(Left::Limit)
    }

    /// The element so many below the top.
    pub fn peek(&self, depth: usize) -> Result<Item<'a>, Left> {
        let index = self.stack.len().checked_sub(depth + 1).ok_or(Left::Limit)?;
        Ok(self.stack[index])
    }
}

/// The opcodes that work on the stack alone, and the two that look at times.
fn is_operation(code: u8) -> bool {
    matches!(
        code,
        OP_1NEGATE
            | OP_1..=OP_16
            | OP_NOP
            | OP_VERIFY
            | OP_TOALTSTACK..=OP_TUCK
            | OP_SIZE
            | OP_EQUAL
            | OP_EQUALVERIFY
            | OP_1ADD
            | OP_1SUB
            | OP_NEGATE..=OP_SUB
            | OP_BOOLAND..=OP_HASH256
            | OP_CHECKLOCKTIMEVERIFY
            | OP_CHECKSEQUENCEVERIFY
    )
}
