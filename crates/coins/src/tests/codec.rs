use apus_hash::Hash;
use apus_wire::{Cursor, OutPoint, is_unspendable, put_varint, varint_len};
use bitcoin::secp256k1::{PublicKey, Secp256k1, SecretKey};
use proptest::prelude::*;

use crate::coin::vout_order;
use crate::*;

const CENT: u64 = 1_000_000;
const COIN: u64 = 100_000_000;

fn key(seed: u8) -> PublicKey {
    PublicKey::from_secret_key(
        &Secp256k1::new(),
        &SecretKey::from_slice(&[seed; 32]).expect("a valid key"),
    )
}

fn p2pk(key: &[u8]) -> Vec<u8> {
    [&[key.len() as u8][..], key, &[0xac]].concat()
}

/// Returns one script of each special type, with its type byte.
fn special_scripts() -> Vec<(u8, Vec<u8>)> {
    let hash = [7; 20];
    let mut scripts = vec![
        (0, [&[0x76, 0xa9, 20][..], &hash, &[0x88, 0xac]].concat()),
        (1, [&[0xa9, 20][..], &hash, &[0x87]].concat()),
        (2, p2pk(&[&[2][..], &[9; 32]].concat())),
        (3, p2pk(&[&[3][..], &[9; 32]].concat())),
    ];
    for seed in 1..9 {
        let key = key(seed).serialize_uncompressed();
        scripts.push((4 | key[64] & 1, p2pk(&key)));
    }
    assert!(scripts.iter().any(|s| s.0 == 4) && scripts.iter().any(|s| s.0 == 5));
    scripts
}

fn decoded(bytes: &[u8]) -> CompactScript {
    let mut cursor = Cursor::new(bytes);
    let script = CompactScript::decode(&mut cursor).expect("it parses");
    assert_eq!(cursor.remaining(), 0);
    script
}

#[test]
fn amounts_of_core() {
    for (amount, compressed) in [
        (0, 0x0),
        (1, 0x1),
        (CENT, 0x7),
        (COIN, 0x9),
        (50 * COIN, 0x32),
        (21_000_000 * COIN, 0x1406f40),
    ] {
        assert_eq!(compress_amount(amount), compressed);
        assert_eq!(decompress_amount(compressed), amount);
    }
    for i in 0..100_000 {
        for unit in [1, CENT, COIN, 50 * COIN] {
            assert_eq!(decompress_amount(compress_amount(i * unit)), i * unit);
        }
        assert_eq!(compress_amount(decompress_amount(i)), i);
    }
}

#[test]
fn special_scripts_are_a_type_and_a_payload() {
    for (tag, script) in special_scripts() {
        let compact = CompactScript::new(&script);
        let payload = match tag {
            0 => &script[3..23],
            1 => &script[2..22],
            _ => &script[2..34],
        };
        assert_eq!(compact.as_bytes(), [&[tag], payload].concat());
        assert_eq!((compact.to_script(), compact.as_raw()), (script.clone(), None));
        assert_eq!(compact.script_len(), script.len());
        assert_eq!(decoded(compact.as_bytes()), compact);
        assert!(!compact.is_unspendable());
    }
}

#[test]
fn keys_that_are_not_on_the_curve_are_not_compressed() {
    let mut off = key(1).serialize_uncompressed();
    off[64] ^= 2;
    let script = p2pk(&off);
    let compact = CompactScript::new(&script);
    assert_eq!(compact.as_bytes()[0], 67 + 6);
    assert_eq!(compact.to_script(), script);

    // Hybrid keys (6, 7) are valid for secp256k1, but are not compressed.
    let mut hybrid = key(1).serialize_uncompressed();
    hybrid[0] = 6 | hybrid[64] & 1;
    assert_eq!(CompactScript::new(&p2pk(&hybrid)).as_bytes()[0], 67 + 6);

    // No point has the X coordinate 5. The script is read as the empty one, and written back
    // unchanged.
    for tag in [4, 5] {
        let mut bytes = [0; 33];
        (bytes[0], bytes[32]) = (tag, 5);
        let compact = decoded(&bytes);
        assert!(compact.to_script().is_empty());
        assert_eq!(compact.as_bytes(), bytes);
    }
}

#[test]
fn scripts_that_nearly_match_are_not_special() {
    for (_, script) in special_scripts() {
        for at in [0, 1, 2, script.len() - 2, script.len() - 1] {
            let mut other = script.clone();
            other[at] = other[at].wrapping_add(0x10);
            assert_eq!(CompactScript::new(&other).to_script(), other);
        }
        for other in [&script[1..], &script[..script.len() - 1], &[&script[..], &[0]].concat()] {
            assert_eq!(CompactScript::new(other).to_script(), other);
        }
    }
}

#[test]
fn other_scripts_follow_their_length() {
    for len in [0, 1, 22, 33, 34, 35, 121, 122, 123, 9_999, 10_000] {
        let script = vec![0x51; len];
        let compact = CompactScript::new(&script);
        let mut expected = Vec::new();
        put_varint(&mut expected, len as u64 + 6);
        expected.extend_from_slice(&script);
        assert_eq!(compact.as_bytes(), expected);
        assert_eq!(decoded(&expected), compact);
        assert_eq!(compact.as_raw(), Some(&script[..]));
        assert_eq!((compact.to_script(), compact.script_len()), (script, len));
        assert!(!compact.is_unspendable());
    }
}

