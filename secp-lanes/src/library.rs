//! libsecp256k1, one signature after another.

use secp256k1::{
    Message, Parity, PublicKey, SECP256K1, Scalar, XOnlyPublicKey, ecdsa::Signature, schnorr,
};

use crate::batch::Verdict;
use crate::parse::der_numbers;

fn verdict(valid: Option<()>) -> Verdict {
    if valid.is_some() { Verdict::Valid } else { Verdict::Invalid }
}

/// Verifies an ECDSA signature in strict DER, with a compressed or uncompressed key.
pub fn ecdsa(key: &[u8], der: &[u8], message: &[u8; 32]) -> Verdict {
    let Some((r, s)) = der_numbers(der) else { return Verdict::Undecided };
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&r);
    compact[32..].copy_from_slice(&s);
    verdict((|| {
        let key = PublicKey::from_slice(key).ok()?;
        let mut signature = Signature::from_compact(&compact).ok()?;
        signature.normalize_s();
        SECP256K1.verify_ecdsa(&Message::from_digest(*message), &signature, &key).ok()
    })())
}

/// Verifies a BIP340 signature; undecided for messages that are not 32 bytes long.
pub fn schnorr(key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Verdict {
    let Ok(message) = message.try_into() else { return Verdict::Undecided };
    verdict((|| {
        let key = XOnlyPublicKey::from_slice(key).ok()?;
        let signature = schnorr::Signature::from_slice(signature).ok()?;
        SECP256K1.verify_schnorr(&signature, &Message::from_digest(message), &key).ok()
    })())
}

/// Verifies a Taproot commitment.
pub fn tweak(internal: &[u8; 32], tweak: &[u8; 32], output: &[u8; 32], odd: bool) -> Verdict {
    verdict((|| {
        let internal = XOnlyPublicKey::from_slice(internal).ok()?;
        let output = XOnlyPublicKey::from_slice(output).ok()?;
        let parity = if odd { Parity::Odd } else { Parity::Even };
        let tweak = Scalar::from_be_bytes(*tweak).ok()?;
        internal.tweak_add_check(SECP256K1, &output, parity, tweak).then_some(())
    })())
}
