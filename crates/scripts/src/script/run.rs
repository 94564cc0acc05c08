//! Runs one script (Core's `EvalScript`).

use apus_wire::opcodes::*;
use apus_wire::{MAX_SCRIPT_BYTES, Op, Ops};

use super::Left;
use super::interpreter::{ELEMENT_BYTES_MAX, Interpreter, STACK_MAX, Version};
use super::item::Item;

impl<'a> Interpreter<'_, 'a> {
    /// Runs a script on the current stack.
    pub fn run(&mut self, script: &'a [u8], version: Version) -> Result<(), Left> {
        let is_limited = version != Version::Tapscript;
        if is_limited && script.len() > MAX_SCRIPT_BYTES {
            return Err(Left::Limit);
        }
        self.preimages.add_work(script.len());
        self.operations = 0;
        self.signed.clear();
        let mut ops = Ops::new(script);
        for (position, op) in (&mut ops).enumerate() {
            if op.data.len() > ELEMENT_BYTES_MAX {
                return Err(Left::Limit);
            }
            if is_limited && op.code > OP_16 {
                self.count_operations(1)?;
            }
            if op.code == OP_CODESEPARATOR && version == Version::Tapscript {
                if self.branches.is_taken() {
                    self.leaf.code_separator = Some(position as u32);
                    self.signed.clear();
                }
                continue;
            }
            self.step(op, script, version)?;
            if self.stack.len() + self.altstack.len() > STACK_MAX {
                return Err(Left::Limit);
            }
        }
        // Each script has its own altstack.
        self.altstack.clear();
        if ops.truncated || !self.branches.is_empty() { Err(Left::Limit) } else { Ok(()) }
    }

    /// Executes one opcode. Opcodes that are not named here are left to the engine, outside leaves
    /// even in a branch that is not taken: some fail there, and OP_CODESEPARATOR changes what
    /// signatures sign.
    fn step(&mut self, op: Op<'a>, script: &'a [u8], version: Version) -> Result<(), Left> {
        let is_taken = self.branches.is_taken();
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
                    (false, _) if is_taken || !is_tapscript => Err(Left::Opcode(op.code)),
                    (true, true) => self.signature_operation(op.code, script, version),
                    _ => Ok(()),
                }
            }
            code if is_operation(code) => {
                if is_taken {
                    self.operation(code)
                } else {
                    Ok(())
                }
            }
            // In leaves these two alone fail in a branch that is not taken.
            code if is_taken || version != Version::Tapscript => Err(Left::Opcode(code)),
            code @ (OP_VERIF | OP_VERNOTIF) => Err(Left::Opcode(code)),
            _ => Ok(()),
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
}

/// Returns whether an opcode works on the stack alone, or is one of the two that check locks.
fn is_operation(code: u8) -> bool {
    matches!(
        code,
        OP_1NEGATE
            | OP_1..=OP_16
            | OP_NOP
            | OP_NOP1
            | OP_NOP4..=OP_NOP10
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
