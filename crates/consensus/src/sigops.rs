use apus_wire::opcodes::*;
use apus_wire::{InputView, Op, Ops, ScriptFlags, TxView, flags};

/// How many signature operations a CHECKMULTISIG counts as if its number of keys is unknown (Core's
/// `MAX_PUBKEYS_PER_MULTISIG`).
const MULTISIG_KEYS_MAX: u32 = 20;

/// BIP141's `WITNESS_SCALE_FACTOR`.
pub(super) const WITNESS_SCALE: u32 = 4;

/// How many signature operations a CHECKMULTISIG counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MultisigCount {
    /// [`MULTISIG_KEYS_MAX`], as in legacy scripts.
    Maximum,
    /// The number of keys, if the opcode before it pushes that number, as in P2SH and witness
    /// scripts.
    Announced,
}

/// Returns the number of signature operations in a transaction's scriptSigs and scriptPubKeys,
/// where a CHECKMULTISIG counts as 20 (Core's `GetLegacySigOpCount`).
pub fn legacy_sigops(tx: &TxView) -> u32 {
    let inputs: u32 = tx.inputs().map(|input| script_sig_sigops(input.script_sig())).sum();
    let outputs: u32 = tx.outputs().map(|output| output_sigops(output.script())).sum();
    inputs + outputs
}

/// Returns the [`script_sigops`] of a scriptSig, with a shortcut for most of them: an empty one, or
/// one or two pushes.
#[inline]
fn script_sig_sigops(script: &[u8]) -> u32 {
    let Some(&first) = script.first() else { return 0 };
    let end = 1 + usize::from(first);
    if first < OP_PUSHDATA1 {
        let pushed_twice = match script.get(end) {
            Some(&second) => second < OP_PUSHDATA1 && end + 1 + usize::from(second) == script.len(),
            None => end == script.len(),
        };
        if pushed_twice {
            return 0;
        }
    }
    script_sigops(script, MultisigCount::Maximum)
}

/// Returns the [`script_sigops`] of an output's script, with a shortcut for the usual forms. The
/// processor cannot predict which form comes next, so the script is compared with all of them in a
/// single branch.
#[inline]
fn output_sigops(script: &[u8]) -> u32 {
    let (&[first, second, third, ..], &[.., before_last, last]) = (script, script) else {
        return script_sigops(script, MultisigCount::Maximum);
    };
    let len = script.len();
    let one_push = (second < OP_PUSHDATA1) & (usize::from(second) + 2 == len);
    // A witness program or OP_RETURN.
    let data = one_push & ((first == 0) | (first == OP_RETURN) | (OP_1..=OP_16).contains(&first));
    let p2sh = (len == 23) & (first == OP_HASH160) & (second == 20) & (last == OP_EQUAL);
    let p2pkh = (len == 25)
        & ([first, second, third] == [OP_DUP, OP_HASH160, 20])
        & ([before_last, last] == [OP_EQUALVERIFY, OP_CHECKSIG]);
    if data | p2sh | p2pkh {
        u32::from(p2pkh)
    } else {
        script_sigops(script, MultisigCount::Maximum)
    }
}

/// Returns the cost of the signature operations in an input's P2SH and witness scripts, which is
/// added to the legacy operations of its transaction (Core's `GetP2SHSigOpCount` and
/// `CountWitnessSigOps`). The unit is BIP141's, in which a legacy operation costs 4.
pub fn input_sigop_cost(input: &InputView, prevout_script: &[u8], flags: ScriptFlags) -> u32 {
    match SpentAs::by(prevout_script) {
        SpentAs::Script => 0,
        SpentAs::P2sh => p2sh_cost(input, flags),
        SpentAs::WitnessKeyHash => witness_key_hash_cost(flags),
        SpentAs::WitnessScriptHash => witness_script_hash_cost(input, flags),
    }
}

/// How an output is spent, as far as signature operations are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpentAs {
    /// By a scriptSig alone, or by a witness whose operations are not counted.
    Script,
    /// By a script in the scriptSig, perhaps with a witness (BIP16).
    P2sh,
    /// By a key in the witness (BIP141).
    WitnessKeyHash,
    /// By a script in the witness (BIP141).
    WitnessScriptHash,
}

