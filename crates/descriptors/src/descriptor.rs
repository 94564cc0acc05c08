use std::collections::HashSet;
use std::str::FromStr;

use apus_wire::Chain;
use bitcoin::address::NetworkUnchecked;
use bitcoin::hex::FromHex;
use bitcoin::secp256k1::{Secp256k1, VerifyOnly};
use bitcoin::{Address, NetworkKind, PublicKey};
use miniscript::descriptor::{DescriptorPublicKey, Tr};
use miniscript::{Descriptor as Miniscript, ForEachKey, MiniscriptKey};

use super::address::network;
use super::checksum::{CHECKSUM_CHARS, checksum, with_checksum};
use super::error::DescriptorError;
use super::provider::Provider;
use super::sane::check_sane;
use super::sorted_leaves::{sort, unsorted};
use super::text::{expression, paths, plain_numbers};

/// The most characters of a descriptor; wallets write shorter ones.
const CHARS_MAX: usize = 10_000;
/// The most characters of an address.
const ADDRESS_CHARS_MAX: usize = 90;
/// The most characters of an extended key. The time to decode Base58 grows with their square.
const EXTENDED_KEY_CHARS_MAX: usize = 112;
/// The most paths of a key (BIP389): each path has a copy of the expression.
const PATHS_MAX: usize = 100;
/// The most keys of a multisignature script outside P2SH (Core's limit for standard scripts).
const BARE_KEYS_MAX: usize = 3;
/// The opcode that begins the script of a taproot output.
const OP_1: u8 = 0x51;

/// An output descriptor, with public keys only.
///
/// The expressions are those of Bitcoin Core v31, but for `musig()` and `unused()`, which are
/// refused; so are those few miniscripts that Core takes and the crate `miniscript` does not.
#[derive(Clone)]
pub struct Descriptor {
    text: String,
    /// Several for a key with several paths (BIP389), or for `combo()`.
    forms: Vec<Form>,
    is_range: bool,
    chain: Chain,
    curve: Secp256k1<VerifyOnly>,
}

/// An expression, by how its script is made.
#[derive(Clone)]
enum Form {
    /// `addr()` and `raw()`: the script itself.
    Script(Vec<u8>),
    /// `rawtr()`: the key of a taproot output.
    OutputKey(DescriptorPublicKey),
    /// The output script.
    Output(Miniscript<DescriptorPublicKey>),
    /// `tr()` with leaves of `sortedmulti_a()`: which of them are.
    SortedLeaves(Miniscript<DescriptorPublicKey>, Vec<bool>),
    /// `sortedmulti()` without P2SH around it: the script that P2SH would hash.
    Inside(Miniscript<DescriptorPublicKey>),
}

impl Descriptor {
    /// Parses a descriptor for a network, with or without its checksum.
    ///
    /// # Errors
    /// It has a wrong checksum, a private key, an unknown expression, or a key or an address of
    /// another network.
    pub fn parse(text: &str, chain: Chain) -> Result<Self, DescriptorError> {
        if text.len() > CHARS_MAX {
            let what =
                format!("A descriptor has at most {CHARS_MAX} characters, not {}", text.len());
            return Err(invalid(what));
        }
        let payload = &plain_numbers(without_checksum(text)?)[..];
        let (name, argument) = call(payload).ok_or_else(|| unknown(payload))?;
        if name != "raw" && has_private_key(argument) {
            return Err(DescriptorError::PrivateKey);
        }
        check_sizes(argument)?;
        check_steps(payload)?;
        let forms = match name {
            "addr" => vec![Form::Script(script_of_address(argument, chain)?)],
            "raw" => vec![Form::Script(script_of_hex(argument)?)],
            "rawtr" => {
                let keys = keys(argument)?;
                if keys.iter().any(MiniscriptKey::is_uncompressed) {
                    let what = "rawtr(): Uncompressed keys are not allowed";
                    return Err(invalid(what));
                }
                keys.into_iter().map(Form::OutputKey).collect()
            }
            "combo" => combo(argument)?,
            "sortedmulti" => inside(argument)?,
            "pk" | "pkh" | "wpkh" | "sh" | "wsh" | "tr" | "multi" => output(payload)?,
            _ => return Err(unknown(payload)),
        };
        let curve = Secp256k1::verification_only();
        // As in Core, the first path decides for all.
        if let Some(Form::Output(first) | Form::SortedLeaves(first, _)) = forms.first() {
            check_sane(first, &curve)?;
        }
        let descriptor = Self { text: text.to_string(), is_range: false, forms, chain, curve };
        let mut is_range = false;
        for key in descriptor.forms.iter().flat_map(Form::keys) {
            if key.is_x_only_key() && !matches!(name, "tr" | "rawtr") {
                return Err(invalid(format!("{name}(): Pubkey '{key}' is invalid")));
            }
            check_network(&key, chain)?;
            is_range |= key.has_wildcard();
        }
        Ok(Self { is_range, ..descriptor })
    }

