//! Which scripts of a descriptor Bitcoin Core calls sane (its `IsSane`).

use std::collections::HashSet;

use bitcoin::PublicKey;
use bitcoin::secp256k1::{Secp256k1, VerifyOnly};
use miniscript::descriptor::{DescriptorPublicKey, ShInner, Wsh, WshInner};
use miniscript::miniscript::decode::Terminal;
use miniscript::policy::{Liftable, Semantic as Policy};
use miniscript::{Descriptor, ExtParams, Miniscript, MiniscriptKey, ScriptContext};

use super::error::DescriptorError;

type Curve = Secp256k1<VerifyOnly>;

/// Checks that each script inside an output needs a signature, can be satisfied, is not malleable,
/// mixes no kinds of time locks and repeats no keys.
pub fn check_sane(
    output: &Descriptor<DescriptorPublicKey>,
    curve: &Curve,
) -> Result<(), DescriptorError> {
    match output {
        Descriptor::Wsh(wsh) => check_wsh(wsh, curve),
        Descriptor::Sh(sh) => match sh.as_inner() {
            ShInner::Wsh(wsh) => check_wsh(wsh, curve),
            _ => Ok(()),
        },
        Descriptor::Tr(tr) => tr.leaves().try_for_each(|leaf| check(leaf.miniscript(), curve)),
        _ => Ok(()),
    }
}

fn check_wsh(wsh: &Wsh<DescriptorPublicKey>, curve: &Curve) -> Result<(), DescriptorError> {
    match wsh.as_inner() {
        WshInner::Ms(script) => check(script, curve),
        WshInner::SortedMulti(_) => Ok(()),
    }
}

fn check<Context: ScriptContext>(
    script: &Miniscript<DescriptorPublicKey, Context>,
    curve: &Curve,
) -> Result<(), DescriptorError> {
    let refused = |why: &str| Err(DescriptorError::Invalid(format!("{script} is {why}")));
    if script.iter_pk().any(|key| key.is_uncompressed()) {
        return refused("not valid: Uncompressed keys are not allowed");
    }
    if let Err(error) = script.ext_check(&ExtParams::sane().repeated_pk()) {
        return refused(&format!("not sane: {error}"));
    }
    // The sizes of satisfactions do not tell, where some keys of `thresh` are enough.
    if script.lift().is_ok_and(|policy| policy.normalized() == Policy::Unsatisfiable) {
        return refused("not satisfiable");
    }
    // They are functions of Core by themselves, which may repeat keys.
    let is_multi = matches!(script.as_inner(), Terminal::Multi(_) | Terminal::MultiA(_));
    let mut seen = HashSet::new();
    if !is_multi && !script.iter_pk().all(|key| seen.insert(first(&key, curve))) {
        return refused("not sane: contains duplicate public keys");
    }
    Ok(())
}

/// Returns the first key that an expression stands for. Core compares keys by it, without
/// their origins; all that need a private key are the same to it.
fn first(key: &DescriptorPublicKey, curve: &Curve) -> Option<PublicKey> {
    Some(key.clone().at_derivation_index(0).ok()?.derive_public_key(curve))
}

#[cfg(test)]
mod tests {
    use apus_wire::Chain;

    use crate::Descriptor;

    /// Words, and what they stand for.
    const KEYS: [(&str, &str); 7] = [
        (
            "XPUB",
            "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLo\
                  P2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V",
        ),
        ("ORIGIN", "[d34db33f/84h]"),
        (
            "LONG",
            "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798\
             483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
        ),
        ("ODD", "0379be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
        ("EVEN", "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
        ("SHORT", "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
        ("OTHER", "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"),
    ];

    fn is_taken(text: &str) -> bool {
        let text = KEYS.iter().fold(text.to_string(), |text, (word, key)| text.replace(word, key));
        Descriptor::parse(&text, Chain::Main).is_ok()
    }

    #[test]
    fn keys_are_compared_as_core_compares_them() {
        for taken in [
            "wsh(and_v(v:pk(EVEN),pk(OTHER)))",
            "wsh(and_v(v:pk(EVEN),pk(ODD)))",
            "tr(EVEN,and_v(v:pk(SHORT),pk(OTHER)))",
            "tr(EVEN,{pk(SHORT),pk(SHORT)})",
            "wsh(multi(1,EVEN,EVEN))",
            "tr(EVEN,multi_a(1,SHORT,SHORT))",
            "tr(OTHER,{sortedmulti_a(2,ORIGINEVEN,EVEN),multi_a(1,SHORT,SHORT)})",
            // The same key by the second path alone.
            "wsh(and_v(v:pk(XPUB/<0;1>/*),pk(XPUB/<2;1>/*)))",
            "wsh(and_v(v:pk(XPUB/0h/*),pk(EVEN)))",
            "tr(EVEN,thresh(1,0,s:pk(SHORT)))",
        ] {
            assert!(is_taken(taken), "{taken}");
        }
        for refused in [
            "wsh(and_v(v:pk(EVEN),pk(EVEN)))",
            "wsh(and_v(v:pkh(ORIGINEVEN),pk(EVEN)))",
            "sh(wsh(and_v(v:pk(EVEN),multi(1,OTHER,ORIGINEVEN))))",
            "tr(OTHER,and_v(v:pkh(ORIGINEVEN),pk(EVEN)))",
            "tr(OTHER,and_v(v:pk(EVEN),pk(SHORT)))",
            "tr(OTHER,{pk(EVEN),and_v(v:multi_a(1,EVEN,EVEN),pk(OTHER))})",
            "wsh(and_v(v:pk(XPUB/0/*),pk(XPUB/0/0)))",
            "wsh(and_v(v:pk(XPUB/<0;1>/*),pk(XPUB/<0;2>/*)))",
            "wsh(and_v(v:pk(XPUB/0h/*),pk(XPUB/1h/*)))",
            "wsh(and_v(v:pk(EVEN),0))",
            "tr(OTHER,thresh(2,0,s:pk(EVEN)))",
            "wsh(pkh(SHORT))",
            "wsh(pkh(LONG))",
            "tr(OTHER,pkh(LONG))",
        ] {
            assert!(!is_taken(refused), "{refused}");
        }
    }
}
