use apus_hash::Hash;
use apus_wire::{Cursor, ENDS, OutPoint, ParseError};

use super::error::SnapshotError;
use super::head::SnapshotHead;
use crate::coin::{Coin, VOUT_UNORDERED, vout_order};
use crate::script::{CompactScript, SPECIAL_TYPES, take_compressed};

/// The minimum size of a piece in bytes: 15,000 coins, which take a thread about 2 ms.
const PIECE_BYTES: usize = 1 << 20;

/// Cuts the coins of a snapshot into pieces of whole transactions.
pub struct SnapshotPieces<'a> {
    bytes: &'a [u8],
    at: usize,
    coins_left: u64,
    /// The last coin that was passed.
    last: Option<OutPoint>,
    is_sorted: bool,
}

/// Consecutive coins of a snapshot. The adjacent coins of a transaction are never split between
/// pieces.
#[derive(Clone, Copy)]
pub struct SnapshotPiece<'a> {
    bytes: &'a [u8],
    /// Offset of the first byte in the file.
    pub offset: u64,
}

impl<'a> SnapshotPieces<'a> {
    /// Returns the pieces of a whole file that begins with this head.
    pub fn new(bytes: &'a [u8], head: &SnapshotHead) -> Self {
        let at = SnapshotHead::BYTES;
        let coins_left = head.coins;
        Self { bytes, at, coins_left, last: None, is_sorted: true }
    }

    /// Returns whether the coins of all pieces so far are in the order of the tables, without
    /// repetition.
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Returns the share of the file that has been cut, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.at as f64 / self.bytes.len().max(1) as f64
    }

    /// Returns the next piece; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// The file ends early, continues after its last coin, or has bytes that are not coins.
    pub fn next_piece(&mut self) -> Result<Option<SnapshotPiece<'a>>, SnapshotError> {
        let piece = self.cut();
        if piece.is_err() {
            // Only one of the threads that share the pieces gets this error; the others get no
            // consequent error.
            (self.at, self.coins_left) = (self.bytes.len(), 0);
        }
        piece
    }

    fn cut(&mut self) -> Result<Option<SnapshotPiece<'a>>, SnapshotError> {
        if self.coins_left == 0 {
            return match self.bytes.len().checked_sub(self.at) {
                None | Some(0) => Ok(None),
                Some(more) => Err(SnapshotError::at(
                    self.at as u64,
                    format!("the file goes on for {more} bytes after its last coin"),
                )),
            };
        }
        let start = self.at;
        let mut cursor = Cursor::at(self.bytes, start);
        while self.coins_left > 0 && cursor.position() - start < PIECE_BYTES {
            self.pass_group(&mut cursor)?;
        }
        self.at = cursor.position();
        Ok(Some(SnapshotPiece { bytes: &self.bytes[start..self.at], offset: start as u64 }))
    }

    /// Skips the coins of a transaction.
    fn pass_group(&mut self, cursor: &mut Cursor<'a>) -> Result<(), SnapshotError> {
        let begin = cursor.position() as u64;
        let cut_short = |error: ParseError| {
            if error.what == ENDS {
                return SnapshotError::new(format!(
                    "the snapshot is cut short: it ends in the coins of the transaction at byte \
                     {begin}, and {} coins are missing",
                    self.coins_left
                ));
            }
            SnapshotError::parsing(0, &error)
        };
        let (txid, coins) =
            (|| Ok((Hash(cursor.array()?), cursor.compact_size()? as u64)))().map_err(cut_short)?;
        if coins > self.coins_left {
            let what = format!(
                "a transaction with {coins} coins starts here, but only {} of the coins counted in \
                 the head are left",
                self.coins_left
            );
            return Err(SnapshotError::at(begin, what));
        }
        let pass = |cursor: &mut Cursor<'a>| {
            let vout = cursor.compact_size()? as u32;
            cursor.varint()?;
            cursor.varint()?;
            take_compressed(cursor).map(|_| vout)
        };
        let is_next_tx = self.last.is_none_or(|last| last.txid < txid);
        let mut last = self.last.filter(|last| last.txid == txid).map(|last| last.vout);
        let mut is_sorted = is_next_tx || last.is_some() || coins == 0;
        for _ in 0..coins {
            let vout = pass(cursor).map_err(cut_short)?;
            is_sorted &= last.is_none_or(|last| comes_before(last, vout));
            last = Some(vout);
        }
        self.is_sorted &= is_sorted;
        self.last = last.map(|vout| OutPoint { txid, vout }).or(self.last);
        self.coins_left -= coins;
        Ok(())
    }
}

impl<'a> SnapshotPiece<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Calls `each` with every coin, in file order.
    ///
    /// # Errors
    /// A coin is invalid, or `each` fails.
    pub fn for_each<E: From<SnapshotError>>(
        &self,
        mut each: impl FnMut(&OutPoint, Coin) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = Cursor::new(self.bytes);
        let wrong = |error: ParseError| SnapshotError::parsing(self.offset, &error);
        while cursor.remaining() > 0 {
            let txid = Hash(cursor.array().map_err(wrong)?);
            for _ in 0..cursor.compact_size().map_err(wrong)? {
                let vout = cursor.compact_size().map_err(wrong)? as u32;
                let mut coin = Coin::decode(&mut cursor).map_err(wrong)?;
                make_canonical(&mut coin.script);
                each(&OutPoint { txid, vout }, coin)?;
            }
        }
        Ok(())
    }
}

/// Returns whether an output of a transaction comes before another one in the order of the tables.
fn comes_before(vout: u32, other: u32) -> bool {
    if vout.max(other) < VOUT_UNORDERED {
        vout < other
    } else {
        vout_order(vout) < vout_order(other)
    }
}

/// Converts a script to the form that Core writes. A snapshot may hold a script in full although it
/// has a shorter form, or as an invalid key, since Core decompresses the scripts that it reads.
pub(super) fn make_canonical(script: &mut CompactScript) {
    let first = u64::from(script.as_bytes()[0]);
    let is_uncompressed_key = matches!(first, 4 | 5);
    if is_uncompressed_key || first >= SPECIAL_TYPES && has_short_form(script.script_len()) {
        *script = CompactScript::new(&script.to_script());
    }
}

/// Returns whether a script of this length may have a shorter form: P2SH, P2PKH, P2PK.
pub(super) fn has_short_form(len: usize) -> bool {
    matches!(len, 23 | 25 | 35 | 67)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_once_and_nothing_after_it() {
        let coin = [&[7; 32][..], &[1, 0, 20, 0, 0], &[9; 20]].concat();
        let bytes = |coins: u64, tail: &[u8]| {
            let head = SnapshotHead { network: [0; 4], base: Hash([0; 32]), coins };
            [&head.to_bytes()[..], &coin, tail].concat()
        };
        let wrong = [
            (bytes(2, &[]), "the snapshot is cut short"),
            (bytes(1, &[0]), "goes on for 1 bytes"),
            (bytes(2, &[&[8; 32][..], &[2]].concat()), "only 1 of the coins counted"),
        ];
        for (bytes, words) in wrong {
            let head = SnapshotHead::parse(&bytes).unwrap();
            let mut pieces = SnapshotPieces::new(&bytes, &head);
            let error = loop {
                match pieces.next_piece() {
                    Ok(piece) => assert!(piece.is_some(), "it ends without an error: {words}"),
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains(words), "{error}");
            for _ in 0..2 {
                assert!(pieces.next_piece().unwrap().is_none(), "after {error}");
            }
        }
    }
}
