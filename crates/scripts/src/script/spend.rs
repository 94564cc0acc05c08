//! Decides which scripts of a spend run (Core's `VerifyScript` and `VerifyWitnessProgram`).

use apus_hash::sha256;
use apus_wire::opcodes::*;
use apus_wire::{InputView, Op, Ops, ScriptFlags, compact_size_len, flags};

use super::interpreter::{ELEMENT_BYTES_MAX, Interpreter, Leaf, STACK_MAX, Version};
use super::item::Item;
use super::taproot::{Control, LEAF_TAPSCRIPT};
use super::{Check, Checks, Left};
use crate::sighash::{Preimages, TaprootExtra, TxSighash, annex_hash};

/// The first byte of an annex (BIP341).
const ANNEX_TAG: u8 = 0x50;
/// The weight that a leaf may spend on signatures in addition to that of its witness (BIP342's
/// `VALIDATION_WEIGHT_OFFSET`).
const WEIGHT_OFFSET: i64 = 50;

/// Returns whether scripts under these flags can be run here. Core gives all flags that this needs
/// to each block except the few that violated them.
pub fn flags_allow(flags: ScriptFlags) -> bool {
    const NEEDED: ScriptFlags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
    flags & NEEDED == NEEDED
}

/// Runs the scripts of the input at `input` as if each signature in them were valid. Appends what
/// must hold to `checks`, and what signatures sign to `preimages`. If all checks hold, the spend is
/// valid.
///
/// # Errors
/// The reason why the input is left to Core's engine. What was appended is meaningless then.
pub fn signature_checks<'a>(
    messages: &mut TxSighash<'a>,
    input: usize,
    flags: ScriptFlags,
    preimages: &mut Preimages,
    checks: &mut Checks<'a>,
) -> Result<(), Left> {
    if !flags_allow(flags) {
        return Err(Left::Flags);
    }
    let script = messages.prevouts()[input].script;
    let view = messages.tx().input(input);
    let mut run = Interpreter::new(messages, input, flags, preimages, checks);
    if let Some(program) = Program::of(script) {
        return if view.script_sig().is_empty() {
            run.program(program, &view)
        } else {
            Err(Left::Program)
        };
    }
    run.run(view.script_sig(), Version::Base)?;
    match Commitment::of(script) {
        Commitment::None => run.run(script, Version::Base)?,
        Commitment::Key(hash) => run.p2pkh(script, hash)?,
        Commitment::Redeem(hash) => {
            let redeem = run.redeem_script(view.script_sig(), hash)?;
            if let Some(program) = Program::of(redeem) {
                let sole_push = Some((&(redeem.len() as u8), redeem));
                return if view.script_sig().split_first() == sole_push {
                    run.program(program.in_p2sh(), &view)
                } else {
                    Err(Left::Program)
                };
            }
            run.run(redeem, Version::Base)?;
        }
    }
    run.verify()?;
    if view.witness().len() == 0 { Ok(()) } else { Err(Left::Program) }
}

/// A witness program (BIP141; Core's `IsWitnessProgram`).
#[derive(Clone, Copy)]
struct Program<'a> {
    version: u8,
    bytes: &'a [u8],
    /// Whether it is the redeem script of a P2SH output, where taproot has no meaning (BIP341).
    is_in_p2sh: bool,
}

impl<'a> Program<'a> {
    /// Returns the witness program, if the script is one.
    fn of(script: &'a [u8]) -> Option<Self> {
        let &[first, second, ref bytes @ ..] = script else { return None };
        let version = match first {
            OP_0 => 0,
            OP_1..=OP_16 => first - OP_1 + 1,
            _ => return None,
        };
        let fits = (2..=40).contains(&bytes.len()) && usize::from(second) == bytes.len();
        fits.then_some(Self { version, bytes, is_in_p2sh: false })
    }

    fn in_p2sh(self) -> Self {
        Self { is_in_p2sh: true, ..self }
    }
}

