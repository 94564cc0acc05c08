//! Bitcoin Core's vectors: the engine must agree with them on valid and invalid spends, and the
//! fast engine may accept nothing more.

use apus_testdata::{from_hex, vectors};
use apus_wire::{ScriptFlags, flags};
use bitcoin::consensus::deserialize;
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use serde_json::Value;

use super::build::{Input, Spend, Wrap, push};
use super::{ALL, Judged, judge, soft_forks};

/// The names of opcodes from 0x61 on, as in Core's vectors.
const NAMES: &str = "NOP VER IF NOTIF VERIF VERNOTIF ELSE ENDIF VERIFY RETURN TOALTSTACK \
    FROMALTSTACK 2DROP 2DUP 3DUP 2OVER 2ROT 2SWAP IFDUP DEPTH DROP DUP NIP OVER PICK ROLL ROT \
    SWAP TUCK CAT SUBSTR LEFT RIGHT SIZE INVERT AND OR XOR EQUAL EQUALVERIFY RESERVED1 \
    RESERVED2 1ADD 1SUB 2MUL 2DIV NEGATE ABS NOT 0NOTEQUAL ADD SUB MUL DIV MOD LSHIFT RSHIFT \
    BOOLAND BOOLOR NUMEQUAL NUMEQUALVERIFY NUMNOTEQUAL LESSTHAN GREATERTHAN LESSTHANOREQUAL \
    GREATERTHANOREQUAL MIN MAX WITHIN RIPEMD160 SHA1 SHA256 HASH160 HASH256 CODESEPARATOR \
    CHECKSIG CHECKSIGVERIFY CHECKMULTISIG CHECKMULTISIGVERIFY NOP1 CHECKLOCKTIMEVERIFY \
    CHECKSEQUENCEVERIFY NOP4 NOP5 NOP6 NOP7 NOP8 NOP9 NOP10 CHECKSIGADD";

/// The verdicts on a file of vectors.
#[derive(Default, Debug)]
struct Counts {
    /// Vectors that are run as they are.
    run: usize,
    /// Vectors with flags that are not part of consensus, and so not of the engine. They are run
    /// with the other flags.
    policy: usize,
    /// Inputs of all of these, under each set of flags tried.
    inputs: usize,
    engine: usize,
    fast: usize,
}

impl Counts {
    /// Judges a spend under all flags and under these, and returns the verdicts under these.
    fn judge(&mut self, spend: &Spend, flags: ScriptFlags) -> Vec<Judged> {
        let mut last = Vec::new();
        for flags in [ALL, flags] {
            last = judge(std::slice::from_ref(spend), flags);
            self.inputs += last.len();
            self.engine += last.iter().filter(|judged| judged.engine).count();
            self.fast += last.iter().filter(|judged| judged.is_fast()).count();
        }
        last
    }
}

/// Parses a script in the notation of Core's vectors (`ParseScript`).
fn parse(text: &str) -> Vec<u8> {
    let mut script = Vec::new();
    for word in text.split_ascii_whitespace() {
        if let Ok(number) = word.parse::<i64>() {
            script.extend(bitcoin::script::Builder::new().push_int(number).into_bytes());
        } else if let Some(digits) = word.strip_prefix("0x") {
            script.extend(from_hex(digits));
        } else if let Some(text) = word.strip_prefix('\'') {
            script.extend(push(text.strip_suffix('\'').expect("a closing quote").as_bytes()));
        } else {
            let name = word.strip_prefix("OP_").unwrap_or(word);
            let index = NAMES.split_ascii_whitespace().position(|known| known == name);
            let code = if name == "RESERVED" { Some(0x50) } else { index.map(|i| 0x61 + i as u8) };
            script.push(code.unwrap_or_else(|| panic!("an opcode: {word}")));
        }
    }
    script
}

