//! Shared parts of the tests: random numbers, signers, and a list of checks with libsecp256k1's
//! verdicts.

pub mod cheap;

use secp_lanes::{Batch, Kernel, Options, Verdict};
use secp256k1::{Keypair, Message, SECP256K1, Scalar, SecretKey, XOnlyPublicKey};

/// SplitMix64: the same numbers from the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        bytes
    }

    pub fn key(&mut self) -> SecretKey {
        loop {
            if let Ok(key) = SecretKey::from_slice(&self.bytes()) {
                return key;
            }
        }
    }
}

/// Returns `default` times the environment variable `APUS_TEST_ROUNDS`, as in all tests of the
/// workspace.
pub fn rounds(default: usize) -> usize {
    let Ok(text) = std::env::var("APUS_TEST_ROUNDS") else { return default };
    let factor: usize = text.parse().expect("APUS_TEST_ROUNDS is a whole number");
    default.saturating_mul(factor.max(1))
}

pub fn batch(kernel: Kernel) -> Batch {
    let batch = Batch::new(Options { kernel: Some(kernel), ..Options::default() });
    assert_eq!(batch.kernel(), kernel);
    batch
}

/// Something to verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Ecdsa { key: Vec<u8>, der: Vec<u8>, message: [u8; 32] },
    Schnorr { key: [u8; 32], signature: [u8; 64], message: [u8; 32] },
    Tweak { internal: [u8; 32], tweak: [u8; 32], output: [u8; 32], odd: bool },
}

impl Check {
    pub fn push(&self, batch: &mut Batch) -> usize {
        match self {
            Self::Ecdsa { key, der, message } => batch.push_ecdsa(key, der, message),
            Self::Schnorr { key, signature, message } => {
                batch.push_schnorr(key, signature, message)
            }
            Self::Tweak { internal, tweak, output, odd } => {
                batch.push_tweak(internal, tweak, output, *odd)
            }
        }
    }

    /// Returns the message that a signature signs.
    pub fn message_mut(&mut self) -> &mut [u8; 32] {
        match self {
            Self::Ecdsa { message, .. } | Self::Schnorr { message, .. } => message,
            Self::Tweak { .. } => panic!("a commitment signs nothing"),
        }
    }

    pub fn valid(random: &mut Random) -> Self {
        match random.below(8) {
            0..=2 => Self::ecdsa(random, true),
            3 => Self::ecdsa(random, false),
            4..=6 => Self::schnorr(random),
            _ => Self::tweak(random),
        }
    }

    pub fn ecdsa(random: &mut Random, compressed: bool) -> Self {
        let key = random.key();
        let message = random.bytes();
        let mut signature = SECP256K1.sign_ecdsa(&Message::from_digest(message), &key);
        if random.below(2) == 0 {
            signature = high_s(&signature);
        }
        let key = key.public_key(SECP256K1);
        let key = if compressed {
            key.serialize().to_vec()
        } else {
            key.serialize_uncompressed().to_vec()
        };
        Self::Ecdsa { key, der: signature.serialize_der().to_vec(), message }
    }

    pub fn schnorr(random: &mut Random) -> Self {
        let pair = Keypair::from_secret_key(SECP256K1, &random.key());
        let message = random.bytes();
        let signature = SECP256K1.sign_schnorr_with_aux_rand(
            &Message::from_digest(message),
            &pair,
            &random.bytes(),
        );
        let (key, _) = pair.x_only_public_key();
        Self::Schnorr { key: key.serialize(), signature: signature.serialize(), message }
    }

    pub fn tweak(random: &mut Random) -> Self {
        let (internal, _) = random.key().x_only_public_key(SECP256K1);
        let tweak = random.key().secret_bytes();
        let scalar = Scalar::from_be_bytes(tweak).unwrap();
        let (output, parity) = internal.add_tweak(SECP256K1, &scalar).unwrap();
        Self::Tweak {
            internal: internal.serialize(),
            tweak,
            output: output.serialize(),
            odd: parity == secp256k1::Parity::Odd,
        }
    }

    /// Returns libsecp256k1's answer; `None` for encodings that other rules apply to.
    pub fn expected(&self) -> Option<bool> {
        use secp256k1::{PublicKey, ecdsa, schnorr};
        Some(match self {
            Self::Ecdsa { key, der, message } => {
                let valid = || {
                    let key = PublicKey::from_slice(key).ok()?;
                    let mut signature = ecdsa::Signature::from_der_lax(der).ok()?;
                    signature.normalize_s();
                    SECP256K1.verify_ecdsa(&Message::from_digest(*message), &signature, &key).ok()
                };
                valid().is_some()
            }
            Self::Schnorr { key, signature, message } => {
                let valid = || {
                    let key = XOnlyPublicKey::from_slice(key).ok()?;
                    let signature = schnorr::Signature::from_slice(signature).ok()?;
                    let message = Message::from_digest(*message);
                    SECP256K1.verify_schnorr(&signature, &message, &key).ok()
                };
                valid().is_some()
            }
            Self::Tweak { internal, tweak, output, odd } => {
                let valid = || {
                    let internal = XOnlyPublicKey::from_slice(internal).ok()?;
                    let output = XOnlyPublicKey::from_slice(output).ok()?;
                    let parity = secp256k1::Parity::from_u8(u8::from(*odd)).ok()?;
                    let tweak = Scalar::from_be_bytes(*tweak).ok()?;
                    Some(internal.tweak_add_check(SECP256K1, &output, parity, tweak))
                };
                valid() == Some(true)
            }
        })
    }
}

/// Returns the same signature with n - s in place of s.
pub fn high_s(signature: &secp256k1::ecdsa::Signature) -> secp256k1::ecdsa::Signature {
    let mut bytes = signature.serialize_compact();
    let s = SecretKey::from_slice(&bytes[32..]).unwrap().negate();
    bytes[32..].copy_from_slice(&s.secret_bytes());
    secp256k1::ecdsa::Signature::from_compact(&bytes).unwrap()
}

/// Verifies all in one batch, compares each verdict, and returns how many are undecided.
pub fn compare(batch: &mut Batch, checks: &[Check]) -> usize {
    for check in checks {
        check.push(batch);
    }
    let kernel = batch.kernel();
    let verdicts = batch.verify();
    assert_eq!(verdicts.len(), checks.len());
    let mut undecided = 0;
    for (i, (check, verdict)) in checks.iter().zip(verdicts).enumerate() {
        match verdict {
            Verdict::Undecided => undecided += 1,
            _ => {
                let valid = *verdict == Verdict::Valid;
                assert_eq!(Some(valid), check.expected(), "{kernel:?}, {i}: {check:?}");
            }
        }
    }
    undecided
}
