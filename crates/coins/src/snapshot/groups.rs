use apus_hash::Hash;
use apus_wire::{Cursor, MAX_SCRIPT_BYTES, ParseError, put_compact_size};

use super::error::SnapshotError;
use super::pieces::{SnapshotPiece, has_short_form, make_canonical};
use crate::coin::{
    Coin, CoinParts, OUTPUTS_MAX, decode_code, decompress_amount, decompress_exactly,
};
use crate::script::{Compressed, SPECIAL_TYPES, starts_with_form, take_compressed};

/// Coins of one transaction that are stored together in a snapshot; at least one.
#[derive(Debug, Default)]
pub struct SnapshotGroup<'a> {
    /// Offset in the file at which the group begins, with the txid.
    pub offset: u64,
    /// The txid of the transaction.
    pub txid: Hash,
    /// The coins in file order, without their scripts.
    pub coins: Vec<GroupCoin>,
    bytes: &'a [u8],
    is_canonical: bool,
}

/// A coin of a [`SnapshotGroup`], without its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCoin {
    /// The index of the output.
    pub vout: u32,
    /// 2 × height + coinbase.
    pub code: u32,
    /// The amount in satoshis.
    pub amount: u64,
}

impl GroupCoin {
    /// Returns the height of the block that created the coin.
    pub fn height(&self) -> u32 {
        self.code >> 1
    }
}

impl SnapshotPiece<'_> {
    /// Calls `each` with the coins of every transaction, in file order. Their scripts are not
    /// inspected.
    ///
    /// # Errors
    /// A coin is invalid, a transaction has more coins than fit into a block, or `each` fails.
    pub fn for_each_group<E: From<SnapshotError>>(
        &self,
        mut each: impl FnMut(&SnapshotGroup) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = Cursor::new(self.bytes());
        let mut group = SnapshotGroup::default();
        while cursor.remaining() > 0 {
            group.offset = self.offset + cursor.position() as u64;
            let read = group.read(&mut cursor, self.bytes());
            read.map_err(|error| SnapshotError::parsing(self.offset, &error))?;
            if !group.coins.is_empty() {
                each(&group)?;
            }
        }
        Ok(())
    }
}

impl<'a> SnapshotGroup<'a> {
    /// Reads the next group of a piece, whose bytes are `all`.
    fn read(&mut self, cursor: &mut Cursor<'a>, all: &'a [u8]) -> Result<(), ParseError> {
        self.txid = Hash(cursor.array()?);
        self.coins.clear();
        self.is_canonical = true;
        let before = cursor.position();
        let count = cursor.compact_size()?;
        if count > OUTPUTS_MAX as usize {
            let what = "more coins of one transaction than fit into a block";
            return Err(ParseError { offset: before, what });
        }
        let start = cursor.position();
        for _ in 0..count {
            let vout = cursor.compact_size()? as u32;
            let code = decode_code(cursor)?;
            let compressed = cursor.varint()?;
            let amount = decompress_exactly(compressed);
            let at = cursor.position();
            let script = take_compressed(cursor)?;
            self.is_canonical &= amount.is_some() && is_canonical(all[at], script);
            let amount = amount.unwrap_or_else(|| decompress_amount(compressed));
            self.coins.push(GroupCoin { vout, code, amount });
        }
        self.bytes = &all[start..cursor.position()];
        Ok(())
    }

    /// Returns the height of all coins, if it is the same for all, they are in ascending order
    /// without repetition, and they are in the form that Core writes.
    pub fn plain_height(&self) -> Option<u32> {
        let [first, rest @ ..] = &self.coins[..] else { return None };
        let height = first.height();
        let mut last = first.vout;
        let is_plain = rest.iter().all(|coin| {
            let follows = coin.vout > last && coin.height() == height;
            last = coin.vout;
            follows
        });
        (self.is_canonical && is_plain).then_some(height)
    }

    /// Returns the coins as they are in the file, for [`GroupCoins`].
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the coins with their scripts, in the form that Core writes.
    pub fn decoded(&self) -> Vec<(u32, Coin)> {
        let mut cursor = Cursor::new(self.bytes);
        let mut decode = || -> Result<(u32, Coin), ParseError> {
            let vout = cursor.compact_size()? as u32;
            let mut coin = Coin::decode(&mut cursor)?;
            make_canonical(&mut coin.script);
            Ok((vout, coin))
        };
        self.coins.iter().map(|_| known(decode())).collect()
    }
}