    /// Returns whether the scripts depend on an index, since a key ends in `*`.
    pub fn is_range(&self) -> bool {
        self.is_range
    }

    /// Returns whether the scripts say how they are satisfied, unlike those of `addr()` and `raw()`
    /// (Core's `IsSolvable`).
    pub fn is_solvable(&self) -> bool {
        !self.forms.iter().any(|form| matches!(form, Form::Script(_)))
    }

    /// Returns the text as Core writes it, with the checksum: one for each path of its keys
    /// (BIP389).
    pub fn texts(&self) -> Vec<String> {
        let payload = &plain_numbers(self.payload())[..];
        let (name, argument) = call(payload).unwrap_or((payload, ""));
        let script = match &self.forms[..] {
            [Form::Script(script)] => &script[..],
            _ => &[],
        };
        let text = |path| with_checksum(expression(name, argument, path, script, self.chain));
        (0..paths(payload)).map(text).collect()
    }

    /// Returns the text that was parsed, without its checksum.
    pub fn payload(&self) -> &str {
        self.text.split('#').next().unwrap_or_default()
    }

    /// Returns the output scripts at an index below 2^31, which makes no difference unless the
    /// descriptor is a range.
    ///
    /// # Errors
    /// A key is derived by a hardened step.
    pub fn scripts_at(&self, index: u32) -> Result<Vec<Vec<u8>>, DescriptorError> {
        let scripts = self.forms.iter().map(|form| form.script_at(index, &self.curve));
        let hardened = || DescriptorError::Hardened(self.text.clone());
        scripts.collect::<Option<Vec<_>>>().ok_or_else(hardened)
    }

    /// Returns the keys and scripts that the scripts at an index of a range are made of. Where a
    /// key has two origins, the one counts that comes first from the begin of the range on: keys
    /// without a wildcard are there at once.
    pub fn provider_at(&self, begin: u32, index: u32) -> Provider {
        let mut provider = Provider::default();
        for index in [begin, index] {
            self.forms.iter().for_each(|form| form.provide(index, &self.curve, &mut provider));
        }
        provider
    }
}

impl Form {
    /// Adds the keys and scripts of the script at an index to `provider`.
    fn provide(&self, index: u32, curve: &Secp256k1<VerifyOnly>, provider: &mut Provider) {
        let keys = self.keys();
        match self {
            // Each script of a tree is an expression of its own, and so is the key.
            Self::Output(Miniscript::Tr(tr)) | Self::SortedLeaves(Miniscript::Tr(tr), _) => {
                provider.add_keys([tr.internal_key()], index, curve);
                for leaf in tr.leaves() {
                    provider.add_keys(
                        leaf.miniscript().iter_pk().collect::<Vec<_>>().iter(),
                        index,
                        curve,
                    );
                }
            }
            _ => provider.add_keys(&keys, index, curve),
        }
        if let Some(derived) = self.derived(index, curve) {
            provider.add_scripts(&derived);
        }
    }

