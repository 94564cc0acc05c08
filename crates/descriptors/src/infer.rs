use bitcoin::hashes::{Hash as _, hash160, ripemd160, sha256};
use bitcoin::hex::DisplayHex as _;
use bitcoin::{Script, XOnlyPublicKey};
use miniscript::miniscript::decode::Terminal;
use miniscript::{
    Miniscript, MiniscriptKey, ScriptContext, Segwitv0, Tap, ToPublicKey, Translator, hash256,
};
use std::str::FromStr as _;

use super::checksum::with_checksum;
use super::provider::{Leaf, Provider};
use super::script_kind::ScriptKind;

/// The most bytes of a script in P2WSH (Core's `MAX_STANDARD_P2WSH_SCRIPT_SIZE`).
const P2WSH_SCRIPT_BYTES_MAX: usize = 3600;

/// Where a script is (Core's `ParseScriptContext`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParseContext {
    Top,
    P2sh,
    P2wsh,
}

/// Returns the descriptor of an output script as far as the script and `provider` tell (Core's
/// `InferDescriptor`), with its checksum. `address` is the address of the script, if it has one.
pub fn infer(script: &[u8], address: Option<&str>, provider: &Provider) -> String {
    let inferred = inferred(script, ParseContext::Top, provider);
    with_checksum(inferred.unwrap_or_else(|| match address {
        Some(address) => format!("addr({address})"),
        None => format!("raw({})", script.as_hex()),
    }))
}

fn inferred(script: &[u8], place: ParseContext, provider: &Provider) -> Option<String> {
    let of_hash = |hash: &[u8], compressed: bool| {
        let key = provider.key(hash)?;
        full_key(key, place, provider).filter(|_| !compressed || key.len() == 33)
    };
    let found = match ScriptKind::of(script) {
        ScriptKind::PubKey(key) => full_key(key, place, provider).map(|key| format!("pk({key})")),
        ScriptKind::PubKeyHash => of_hash(&script[3..23], false).map(|key| format!("pkh({key})")),
        ScriptKind::WitnessV0KeyHash if place != ParseContext::P2wsh => {
            of_hash(&script[2..], true).map(|key| format!("wpkh({key})"))
        }
        ScriptKind::Multisig { required, keys } => {
            let keys = keys.iter().map(|key| full_key(key, place, provider));
            let keys = keys.collect::<Option<Vec<String>>>();
            keys.map(|keys| format!("multi({required},{})", keys.join(",")))
        }
        ScriptKind::ScriptHash if place == ParseContext::Top => {
            let inside = provider.script(&script[2..22]);
            let inside = inside.and_then(|script| inferred(script, ParseContext::P2sh, provider));
            inside.map(|inside| format!("sh({inside})"))
        }
        ScriptKind::WitnessV0ScriptHash if place != ParseContext::P2wsh => {
            let inside = provider.script(ripemd160::Hash::hash(&script[2..]).as_ref());
            let inside = inside.and_then(|script| inferred(script, ParseContext::P2wsh, provider));
            inside.map(|inside| format!("wsh({inside})"))
        }
        ScriptKind::WitnessV1Taproot(key) if place == ParseContext::Top => taproot(key, provider),
        _ => None,
    };
    let is_policy = place == ParseContext::P2wsh && script.len() <= P2WSH_SCRIPT_BYTES_MAX;
    found.or_else(|| is_policy.then(|| policy::<Segwitv0>(script, provider)).flatten())
}

/// Returns a key with its origin. A hybrid key, which begins with 6 or 7, has no descriptor.
fn full_key(key: &[u8], place: ParseContext, provider: &Provider) -> Option<String> {
    let is_plain = match key.first()? {
        2 | 3 => true,
        4 => place != ParseContext::P2wsh,
        _ => false,
    };
    is_plain.then(|| provider.origin(key) + &key.to_lower_hex_string())
}

/// Returns a key of 32 bytes with its origin.
fn x_only_key(key: &[u8], provider: &Provider) -> String {
    let known = [2, 3].map(|first| provider.origin(&[&[first], key].concat()));
    let origin = known.into_iter().find(|origin| !origin.is_empty()).unwrap_or_default();
    origin + &key.to_lower_hex_string()
}