/// Returns whether Core writes the script of a coin in this form, as far as its first byte and
/// length show.
fn is_canonical(first: u8, script: Compressed) -> bool {
    match script {
        Compressed::P2sh => true,
        Compressed::PublicKey => !matches!(first, 4 | 5),
        Compressed::Script(script) => {
            debug_assert!(u64::from(first) >= SPECIAL_TYPES);
            !has_short_form(script.len()) && script.len() <= MAX_SCRIPT_BYTES
        }
    }
}

/// The coins of one transaction, one after another, each as in a snapshot: the index of its output
/// as a CompactSize and its [encoded form](Coin::encode).
#[derive(Clone, Debug)]
pub struct GroupCoins<'a> {
    bytes: &'a [u8],
    cursor: Cursor<'a>,
}

impl Default for GroupCoins<'_> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a> GroupCoins<'a> {
    /// Returns the coins in `bytes`, which come from [`SnapshotGroup::bytes`] or
    /// [`GroupCoins::put`].
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, cursor: Cursor::new(bytes) }
    }

    /// Appends a coin to the bytes of a group.
    pub fn put(out: &mut Vec<u8>, vout: u32, coin: &CoinParts) {
        put_compact_size(out, vout.into());
        coin.encode(out);
    }

    /// Returns the index of the next coin's output, after which [`GroupCoins::pass_if_same`] must
    /// be called; `None` if there are no more coins.
    #[inline]
    pub fn next_vout(&mut self) -> Option<u32> {
        let is_more = self.cursor.remaining() > 0;
        is_more.then(|| known(self.cursor.compact_size()) as u32)
    }

    /// Returns whether the coin whose output was returned last has this code (2 × height +
    /// coinbase), amount and full script. If so, it is passed.
    #[inline]
    pub fn pass_if_same(&mut self, code: u32, amount: u64, script: &[u8]) -> bool {
        let Self { bytes, cursor } = self;
        known(cursor.varint()) == u64::from(code)
            && decompress_amount(known(cursor.varint())) == amount
            && match starts_with_form(&bytes[cursor.position()..], script) {
                Some(len) => cursor.take(len).is_ok(),
                None => false,
            }
    }

    fn parts(&mut self) -> Result<CoinParts<'a>, ParseError> {
        let Self { bytes, cursor } = self;
        let code = decode_code(cursor)?;
        let amount = decompress_amount(cursor.varint()?);
        let start = cursor.position();
        take_compressed(cursor)?;
        Ok(CoinParts { amount, code, script: &bytes[start..cursor.position()] })
    }
}

impl<'a> Iterator for GroupCoins<'a> {
    type Item = (u32, CoinParts<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let vout = self.next_vout()?;
        Some((vout, known(self.parts())))
    }
}

/// Returns the value of bytes that have been parsed before.
fn known<T>(read: Result<T, ParseError>) -> T {
    read.expect("the coins have been read before")
}

#[cfg(test)]
mod tests {
    use apus_wire::put_varint;

    use super::*;
    use crate::{SnapshotHead, SnapshotPieces, compress_amount};

