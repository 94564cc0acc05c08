//! The opcodes that check signatures.

use apus_wire::opcodes::*;
use apus_wire::{Ops, flags};

use super::interpreter::{Interpreter, Leaf, Version};
use super::item::Item;
use super::{Check, Left};
use crate::sighash::{Message, TaprootExtra};

/// The largest number of keys of a CHECKMULTISIG (Core's `MAX_PUBKEYS_PER_MULTISIG`).
const MULTISIG_KEYS_MAX: i64 = 20;
/// The smallest and the largest size of a strict DER signature (BIP66) without its sighash type, in
/// bytes.
const DER_BYTES_MIN: usize = 8;
const DER_BYTES_MAX: usize = 72;
/// The weight that each signature takes from the budget of a leaf (BIP342's
/// `VALIDATION_WEIGHT_PER_SIGOP_PASSED`).
const SIGNATURE_WEIGHT: i64 = 50;

impl<'a> Interpreter<'_, 'a> {
    /// Executes an opcode of a branch that is taken. A signature that is not empty counts as valid.
    pub(super) fn signature_operation(
        &mut self,
        code: u8,
        script: &'a [u8],
        version: Version,
    ) -> Result<(), Left> {
        match code {
            OP_CHECKSIGADD => {
                let key = self.pop()?;
                let count = self.pop()?.number()?;
                let signature = self.pop()?;
                let valid = self.leaf_signature(signature, key)?;
                self.stack.push(Item::of_number(count + i64::from(valid)));
                return Ok(());
            }
            OP_CHECKSIG | OP_CHECKSIGVERIFY => {
                let key = self.pop()?;
                let signature = self.pop()?;
                let valid = match version {
                    Version::Tapscript => self.leaf_signature(signature, key)?,
                    _ => self.ecdsa(signature, key, script, version)?,
                };
                self.stack.push(Item::of_bool(valid));
            }
            _ => {
                let valid = self.multisig(script, version)?;
                self.stack.push(Item::of_bool(valid));
            }
        }
        if matches!(code, OP_CHECKSIGVERIFY | OP_CHECKMULTISIGVERIFY) {
            return self.verify();
        }
        Ok(())
    }

    /// Adds the check of a signature in a legacy or version 0 script. Returns false if it is empty.
    pub(super) fn ecdsa(
        &mut self,
        signature: Item<'a>,
        key: Item<'a>,
        script: &[u8],
        version: Version,
    ) -> Result<bool, Left> {
        if signature.bytes().is_empty() {
            return Ok(false);
        }
        let key = ecdsa_key(key)?;
        let (signature, message) = self.signed(signature, script, version)?;
        self.checks.push(Check::Ecdsa { key, signature, message });
        Ok(true)
    }

    /// Splits an ECDSA signature from its sighash type, and returns it with the message of that
    /// type.
    fn signed(
        &mut self,
        signature: Item<'a>,
        script: &[u8],
        version: Version,
    ) -> Result<(&'a [u8], Message), Left> {
        let whole = signature.found().ok_or(Left::Encoding)?;
        let (hash_type, signature) = whole.split_last().ok_or(Left::EmptySignature)?;
        // Core hashes no message for bytes that cannot be a signature.
        if !(DER_BYTES_MIN..=DER_BYTES_MAX).contains(&signature.len()) {
            return Err(Left::Encoding);
        }
        // Core deletes the push of the signature, in the shortest encoding, from the script that is
        // signed.
        if version == Version::Base && Ops::new(script).any(|op| op.data == whole) {
            return Err(Left::SignatureInScript);
        }
        let message = self.message(*hash_type, version, |run| {
            let Self { messages, input, preimages, .. } = run;
            match version {
                Version::V0 => Some(messages.v0(*input, script, *hash_type, preimages)),
                _ => messages.legacy(*input, script, *hash_type, preimages),
            }
        })?;
        Ok((signature, message))
    }

    fn multisig(&mut self, script: &[u8], version: Version) -> Result<bool, Left> {
        let key_count = self.pop()?.number()?;
        if !(0..=MULTISIG_KEYS_MAX).contains(&key_count) {
            return Err(Left::Limit);
        }
        self.count_operations(key_count as usize)?;
        let keys = self.pop_many(key_count as usize)?;
        let signature_count = self.pop()?.number()?;
        if !(0..=key_count).contains(&signature_count) {
            return Err(Left::Limit);
        }
        let signatures = self.pop_many(signature_count as usize)?;
        let dummy = self.pop()?;
        if self.flags & flags::NULLDUMMY != 0 && !dummy.bytes().is_empty() {
            return Err(Left::Limit);
        }
        let empty = signatures.iter().filter(|signature| signature.bytes().is_empty()).count();
        if empty > 0 {
            let all_are = empty == signatures.len();
            return if all_are { Ok(false) } else { Err(Left::EmptySignature) };
        }
        // No signature is valid for bytes that are not a key.
        let keys = keys.into_iter().map(|key| ecdsa_key(key).unwrap_or(&[])).collect();
        let signatures = signatures.iter().map(|item| self.signed(*item, script, version));
        let signatures = signatures.collect::<Result<Vec<_>, _>>()?;
        if !signatures.is_empty() {
            self.checks.push(Check::Multisig { keys, signatures });
        }
        Ok(true)
    }

    /// Pops the `count` elements at the top, and returns the lowest first.
    fn pop_many(&mut self, count: usize) -> Result<Vec<Item<'a>>, Left> {
        let from = self.stack.len().checked_sub(count).ok_or(Left::Limit)?;
        Ok(self.stack.drain(from..).collect())
    }

    /// Adds the check of a signature in a Taproot leaf. Returns false if it is empty (Core's
    /// `EvalChecksigTapscript`).
    fn leaf_signature(&mut self, signature: Item<'a>, key: Item<'a>) -> Result<bool, Left> {
        let is_signed = !signature.bytes().is_empty();
        if is_signed {
            self.leaf.weight_left -= SIGNATURE_WEIGHT;
            if self.leaf.weight_left < 0 {
                return Err(Left::Limit);
            }
        }
        match key.bytes().len() {
            0 => return Err(Left::Encoding),
            32 if is_signed => {
                let key = key.found().and_then(|key| key.try_into().ok()).ok_or(Left::Encoding)?;
                let signature = signature.found().ok_or(Left::Encoding)?;
                let Leaf { hash, annex, code_separator, .. } = self.leaf;
                self.schnorr(
                    signature,
                    key,
                    TaprootExtra { annex, leaf: Some(hash), code_separator },
                )?;
            }
            // No rule is known yet for keys of another length: each signature counts as valid.
            _ => {}
        }
        Ok(is_signed)
    }

    /// Adds the check of a BIP340 signature: 64 bytes, perhaps with a sighash type after them.
    pub(super) fn schnorr(
        &mut self,
        signature: &'a [u8],
        key: &'a [u8; 32],
        extra: TaprootExtra,
    ) -> Result<(), Left> {
        let (signature, rest) = signature.split_first_chunk::<64>().ok_or(Left::Encoding)?;
        let hash_type = match rest {
            [] => 0,
            [hash_type] if *hash_type != 0 => *hash_type,
            _ => return Err(Left::Encoding),
        };
        let message = self.message(hash_type, Version::Tapscript, |run| {
            run.messages.taproot(run.input, hash_type, extra, run.preimages)
        })?;
        self.checks.push(Check::Schnorr { key, signature, message });
        Ok(())
    }
}

/// Returns a key in an encoding that is supported here: compressed or uncompressed, and not a
/// computed result.
fn ecdsa_key(key: Item<'_>) -> Result<&[u8], Left> {
    let key = key.found().ok_or(Left::Encoding)?;
    match (key.first(), key.len()) {
        (Some(2 | 3), 33) | (Some(4), 65) => Ok(key),
        _ => Err(Left::Encoding),
    }
}