    /// Returns the script at an index; `None` if a key is derived by a hardened step.
    fn script_at(&self, index: u32, curve: &Secp256k1<VerifyOnly>) -> Option<Vec<u8>> {
        match self {
            Self::Script(script) => Some(script.clone()),
            Self::OutputKey(key) => {
                let key = key.clone().at_derivation_index(index).ok()?.derive_public_key(curve);
                let (key, _) = key.inner.x_only_public_key();
                Some([&[OP_1, 32][..], &key.serialize()].concat())
            }
            Self::Output(_) | Self::SortedLeaves(..) => {
                Some(self.derived(index, curve)?.script_pubkey().into_bytes())
            }
            Self::Inside(descriptor) => {
                let derived = descriptor.derived_descriptor(curve, index).ok()?;
                Some(derived.explicit_script().ok()?.into_bytes())
            }
        }
    }

    /// Returns the expression at an index of an output script; `None` if a key is derived by a
    /// hardened step.
    fn derived(&self, index: u32, curve: &Secp256k1<VerifyOnly>) -> Option<Miniscript<PublicKey>> {
        match self {
            Self::Output(descriptor) => descriptor.derived_descriptor(curve, index).ok(),
            Self::SortedLeaves(descriptor, sorted) => {
                sort(descriptor.derived_descriptor(curve, index).ok()?, sorted)
            }
            Self::Script(_) | Self::OutputKey(_) | Self::Inside(_) => None,
        }
    }

    fn keys(&self) -> Vec<DescriptorPublicKey> {
        match self {
            Self::Script(_) => Vec::new(),
            Self::OutputKey(key) => vec![key.clone()],
            Self::Output(descriptor)
            | Self::SortedLeaves(descriptor, _)
            | Self::Inside(descriptor) => {
                let mut keys = Vec::new();
                descriptor.for_each_key(|key| {
                    keys.push(key.clone());
                    true
                });
                keys
            }
        }
    }
}

/// Returns a descriptor without its checksum, if it has one (Core's `CheckChecksum`).
fn without_checksum(text: &str) -> Result<&str, DescriptorError> {
    let mut parts = text.split('#');
    let payload = parts.next().unwrap_or_default();
    let given = parts.next();
    if parts.next().is_some() {
        return Err(invalid("Multiple '#' symbols"));
    }
    if let Some(len) = given.map(str::len).filter(|len| *len != CHECKSUM_CHARS) {
        let what = format!("Expected {CHECKSUM_CHARS} character checksum, not {len} characters");
        return Err(invalid(what));
    }
    let computed = checksum(payload).ok_or_else(|| invalid("Invalid characters in payload"))?;
    match given.filter(|given| **given != computed) {
        Some(given) => Err(invalid(format!(
            "Provided checksum '{given}' does not match computed checksum '{computed}'"
        ))),
        None => Ok(payload),
    }
}

/// Splits `name(argument)`.
fn call(expression: &str) -> Option<(&str, &str)> {
    expression.strip_suffix(')')?.split_once('(')
}

/// Returns whether a key in these expressions is private, valid or not: an extended one, or one
/// in the form for wallets (WIF).
fn has_private_key(expressions: &str) -> bool {
    let words = expressions.split(|c: char| !c.is_ascii_alphanumeric());
    let is_wif = |word: &str| {
        let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        matches!(word.len(), 51 | 52) && word.starts_with(['5', 'K', 'L', '9', 'c']) && !is_hex
    };
    words
        .into_iter()
        .any(|word| word.starts_with("xprv") || word.starts_with("tprv") || is_wif(word))
}

/// Checks what would take long to parse: the number of paths of a key, and the lengths of extended
/// keys.
fn check_sizes(expressions: &str) -> Result<(), DescriptorError> {
    let steps = expressions.split('<').skip(1).filter_map(|after| after.split('>').next());
    if let Some(count) = steps.map(|steps| steps.split(';').count()).find(|it| *it > PATHS_MAX) {
        return Err(invalid(format!("A key has at most {PATHS_MAX} paths, not {count}")));
    }
    let is_hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut words = expressions.split(|c: char| !c.is_ascii_alphanumeric());
    match words.find(|word| word.len() > EXTENDED_KEY_CHARS_MAX && !is_hex(word)) {
        Some(word) => Err(invalid(format!(
            "A key or an address has at most {EXTENDED_KEY_CHARS_MAX} characters, not {}",
            word.len()
        ))),
        None => Ok(()),
    }
}