    /// A coin in any form: its output index, 2 × height + coinbase, compressed amount, and
    /// compressed script.
    type Form<'a> = (u32, u32, u64, &'a [u8]);

    /// Returns a snapshot with one group of these coins.
    fn file(forms: &[Form]) -> Vec<u8> {
        let coins = forms.len() as u64;
        let head = SnapshotHead { network: [0; 4], base: Hash([0; 32]), coins };
        let mut bytes = [&head.to_bytes()[..], &[7; 32]].concat();
        put_compact_size(&mut bytes, coins);
        for (vout, code, amount, script) in forms {
            put_compact_size(&mut bytes, u64::from(*vout));
            put_varint(&mut bytes, u64::from(*code));
            put_varint(&mut bytes, *amount);
            bytes.extend_from_slice(script);
        }
        bytes
    }

    /// Reads such a snapshot in both ways, which must agree, and calls `each` with the group.
    /// Returns whether its coins are in order.
    fn read(bytes: &[u8], each: impl Fn(&SnapshotGroup)) -> bool {
        let head = SnapshotHead::parse(bytes).unwrap();
        let mut pieces = SnapshotPieces::new(bytes, &head);
        let piece = pieces.next_piece().unwrap().unwrap();
        let mut coins = Vec::new();
        piece
            .for_each(|outpoint, coin| -> Result<(), SnapshotError> {
                coins.push((outpoint.vout, coin));
                Ok(())
            })
            .unwrap();
        piece
            .for_each_group(|group| -> Result<(), SnapshotError> {
                assert_eq!(group.txid, Hash([7; 32]));
                assert_eq!(group.decoded(), coins);
                let of = |(vout, coin): &(u32, Coin)| {
                    let CoinParts { amount, code, .. } = coin.parts();
                    GroupCoin { vout: *vout, code, amount }
                };
                assert_eq!(group.coins, coins.iter().map(of).collect::<Vec<_>>());
                each(group);
                Ok(())
            })
            .unwrap();
        pieces.is_sorted()
    }

    #[test]
    fn coins_in_the_form_of_core_are_taken_as_they_stand() {
        let p2pkh = [&[0][..], &[9; 20]].concat();
        let p2wpkh = [&[28, 0, 20][..], &[9; 20]].concat();
        let p2pk = [&[3][..], &[9; 32]].concat();
        let amount = compress_amount(123_000);
        let forms = [
            (0, 21, amount, &p2pkh[..]),
            (3, 20, 0, &p2wpkh),
            (300, 20, compress_amount(u64::MAX / 10), &p2pk),
            (70_000, 21, 1, &[6]),
        ];
        let bytes = file(&forms);
        let is_sorted = read(&bytes, |group| {
            assert_eq!(group.plain_height(), Some(10));
            let coins: Vec<_> = GroupCoins::new(group.bytes()).collect();
            assert_eq!(coins.len(), forms.len());
            let mut written = Vec::new();
            for ((vout, parts), (wanted, code, _, script)) in coins.iter().zip(&forms) {
                assert_eq!((vout, parts.code, parts.script), (wanted, *code, *script));
                GroupCoins::put(&mut written, *vout, parts);
            }
            assert_eq!(written, group.bytes());
        });
        assert!(is_sorted);
    }

    #[test]
    fn coins_in_other_forms_and_orders_are_not() {
        let whole_p2pkh = [&[31, 0x76, 0xa9, 20][..], &[9; 20], &[0x88, 0xac]].concat();
        let whole_p2sh = [&[29, 0xa9, 20][..], &[9; 20], &[0x87]].concat();
        let no_key = [&[4][..], &[0xff; 32]].concat();
        let mut too_long = Vec::new();
        put_varint(&mut too_long, 10_001 + SPECIAL_TYPES);
        too_long.resize(too_long.len() + 10_001, 0x51);
        let plain: Form = (1, 20, 1, &[6]);
        for (vout, code, amount, script) in [
            (2, 20, 1, &whole_p2pkh[..]),
            (2, 20, 1, &whole_p2sh),
            (2, 20, 1, &no_key),
            (2, 20, 1, &too_long),
            // More than 2^64 satoshis, which Core reads modulo 2^64.
            (2, 20, u64::MAX - 6, &[6]),
            // Another height, a lower output, the same output.
            (2, 22, 1, &[6]),
            (0, 20, 1, &[6]),
            (1, 20, 1, &[6]),
        ] {
            let bytes = file(&[plain, (vout, code, amount, script)]);
            let is_sorted = read(&bytes, |group| {
                assert_eq!(group.plain_height(), None, "{vout} {code} {amount} {script:?}");
            });
            assert_eq!(is_sorted, vout > 1);
        }
        let many: Vec<Form> = (0..OUTPUTS_MAX + 1).map(|vout| (vout, 20, 0, &[6][..])).collect();
        for (coins, is_possible) in [(&many[1..], true), (&many, false)] {
            let bytes = file(coins);
            let head = SnapshotHead::parse(&bytes).unwrap();
            let piece = SnapshotPieces::new(&bytes, &head).next_piece().unwrap().unwrap();
            let read = piece.for_each_group(|_| Ok::<(), SnapshotError>(()));
            assert_eq!(read.is_ok(), is_possible);
        }
        // Keys of outputs from 16,512 on do not sort as numbers.
        for (vouts, is_sorted) in [([16_512, 256], true), ([256, 16_512], false)] {
            let bytes = file(&vouts.map(|vout| (vout, 20, 1, &[6][..])));
            assert_eq!(read(&bytes, |_| {}), is_sorted);
        }
    }
}