fn taproot(output_key: &[u8], provider: &Provider) -> Option<String> {
    let of_tree = provider.tree(output_key).and_then(|tree| {
        let internal = x_only_key(&tree.internal_key, provider);
        let leaves: Vec<&Leaf> = tree.leaves.iter().collect();
        if leaves.is_empty() {
            Some(format!("tr({internal})"))
        } else {
            Some(format!("tr({internal},{})", subtree(leaves, 0, provider)?))
        }
    });
    let raw = || {
        let is_key = XOnlyPublicKey::from_slice(output_key).is_ok();
        is_key.then(|| format!("rawtr({})", x_only_key(output_key, provider)))
    };
    of_tree.or_else(raw)
}

/// Returns the expression of the leaves below a node: the subtree with the least script first, as
/// Core finds it (`InferTaprootTree`).
fn subtree(leaves: Vec<&Leaf>, depth: usize, provider: &Provider) -> Option<String> {
    let first = leaves.iter().min()?;
    let Some(beside) = first.beside.get(depth) else {
        return policy::<Tap>(&first.script, provider);
    };
    let is_near = |leaf: &&Leaf| leaf.beside.get(depth) == Some(beside);
    let (near, far): (Vec<&Leaf>, Vec<&Leaf>) = leaves.iter().partition(|leaf| is_near(leaf));
    let near = subtree(near, depth + 1, provider)?;
    // Two subtrees that are equal have the same hash beside them.
    let far = if far.is_empty() { near.clone() } else { subtree(far, depth + 1, provider)? };
    Some(format!("{{{near},{far}}}"))
}

/// Returns the miniscript of a script; `None` if it is none that is sane, or if it names an unknown
/// key by its hash.
fn policy<Ctx>(script: &[u8], provider: &Provider) -> Option<String>
where
    Ctx: ScriptContext,
    Ctx::Key: MiniscriptKey<
            Sha256 = sha256::Hash,
            Hash256 = hash256::Hash,
            Ripemd160 = ripemd160::Hash,
            Hash160 = hash160::Hash,
        > + ToPublicKey,
{
    let found = Miniscript::<Ctx::Key, Ctx>::decode_consensus(Script::from_bytes(script)).ok()?;
    // `multi_a()` is a function of Core by itself, which may repeat keys.
    if !matches!(found.as_inner(), Terminal::MultiA(_)) {
        found.sanity_check().ok()?;
    }
    let mut keys: Vec<Vec<u8>> =
        found.iter_pk().map(|key| key.to_public_key().to_bytes()).collect();
    let mut text = found.translate_pk(&mut WithOrigins(provider)).ok()?.to_string();
    // Keys that are named by their hashes.
    while let Some(start) = text.find("expr_raw_pk") {
        let open = start + text[start..].find('(')?;
        let close = open + text[open..].find(')')?;
        let hash = hash160::Hash::from_str(&text[open + 1..close]).ok()?;
        let key = provider.key(hash.as_ref())?;
        if keys.iter().any(|known| known == key) {
            return None;
        }
        keys.push(key.to_vec());
        let key = full_key(key, ParseContext::P2wsh, provider)?;
        text.replace_range(open + 1..close, &key);
        text.replace_range(start..start + "expr_raw_".len(), "");
    }
    Some(text)
}

/// Writes keys with their origins.
struct WithOrigins<'a>(&'a Provider);

/// A key with its origin.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
struct KeyText(String);

impl std::fmt::Display for KeyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl MiniscriptKey for KeyText {
    type Sha256 = sha256::Hash;
    type Hash256 = hash256::Hash;
    type Ripemd160 = ripemd160::Hash;
    type Hash160 = hash160::Hash;
}