impl SpentAs {
    /// Returns how an output with this script is spent.
    #[inline]
    pub fn by(script: &[u8]) -> Self {
        match witness_program(script) {
            Some(program) => program.spent_as(),
            None if is_p2sh(script) => Self::P2sh,
            None => Self::Script,
        }
    }
}

/// The possible results of [`input_sigop_cost`] for an input whose coin is not known yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SigopCosts {
    /// The cost if the coin is [`SpentAs::P2sh`].
    pub p2sh: u32,
    /// The cost if the coin is [`SpentAs::WitnessScriptHash`].
    pub witness_script_hash: u32,
}

impl SigopCosts {
    /// Computes the costs of an input in a block with these flags.
    pub fn of(input: &InputView, flags: ScriptFlags) -> Self {
        let p2sh = p2sh_cost(input, flags);
        let witness = witness_script_hash_cost(input, flags);
        Self { p2sh, witness_script_hash: witness }
    }

    /// Computes only the cost for a coin that is spent this way; the other one is 0.
    #[inline]
    pub fn of_spent_as(input: &InputView, spent_as: SpentAs, flags: ScriptFlags) -> Self {
        match spent_as {
            SpentAs::Script | SpentAs::WitnessKeyHash => Self::default(),
            SpentAs::P2sh => Self { p2sh: p2sh_cost(input, flags), ..Self::default() },
            SpentAs::WitnessScriptHash => {
                let witness_script_hash = witness_script_hash_cost(input, flags);
                Self { witness_script_hash, ..Self::default() }
            }
        }
    }

    /// Returns the cost of the input in a block with these flags, once it is known how its coin is
    /// spent.
    #[inline]
    pub fn cost(&self, spent_as: SpentAs, flags: ScriptFlags) -> u32 {
        match spent_as {
            SpentAs::Script => 0,
            SpentAs::P2sh => self.p2sh,
            SpentAs::WitnessKeyHash => witness_key_hash_cost(flags),
            SpentAs::WitnessScriptHash => self.witness_script_hash,
        }
    }
}

/// Returns the cost of an input that spends a P2SH output.
fn p2sh_cost(input: &InputView, flags: ScriptFlags) -> u32 {
    let Some(redeem_script) = last_push(input.script_sig()) else { return 0 };
    let legacy = match flags & flags::P2SH {
        0 => 0,
        _ => WITNESS_SCALE * script_sigops(redeem_script, MultisigCount::Announced),
    };
    let witness = match witness_program(redeem_script).map(|program| program.spent_as()) {
        Some(SpentAs::WitnessKeyHash) => witness_key_hash_cost(flags),
        Some(SpentAs::WitnessScriptHash) => witness_script_hash_cost(input, flags),
        _ => 0,
    };
    legacy + witness
}

/// Returns the cost of an input that spends a P2WPKH output (Core's `WitnessSigOps`).
fn witness_key_hash_cost(flags: ScriptFlags) -> u32 {
    u32::from(flags & flags::WITNESS != 0)
}

/// Returns the cost of an input that spends a P2WSH output (Core's `WitnessSigOps`).
fn witness_script_hash_cost(input: &InputView, flags: ScriptFlags) -> u32 {
    if flags & flags::WITNESS == 0 {
        return 0;
    }
    let script = input.witness().last();
    script.map_or(0, |script| script_sigops(script, MultisigCount::Announced))
}

/// Returns the number of signature operations in a script (Core's `CScript::GetSigOpCount`).
fn script_sigops(script: &[u8], multisig: MultisigCount) -> u32 {
    let mut count = 0;
    let mut last = 0xff;
    for Op { code, .. } in Ops::new(script) {
        match code {
            OP_CHECKSIG | OP_CHECKSIGVERIFY => count += 1,
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => {
                count += match last {
                    OP_1..=OP_16 if multisig == MultisigCount::Announced => {
                        u32::from(last - OP_1 + 1)
                    }
                    _ => MULTISIG_KEYS_MAX,
                };
            }
            _ => {}
        }
        last = code;
    }
    count
}

