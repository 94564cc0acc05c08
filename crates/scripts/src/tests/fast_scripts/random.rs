//! Random scripts of the opcodes that are run here. Most of them end true, but only if each value
//! that they leave on the stack is the one that Core's engine computes.

use apus_testdata::Random;
use apus_wire::ScriptFlags;
use apus_wire::opcodes::*;

use super::build::{Asm, Input, Item, Spend, Wrap, bytes, public, push, with_type, x_only};
use super::{ALL, judge, rounds, soft_forks};
use crate::script::flags_allow;
use crate::script::tests::{Kind, stack_after};

/// Spends that are judged at once.
const BATCH: usize = 500;
/// The most steps of a script, most of which are one opcode each.
const STEPS_MAX: usize = 45;
/// The most elements that a script leaves before it compares them with what they should be.
const STACK_MAX: usize = 24;

/// Opcodes that need nothing but what is on the stack.
const OPERATIONS: [u8; 51] = [
    OP_NOP,
    OP_VERIFY,
    OP_TOALTSTACK,
    OP_FROMALTSTACK,
    OP_2DROP,
    OP_2DUP,
    OP_3DUP,
    OP_2OVER,
    OP_2ROT,
    OP_2SWAP,
    OP_IFDUP,
    OP_DEPTH,
    OP_DROP,
    OP_DUP,
    OP_NIP,
    OP_OVER,
    OP_PICK,
    OP_ROLL,
    OP_ROT,
    OP_SWAP,
    OP_TUCK,
    OP_SIZE,
    OP_EQUAL,
    OP_EQUALVERIFY,
    OP_1ADD,
    OP_1SUB,
    OP_NEGATE,
    OP_ABS,
    OP_NOT,
    OP_0NOTEQUAL,
    OP_ADD,
    OP_SUB,
    OP_BOOLAND,
    OP_BOOLOR,
    OP_NUMEQUAL,
    OP_NUMEQUALVERIFY,
    OP_NUMNOTEQUAL,
    OP_LESSTHAN,
    OP_GREATERTHAN,
    OP_LESSTHANOREQUAL,
    OP_GREATERTHANOREQUAL,
    OP_MIN,
    OP_MAX,
    OP_WITHIN,
    OP_RIPEMD160,
    OP_SHA1,
    OP_SHA256,
    OP_HASH160,
    OP_HASH256,
    OP_CHECKLOCKTIMEVERIFY,
    OP_CHECKSEQUENCEVERIFY,
];

/// A script that grows step by step, with its known state.
struct Growing<'r> {
    random: &'r mut Random,
    wrap: Wrap,
    script: Vec<u8>,
    /// The elements that the spend puts on the stack: signatures, and others above them.
    items: Vec<Item>,
    /// The same elements, with a placeholder for each signature.
    elements: Vec<Vec<u8>>,
    /// The number of signatures among them.
    signatures: usize,
    /// The keys of the signatures that are still on the stack, the lowest first.
    unused: Vec<u8>,
    /// For each branch that the script is in, whether it is taken.
    open: Vec<bool>,
    /// The stack after the script.
    stack: Vec<Vec<u8>>,
    /// Where the script may be split in two.
    splits: Vec<usize>,
}

impl<'r> Growing<'r> {
    fn new(random: &'r mut Random, wrap: Wrap) -> Self {
        let mut growing = Self {
            random,
            wrap,
            script: Vec::new(),
            items: Vec::new(),
            elements: Vec::new(),
            signatures: 0,
            unused: Vec::new(),
            open: Vec::new(),
            stack: Vec::new(),
            splits: Vec::new(),
        };
        growing.signatures = growing.random.one_of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        (0..growing.signatures).for_each(|index| growing.add_signature(index as u8));
        for _ in 0..growing.random.below(6) {
            let value = growing.value();
            growing.items.push(bytes(&value));
            growing.elements.push(value);
        }
        growing.stack = growing.elements.clone();
        growing
    }

    fn add_signature(&mut self, index: u8) {
        let key = self.random.below(40_u8);
        self.unused.push(key);
        if self.random.below(5) == 0 {
            self.items.push(bytes(&[]));
            self.elements.push(Vec::new());
            return;
        }
        let is_leaf = self.wrap == Wrap::Leaf;
        let types: &[u8] =
            if is_leaf { &[0, 1, 2, 3, 0x81, 0x82, 0x83] } else { &[1, 2, 3, 0x82, 9] };
        let hash_type = self.random.one_of(types);
        self.items.push(with_type(key, hash_type));
        // The last byte of a signature is its type, except in leaves.
        let len = if is_leaf && hash_type == 0 {
            64
        } else if is_leaf {
            65
        } else {
            71
        };
        let mut stand_in = vec![0xf0 + index; len];
        if len != 64 {
            stand_in[len - 1] = hash_type;
        }
        self.elements.push(stand_in);
    }

    fn kind(&self) -> Kind {
        match self.wrap {
            Wrap::Leaf => Kind::Tapscript,
            Wrap::P2wsh | Wrap::P2shP2wsh => Kind::V0,
            _ => Kind::Base,
        }
    }

