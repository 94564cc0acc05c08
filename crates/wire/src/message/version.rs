use super::payload::{PayloadError, bounded};
use super::{Command, Payload};
use crate::{Cursor, compact_size_len, put_compact_size};

/// The maximum length of a user agent in bytes (Core's `MAX_SUBVERSION_LENGTH`).
pub const SUBVERSION_BYTES_MAX: usize = 256;
/// Length of an address in a `version` message: services, address, port.
const ADDRESS_BYTES: usize = 26;

/// The services that a peer offers (Core's `ServiceFlags`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Services(pub u64);

impl Services {
    /// All blocks.
    pub const NETWORK: Self = Self(1);
    /// Blocks and transactions with witnesses (BIP144).
    pub const WITNESS: Self = Self(1 << 3);
    /// Filters of blocks (BIP157).
    pub const COMPACT_FILTERS: Self = Self(1 << 6);
    /// The last 288 blocks (BIP159).
    pub const NETWORK_LIMITED: Self = Self(1 << 10);
    /// The v2 transport (BIP324).
    pub const P2P_V2: Self = Self(1 << 11);

    /// Returns whether all of `others` are offered.
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the union of these services and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// The first message of each side of a connection (`version`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version<'a> {
    /// The highest protocol version that the sender supports.
    pub version: i32,
    /// The services that the sender offers.
    pub services: Services,
    /// The sender's time in seconds since 1970.
    pub time: i64,
    /// Services, address and port of the receiver, as the sender sees them: 26 bytes.
    pub receiver: [u8; ADDRESS_BYTES],
    /// A random number by which a node detects a connection to itself.
    pub nonce: u64,
    /// Name and version of the sender's program (BIP14).
    pub user_agent: &'a [u8],
    /// Height of the sender's best block.
    pub start_height: i32,
    /// Whether the sender wants transactions to be announced (BIP37).
    pub relay: bool,
}

impl<'a> Version<'a> {
    /// Reads the message. As in Core, the fields after the receiver's address may be missing, since
    /// very old peers do not send all of them.
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, PayloadError> {
        let version = cursor.u32()? as i32;
        let services = Services(cursor.u64()?);
        let time = cursor.u64()? as i64;
        let mut message = Self {
            version,
            services,
            time: time.max(0),
            receiver: cursor.array()?,
            nonce: 1,
            user_agent: &[],
            start_height: -1,
            relay: true,
        };
        if cursor.remaining() > 0 {
            cursor.take(ADDRESS_BYTES)?;
            message.nonce = cursor.u64()?;
        }
        if cursor.remaining() > 0 {
            let what = "a user agent of more than 256 bytes";
            let len = bounded(cursor, SUBVERSION_BYTES_MAX, what)?;
            message.user_agent = cursor.take(len)?;
        }
        if cursor.remaining() > 0 {
            message.start_height = cursor.u32()? as i32;
        }
        if cursor.remaining() > 0 {
            message.relay = cursor.u8()? != 0;
        }
        Ok(message)
    }
}

impl Payload for Version<'_> {
    fn command(&self) -> Command {
        Command::VERSION
    }

    fn size(&self) -> usize {
        let len = self.user_agent.len();
        20 + 2 * ADDRESS_BYTES + 8 + compact_size_len(len as u64) + len + 5
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.services.0.to_le_bytes());
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&self.receiver);
        // The sender's own address, which receivers ignore.
        out.extend_from_slice(&self.services.0.to_le_bytes());
        out.extend_from_slice(&[0; ADDRESS_BYTES - 8]);
        out.extend_from_slice(&self.nonce.to_le_bytes());
        put_compact_size(out, self.user_agent.len() as u64);
        out.extend_from_slice(self.user_agent);
        out.extend_from_slice(&self.start_height.to_le_bytes());
        out.push(u8::from(self.relay));
    }
}
