use std::path::Path;

use apus_disk::{Result, StoreError};

use super::format::{
    COMPARATOR, KeyRange, LEVELS, TRAILER_BYTES, get_slice, get_varint, get_varint32, put_slice,
    put_varint,
};

/// Tag of the name of the key order.
pub const TAG_COMPARATOR: usize = 1;
/// Tag of the number below which logs are no longer needed, since tables hold their content.
pub const TAG_LOG_NUMBER: usize = 2;
/// Tag of the number of the next file.
pub const TAG_NEXT_FILE: usize = 3;
/// Tag of the last sequence number used.
pub const TAG_LAST_SEQUENCE: usize = 4;
/// Tag of the key at which LevelDB's next compaction of a level would begin; read but never
/// written.
pub const TAG_COMPACT_POINTER: usize = 5;
/// Tag of a table that is removed from the database.
pub const TAG_DELETED_FILE: usize = 6;
/// Tag of a table that is added to the database.
pub const TAG_NEW_FILE: usize = 7;
/// Tag of the number of an earlier log that is still needed (by very old versions of LevelDB); 0
/// for none.
pub const TAG_PREV_LOG_NUMBER: usize = 9;

/// A table that a manifest record adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewFile {
    pub level: usize,
    pub number: u64,
    pub bytes: u64,
    pub keys: KeyRange,
}

/// A table that a manifest record removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeletedFile {
    pub level: usize,
    pub number: u64,
}

/// One record of a manifest: a change to the database that becomes visible as a whole
/// (`VersionEdit`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edit {
    /// Whether the record names the key order, [`COMPARATOR`].
    pub comparator: bool,
    /// The number below which logs are no longer needed.
    pub log_number: Option<u64>,
    /// The number of an earlier log that is still needed; 0 for none.
    pub prev_log_number: Option<u64>,
    pub next_file: Option<u64>,
    pub last_sequence: Option<u64>,
    pub deleted: Vec<DeletedFile>,
    pub new: Vec<NewFile>,
}

impl Edit {
    /// Returns the bytes of the record.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.comparator {
            put_varint(&mut out, TAG_COMPARATOR as u64);
            put_slice(&mut out, COMPARATOR);
        }
        let numbers = [
            (TAG_LOG_NUMBER, self.log_number),
            (TAG_PREV_LOG_NUMBER, self.prev_log_number),
            (TAG_NEXT_FILE, self.next_file),
            (TAG_LAST_SEQUENCE, self.last_sequence),
        ];
        for (tag, number) in numbers {
            if let Some(number) = number {
                put_varint(&mut out, tag as u64);
                put_varint(&mut out, number);
            }
        }
        for file in &self.deleted {
            put_varint(&mut out, TAG_DELETED_FILE as u64);
            put_varint(&mut out, file.level as u64);
            put_varint(&mut out, file.number);
        }
        for file in &self.new {
            put_varint(&mut out, TAG_NEW_FILE as u64);
            put_varint(&mut out, file.level as u64);
            put_varint(&mut out, file.number);
            put_varint(&mut out, file.bytes);
            put_slice(&mut out, &file.keys.smallest);
            put_slice(&mut out, &file.keys.largest);
        }
        out
    }

    /// Reads the record at `offset` of the manifest at `path`.
    pub(super) fn decode(bytes: &[u8], path: &Path, offset: u64) -> Result<Self> {
        let mut edit = Self::default();
        let mut at = 0;
        while at < bytes.len() {
            let Some(field) = edit.read_field(bytes, &mut at) else {
                return Err(StoreError::corrupt(
                    path,
                    offset,
                    "a record of the manifest is damaged",
                ));
            };
            if let Field::Comparator(name) = field
                && name != COMPARATOR
            {
                let what = format!(
                    "the keys of this database are ordered by \"{}\", but only databases ordered \
                     by \"{}\" can be read",
                    name.escape_ascii(),
                    COMPARATOR.escape_ascii()
                );
                return Err(StoreError::corrupt(path, offset, what));
            }
        }
        Ok(edit)
    }

    /// Reads the field at `*at` and moves to the next one; `None` if it is damaged.
    fn read_field<'a>(&mut self, bytes: &'a [u8], at: &mut usize) -> Option<Field<'a>> {
        match get_varint32(bytes, at)? {
            TAG_COMPARATOR => {
                self.comparator = true;
                return Some(Field::Comparator(get_slice(bytes, at)?));
            }
            TAG_LOG_NUMBER => self.log_number = Some(get_varint(bytes, at)?),
            TAG_PREV_LOG_NUMBER => self.prev_log_number = Some(get_varint(bytes, at)?),
            TAG_NEXT_FILE => self.next_file = Some(get_varint(bytes, at)?),
            TAG_LAST_SEQUENCE => self.last_sequence = Some(get_varint(bytes, at)?),
            TAG_COMPACT_POINTER => {
                // The position is not needed: a compaction may begin at any key.
                get_level(bytes, at)?;
                get_slice(bytes, at)?;
            }
            TAG_DELETED_FILE => {
                let level = get_level(bytes, at)?;
                let number = get_varint(bytes, at)?;
                self.deleted.push(DeletedFile { level, number });
            }
            TAG_NEW_FILE => self.new.push(NewFile {
                level: get_level(bytes, at)?,
                number: get_varint(bytes, at)?,
                bytes: get_varint(bytes, at)?,
                keys: KeyRange { smallest: get_key(bytes, at)?, largest: get_key(bytes, at)? },
            }),
            _ => return None,
        }
        Some(Field::Taken)
    }
}

/// A field that was read from a manifest record.
enum Field<'a> {
    /// The name of the key order, for the caller to compare.
    Comparator(&'a [u8]),
    /// A field that is now stored in the record.
    Taken,
}

fn get_level(bytes: &[u8], at: &mut usize) -> Option<usize> {
    get_varint32(bytes, at).filter(|level| *level < LEVELS)
}

fn get_key(bytes: &[u8], at: &mut usize) -> Option<Box<[u8]>> {
    get_slice(bytes, at).filter(|key| key.len() >= TRAILER_BYTES).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_comes_back_and_damage_is_an_error() {
        let file = NewFile {
            level: 6,
            number: 300,
            bytes: 1 << 40,
            keys: KeyRange { smallest: b"a1234567"[..].into(), largest: b"zz1234567"[..].into() },
        };
        let edit = Edit {
            comparator: true,
            log_number: Some(3),
            prev_log_number: Some(0),
            next_file: Some(u64::MAX),
            last_sequence: Some(1 << 50),
            deleted: vec![DeletedFile { level: 0, number: 5 }, DeletedFile { level: 3, number: 6 }],
            new: vec![file],
        };
        let bytes = edit.encode();
        let path = Path::new("MANIFEST-000001");
        assert_eq!(Edit::decode(&bytes, path, 0).unwrap(), edit);
        for cut in 1..bytes.len() {
            if let Ok(part) = Edit::decode(&bytes[..cut], path, 0) {
                assert_ne!(part, edit);
            }
        }
        assert!(Edit::decode(&[7, 9], path, 0).is_err());
        assert!(Edit::decode(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x80], path, 0).is_err());
    }
}
