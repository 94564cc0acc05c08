use std::path::{Path, PathBuf};

/// The name of the bytewise order of keys, stored in every manifest.
pub const COMPARATOR: &[u8] = b"leveldb.BytewiseComparator";
/// The key in the metaindex block under which a table names its bloom filters.
pub const FILTER_KEY: &[u8] = b"filter.leveldb.BuiltinBloomFilter2";
/// Number of levels of a database (`config::kNumLevels`).
pub const LEVELS: usize = 7;
/// The largest sequence number (56 bits).
pub const SEQUENCE_MAX: u64 = (1 << 56) - 1;
/// Length in bytes of the sequence number and kind after the user key in an internal key.
pub const TRAILER_BYTES: usize = 8;
/// Length in bytes of the compression type and checksum after each block.
pub const BLOCK_TRAILER_BYTES: usize = 5;
/// Length in bytes of the footer at the end of a table.
pub const FOOTER_BYTES: usize = 48;
/// The maximum length in bytes of a key and of a value that this engine writes; LevelDB's own limit
/// is 4 GiB.
pub(super) const ENTRY_BYTES_MAX: usize = 1 << 29;

/// The last eight bytes of a table (`kTableMagicNumber`).
pub const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// The constant that is added to a checksum before it is stored (`kMaskDelta`).
pub const MASK_DELTA: u32 = 0xa282_ead8;

/// The first and the last internal key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub smallest: Box<[u8]>,
    pub largest: Box<[u8]>,
}

/// The kind of an entry: it sets or deletes its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The key is deleted (`kTypeDeletion`).
    Delete = 0,
    /// The key has the value that follows (`kTypeValue`).
    Put = 1,
}

impl Kind {
    /// Returns the kind in a [`trailer`]; `None` if it is unknown.
    #[inline]
    pub(super) fn of(trailer: u64) -> Option<Self> {
        match trailer & 0xff {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            _ => None,
        }
    }
}

/// Returns the eight bytes after a user key, as a number.
pub(super) fn trailer(sequence: u64, kind: Kind) -> u64 {
    sequence << 8 | kind as u64
}

/// Appends `value` as a base-128 varint, low bits first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` as a varint at `*at` in `out`, and moves `*at` past it.
pub(super) fn put_varint_at(out: &mut [u8], at: &mut usize, mut value: u64) {
    while value >= 0x80 {
        out[*at] = value as u8 | 0x80;
        *at += 1;
        value >>= 7;
    }
    out[*at] = value as u8;
    *at += 1;
}

/// Copies `bytes` to the start of `out`. Up to 48 bytes, the length of most keys, values and
/// scripts, are copied in overlapping pieces of a fixed size, without a call to memcpy.
#[inline(always)]
pub fn put_short(out: &mut [u8], bytes: &[u8]) {
    let len = bytes.len();
    let out = &mut out[..len];
    match len {
        8..=15 => {
            out[..8].copy_from_slice(&bytes[..8]);
            out[len - 8..].copy_from_slice(&bytes[len - 8..]);
        }
        16..=32 => {
            out[..16].copy_from_slice(&bytes[..16]);
            out[len - 16..].copy_from_slice(&bytes[len - 16..]);
        }
        33..=SHORT_BYTES => {
            out[..32].copy_from_slice(&bytes[..32]);
            out[len - 16..].copy_from_slice(&bytes[len - 16..]);
        }
        _ => out.copy_from_slice(bytes),
    }
}

/// Appends `bytes` to `out`, like [`put_short`].
#[inline(always)]
pub fn append_short(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() > SHORT_BYTES {
        out.extend_from_slice(bytes);
        return;
    }
    let start = out.len();
    out.extend_from_slice(&[0; SHORT_BYTES]);
    put_short(&mut out[start..], bytes);
    out.truncate(start + bytes.len());
}

/// The maximum number of bytes that are copied without a call to memcpy.
const SHORT_BYTES: usize = 48;

/// Reads a varint at `*at` and moves `*at` past it; `None` if it does not end or exceeds 64 bits.
#[inline]
pub(super) fn get_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Like [`get_varint`], for a value that must fit in 32 bits.
#[inline]
pub(super) fn get_varint32(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(usize::from(first));
    }
    get_varint(bytes, at).filter(|v| *v <= u64::from(u32::MAX)).map(|v| v as usize)
}

/// Appends a byte string, preceded by its length.
pub(super) fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a byte string that is preceded by its length, and moves `*at` past it.
pub(super) fn get_slice<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = get_varint32(bytes, at)?;
    let slice = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(slice)
}

/// Reads a four-byte little-endian number.
#[inline]
pub(super) fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

/// Reads an eight-byte little-endian number.
#[inline]
pub(super) fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let low = get_u32(bytes, at)?;
    let high = get_u32(bytes, at.checked_add(4)?)?;
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Returns the stored form of a checksum, rotated and with a constant added, because a checksum
/// over bytes that contain checksums is weak.
pub(super) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The location of a block in its table, without its trailer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Handle {
    pub offset: u64,
    pub size: u64,
}