/// Parses flags, and returns those of consensus and whether there are no others.
fn parse_flags(text: &str) -> (ScriptFlags, bool) {
    let mut found = 0;
    let mut only = true;
    for name in text.split(',') {
        found |= match name {
            "P2SH" => flags::P2SH,
            "DERSIG" => flags::DERSIG,
            "NULLDUMMY" => flags::NULLDUMMY,
            "CHECKLOCKTIMEVERIFY" => flags::CHECKLOCKTIMEVERIFY,
            "CHECKSEQUENCEVERIFY" => flags::CHECKSEQUENCEVERIFY,
            "WITNESS" => flags::WITNESS,
            "TAPROOT" => flags::TAPROOT,
            "" | "NONE" => 0,
            _ => {
                only = false;
                0
            }
        };
    }
    (found, only)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

/// Converts a number of bitcoins to satoshis.
fn satoshis(value: &Value) -> Amount {
    Amount::from_sat((value.as_f64().expect("an amount") * 1e8).round() as u64)
}

/// The spend of a script test, as Core's `BuildCreditingTransaction` and
/// `BuildSpendingTransaction` make it.
fn script_test(witness: &[Value], script_sig: &str, script_pubkey: &str) -> Spend {
    let (items, amount) = match witness.split_last() {
        Some((amount, items)) => (items, satoshis(amount)),
        None => (&[][..], Amount::ZERO),
    };
    let leaf = items.iter().find_map(|item| text(item).strip_prefix("#SCRIPT#")).map(parse);
    let leaf = leaf.map(|script| {
        let spend = Spend::new(&[Input::new(Wrap::Leaf, script, vec![])]);
        (spend.items(), spend.spent[0].script_pubkey.to_hex_string()[4..].to_owned())
    });
    let (revealed, key) = leaf.unwrap_or_default();
    let items = items.iter().map(|item| match text(item) {
        "#CONTROLBLOCK#" => revealed[1].clone(),
        item if item.starts_with("#SCRIPT#") => revealed[0].clone(),
        item => from_hex(item),
    });
    let script = script_pubkey.replace("#TAPROOTOUTPUT#", &format!("0x{key}"));
    let input = |outpoint, script_sig, witness| TxIn {
        previous_output: outpoint,
        script_sig: ScriptBuf::from(script_sig),
        sequence: Sequence::MAX,
        witness,
    };
    let tx = |input, script_pubkey| Transaction {
        version: Version::ONE,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![input],
        output: vec![TxOut { value: amount, script_pubkey }],
    };
    let first = input(OutPoint::null(), vec![0, 0], Witness::new());
    let credit = tx(first, ScriptBuf::from(parse(&script)));
    let witness = Witness::from_slice(&items.collect::<Vec<Vec<u8>>>());
    let outpoint = OutPoint { txid: credit.compute_txid(), vout: 0 };
    let spending = input(outpoint, parse(script_sig), witness);
    Spend { tx: tx(spending, ScriptBuf::new()), spent: credit.output }
}

#[test]
fn script_tests_of_core() {
    let mut counts = Counts::default();
    for vector in vectors("script_tests.json").as_array().expect("a list") {
        let mut rest = vector.as_array().expect("a list").as_slice();
        let witness = match rest {
            [Value::Array(witness), others @ ..] => {
                rest = others;
                witness.as_slice()
            }
            _ => &[],
        };
        let [script_sig, script_pubkey, flags, expected, ..] = rest else { continue };
        let spend = script_test(witness, text(script_sig), text(script_pubkey));
        let (flags, is_consensus) = parse_flags(text(flags));
        let judged = counts.judge(&spend, flags)[0];
        let is_ok = text(expected) == "OK";
        // What policy does not forbid, consensus does not forbid either.
        assert!(judged.engine || !is_ok, "{vector}");
        if is_consensus {
            assert_eq!(judged.engine, is_ok, "{vector}");
        }
        *(if is_consensus { &mut counts.run } else { &mut counts.policy }) += 1;
    }
    println!("script_tests: {counts:?}");
    assert_eq!((counts.run, counts.policy), (240, 982));
    assert!(counts.fast > 500, "{counts:?}");
}

/// The spend of a vector of tx_valid or tx_invalid.
fn tx_test(prevouts: &Value, tx: &Value) -> Option<Spend> {
    let tx: Transaction = deserialize(&from_hex(text(tx))).ok()?;
    let known = prevouts.as_array().expect("a list").iter().map(|prevout| {
        let txid: Txid = text(&prevout[0]).parse().expect("a txid");
        let vout = prevout[1].as_i64().expect("a number") as u32;
        let amount = prevout.get(3).map_or(0, |amount| amount.as_u64().expect("satoshis"));
        let script_pubkey = ScriptBuf::from(parse(text(&prevout[2])));
        let output = TxOut { value: Amount::from_sat(amount), script_pubkey };
        (OutPoint { txid, vout }, output)
    });
    let known: std::collections::HashMap<OutPoint, TxOut> = known.collect();
    let spent = tx.input.iter().map(|input| known.get(&input.previous_output).cloned());
    let spent: Vec<TxOut> = spent.collect::<Option<_>>()?;
    (!spent.is_empty()).then_some(Spend { tx, spent })
}

#[test]
fn valid_transactions_of_core() {
    let mut counts = Counts::default();
    for vector in vectors("tx_valid.json").as_array().expect("a list") {
        let [prevouts, tx, excluded] = &vector.as_array().expect("a list")[..] else { continue };
        let spend = tx_test(prevouts, tx).expect("prevouts for all inputs");
        let (excluded, is_consensus) = parse_flags(text(excluded));
        let judged = counts.judge(&spend, allowed(ALL & !excluded));
        assert!(judged.iter().all(|judged| judged.engine), "{vector}");
        *(if is_consensus { &mut counts.run } else { &mut counts.policy }) += 1;
    }
    println!("tx_valid: {counts:?}");
    assert_eq!((counts.run, counts.policy), (66, 55));
    assert!(counts.fast > 250, "{counts:?}");
}

/// Drops WITNESS and TAPROOT without P2SH, and TAPROOT without WITNESS.
fn allowed(flags: ScriptFlags) -> ScriptFlags {
    match flags {
        flags if flags & flags::P2SH == 0 => flags & !(flags::WITNESS | flags::TAPROOT),
        flags if flags & flags::WITNESS == 0 => flags & !flags::TAPROOT,
        flags => flags,
    }
}

#[test]
fn invalid_transactions_of_core() {
    let mut counts = Counts::default();
    let mut others = 0;
    for vector in vectors("tx_invalid.json").as_array().expect("a list") {
        let [prevouts, tx, flags] = &vector.as_array().expect("a list")[..] else { continue };
        let (flags, is_consensus) = parse_flags(text(flags));
        // Some transactions break other rules than those for scripts.
        let Some(spend) = (text(&vector[2]) != "BADTX").then(|| tx_test(prevouts, tx)).flatten()
        else {
            others += 1;
            continue;
        };
        let judged = counts.judge(&spend, flags);
        if is_consensus {
            assert!(!judged.iter().all(|judged| judged.engine), "{vector}");
        }
        *(if is_consensus { &mut counts.run } else { &mut counts.policy }) += 1;
    }
    println!("tx_invalid: {counts:?}, {others} without scripts");
    assert_eq!((counts.run, counts.policy, others), (70, 14, 9));
}

/// The spends of a vector of script_assets: the one that succeeds, and the one that fails.
fn asset(vector: &Value) -> [Option<Spend>; 2] {
    let tx: Transaction = deserialize(&from_hex(text(&vector["tx"]))).expect("a transaction");
    let prevouts = vector["prevouts"].as_array().expect("a list").iter();
    let spent = prevouts.map(|spent| deserialize(&from_hex(text(spent))).expect("an output"));
    let spent: Vec<TxOut> = spent.collect();
    let index = vector["index"].as_u64().expect("a number") as usize;
    ["success", "failure"].map(|outcome| {
        let outcome = vector.get(outcome)?;
        let items = outcome["witness"].as_array().expect("a list").iter();
        let items: Vec<Vec<u8>> = items.map(|item| from_hex(text(item))).collect();
        let mut tx = tx.clone();
        tx.input[index].script_sig = ScriptBuf::from(from_hex(text(&outcome["scriptSig"])));
        tx.input[index].witness = Witness::from_slice(&items);
        Some(Spend { tx, spent: spent.clone() })
    })
}

/// The vectors that Core's functional test of Taproot generated.
#[test]
fn script_assets_of_core() {
    // All vectors, if the file that this sample was taken from is given.
    let all = std::env::var_os("APUS_SCRIPT_ASSETS").map(|path| {
        let text = std::fs::read(path).expect("the file that APUS_SCRIPT_ASSETS names");
        serde_json::from_slice::<Value>(&text).expect("JSON")
    });
    let few = all.is_none();
    let all = all.unwrap_or_else(|| vectors("script_assets_few.json"));
    let mut counts = Counts::default();
    let sets = soft_forks::all();
    for vector in all.as_array().expect("a list") {
        let (test_flags, _) = parse_flags(text(&vector["flags"]));
        let index = vector["index"].as_u64().expect("a number") as usize;
        let is_final = vector.get("final").is_some_and(|is_final| *is_final == true);
        let [success, failure] = asset(vector);
        for flags in sets.iter().copied().chain([test_flags]) {
            if let Some(spend) = &success {
                let judged = judge(std::slice::from_ref(spend), flags)[index];
                if flags & test_flags == flags || is_final {
                    assert!(judged.engine, "{flags:#x}: {}", vector["comment"]);
                }
                counts.inputs += 1;
                counts.engine += usize::from(judged.engine);
                counts.fast += usize::from(judged.is_fast());
            }
            if let Some(spend) = &failure {
                let judged = judge(std::slice::from_ref(spend), flags)[index];
                if flags & test_flags == test_flags {
                    assert!(!judged.engine, "{flags:#x}: {}", vector["comment"]);
                }
                counts.inputs += 1;
                counts.engine += usize::from(judged.engine);
                counts.fast += usize::from(judged.is_fast());
            }
        }
        counts.run += 1;
    }
    println!("script_assets: {counts:?}");
    assert!(!few || counts.run == 148, "{counts:?}");
    assert!(counts.fast > counts.run, "{counts:?}");
}