fn script_of_address(address: &str, chain: Chain) -> Result<Vec<u8>, DescriptorError> {
    let address = Some(address).filter(|address| address.len() <= ADDRESS_CHARS_MAX).ok_or(());
    let parse = |address: &str| {
        // Core leaves out spaces around Base58, but not around Bech32.
        let trimmed = address.trim_matches(' ');
        let is_base58 = trimmed.starts_with(['1', '2', '3', 'm', 'n']);
        let address = if is_base58 { trimmed } else { address };
        Address::<NetworkUnchecked>::from_str(address).map_err(|_| ())
    };
    let known = address.and_then(parse).and_then(|address| {
        let checked = address.require_network(network(chain));
        checked.map_err(|_: bitcoin::address::ParseError| ())
    });
    let address = known.map_err(|()| invalid("Address is not valid"))?;
    Ok(address.script_pubkey().into_bytes())
}

fn script_of_hex(hex: &str) -> Result<Vec<u8>, DescriptorError> {
    let script = Vec::from_hex(hex).ok().filter(|script| !script.is_empty());
    script.ok_or_else(|| invalid("Raw script is not hex"))
}

/// Returns the keys of a key expression: one for each of its paths.
fn keys(expression: &str) -> Result<Vec<DescriptorPublicKey>, DescriptorError> {
    let key = DescriptorPublicKey::from_str(expression)
        .map_err(|error| invalid(format!("key '{expression}' is not valid: {error}")))?;
    Ok(key.into_single_keys())
}

/// Returns the forms of `combo()`: P2PK, P2PKH and, for a compressed key, P2WPKH and P2WPKH in
/// P2SH.
fn combo(expression: &str) -> Result<Vec<Form>, DescriptorError> {
    let mut forms = Vec::new();
    for key in keys(expression)? {
        if key.is_x_only_key() {
            return Err(invalid(format!("combo(): Pubkey '{expression}' is invalid")));
        }
        forms.push(Miniscript::new_pk(key.clone()));
        forms.extend(Miniscript::new_pkh(key.clone()));
        // Uncompressed keys are refused.
        forms.extend(Miniscript::new_wpkh(key.clone()));
        forms.extend(Miniscript::new_sh_wpkh(key));
    }
    Ok(forms.into_iter().map(Form::Output).collect())
}

/// Returns the forms of `sortedmulti()` without P2SH around it.
fn inside(arguments: &str) -> Result<Vec<Form>, DescriptorError> {
    let descriptors = parsed(&format!("sh(sortedmulti({arguments}))"))?;
    if descriptors.iter().any(|descriptor| descriptor.iter_pk().count() > BARE_KEYS_MAX) {
        return Err(invalid(format!(
            "Cannot have more than {BARE_KEYS_MAX} pubkeys in bare multisig"
        )));
    }
    Ok(descriptors.into_iter().map(Form::Inside).collect())
}

/// Returns the forms of an expression that `miniscript` knows.
fn output(payload: &str) -> Result<Vec<Form>, DescriptorError> {
    if let Some(("sh", argument)) = call(payload) {
        let inner = call(argument).map(|(name, _)| name);
        if !matches!(inner, Some("pk" | "pkh" | "wpkh" | "wsh" | "multi" | "sortedmulti")) {
            return Err(invalid("A function is needed within P2SH"));
        }
    }
    Ok(match unsorted(payload) {
        None => parsed(payload)?.into_iter().map(Form::Output).collect(),
        Some((payload, sorted)) => {
            let form = |tree| Form::SortedLeaves(tree, sorted.clone());
            parsed(&payload)?.into_iter().map(form).collect()
        }
    })
}

fn parsed(payload: &str) -> Result<Vec<Miniscript<DescriptorPublicKey>>, DescriptorError> {
    let parsed = if payload.starts_with("tr(") {
        // The parser of all descriptors refuses leaves that repeat keys, some of which Core takes.
        Tr::from_str(payload).map(Miniscript::Tr)
    } else {
        Miniscript::from_str(payload)
    };
    let single = parsed.and_then(Miniscript::into_single_descriptors);
    single.map_err(|error| invalid(error.to_string()))
}

