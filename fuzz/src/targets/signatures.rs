//! Signatures: their encoding, and batches of them.

use bitcoin::secp256k1::{
    Keypair, Message, PublicKey, Secp256k1, SecretKey, XOnlyPublicKey, ecdsa, schnorr,
};
use secp_lanes::{Batch, Kernel, Options, Verdict};

/// The largest number of signatures in a batch: more than the lanes of a vector.
const BATCH_MAX: usize = 20;

/// Reads `data` as a signature in DER. The batch accepts what BIP66 allows, if its numbers have at
/// most 32 bytes, and libsecp256k1 finds the same numbers in it.
pub fn der(data: &[u8]) {
    let secp = Secp256k1::new();
    let key = PublicKey::from_secret_key(&secp, &secret(1)).serialize();
    let mut batch = Batch::new(Options { kernel: Some(Kernel::Library), ..Options::default() });
    batch.push_ecdsa(&key, data, &[1; 32]);
    let is_read = batch.verify()[0] != Verdict::Undecided;
    assert_eq!(is_read, numbers_if_strict(data).is_some_and(|(r, s)| fits(r) && fits(s)));
    if let Some((r, s)) = numbers_if_strict(data).filter(|_| is_read) {
        let theirs = ecdsa::Signature::from_der(data).expect("libsecp256k1 reads it too");
        let theirs = theirs.serialize_compact();
        // libsecp256k1 reads a number of n or more as zero.
        let is_read_as = |number: &[u8], theirs: &[u8]| {
            let digits = |bytes: &[u8]| {
                let first = bytes.iter().position(|byte| *byte != 0);
                bytes[first.unwrap_or(bytes.len())..].to_vec()
            };
            digits(theirs).is_empty() || digits(number) == digits(theirs)
        };
        assert!(is_read_as(r, &theirs[..32]) && is_read_as(s, &theirs[32..]));
    }
}

/// Returns whether a number has at most 32 bytes, apart from the zero for its sign.
fn fits(number: &[u8]) -> bool {
    number.len() <= 32 || number.len() == 33 && number[0] == 0
}

/// Returns r and s of a signature without its sighash type if BIP66 allows it; this is its function
/// `IsValidSignatureEncoding`, step by step.
fn numbers_if_strict(der: &[u8]) -> Option<(&[u8], &[u8])> {
    // With the sighash type, 9 to 73 bytes.
    if !(8..=72).contains(&der.len()) || der[0] != 0x30 || usize::from(der[1]) != der.len() - 2 {
        return None;
    }
    let r_len = usize::from(der[3]);
    if 5 + r_len >= der.len() {
        return None;
    }
    let s_len = usize::from(der[5 + r_len]);
    if r_len + s_len + 6 != der.len() || der[2] != 2 || der[4 + r_len] != 2 {
        return None;
    }
    let r = &der[4..4 + r_len];
    let s = &der[6 + r_len..];
    let is_strict = |number: &[u8]| !matches!(number, [] | [0x80..=0xff, ..] | [0, 0..=0x7f, ..]);
    (is_strict(r) && is_strict(s)).then_some((r, s))
}

/// Reads each eight bytes of the input as a signature: its kind, its key, its message, which part
/// is spoiled, where, and how. The verdicts of a batch must be those of libsecp256k1.
pub fn batch(data: &[u8]) {
    let secp = Secp256k1::new();
    let mut batch = Batch::default();
    let mut expected = Vec::new();
    let (recipes, _) = data.as_chunks::<8>();
    for [kind, key, message, part, at, bit, other, flip] in recipes.iter().take(BATCH_MAX) {
        let keys = Keypair::from_secret_key(&secp, &secret(*key));
        let mut message = [*message; 32];
        let spoil = |bytes: &mut [u8]| {
            let at = usize::from(*at) % bytes.len();
            bytes[at] = (bytes[at] ^ 1 << (bit % 8)).wrapping_add(*other) ^ flip;
        };
        if kind % 2 == 0 {
            let signed = secp.sign_ecdsa(&Message::from_digest(message), &keys.secret_key());
            let mut der = signed.serialize_der().to_vec();
            let mut public = match kind % 4 {
                0 => keys.public_key().serialize().to_vec(),
                _ => keys.public_key().serialize_uncompressed().to_vec(),
            };
            match part % 4 {
                0 => spoil(&mut der),
                1 => spoil(&mut public),
                2 => spoil(&mut message),
                _ => {}
            }
            batch.push_ecdsa(&public, &der, &message);
            let is_valid = || {
                let key = PublicKey::from_slice(&public).ok()?;
                let mut signature = ecdsa::Signature::from_der(&der).ok()?;
                signature.normalize_s();
                secp.verify_ecdsa(&Message::from_digest(message), &signature, &key).ok()
            };
            expected.push(is_valid().is_some());
        } else {
            let signed = secp.sign_schnorr_no_aux_rand(&Message::from_digest(message), &keys);
            let mut signature = signed.serialize();
            let mut public = keys.x_only_public_key().0.serialize();
            match part % 4 {
                0 => spoil(&mut signature),
                1 => spoil(&mut public),
                2 => spoil(&mut message),
                _ => {}
            }
            batch.push_schnorr(&public, &signature, &message);
            let is_valid = || {
                let key = XOnlyPublicKey::from_slice(&public).ok()?;
                let signature = schnorr::Signature::from_slice(&signature).ok()?;
                secp.verify_schnorr(&signature, &Message::from_digest(message), &key).ok()
            };
            expected.push(is_valid().is_some());
        }
    }
    let verdicts = batch.verify();
    assert_eq!(verdicts.len(), expected.len());
    for (verdict, expected) in verdicts.iter().zip(expected) {
        match verdict {
            Verdict::Valid => assert!(expected, "libsecp256k1 refuses it"),
            Verdict::Invalid => assert!(!expected, "libsecp256k1 accepts it"),
            Verdict::Undecided => {}
        }
    }
}

fn secret(key: u8) -> SecretKey {
    let mut bytes = [7; 32];
    bytes[31] = key;
    SecretKey::from_slice(&bytes).expect("below n")
}
