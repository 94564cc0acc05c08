use bitcoin::hashes::{Hash as _, sha256, sha256d};
use proptest::prelude::*;

use super::engine::Engine;
use super::many::{double_many, double_pairs, hash_of, hash_short};
use super::{Midstate, Pieces, lanes};
use crate::Hash;

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13 + i * i * seed) as u8).collect()
}

fn twice(message: &[u8]) -> Hash {
    Hash(sha256d::Hash::hash(message).to_byte_array())
}

fn whole(message: &[u8]) -> Pieces<'_> {
    [message, &[], &[]]
}

#[test]
fn every_length_agrees_with_bitcoin_hashes() {
    let messages: Vec<_> = (0..=300).map(|len| bytes(len, len)).collect();
    let expected: Vec<_> = messages.iter().map(|message| twice(message)).collect();
    for engine in Engine::all() {
        assert_eq!(double_many(engine, messages.len(), |i| whole(&messages[i])), expected);
        for i in 0..messages.len() {
            assert_eq!(double_many(engine, 1, |_| whole(&messages[i])), expected[i..=i]);
        }
    }
}

#[test]
fn lanes_of_very_different_lengths() {
    for count in 0..50 {
        let len = |i: usize| [3, 100_000, 64, 0, 20_000, 56, 700][i % 7] + i;
        let messages: Vec<_> = (0..count).map(|i| bytes(len(i), i)).collect();
        let expected: Vec<_> = messages.iter().map(|message| twice(message)).collect();
        for engine in Engine::all() {
            assert_eq!(double_many(engine, count, |i| whole(&messages[i])), expected);
        }
    }
}

#[test]
fn a_common_start_is_part_of_the_message() {
    let salt: [u8; 64] = bytes(64, 9).try_into().unwrap();
    let messages: Vec<_> = (0..99).map(|i| bytes(5 * i % 131, i)).collect();
    let expected =
        |message: &[u8]| Hash(sha256::Hash::hash(&[&salt[..], message].concat()).to_byte_array());
    let start = Midstate::after(&salt);
    for engine in Engine::all() {
        let mut seen = vec![false; messages.len()];
        lanes::hash_many(
            engine,
            &start,
            messages.len(),
            |i| whole(&messages[i]),
            |i, state| {
                assert_eq!(hash_of(state), expected(&messages[i]));
                assert!(!std::mem::replace(&mut seen[i], true));
            },
        );
        assert!(seen.iter().all(|seen| *seen));
        for count in [0, 1, 2, 3, 8, 9, 15, 16, 17, 40] {
            let short: Vec<[u8; 36]> =
                (0..count).map(|i| bytes(36, i).try_into().unwrap()).collect();
            let mut left = short.iter();
            hash_short(engine, &start, &short, |state| {
                assert_eq!(hash_of(state), expected(left.next().unwrap()));
            });
            assert!(left.next().is_none());
        }
    }
}

#[test]
fn pairs_of_any_number() {
    for count in 0..70 {
        let hashes: Vec<Hash> = (0..count).map(|i| twice(&bytes(i, i))).collect();
        let pairs = hashes.as_chunks::<2>().0.iter();
        let expected: Vec<Hash> =
            pairs.map(|[left, right]| twice(&[left.0, right.0].concat())).collect();
        for engine in Engine::all() {
            let mut level = hashes.clone();
            double_pairs(engine, &mut level);
            assert_eq!(level[..count / 2], expected);
            assert!(count % 2 == 0 || level.last() == hashes.last());
        }
    }
}

proptest! {
    #[test]
    fn random_batches_in_pieces(
        messages in prop::collection::vec(
            (0..200usize, 0..2000usize, 0..200usize, any::<u8>()), 0..60),
    ) {
        let messages: Vec<_> = messages
            .into_iter()
            .map(|(a, b, c, seed)| [a, b, c].map(|len| bytes(len, seed.into())))
            .collect();
        let expected: Vec<_> = messages.iter().map(|pieces| twice(&pieces.concat())).collect();
        for engine in Engine::all() {
            let pieces = |i: usize| messages[i].each_ref().map(|piece| &piece[..]);
            prop_assert_eq!(&double_many(engine, messages.len(), pieces), &expected);
        }
    }
}
