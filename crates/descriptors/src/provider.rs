use std::collections::HashMap;

use bitcoin::PublicKey;
use bitcoin::bip32::{ChildNumber, Fingerprint};
use bitcoin::hashes::{Hash as _, hash160};
use bitcoin::secp256k1::{Secp256k1, VerifyOnly};
use miniscript::Descriptor as Miniscript;
use miniscript::descriptor::{DescriptorPublicKey, ShInner, Tr, Wildcard};

/// Keys, their origins, and scripts, all by their hashes: what a descriptor tells of its scripts
/// (Core's `FlatSigningProvider`).
#[derive(Default)]
pub struct Provider {
    keys: HashMap<hash160::Hash, Vec<u8>>,
    origins: HashMap<hash160::Hash, Origin>,
    scripts: HashMap<hash160::Hash, Vec<u8>>,
    /// By the output key.
    trees: HashMap<[u8; 32], Tree>,
}

/// Where a key comes from (Core's `KeyOriginInfo`).
#[derive(Clone)]
struct Origin {
    fingerprint: Fingerprint,
    path: Vec<ChildNumber>,
}

/// How a taproot output may be spent.
pub(super) struct Tree {
    pub internal_key: [u8; 32],
    pub leaves: Vec<Leaf>,
}

/// A script of a taproot output, with the hashes beside its way to the root.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    pub script: Vec<u8>,
    /// From the root to the leaf.
    pub beside: Vec<[u8; 32]>,
}

impl Provider {
    /// Adds a script that others name by its hash.
    pub fn add_script(&mut self, script: &[u8]) {
        self.scripts.entry(hash160::Hash::hash(script)).or_insert_with(|| script.to_vec());
    }

    /// Adds the keys of one expression at an index. As in Core, what was added first counts.
    pub(super) fn add_keys<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a DescriptorPublicKey>,
        index: u32,
        curve: &Secp256k1<VerifyOnly>,
    ) {
        let mut origins: HashMap<hash160::Hash, Origin> = HashMap::new();
        for key in keys {
            let Ok(definite) = key.clone().at_derivation_index(index) else { continue };
            let bytes = definite.derive_public_key(curve).to_bytes();
            let hash = hash160::Hash::hash(&bytes);
            let found = origins.entry(hash).or_insert_with(|| own_origin(key, hash, index));
            if let Some((fingerprint, path)) = origin_of(key) {
                found.fingerprint = *fingerprint;
                found.path.splice(0..0, path.into_iter().copied());
            }
            // Miniscript in a tree names a key by the hash of its 32 bytes.
            if bytes.len() == 33 {
                let hash = hash160::Hash::hash(&bytes[1..]);
                self.keys.entry(hash).or_insert_with(|| bytes.clone());
            }
            self.keys.entry(hash).or_insert(bytes);
        }
        for (hash, origin) in origins {
            self.origins.entry(hash).or_insert(origin);
        }
    }

    /// Adds the scripts in a script.
    pub(super) fn add_scripts(&mut self, derived: &Miniscript<PublicKey>) {
        match derived {
            Miniscript::Wsh(wsh) => self.add_script(wsh.inner_script().as_bytes()),
            Miniscript::Sh(sh) => {
                self.add_script(sh.inner_script().as_bytes());
                if let ShInner::Wsh(wsh) = sh.as_inner() {
                    self.add_script(wsh.script_pubkey().as_bytes());
                    self.add_script(wsh.inner_script().as_bytes());
                }
            }
            Miniscript::Tr(tr) => self.add_tree(tr),
            Miniscript::Bare(_) | Miniscript::Pkh(_) | Miniscript::Wpkh(_) => {}
        }
    }

    fn add_tree(&mut self, tr: &Tr<PublicKey>) {
        let info = tr.spend_info();
        let leaves = info.leaves().map(|leaf| {
            let beside = leaf.control_block().merkle_branch.iter().rev();
            let beside = beside.map(|hash| hash.to_byte_array()).collect();
            Leaf { script: leaf.script().to_bytes(), beside }
        });
        let internal_key = info.internal_key().serialize();
        let tree = Tree { internal_key, leaves: leaves.collect() };
        self.trees.insert(info.output_key().to_x_only_public_key().serialize(), tree);
    }

    pub(super) fn key(&self, hash: &[u8]) -> Option<&[u8]> {
        self.keys.get(&hash160::Hash::from_slice(hash).ok()?).map(Vec::as_slice)
    }

    /// Returns the script with a hash (of P2SH).
    pub(super) fn script(&self, hash: &[u8]) -> Option<&[u8]> {
        self.scripts.get(&hash160::Hash::from_slice(hash).ok()?).map(Vec::as_slice)
    }

    /// Returns how the output with a key may be spent.
    pub(super) fn tree(&self, output_key: &[u8]) -> Option<&Tree> {
        self.trees.get(output_key)
    }

    /// Returns the text that comes before a key: its origin in brackets; empty if it is not known.
    pub(super) fn origin(&self, key: &[u8]) -> String {
        let Some(Origin { fingerprint, path }) = self.origins.get(&hash160::Hash::hash(key)) else {
            return String::new();
        };
        let steps = path.iter().map(|step| match step {
            ChildNumber::Normal { index } => format!("/{index}"),
            ChildNumber::Hardened { index } => format!("/{index}h"),
        });
        format!("[{fingerprint:x}{}]", steps.collect::<String>())
    }
}

/// Returns the origin that a key has of itself: its own hash, or that of the extended key with the
/// steps from there.
fn own_origin(key: &DescriptorPublicKey, hash: hash160::Hash, index: u32) -> Origin {
    let DescriptorPublicKey::XPub(extended) = key else {
        let [a, b, c, d, ..] = hash.to_byte_array();
        return Origin { fingerprint: Fingerprint::from([a, b, c, d]), path: Vec::new() };
    };
    let mut path: Vec<ChildNumber> = extended.derivation_path.into_iter().copied().collect();
    if extended.wildcard == Wildcard::Unhardened {
        path.push(ChildNumber::Normal { index });
    }
    Origin { fingerprint: extended.xkey.fingerprint(), path }
}

/// Returns the origin in brackets before a key.
fn origin_of(key: &DescriptorPublicKey) -> Option<&(Fingerprint, bitcoin::bip32::DerivationPath)> {
    match key {
        DescriptorPublicKey::Single(single) => single.origin.as_ref(),
        DescriptorPublicKey::XPub(extended) => extended.origin.as_ref(),
        DescriptorPublicKey::MultiXPub(_) => None,
    }
}