/// Checks the steps of key paths, where the parser takes more than Core does.
fn check_steps(payload: &str) -> Result<(), DescriptorError> {
    let steps = payload.split(['/', '<', ';', '>', ',', ')']);
    if let Some(step) = steps.into_iter().find(|step| step.starts_with('+')) {
        return Err(invalid(format!("Key path value '{step}' is not a valid uint32")));
    }
    for choice in payload.split('<').skip(1) {
        let steps = choice.split('>').next().unwrap_or_default().split(';');
        let mut seen = HashSet::new();
        for step in steps {
            let number = step.trim_end_matches(['h', '\'']);
            let value = (number.parse::<u32>().ok(), number.len() == step.len());
            if value.0.is_some() && !seen.insert(value) {
                let what = format!("Duplicated key path value {step} in multipath specifier");
                return Err(invalid(what));
            }
        }
    }
    Ok(())
}

/// Checks that an extended key belongs to the network.
fn check_network(key: &DescriptorPublicKey, chain: Chain) -> Result<(), DescriptorError> {
    match key.xkey_network() {
        Some(found) if found != NetworkKind::from(network(chain)) => {
            let what = format!("key '{key}' is not valid: it belongs to another network");
            Err(invalid(what))
        }
        _ => Ok(()),
    }
}

fn invalid(what: impl Into<String>) -> DescriptorError {
    DescriptorError::Invalid(what.into())
}