impl Handle {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.size);
    }

    pub(super) fn get(bytes: &[u8], at: &mut usize) -> Option<Self> {
        Some(Self { offset: get_varint(bytes, at)?, size: get_varint(bytes, at)? })
    }
}

/// The footer of a table: the locations of its metaindex block and its index block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Footer {
    pub metaindex: Handle,
    pub index: Handle,
}

/// Returns the bytes of a footer, the last ones of a table.
pub(super) fn footer_bytes(footer: Footer) -> Vec<u8> {
    let mut out = Vec::with_capacity(FOOTER_BYTES);
    footer.metaindex.put(&mut out);
    footer.index.put(&mut out);
    out.resize(FOOTER_BYTES - 8, 0);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out
}

/// Reads a footer; `None` if the bytes are not the footer of a table.
pub(super) fn read_footer(bytes: &[u8]) -> Option<Footer> {
    if bytes.len() != FOOTER_BYTES || get_u64(bytes, FOOTER_BYTES - 8)? != MAGIC {
        return None;
    }
    let mut at = 0;
    let metaindex = Handle::get(bytes, &mut at)?;
    let index = Handle::get(bytes, &mut at)?;
    (at <= FOOTER_BYTES - 8).then_some(Footer { metaindex, index })
}

/// The parts of an internal key.
#[derive(Clone, Copy)]
pub(super) struct InternalKey<'a> {
    pub user: &'a [u8],
    /// Whether the entry sets or deletes its key.
    pub kind: Kind,
    /// Sequence number and kind, combined by [`trailer`].
    pub trailer: u64,
}

/// Splits an internal key into user key and trailer; `None` if it is too short or of an unknown
/// kind.
#[inline]
pub(super) fn split_key(internal: &[u8]) -> Option<InternalKey<'_>> {
    let at = internal.len().checked_sub(TRAILER_BYTES)?;
    let trailer = get_u64(internal, at)?;
    let user = &internal[..at];
    Kind::of(trailer).map(|kind| InternalKey { user, kind, trailer })
}

/// Returns the user key in an internal key, or all of the key if it is too short to be one.
#[inline]
pub(super) fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(TRAILER_BYTES)]
}

/// Compares internal keys: by user key, and the newer entry of a user key first.
pub(super) fn compare_internal(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let number = |key: &[u8]| get_u64(key, key.len().saturating_sub(TRAILER_BYTES)).unwrap_or(0);
    user_key(a).cmp(user_key(b)).then_with(|| number(b).cmp(&number(a)))
}

/// Returns the length of the longest common prefix of `a` and `b`.
#[inline]
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= len {
        let (Some(x), Some(y)) = (get_u64(a, at), get_u64(b, at)) else { break };
        if x != y {
            return at + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < len && a[at] == b[at] {
        at += 1;
    }
    at
}

/// Returns the index of the first of `items`, from index `from` on, for which `is_before` is false.
/// Nearby items are tried first, since successive ascending keys are usually close to each other.
#[inline]
pub(super) fn first_from<T>(items: &[T], from: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let mut low = from;
    let mut step = 1;
    while items.get(low + step - 1).is_some_and(&is_before) {
        low += step;
        step *= 2;
    }
    let end = items.len().min(low + step);
    let low = low.min(end);
    low + items[low..end].partition_point(is_before)
}

/// Shortens `key`, the internal key of the last entry of a block, to a separator: not smaller than
/// `key`, and smaller than the user key `next`, with which the next block starts; `None` after the
/// last block.
pub(super) fn shorten_separator(key: &mut Vec<u8>, next: Option<&[u8]>) {
    let user = user_key(key);
    let at = match next {
        Some(next) => {
            let at = common_prefix(user, next);
            let fits = |(a, b): (&u8, &u8)| *a < 0xff && *a + 1 < *b;
            user.get(at).zip(next.get(at)).is_some_and(fits).then_some(at)
        }
        None => user.iter().position(|byte| *byte != 0xff),
    };
    let Some(at) = at else { return };
    if at + 1 < user.len() {
        key[at] += 1;
        key.truncate(at + 1);
        key.extend_from_slice(&trailer(SEQUENCE_MAX, Kind::Put).to_le_bytes());
    }
}

/// A file in the directory of a database, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileName {
    Table(u64),
    Log(u64),
    Manifest(u64),
    Temporary(u64),
    Current,
    Lock,
    InfoLog,
}

/// Parses the name of a file; `None` if LevelDB gives no such name.
pub(super) fn parse_name(name: &str) -> Option<FileName> {
    match name {
        "CURRENT" => return Some(FileName::Current),
        "LOCK" => return Some(FileName::Lock),
        "LOG" | "LOG.old" => return Some(FileName::InfoLog),
        _ => {}
    }
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    if let Some(digits) = name.strip_prefix("MANIFEST-") {
        return number(digits).map(FileName::Manifest);
    }
    let (digits, ending) = name.split_once('.')?;
    match ending {
        "ldb" | "sst" => number(digits).map(FileName::Table),
        "log" => number(digits).map(FileName::Log),
        "dbtmp" => number(digits).map(FileName::Temporary),
        _ => None,
    }
}

pub(super) fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.ldb"))
}

pub(super) fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.log"))
}
