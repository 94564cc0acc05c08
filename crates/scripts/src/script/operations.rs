//! The opcodes that work on the stack: constants, stack, arithmetic, hashes and locks.

use apus_hash::{hash160, ripemd160, sha1, sha256, sha256d};
use apus_wire::opcodes::*;
use apus_wire::{
    LOCK_TIME_THRESHOLD, SEQUENCE_FINAL, SEQUENCE_LOCK_DISABLED, SEQUENCE_LOCK_IN_SECONDS,
    SEQUENCE_LOCK_MASK, flags,
};

use super::Left;
use super::interpreter::Interpreter;
use super::item::Item;

/// The largest number of bytes that SHA-1 and RIPEMD-160, which are faster in Core's engine, hash
/// in one input, with the bytes by which each hash is padded.
const SLOWLY_HASHED_MAX: usize = 1 << 16;
/// The bytes by which a hash is padded, at least.
const PADDING_BYTES: usize = 9;

impl<'a> Interpreter<'_, 'a> {
    /// Executes an opcode of a branch that is taken.
    pub(super) fn operation(&mut self, code: u8) -> Result<(), Left> {
        match code {
            OP_HASH160 | OP_RIPEMD160..=OP_HASH256 => return self.hash(code),
            OP_EQUAL | OP_EQUALVERIFY => {
                let equal = self.pop()?.bytes() == self.pop()?.bytes();
                self.push(Item::of_bool(equal));
                return if code == OP_EQUALVERIFY { self.verify() } else { Ok(()) };
            }
            OP_1NEGATE => self.push(Item::of_number(-1)),
            OP_1..=OP_16 => self.push(Item::of_number(i64::from(code - OP_1) + 1)),
            OP_NOP | OP_NOP1 | OP_NOP4..=OP_NOP10 => {}
            OP_VERIFY => return self.verify(),
            OP_SIZE => {
                let size = self.peek(0)?.bytes().len();
                self.push(Item::of_number(size as i64));
            }
            OP_CHECKLOCKTIMEVERIFY => return self.check_lock_time(),
            OP_CHECKSEQUENCEVERIFY => return self.check_sequence(),
            OP_TOALTSTACK..=OP_TUCK => return self.rearrange(code),
            OP_1ADD..=OP_0NOTEQUAL => return self.unary(code),
            OP_WITHIN => return self.within(),
            _ => return self.binary(code),
        }
        Ok(())
    }

    fn push(&mut self, item: Item<'a>) {
        self.stack.push(item);
    }

    /// Pops the top element, which must be true.
    pub(super) fn verify(&mut self) -> Result<(), Left> {
        if self.pop()?.is_true() { Ok(()) } else { Err(Left::False) }
    }

    /// Executes the opcodes that move, copy and drop elements.
    fn rearrange(&mut self, code: u8) -> Result<(), Left> {
        match code {
            OP_TOALTSTACK => {
                let item = self.pop()?;
                self.altstack.push(item);
            }
            OP_FROMALTSTACK => {
                let item = self.altstack.pop().ok_or(Left::Limit)?;
                self.push(item);
            }
            OP_DROP => drop(self.pop()?),
            OP_2DROP => {
                self.pop()?;
                self.pop()?;
            }
            OP_DUP => self.copy(0, 1)?,
            OP_2DUP => self.copy(1, 2)?,
            OP_3DUP => self.copy(2, 3)?,
            OP_OVER => self.copy(1, 1)?,
            OP_2OVER => self.copy(3, 2)?,
            OP_IFDUP => {
                if self.peek(0)?.is_true() {
                    self.copy(0, 1)?;
                }
            }
            OP_DEPTH => self.push(Item::of_number(self.stack.len() as i64)),
            OP_NIP => drop(self.take(1)?),
            OP_SWAP => self.raise(1, 1)?,
            OP_ROT => self.raise(2, 1)?,
            OP_2SWAP => self.raise(3, 2)?,
            OP_2ROT => self.raise(5, 2)?,
            OP_TUCK => {
                self.raise(1, 1)?;
                self.copy(1, 1)?;
            }
            _ => {
                let depth = self.pop()?.number()?;
                let depth = usize::try_from(depth).map_err(|_| Left::Limit)?;
                match code {
                    OP_PICK => self.copy(depth, 1)?,
                    OP_ROLL => self.raise(depth, 1)?,
                    _ => return Err(Left::Opcode(code)),
                }
            }
        }
        Ok(())
    }

    /// Copies `count` elements to the top, starting with the one `depth` places below it.
    fn copy(&mut self, depth: usize, count: usize) -> Result<(), Left> {
        for _ in 0..count {
            let item = self.peek(depth)?;
            self.push(item);
        }
        Ok(())
    }

    /// Moves `count` elements to the top, starting with the one `depth` places below it.
    fn raise(&mut self, depth: usize, count: usize) -> Result<(), Left> {
        for _ in 0..count {
            let item = self.take(depth)?;
            self.push(item);
        }
        Ok(())
    }

    /// Removes the element `depth` places below the top.
    fn take(&mut self, depth: usize) -> Result<Item<'a>, Left> {
        let index = self.stack.len().checked_sub(depth + 1).ok_or(Left::Limit)?;
        Ok(self.stack.remove(index))
    }

    fn hash(&mut self, code: u8) -> Result<(), Left> {
        let item = self.pop()?;
        let bytes = item.bytes();
        let hashed = (bytes.len() + PADDING_BYTES).next_multiple_of(64);
        self.preimages.add_work(hashed);
        self.slowly_hashed += match code {
            OP_RIPEMD160 | OP_SHA1 => hashed,
            // RIPEMD-160 of 32 bytes, after SHA-256.
            OP_HASH160 => 64,
            _ => 0,
        };
        if self.slowly_hashed > SLOWLY_HASHED_MAX && !self.messages.spares_core() {
            return Err(Left::Limit);
        }
        self.push(match code {
            OP_RIPEMD160 => Item::made(&ripemd160(bytes)),
            OP_SHA1 => Item::made(&sha1(bytes)),
            OP_SHA256 => Item::made(&sha256(bytes)),
            OP_HASH160 => Item::made(&hash160(bytes)),
            _ => Item::made(&sha256d(bytes).0),
        });
        Ok(())
    }

    fn unary(&mut self, code: u8) -> Result<(), Left> {
        let value = self.pop()?.number()?;
        self.push(Item::of_number(match code {
            OP_1ADD => value + 1,
            OP_1SUB => value - 1,
            OP_NEGATE => -value,
            OP_ABS => value.abs(),
            OP_NOT => i64::from(value == 0),
            OP_0NOTEQUAL => i64::from(value != 0),
            _ => return Err(Left::Opcode(code)),
        }));
        Ok(())
    }

    fn binary(&mut self, code: u8) -> Result<(), Left> {
        let b = self.pop()?.number()?;
        let a = self.pop()?.number()?;
        self.push(Item::of_number(match code {
            OP_ADD => a + b,
            OP_SUB => a - b,
            OP_MIN => a.min(b),
            OP_MAX => a.max(b),
            OP_BOOLAND => i64::from(a != 0 && b != 0),
            OP_BOOLOR => i64::from(a != 0 || b != 0),
            OP_NUMEQUAL | OP_NUMEQUALVERIFY => i64::from(a == b),
            OP_NUMNOTEQUAL => i64::from(a != b),
            OP_LESSTHAN => i64::from(a < b),
            OP_GREATERTHAN => i64::from(a > b),
            OP_LESSTHANOREQUAL => i64::from(a <= b),
            OP_GREATERTHANOREQUAL => i64::from(a >= b),
            _ => return Err(Left::Opcode(code)),
        }));
        if code == OP_NUMEQUALVERIFY { self.verify() } else { Ok(()) }
    }

    fn within(&mut self) -> Result<(), Left> {
        let end = self.pop()?.number()?;
        let start = self.pop()?.number()?;
        let value = self.pop()?.number()?;
        self.push(Item::of_bool(start <= value && value < end));
        Ok(())
    }

    /// Executes CHECKLOCKTIMEVERIFY (BIP65; Core's `CheckLockTime`).
    fn check_lock_time(&mut self) -> Result<(), Left> {
        if self.flags & flags::CHECKLOCKTIMEVERIFY == 0 {
            return Ok(());
        }
        let asked = self.peek(0)?.time()?;
        let tx = self.messages.tx();
        let lock_time = i64::from(tx.lock_time());
        let is_height = |lock_time| lock_time < i64::from(LOCK_TIME_THRESHOLD);
        let same_unit = is_height(asked) == is_height(lock_time);
        let binds = tx.input(self.input).sequence() != SEQUENCE_FINAL;
        if asked >= 0 && same_unit && asked <= lock_time && binds {
            Ok(())
        } else {
            Err(Left::False)
        }
    }

    /// Executes CHECKSEQUENCEVERIFY (BIP112; Core's `CheckSequence`).
    fn check_sequence(&mut self) -> Result<(), Left> {
        if self.flags & flags::CHECKSEQUENCEVERIFY == 0 {
            return Ok(());
        }
        let asked = self.peek(0)?.time()?;
        if asked < 0 {
            return Err(Left::False);
        }
        // Five bytes with a sign hold less than 40 bits; those above the lower 32 do not count.
        let asked = asked as u32;
        if asked & SEQUENCE_LOCK_DISABLED != 0 {
            return Ok(());
        }
        let tx = self.messages.tx();
        let sequence = tx.input(self.input).sequence();
        let same_unit = (asked ^ sequence) & SEQUENCE_LOCK_IN_SECONDS == 0;
        let enough = asked & SEQUENCE_LOCK_MASK <= sequence & SEQUENCE_LOCK_MASK;
        let binds = tx.version() >= 2 && sequence & SEQUENCE_LOCK_DISABLED == 0;
        if binds && same_unit && enough { Ok(()) } else { Err(Left::False) }
    }
}