    /// An element, mostly a small number.
    fn value(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0 => vec![],
            1 => vec![0x80],
            2 => self
                .random
                .one_of(&[&[0xff_u8, 0xff, 0xff, 0x7f][..], &[0xff; 4], &[0, 0x80]])
                .into(),
            3 => {
                let len = self.random.below(7_usize);
                self.random.bytes(len)
            }
            4 => {
                let len = self.random.below(90_usize);
                self.random.bytes(len)
            }
            5 => vec![1],
            _ => {
                let value = self.random.below(24_i64) - 6;
                let script = bitcoin::script::Builder::new().push_int(100 * value).into_bytes();
                let small = vec![value.unsigned_abs() as u8 | if value < 0 { 0x80 } else { 0 }];
                if self.random.below(6) == 0 && script.len() > 1 {
                    script[1..].to_vec()
                } else {
                    small
                }
            }
        }
    }

    fn pushed(&mut self) -> Vec<u8> {
        let value = self.value();
        match value[..] {
            [small @ 1..=16] if self.random.below(2) == 0 => vec![OP_1 + small - 1],
            [0x81] => vec![OP_1NEGATE],
            _ if self.random.below(20) == 0 => {
                [&[OP_PUSHDATA2][..], &(value.len() as u16).to_le_bytes(), &value].concat()
            }
            _ => push(&value),
        }
    }

    /// Returns a step that moves the lowest signature to the top and checks it, or several.
    fn check(&mut self) -> Vec<u8> {
        const RAISE: [u8; 3] = [OP_DEPTH, OP_1SUB, OP_ROLL];
        let is_leaf = self.wrap == Wrap::Leaf;
        let encoded = |key: &u8| if is_leaf { x_only(*key).to_vec() } else { public(*key) };
        let key = match self.random.below(60) {
            0 => 41,
            _ => self.unused[0],
        };
        let raised = Asm::new().ops(&RAISE);
        let code = self.random.one_of(&[OP_CHECKSIG, OP_CHECKSIG, OP_CHECKSIGVERIFY]);
        match self.random.below(3) {
            0 if is_leaf => {
                self.unused.remove(0);
                let count = self.random.below(30_i64) - 4;
                raised.number(count).push(&encoded(&key)).op(OP_CHECKSIGADD).0
            }
            0 => {
                let signers: Vec<u8> = std::mem::take(&mut self.unused);
                let asm = signers.iter().fold(Asm::new().op(OP_0), |asm, _| asm.ops(&RAISE));
                let mut keys = Vec::new();
                for signer in &signers {
                    if self.random.below(2) == 0 {
                        keys.push(public(self.random.below(50)));
                    }
                    keys.push(public(*signer));
                }
                asm.multisig(signers.len(), &keys).0
            }
            _ => {
                self.unused.remove(0);
                raised.push(&encoded(&key)).op(code).0
            }
        }
    }

    /// A next step, and the branches after it.
    fn proposed(&mut self) -> (Vec<u8>, Vec<bool>) {
        let mut open = self.open.clone();
        let is_taken = open.iter().all(|taken| *taken);
        let last = self.stack.last();
        let is_true = last.is_some_and(|last| last.iter().any(|byte| byte & 0x7f != 0));
        let step = match self.random.below(100) {
            0..22 => self.pushed(),
            choice @ 22..34 if open.len() < 4 => {
                let code = self.random.one_of(&[OP_IF, OP_NOTIF]);
                let mut step = vec![code];
                let mut condition = is_true;
                if choice < 29 {
                    condition = self.random.below(2) == 0;
                    step.insert(0, if condition { OP_1 } else { OP_0 });
                }
                open.push(is_taken && condition == (code == OP_IF));
                step
            }
            34..39 if !open.is_empty() => {
                let taken = open.pop().expect("not empty");
                open.push(!taken);
                vec![OP_ELSE]
            }
            39..47 if !open.is_empty() => {
                open.pop();
                vec![OP_ENDIF]
            }
            47..52 if is_taken && !self.unused.is_empty() => self.check(),
            52..54 => self.lock(),
            54 if !is_taken => {
                let is_leaf = self.wrap == Wrap::Leaf;
                let last = if is_leaf { OP_CHECKSIGADD } else { OP_CHECKMULTISIG };
                vec![self.random.one_of(&[OP_CHECKSIG, OP_CHECKSIGVERIFY, last])]
            }
            _ => vec![self.random.one_of(&OPERATIONS)],
        };
        (step, open)
    }

    fn lock(&mut self) -> Vec<u8> {
        let height = self.random.one_of(&[0, 1, 500, 649_999, 650_000, 650_000, 650_001]);
        let blocks =
            self.random.one_of(&[0, 1, 9, 10, 10, 11, 0x8000_0000, 0x1_0000_0003, 0x0080_0001]);
        match self.random.below(2) {
            0 => Asm::new().number(height).ops(&[OP_CHECKLOCKTIMEVERIFY, OP_DROP]).0,
            _ => Asm::new().number(blocks).ops(&[OP_CHECKSEQUENCEVERIFY, OP_DROP]).0,
        }
    }

    /// Returns the stack after the script and these bytes; `None` if the script cannot go on after
    /// them, or if a signature is anywhere but at the bottom of the stack.
    fn stack_after(&self, step: &[u8], open: usize) -> Option<Vec<Vec<u8>>> {
        let script = [&self.script[..], step, &vec![OP_ENDIF; open]].concat();
        let stack = stack_after(&script, &self.elements, self.kind())?;
        let used = self.signatures - self.unused.len();
        let lowest = &self.elements[used..self.signatures];
        let (low, high) = stack.split_at_checked(lowest.len())?;
        let copied = high.iter().any(|element| element.len() > 32 && lowest.contains(element));
        (low == lowest && !copied && high.len() <= STACK_MAX).then_some(stack)
    }

    /// Adds the proposed step, if it is possible.
    fn grow(&mut self) {
        let unused = self.unused.clone();
        let sole = self.stack.len() == self.unused.len();
        let (step, open) = self.proposed();
        // The size of a signature is not known yet.
        let is_bad = step == [OP_SIZE] && sole;
        let Some(stack) = (!is_bad).then(|| self.stack_after(&step, open.len())).flatten() else {
            self.unused = unused;
            return;
        };
        if self.unused == unused && open.is_empty() && self.unused.len() == self.signatures {
            self.splits.push(self.script.len());
        }
        self.script.extend(step);
        (self.stack, self.open) = (stack, open);
    }

    /// Ends all branches, and compares what is left on the stack.
    fn end(&mut self) {
        self.script.extend(vec![OP_ENDIF; self.open.len()]);
        for _ in 0..self.unused.len() {
            self.script.extend([OP_DEPTH, OP_1SUB, OP_ROLL, OP_DROP]);
            self.stack.remove(0);
        }
        for element in self.stack.iter().skip(1).rev() {
            self.script.extend([&push(element)[..], &[OP_EQUALVERIFY]].concat());
        }
        match self.stack.first() {
            Some(element) => self.script.extend([&push(element)[..], &[OP_EQUAL]].concat()),
            None => self.script.push(OP_1),
        }
    }

    /// Changes, cuts out or inserts some bytes.
    fn spoil(&mut self) {
        for _ in 0..=self.random.below(2) {
            let at = self.random.below(self.script.len());
            let code = self.random.one_of(&OPERATIONS);
            match self.random.below(6) {
                0 => self.script[at] ^= 1 << self.random.below(8),
                1 => drop(self.script.remove(at)),
                2 => self.script.insert(at, self.random.next() as u8),
                3 => self.script.insert(at, code),
                4 => self.script[at] = code,
                _ => self.script.truncate(at + 1),
            }
            if self.script.is_empty() {
                self.script.push(OP_1);
            }
        }
    }

    fn spend(self) -> Spend {
        let Self { random, wrap, script, items, splits, .. } = self;
        let split = if wrap == Wrap::Bare && random.below(4) == 0 { splits } else { vec![] };
        let split = if split.is_empty() { 0 } else { random.one_of(&split).min(script.len()) };
        let (first, last) = script.split_at(split);
        let mut spend = Spend::new(&[Input::new(wrap, last.to_vec(), items)]);
        let script_sig = spend.tx.input[0].script_sig.to_bytes();
        if split > 0 {
            spend = spend.script_sig([&script_sig[..], first].concat());
        }
        spend
    }
}

