//! The handshake of the v2 transport (BIP324). Both sides do the same, in this order:
//!
//! | send | receive |
//! |---|---|
//! | a public key, garbage | the peer's public key |
//! | a terminator, the version packet | the peer's garbage, up to its terminator |
//! | | decoys, the version packet |

use apus_wire::message::Command;
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use secp256k1::ellswift::{ElligatorSwift, ElligatorSwiftParty};
use secp256k1::{Secp256k1, SecretKey};

use super::cipher::{Inbound, Outbound};
use super::error::V2Error;

/// Bytes of a public key, which look random (ElligatorSwift).
pub const KEY_BYTES: usize = 64;
/// The most bytes of garbage after a public key.
pub const GARBAGE_BYTES_MAX: usize = 4095;
/// Bytes of the terminator after the garbage.
pub const TERMINATOR_BYTES: usize = 16;

/// The two sides of a connection, whose keys differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Opened the connection.
    Initiator,
    /// Accepted the connection.
    Responder,
}

/// A handshake of which nothing has been received.
pub struct Handshake {
    pub(super) magic: [u8; 4],
    pub(super) role: Role,
    pub(super) secret: SecretKey,
    pub(super) key: ElligatorSwift,
    pub(super) garbage: Vec<u8>,
}

/// A connection whose two sides know each other's keys.
pub struct Agreed {
    /// Encrypts what we send. Its first packet is the version packet, which is empty.
    pub outbound: Outbound,
    /// Decrypts what the peer sends, once it has the peer's garbage.
    pub inbound: Inbound,
    /// Bytes that we send between garbage and version packet.
    pub our_terminator: [u8; TERMINATOR_BYTES],
    /// Bytes that the peer sends between garbage and version packet.
    pub their_terminator: [u8; TERMINATOR_BYTES],
}

impl Handshake {
    /// Begins a handshake. The random bytes make the secret key, hide it from others on this
    /// machine while the public key is computed, and choose one of the forms of the public key.
    ///
    /// # Errors
    /// The random bytes are not a secret key.
    pub fn new(
        magic: [u8; 4],
        role: Role,
        [secret, blinding, form]: [[u8; 32]; 3],
        garbage: Vec<u8>,
    ) -> Result<Self, V2Error> {
        let secret = SecretKey::from_slice(&secret).map_err(|_| V2Error::Secret)?;
        let mut secp = Secp256k1::new();
        secp.seeded_randomize(&blinding);
        let key = ElligatorSwift::from_seckey(&secp, secret, Some(form));
        Ok(Self { magic, role, secret, key, garbage })
    }

    /// Returns what we send first.
    pub fn opening(&self) -> Vec<u8> {
        [&self.key.to_array()[..], &self.garbage].concat()
    }

    /// Takes the public key of the peer.
    ///
    /// # Errors
    /// The peer speaks v1.
    pub fn receive_key(mut self, theirs: [u8; KEY_BYTES]) -> Result<Agreed, V2Error> {
        // As in Core: this is how a `version` message begins, after the magic.
        if theirs[4..].starts_with(&Command::VERSION.padded()) {
            return Err(V2Error::V1);
        }
        let theirs = ElligatorSwift::from_array(theirs);
        let (a, b, party) = match self.role {
            Role::Initiator => (self.key, theirs, ElligatorSwiftParty::A),
            Role::Responder => (theirs, self.key, ElligatorSwiftParty::B),
        };
        let shared = ElligatorSwift::shared_secret(a, b, self.secret, party, None);
        self.secret.non_secure_erase();
        let salt = [&b"bitcoin_v2_shared_secret"[..], &self.magic].concat();
        let keys = Salt::new(HKDF_SHA256, &salt).extract(shared.as_secret_bytes());
        let initiator = [expand(&keys, "initiator_L"), expand(&keys, "initiator_P")];
        let responder = [expand(&keys, "responder_L"), expand(&keys, "responder_P")];
        let terminators = expand(&keys, "garbage_terminators");
        let (ours, theirs) = terminators.split_at(TERMINATOR_BYTES);
        let [initiates, responds] = [(initiator, ours), (responder, theirs)];
        let ((send, ours), (receive, theirs)) = match self.role {
            Role::Initiator => (initiates, responds),
            Role::Responder => (responds, initiates),
        };
        let half = |bytes: &[u8]| bytes.try_into().expect("half of 32 bytes");
        Ok(Agreed {
            outbound: Outbound::new(send[0], send[1], self.garbage),
            inbound: Inbound::new(receive[0], receive[1]),
            our_terminator: half(ours),
            their_terminator: half(theirs),
        })
    }
}

fn expand(keys: &Prk, info: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    let info = [info.as_bytes()];
    let expanded = keys.expand(&info, HKDF_SHA256).and_then(|out| out.fill(&mut bytes));
    expanded.expect("HKDF can make 32 bytes");
    bytes
}