/// Returns the bytes that the last opcode of a scriptSig pushes, empty for an empty script; `None`
/// for a script that does more than push.
fn last_push(script: &[u8]) -> Option<&[u8]> {
    let mut ops = Ops::new(script);
    let mut last: &[u8] = &[];
    for op in &mut ops {
        if op.code > OP_16 {
            return None;
        }
        last = op.data;
    }
    (!ops.truncated).then_some(last)
}

fn is_p2sh(script: &[u8]) -> bool {
    script.len() == 23 && script[0] == OP_HASH160 && script[1] == 20 && script[22] == OP_EQUAL
}

/// The script of an output that is spent by a witness (BIP141).
#[derive(Clone, Copy)]
struct WitnessProgram<'a> {
    version: u8,
    /// The 2 to 40 bytes after the version.
    program: &'a [u8],
}

impl WitnessProgram<'_> {
    fn spent_as(self) -> SpentAs {
        match (self.version, self.program.len()) {
            (0, 20) => SpentAs::WitnessKeyHash,
            (0, 32) => SpentAs::WitnessScriptHash,
            _ => SpentAs::Script,
        }
    }
}

/// Returns the witness program, if the script is one (Core's `IsWitnessProgram`).
fn witness_program(script: &[u8]) -> Option<WitnessProgram<'_>> {
    if !(4..=42).contains(&script.len()) || usize::from(script[1]) + 2 != script.len() {
        return None;
    }
    let version = match script[0] {
        0 => 0,
        opcode @ OP_1..=OP_16 => opcode - OP_1 + 1,
        _ => return None,
    };
    Some(WitnessProgram { version, program: &script[2..] })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that matter in scripts: lengths of pushes, opcodes of the usual forms and of signature
    /// operations.
    fn byte() -> impl Strategy<Value = u8> {
        let known = vec![0, 1, 20, 32, 33, 72, 75, 76, 77, 0x51, 0x60, 0x6a, 0x76, 0x87, 0x88];
        prop_oneof![
            prop::sample::select(known),
            prop::sample::select(vec![OP_HASH160, OP_CHECKSIG, OP_CHECKMULTISIG]),
            any::<u8>(),
        ]
    }

    /// A script of one of the usual forms with up to two bytes changed and up to two added or
    /// removed.
    fn script() -> impl Strategy<Value = Vec<u8>> {
        let forms = vec![
            [&[OP_DUP, OP_HASH160, 20][..], &[0xac; 20], &[OP_EQUALVERIFY, OP_CHECKSIG]].concat(),
            [&[OP_HASH160, 20][..], &[0xac; 20], &[OP_EQUAL]].concat(),
            [&[0, 20][..], &[0xac; 20]].concat(),
            [&[OP_1, 32][..], &[0xac; 32]].concat(),
            [&[OP_RETURN, 75][..], &[0xac; 75]].concat(),
            [&[72][..], &[0xac; 72], &[33], &[0xae; 33]].concat(),
            [&[22][..], &[0xac; 22]].concat(),
            vec![OP_CHECKSIG],
            vec![],
        ];
        let changes = prop::collection::vec((0..10usize, byte()), 0..3);
        (prop::sample::select(forms), changes, -2..3isize, byte()).prop_map(
            |(mut script, changes, longer, byte)| {
                let len = script.len();
                for (place, byte) in changes.into_iter().filter(|_| len > 0) {
                    // Changes near the ends, where the forms differ.
                    let back = len - 1 - place / 2 % len;
                    script[if place % 2 == 0 { place / 2 % len } else { back }] = byte;
                }
                script.resize(script.len().saturating_add_signed(longer), byte);
                script
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_short_ways_count_the_same(script in prop_oneof![
            4 => script(),
            1 => prop::collection::vec(byte(), 0..60),
        ]) {
            let expected = script_sigops(&script, MultisigCount::Maximum);
            prop_assert_eq!(output_sigops(&script), expected);
            prop_assert_eq!(script_sig_sigops(&script), expected);
        }
    }
}