#[test]
fn unspendable_scripts() {
    for script in [&[0x6a][..], &[0x6a, 1, 2], &[0x6a; 40], &[0x51; 10_001]] {
        assert!(is_unspendable(script));
        assert!(CompactScript::new(script).is_unspendable());
    }
    assert!(!CompactScript::new(&[]).is_unspendable());
    assert!(!is_unspendable(&[0x51, 0x6a]));
}

#[test]
fn oversized_scripts_come_back_as_op_return() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, 10_001 + 6);
    bytes.resize(bytes.len() + 10_001, 0x51);
    assert_eq!(decoded(&bytes).to_script(), [0x6a]);
    bytes.pop();
    assert!(CompactScript::decode(&mut Cursor::new(&bytes)).is_err());
}

#[test]
fn broken_bytes_are_errors() {
    for bytes in [&[][..], &[0; 20], &[2; 32], &[7], &[0x8e, 0xfe, 0xfe, 0xff, 0x00], &[0xff; 20]] {
        assert!(CompactScript::decode(&mut Cursor::new(bytes)).is_err(), "{bytes:02x?}");
    }
    // A height of more than 31 bits.
    let bytes = [0x8e, 0xfe, 0xfe, 0xff, 0x00, 0, 6];
    assert!(Coin::decode(&mut Cursor::new(&bytes)).is_err());
}

/// The example in the comments of Core 0.14's coins.h (its output 16), in today's form: height
/// 120891, coinbase, 110397 satoshis, P2PKH.
#[test]
fn a_coin_of_core() {
    let hash: Vec<u8> = (0..20).map(|i| 0x8c ^ i).collect();
    let script = [&[0x76, 0xa9, 20][..], &hash, &[0x88, 0xac]].concat();
    let coin = Coin::new(110_397, &script, 120_891, true);
    let mut bytes = Vec::new();
    coin.encode(&mut bytes);
    let mut expected = Vec::new();
    put_varint(&mut expected, 120_891 * 2 + 1);
    expected.extend_from_slice(&[0xbb, 0xd1, 0x23, 0x00]);
    expected.extend_from_slice(&hash);
    assert_eq!(bytes, expected);
    let mut undo = Vec::new();
    coin.encode_undo(&mut undo);
    expected.insert(varint_len(120_891 * 2 + 1), 0);
    assert_eq!(undo, expected);
}

#[test]
fn undo_data_at_height_0_has_no_dummy_and_old_ones_are_versions() {
    let coin = Coin::new(1, &[0x51], 0, true);
    let mut undo = Vec::new();
    coin.encode_undo(&mut undo);
    assert_eq!(undo, [1, 1, 7, 0x51]);
    assert_eq!(Coin::decode_undo(&mut Cursor::new(&undo)).as_ref(), Ok(&coin));
    let old = [2, 0x80, 0x00, 1, 7, 0x51];
    let coin = Coin { height: 1, is_coinbase: false, ..coin };
    assert_eq!(Coin::decode_undo(&mut Cursor::new(&old)), Ok(coin));
}

#[test]
fn keys_sort_as_their_bytes() {
    let edges = [0, 1, 127, 128, 255, 256, 16_511, 16_512, 16_513, 2_113_663, 2_113_664, u32::MAX];
    for a in edges {
        for b in edges {
            let [a, b] = [a, b].map(|vout| OutPoint { txid: Hash([1; 32]), vout });
            let [key_a, key_b] = [a, b].map(|outpoint| {
                let mut key = Vec::new();
                put_coin_key(&mut key, &outpoint);
                assert_eq!(decode_coin_key(&key), Ok(outpoint));
                key
            });
            assert_eq!(key_order(&a, &b), key_a.cmp(&key_b));
            assert_eq!(vout_order(a.vout) == vout_order(b.vout), a == b);
        }
    }
    assert!(vout_order(256) > vout_order(16_512), "VARINTs do not sort by value");
    for broken in [&b"B"[..], b"", &[b'C'; 33], &[b'C'; 35]] {
        assert!(decode_coin_key(broken).is_err());
    }
}

proptest! {
    #[test]
    fn coins_round_trip(
        amount in 0..=21_000_000 * COIN,
        height in 0u32..1 << 31,
        is_coinbase: bool,
        raw in proptest::collection::vec(any::<u8>(), 0..80),
        special in 0usize..24,
    ) {
        let specials = special_scripts();
        let script = specials.get(special).map_or(raw, |s| s.1.clone());
        let coin = Coin::new(amount, &script, height, is_coinbase);
        prop_assert_eq!(coin.script.to_script(), &script[..]);
        prop_assert_eq!(coin.script.is_unspendable(), is_unspendable(&script));
        let mut bytes = Vec::new();
        coin.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), coin.encoded_len());
        let mut cursor = Cursor::new(&bytes);
        prop_assert_eq!(Coin::decode(&mut cursor), Ok(coin.clone()));
        prop_assert_eq!(cursor.remaining(), 0);
        for len in 0..bytes.len() {
            prop_assert!(Coin::decode(&mut Cursor::new(&bytes[..len])).is_err());
        }
        let mut undo = Vec::new();
        coin.encode_undo(&mut undo);
        prop_assert_eq!(Coin::decode_undo(&mut Cursor::new(&undo)), Ok(coin));
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut cursor = Cursor::new(&bytes);
        if let Ok(coin) = Coin::decode(&mut cursor) {
            let mut again = Vec::new();
            coin.script.decompress_into(&mut again);
            again.clear();
            CompactScript::as_bytes(&coin.script).clone_into(&mut again);
            prop_assert!(bytes[..cursor.position()].ends_with(&again));
        }
        let _ = Coin::decode_undo(&mut Cursor::new(&bytes));
    }
}
