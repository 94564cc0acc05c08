use super::payload::bounded;
use super::{Command, Payload};
use crate::{Cursor, ParseError, compact_size_len, put_compact_size};

/// The shortest name of a feature in bytes (BIP434).
const ID_BYTES_MIN: usize = 4;
/// The longest name of a feature in bytes (Core's `MAX_FEATUREID_LENGTH`).
const ID_BYTES_MAX: usize = 80;
/// The most data of a feature in bytes (Core's `MAX_FEATUREDATA_LENGTH`).
const DATA_BYTES_MAX: usize = 512;

/// A feature that the sender supports, between `version` and `verack` (BIP434).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feature<'a> {
    /// The name of the feature: 4 to 80 bytes.
    pub id: &'a [u8],
    /// What the feature's specification asks for: at most 512 bytes.
    pub data: &'a [u8],
}

impl<'a> Feature<'a> {
    /// Reads the message, after which nothing may follow.
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let len = bounded(cursor, ID_BYTES_MAX, "the name of a feature has more than 80 bytes")?;
        if len < ID_BYTES_MIN {
            return Err(cursor.error("the name of a feature has fewer than 4 bytes"));
        }
        let id = cursor.take(len)?;
        let len = bounded(cursor, DATA_BYTES_MAX, "a feature has more than 512 bytes of data")?;
        let data = cursor.take(len)?;
        match cursor.remaining() {
            0 => Ok(Self { id, data }),
            _ => Err(cursor.error("bytes follow after a feature")),
        }
    }
}

impl Payload for Feature<'_> {
    fn command(&self) -> Command {
        Command::FEATURE
    }

    fn size(&self) -> usize {
        [self.id, self.data].iter().map(|it| compact_size_len(it.len() as u64) + it.len()).sum()
    }

    fn put(&self, out: &mut Vec<u8>) {
        for bytes in [self.id, self.data] {
            put_compact_size(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
    }
}