impl<P> Translator<P> for WithOrigins<'_>
where
    P: MiniscriptKey<
            Sha256 = sha256::Hash,
            Hash256 = hash256::Hash,
            Ripemd160 = ripemd160::Hash,
            Hash160 = hash160::Hash,
        > + ToPublicKey,
{
    type TargetPk = KeyText;
    type Error = std::convert::Infallible;

    fn pk(&mut self, key: &P) -> Result<KeyText, Self::Error> {
        let bytes = key.to_public_key().to_bytes();
        Ok(KeyText(if key.is_x_only_key() {
            x_only_key(&bytes[1..], self.0)
        } else {
            self.0.origin(&bytes) + &bytes.to_lower_hex_string()
        }))
    }

    fn sha256(&mut self, hash: &sha256::Hash) -> Result<sha256::Hash, Self::Error> {
        Ok(*hash)
    }

    fn hash256(&mut self, hash: &hash256::Hash) -> Result<hash256::Hash, Self::Error> {
        Ok(*hash)
    }

    fn ripemd160(&mut self, hash: &ripemd160::Hash) -> Result<ripemd160::Hash, Self::Error> {
        Ok(*hash)
    }

    fn hash160(&mut self, hash: &hash160::Hash) -> Result<hash160::Hash, Self::Error> {
        Ok(*hash)
    }
}

#[cfg(test)]
mod tests {
    use apus_wire::Chain;

    use super::*;
    use crate::Descriptor;

    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    const OTHER: &str = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5";

    /// The descriptors of the scripts of an expression, without their checksums.
    fn inferred(expression: &str) -> Vec<String> {
        let expression = expression.replace("KEY", KEY).replace("OTHER", OTHER);
        let expression = expression.replace("XK", &KEY[2..]).replace("XO", &OTHER[2..]);
        let parsed = Descriptor::parse(&expression, Chain::Main).unwrap();
        let provider = parsed.provider_at(0, 0);
        let scripts = parsed.scripts_at(0).unwrap();
        let text = |script: &Vec<u8>| infer(script, Some("A"), &provider);
        let texts = scripts.iter().map(text);
        texts.map(|text| text.split('#').next().unwrap().to_string()).collect()
    }

    /// As bitcoind describes them: each key has an origin, if only its own hash.
    #[test]
    fn scripts_are_described_with_the_origins_of_their_keys() {
        let key = format!("[751e76e8]{KEY}");
        let other = format!("[06afd46b]{OTHER}");
        let x_key = format!("[751e76e8]{}", &KEY[2..]);
        let x_other = format!("[06afd46b]{}", &OTHER[2..]);
        for (expression, expected) in [
            ("pk(KEY)", format!("pk({key})")),
            ("pkh([d34db33f/1h/2]KEY)", format!("pkh([d34db33f/1h/2]{KEY})")),
            ("sh(wsh(pkh(KEY)))", format!("sh(wsh(pkh({key})))")),
            ("sortedmulti(1,OTHER,KEY)", format!("multi(1,{key},{other})")),
            ("tr(XK)", format!("tr({x_key})")),
            ("rawtr(XK)", format!("rawtr({x_key})")),
            ("raw(5120KEY)", "addr(A)".to_string()),
            (
                "tr(XK,{pk(XO),multi_a(1,XK,XO)})",
                format!("tr({x_key},{{multi_a(1,{x_key},{x_other}),pk({x_other})}})"),
            ),
            ("tr(XK,sortedmulti_a(1,XO,XK))", format!("tr({x_key},multi_a(1,{x_key},{x_other}))")),
            (
                "wsh(and_v(v:pk(KEY),and_v(v:pkh(OTHER),older(5))))",
                format!("wsh(and_v(and_v(v:pk({key}),v:pkh({other})),older(5)))"),
            ),
        ] {
            assert_eq!(inferred(expression), [expected], "{expression}");
        }
        let expected =
            ["pk(K)", "pkh(K)", "wpkh(K)", "sh(wpkh(K))"].map(|text| text.replace('K', &key));
        assert_eq!(inferred("combo(KEY)"), expected);
    }

    #[test]
    fn a_script_alone_tells_less() {
        let none = Provider::default();
        let script = Descriptor::parse(&format!("wpkh({KEY})"), Chain::Main).unwrap();
        let script = script.scripts_at(0).unwrap().remove(0);
        assert!(infer(&script, Some("A"), &none).starts_with("addr(A)#"));
        assert!(infer(&[0x51], None, &none).starts_with("raw(51)#"));
    }
}