fn unknown(expression: &str) -> DescriptorError {
    invalid(format!("'{expression}' is not a valid descriptor function"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::address;

    /// The account keys of BIP84 and of BIP86.
    const BIP84: &str = "xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3\
                        rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V";
    const BIP86: &str = "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVky7\
                        D3UKDP9QyrLprQ3VCECoY49yfdDEHGCtMMj92pReUsQ";
    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    const UNCOMPRESSED: &str = "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f\
                               81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08f\
                               fb10d4b8";

    fn parse(text: &str) -> Result<Descriptor, DescriptorError> {
        Descriptor::parse(text, Chain::Main)
    }

    fn addresses(text: &str, index: u32) -> Vec<String> {
        let scripts = parse(text).unwrap().scripts_at(index).unwrap();
        scripts.iter().map(|script| address(script, Chain::Main).unwrap_or_default()).collect()
    }

    #[test]
    fn addresses_are_those_of_the_bips() {
        let wpkh = format!("wpkh([73c5da0a/84h/0h/0h]{BIP84}/<0;1>/*)");
        assert!(parse(&wpkh).unwrap().is_range());
        let first = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu";
        let change = "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el";
        assert_eq!(addresses(&wpkh, 0), [first, change]);
        let second = "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g";
        assert_eq!(addresses(&format!("wpkh({BIP84}/0/*)"), 1), [second]);
        let tr = "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr";
        assert_eq!(addresses(&format!("tr({BIP86}/0/*)"), 0), [tr]);
        let addr = format!("addr({first})");
        assert_eq!(addresses(&addr, 5), [first]);
        assert!(!parse(&addr).unwrap().is_range());
        let base58 = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa";
        assert_eq!(addresses(&format!("addr( {base58} )"), 0), [base58]);
    }

    #[test]
    fn combo_has_a_script_for_each_way_to_use_the_key() {
        let scripts = parse(&format!("combo({KEY})")).unwrap().scripts_at(0).unwrap();
        let of =
            |name: &str| parse(&name.replace("KEY", KEY)).unwrap().scripts_at(0).unwrap().remove(0);
        assert_eq!(scripts, ["pk(KEY)", "pkh(KEY)", "wpkh(KEY)", "sh(wpkh(KEY))"].map(of));
        let scripts = parse(&format!("combo({UNCOMPRESSED})")).unwrap().scripts_at(0).unwrap();
        assert_eq!(scripts.len(), 2);
    }

    #[test]
    fn sorted_keys_are_in_order_without_p2sh() {
        let low = KEY;
        let high = format!("03{}", &KEY[2..]);
        let sorted = parse(&format!("sortedmulti(1,{high},{low})")).unwrap();
        let multi = parse(&format!("multi(1,{low},{high})")).unwrap();
        assert_eq!(sorted.scripts_at(0), multi.scripts_at(0));
    }

    #[test]
    fn what_would_take_long_is_refused() {
        let paths = |count: usize| vec!["0"; count].join(";");
        let wpkh = |count| format!("wpkh({BIP84}/<{}>/*)", paths(count).replace("0;0", "0;1"));
        let refused = |text: &str| parse(text).err().unwrap().to_string();
        assert!(refused(&wpkh(PATHS_MAX + 1)).contains("at most 100 paths"));
        for text in ["wpkh(xpub", "addr(1", "rawtr(z", "wsh(pk("] {
            let text = format!("{text}{}))", "z".repeat(EXTENDED_KEY_CHARS_MAX + 1));
            assert!(refused(&text).contains("at most 112 characters"), "{text}");
        }
        let raw = |count| format!("raw({})", "5".repeat(count));
        assert!(parse(&raw(CHARS_MAX - 6)).is_ok());
        assert!(refused(&raw(CHARS_MAX)).contains("at most 10000 characters"));
        let many: Vec<String> = (0..PATHS_MAX).map(|at| at.to_string()).collect();
        let many = parse(&format!("wpkh({BIP84}/<{}>/*)", many.join(";"))).unwrap();
        assert_eq!(many.texts().len(), PATHS_MAX);
    }

    #[test]
    fn zeros_before_numbers_are_not_written() {
        for (start, written) in [
            ("multi(01,", "multi(1,"),
            ("sortedmulti(001,", "sortedmulti(1,"),
            ("wsh(and_v(v:older(00144),pk(", "wsh(and_v(v:older(144),pk("),
            ("wsh(thresh(01,pk(", "wsh(thresh(1,pk("),
        ] {
            let end = ")".repeat(written.matches('(').count() - written.matches(')').count());
            let given = with_checksum(format!("{start}{KEY}{end}"));
            let texts = parse(&given).unwrap().texts();
            assert_eq!(texts, [with_checksum(format!("{written}{KEY}{end}"))]);
        }
        assert!(parse(&format!("multi(00,{KEY})")).is_err());
    }

    #[test]
    fn what_is_no_public_descriptor_is_refused() {
        let refused = |text: &str| parse(text).err().unwrap_or_else(|| panic!("{text}"));
        let private = [
            "wpkh(xprv9s21ZrQH143K31xYSDQpPDxsXRTUcvj2iNHm5NUtrGiGG5e2DtALGdso3pGz6ssrdK4PFmM8NSp)",
            "pkh(L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1)",
            "sh(multi(1,5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss))",
            "combo(tprv8ZgxMBicQKsPd/*)",
        ];
        assert!(private.iter().all(|text| refused(text) == DescriptorError::PrivateKey));
        let hex = "5".repeat(52);
        assert_eq!(parse(&format!("raw({hex})")).unwrap().scripts_at(0).unwrap()[0].len(), 26);
        for wrong in [
            "",
            "wpkh",
            "wpkh()",
            "wpkh(02)",
            "sh(sh(51))",
            "sh(and_v(v:pk(02),older(1)))",
            "unused(02)",
            "combo(zz)",
            "rawtr()",
            "addr(tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx)",
            "addr( bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu)",
            &format!("wpkh({UNCOMPRESSED})"),
            &format!("combo({})", &KEY[2..]),
            &format!("pkh({})", &KEY[2..]),
            &format!("sh(pkh({}))", &KEY[2..]),
            &format!("wsh(and_v(v:pkh({}),pk({KEY})))", &KEY[2..]),
            &format!("sortedmulti(1,{KEY},{KEY},{KEY},{KEY})"),
        ] {
            assert!(matches!(refused(wrong), DescriptorError::Invalid(_)), "{wrong}");
        }
        let main = format!("wpkh({BIP84}/*)");
        assert!(Descriptor::parse(&main, Chain::Regtest).is_err());
        for path in ["0h/*", "*h", "0'"] {
            let text = format!("wpkh({BIP84}/{path})");
            let hardened = parse(&text).and_then(|it| it.scripts_at(0));
            assert_eq!(hardened, Err(DescriptorError::Hardened(text)));
        }
    }
}