/// The hash that an output's script commits to.
enum Commitment<'a> {
    /// The hash of a key: the script is P2PKH.
    Key(&'a [u8; 20]),
    /// The hash of a redeem script (BIP16; Core's `IsPayToScriptHash`).
    Redeem(&'a [u8; 20]),
    /// No hash: the script is neither of these.
    None,
}

impl<'a> Commitment<'a> {
    fn of(script: &'a [u8]) -> Self {
        match script {
            [OP_DUP, OP_HASH160, 20, hash @ .., OP_EQUALVERIFY, OP_CHECKSIG] => {
                hash.try_into().map_or(Self::None, Self::Key)
            }
            [OP_HASH160, 20, hash @ .., OP_EQUAL] => {
                hash.try_into().map_or(Self::None, Self::Redeem)
            }
            _ => Self::None,
        }
    }
}

impl<'a> Interpreter<'_, 'a> {
    /// Pops the redeem script that a scriptSig has left on the stack, and adds the check of its
    /// hash.
    fn redeem_script(&mut self, script_sig: &[u8], hash: &'a [u8; 20]) -> Result<&'a [u8], Left> {
        // The output's script pushes the hash too.
        if self.stack.len() + 1 > STACK_MAX {
            return Err(Left::Limit);
        }
        let redeem = self.pop()?.found().ok_or(Left::Program)?;
        self.checks.push(Check::Hash160 { bytes: redeem, hash });
        if Ops::new(script_sig).all(|op| op.code <= OP_16) {
            Ok(redeem)
        } else {
            Err(Left::Program)
        }
    }

    /// Runs a witness program on the input's witness.
    fn program(&mut self, program: Program<'a>, input: &InputView<'a>) -> Result<(), Left> {
        // Run as a script, the program leaves its bytes on the stack, which must be true.
        if !Item::Found(program.bytes).is_true() {
            return Err(Left::False);
        }
        self.stack.clear();
        self.signed.clear();
        self.stack.extend(input.witness().map(Item::Found));
        match (program.version, program.bytes.len()) {
            (0, 20) => self.p2wpkh(program.bytes.try_into().map_err(|_| Left::Program)?),
            (0, 32) => self.script_hash(program.bytes),
            (0, _) => Err(Left::Program),
            (1, 32) if !program.is_in_p2sh => {
                self.taproot(program.bytes.try_into().map_err(|_| Left::Program)?, input)
            }
            // No rule is known yet, so any witness is valid, also an empty one.
            _ => Ok(()),
        }
    }

    /// Does what a P2PKH script does with the elements that the scriptSig has left.
    fn p2pkh(&mut self, script: &[u8], hash: &'a [u8; 20]) -> Result<(), Left> {
        // The script pushes the key and the hash too.
        if self.stack.len() + 2 > STACK_MAX {
            return Err(Left::Limit);
        }
        self.signed.clear();
        let key = self.pop()?;
        let signature = self.pop()?;
        let valid = self.by_key_hash(signature, key, hash, script, Version::Base)?;
        self.stack.push(Item::of_bool(valid));
        Ok(())
    }

    /// Adds the checks of a P2WPKH witness: a signature and a key with this hash.
    fn p2wpkh(&mut self, hash: &'a [u8; 20]) -> Result<(), Left> {
        let &[signature, key] = &self.stack[..] else { return Err(Left::Program) };
        self.elements_are_short()?;
        let mut script = [0; 25];
        script[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
        script[3..23].copy_from_slice(hash);
        script[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
        if self.by_key_hash(signature, key, hash, &script, Version::V0)? {
            Ok(())
        } else {
            Err(Left::False)
        }
    }

    /// Adds the checks of a key with this hash and of a signature by it. Returns false if the
    /// signature is empty.
    fn by_key_hash(
        &mut self,
        signature: Item<'a>,
        key: Item<'a>,
        hash: &'a [u8; 20],
        script: &[u8],
        version: Version,
    ) -> Result<bool, Left> {
        let bytes = key.found().ok_or(Left::Encoding)?;
        self.checks.push(Check::Hash160 { bytes, hash });
        self.ecdsa(signature, key, script, version)
    }

    /// Runs a P2WSH script, which must have this hash, on the witness elements below it.
    fn script_hash(&mut self, hash: &[u8]) -> Result<(), Left> {
        let script = self.witness_item()?;
        if sha256(script) != *hash {
            return Err(Left::False);
        }
        self.execute(script, Version::V0)
    }

    /// Checks a Taproot spend: a signature by the output's key, or a leaf that the key commits to.
    fn taproot(&mut self, output: &'a [u8; 32], input: &InputView<'a>) -> Result<(), Left> {
        let mut annex = None;
        if let [.., _, last] = &self.stack[..]
            && last.bytes().first() == Some(&ANNEX_TAG)
        {
            annex = Some(annex_hash(self.witness_item()?));
        }
        if let [signature] = &self.stack[..] {
            let signature = signature.found().ok_or(Left::Program)?;
            return self.schnorr(
                signature,
                output,
                TaprootExtra { annex, ..TaprootExtra::default() },
            );
        }
        let control = Control::parse(self.witness_item()?).ok_or(Left::Program)?;
        let script = self.witness_item()?;
        let hash = control.leaf_hash(script);
        self.checks.push(control.commitment(hash, output));
        // No rule is known yet for other leaf versions and for these opcodes, which make a leaf
        // valid even if they are not executed, but not if a push before them is cut short.
        if control.leaf_version() != LEAF_TAPSCRIPT || Ops::new(script).any(is_op_success) {
            return Ok(());
        }
        let weight_left = weight(input) + WEIGHT_OFFSET;
        self.leaf = Leaf { hash, annex, weight_left, code_separator: None };
        if self.stack.len() > STACK_MAX {
            return Err(Left::Limit);
        }
        self.execute(script, Version::Tapscript)
    }

    /// Runs a witness script, which must leave a single element that is true.
    fn execute(&mut self, script: &'a [u8], version: Version) -> Result<(), Left> {
        self.elements_are_short()?;
        self.run(script, version)?;
        match &self.stack[..] {
            [element] if element.is_true() => Ok(()),
            _ => Err(Left::False),
        }
    }

    /// Checks that witness elements are no longer than a script may push.
    fn elements_are_short(&self) -> Result<(), Left> {
        let is_short = |element: &Item| element.bytes().len() <= ELEMENT_BYTES_MAX;
        if self.stack.iter().all(is_short) { Ok(()) } else { Err(Left::Limit) }
    }

    /// Pops the witness element at the top.
    fn witness_item(&mut self) -> Result<&'a [u8], Left> {
        self.pop()?.found().ok_or(Left::Program)
    }
}

/// Returns whether an opcode makes each leaf valid that contains it (BIP342; Core's `IsOpSuccess`).
fn is_op_success(op: Op) -> bool {
    matches!(
        op.code,
        80 | 98 | 126..=129 | 131..=134 | 137 | 138 | 141 | 142 | 149..=153 | 187..=254
    )
}

/// Returns the size of an input's witness in bytes.
fn weight(input: &InputView) -> i64 {
    let item = |bytes: &[u8]| compact_size_len(bytes.len() as u64) + bytes.len();
    let witness = input.witness();
    let count = compact_size_len(witness.len() as u64);
    (count + witness.map(item).sum::<usize>()) as i64
}