/// A random spend.
fn random_spend(random: &mut Random) -> Spend {
    let wraps =
        [Wrap::Bare, Wrap::Bare, Wrap::P2sh, Wrap::P2wsh, Wrap::P2wsh, Wrap::P2shP2wsh, Wrap::Leaf];
    let wrap = random.one_of(&wraps);
    let mut growing = Growing::new(random, wrap);
    for _ in 0..growing.random.below(STEPS_MAX) {
        growing.grow();
    }
    growing.end();
    if growing.random.below(4) == 0 {
        growing.spoil();
    }
    growing.spend()
}

/// The sets of flags under which scripts are run here.
fn flag_sets() -> Vec<ScriptFlags> {
    soft_forks::all().into_iter().filter(|flags| flags_allow(*flags)).collect()
}

#[test]
fn random_scripts() {
    let sets = flag_sets();
    let mut all = 0;
    let mut fast = 0;
    let mut engine = 0;
    for seed in 0..rounds(8) as u64 {
        let mut random = Random(seed << 32);
        let spends: Vec<Spend> = (0..BATCH).map(|_| random_spend(&mut random)).collect();
        let flags = if seed % 2 == 0 { ALL } else { random.one_of(&sets) };
        for judged in judge(&spends, flags) {
            all += 1;
            fast += usize::from(judged.is_fast());
            engine += usize::from(judged.engine);
        }
    }
    println!("{all} random scripts, {fast} valid by the fast engine, {engine} by the engine");
    assert!(fast * 10 > all * 4, "{fast} of {all} are valid");
    assert!(fast * 100 > engine * 80, "{fast} of {engine} are decided by the fast engine");
    assert!(engine < all, "all are valid");
}
