//! Signatures whose verdicts are known, which each kernel has to answer before it is used.

use crate::batch::{Batch, Verdict};
use crate::comb::BITS_MAX;
use crate::kernel::Kernel;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// r, s, message.
    Ecdsa,
    /// r, s, message.
    Schnorr,
    /// Tweak, output key, parity.
    Tweak,
}

struct Known {
    kind: Kind,
    key: &'static str,
    first: &'static str,
    second: &'static str,
    third: &'static str,
}

/// Valid ones, computed by a program of a few lines with the formulas of a textbook.
const KNOWN: [Known; 12] = [
    Known {
        kind: Kind::Ecdsa,
        key: "026c5d5e73124f3c821c0985df787e11b3d018a86add577fa8661613a0d49dde59",
        first: "3f264a873d551fc758e7937965b5ff440eee0b7182265240dba111dd0b49bf77",
        second: "17f95d23afebf42632f54862d2fb7a016f38eb509556f2337745a5c6c16cae15",
        third: "e45637e1101eeed641a96fa5896bd900a577f9abde3ecc59aaf6298c2a9d1444",
    },
    Known {
        kind: Kind::Schnorr,
        key: "6c5d5e73124f3c821c0985df787e11b3d018a86add577fa8661613a0d49dde59",
        first: "3f264a873d551fc758e7937965b5ff440eee0b7182265240dba111dd0b49bf77",
        second: "06f3a14e2ec8329dfb27b9afa3697cc37b9c77ed12fbc8a69961315c8adb490b",
        third: "e45637e1101eeed641a96fa5896bd900a577f9abde3ecc59aaf6298c2a9d1444",
    },
    Known {
        kind: Kind::Tweak,
        key: "6c5d5e73124f3c821c0985df787e11b3d018a86add577fa8661613a0d49dde59",
        first: "4975e8d7733d08ac6f1a8254e9074ed07255fb2921738286cd526e2c087b5fc8",
        second: "975a284ce772978574a55bea2d5d069202367dc0896507685f3a24a54d057535",
        third: "0000000000000000000000000000000000000000000000000000000000000001",
    },
    Known {
        kind: Kind::Ecdsa,
        key: "03f771877964fa2ce401d87bc2558a0df1e6921acef99389f059712b32cfda35fd",
        first: "2d20e27338eb006035f047b9ef7270ccfeb5e1ed641ea5d4838ba43cb7268a6e",
        second: "dda289ac6a172a4fb33498f47e01d3cf75284c1d38c5e9ad076498af5d0b0024",
        third: "97d035e32036a670058f2be4e008a7c56355489750a5da6f2af342db4a968e99",
    },
    Known {
        kind: Kind::Schnorr,
        key: "f771877964fa2ce401d87bc2558a0df1e6921acef99389f059712b32cfda35fd",
        first: "2d20e27338eb006035f047b9ef7270ccfeb5e1ed641ea5d4838ba43cb7268a6e",
        second: "9222eba168295843792e2dcbe63239743e8545ae7dde712e1a7cea2560759b2c",
        third: "97d035e32036a670058f2be4e008a7c56355489750a5da6f2af342db4a968e99",
    },
    Known {
        kind: Kind::Tweak,
        key: "f771877964fa2ce401d87bc2558a0df1e6921acef99389f059712b32cfda35fd",
        first: "ac7b0d0420f0d4a567d9abcb8a52e02cfae21690fd8d2d5934370dcc5aaee221",
        second: "e5f37e895def3135c677e6e99b8871083bbe2da0e73e271f9bda71128eadacdd",
        third: "0000000000000000000000000000000000000000000000000000000000000000",
    },
    Known {
        kind: Kind::Ecdsa,
        key: "03f039fdcdb728efbbddf4ee452419a988497debb7bd1b42644c5fa66e9af8c8b6",
        first: "5aadc7870ad62779ebedd55d9579b0dc24b7fcbc70950e2da4c6ba2139628966",
        second: "d8af81c09f6fe1b469a9030e0611b559fcd6ba8d438f2ada69c1588e3508c3a8",
        third: "e09b16811444401b35c94081ee8c82a761bcd3cfd7260cf063e3fec520f5f5e9",
    },
    Known {
        kind: Kind::Schnorr,
        key: "f039fdcdb728efbbddf4ee452419a988497debb7bd1b42644c5fa66e9af8c8b6",
        first: "5aadc7870ad62779ebedd55d9579b0dc24b7fcbc70950e2da4c6ba2139628966",
        second: "df7346ba10d7a748e6195249ba518200107e88a50b5665c31234e32084d5a67b",
        third: "e09b16811444401b35c94081ee8c82a761bcd3cfd7260cf063e3fec520f5f5e9",
    },
    Known {
        kind: Kind::Tweak,
        key: "f039fdcdb728efbbddf4ee452419a988497debb7bd1b42644c5fa66e9af8c8b6",
        first: "58e2385eb96d1c906bbd807eafd1fddb80fb2f43026a16386a400e6832644cbc",
        second: "fc0a25da68046e05aeb2b41523250d0a7718feab162bb5492c32deb9b21de087",
        third: "0000000000000000000000000000000000000000000000000000000000000001",
    },
    Known {
        kind: Kind::Ecdsa,
        key: "026da0e4d65a933e828c9de388005281dfa7e4948895d10c7c3ef617b5e40d97fd",
        first: "122f9e87a9401b800af91242e894b90baa45a8ea62e9185c234c9e3389a62a57",
        second: "7f4e5f22867147a0b192e27a3e5b9940d81d81f48f27a037af89a3ea4c743504",
        third: "79939509faa8d20499d3824ba7a4297901012de45d984a5bd2676fdf99d51f54",
    },
    Known {
        kind: Kind::Schnorr,
        key: "6da0e4d65a933e828c9de388005281dfa7e4948895d10c7c3ef617b5e40d97fd",
        first: "122f9e87a9401b800af91242e894b90baa45a8ea62e9185c234c9e3389a62a57",
        second: "ea084b06e1445edc5a293043d92878fe16c9afbfa3a6a0918c5b24b155684c8a",
        third: "79939509faa8d20499d3824ba7a4297901012de45d984a5bd2676fdf99d51f54",
    },
    Known {
        kind: Kind::Tweak,
        key: "6da0e4d65a933e828c9de388005281dfa7e4948895d10c7c3ef617b5e40d97fd",
        first: "d002d8e6de7b9433d021c53b1f6edb0a25c428295b61fefdab24fa35e70fe6f2",
        second: "dbc9561bb76c09da57b59272aa74d7693d20a509c6fb25210dabba1b34f135ee",
        third: "0000000000000000000000000000000000000000000000000000000000000001",
    },
];

/// What is done to a known signature, so that it is no longer valid.
const SPOILERS: usize = 4;

/// Whether a kernel gives the right answer to every known signature: valid as it is, invalid where
/// a bit of one of its parts is changed.
pub fn answers(kernel: Kernel) -> bool {
    let mut batch = Batch::unchecked(kernel, BITS_MAX);
    let mut expected = Vec::new();
    for (i, known) in KNOWN.iter().enumerate() {
        push(&mut batch, known, None);
        push(&mut batch, known, Some(i % SPOILERS));
        expected.extend([Verdict::Valid, Verdict::Invalid]);
    }
    batch.verify() == expected
}

fn push(batch: &mut Batch, known: &Known, spoiled: Option<usize>) {
    let mut key = [0; 33];
    let key = &mut key[..known.key.len() / 2];
    parse(known.key, key);
    let mut parts = [[0; 32]; 3];
    for (part, digits) in parts.iter_mut().zip([known.first, known.second, known.third]) {
        parse(digits, part);
    }
    match spoiled {
        // The parity of an ECDSA key; there is none in the others.
        Some(0) if known.kind == Kind::Ecdsa => key[0] ^= 1,
        Some(part @ 1..SPOILERS) => parts[part - 1][31] ^= 1,
        Some(_) => parts[2][31] ^= 1,
        None => {}
    }
    let [first, second, third] = &parts;
    let both = [*first, *second].concat();
    match known.kind {
        Kind::Ecdsa => batch.push_ecdsa(key, &der(first, second), third),
        Kind::Schnorr => batch.push_schnorr(array(key), array(&both), third),
        Kind::Tweak => batch.push_tweak(array(key), first, second, third[31] == 1),
    };
}

fn array<const LEN: usize>(bytes: &[u8]) -> &[u8; LEN] {
    bytes.try_into().expect("the lengths of known signatures fit")
}

/// The signature in strict DER.
fn der(r: &[u8; 32], s: &[u8; 32]) -> Vec<u8> {
    let mut der = vec![0x30, 0];
    for number in [r, s] {
        let skipped = number.iter().take_while(|byte| **byte == 0).count();
        let number = &number[skipped..];
        let padding: &[u8] = if number[0] >= 0x80 { &[0] } else { &[] };
        der.extend([2, (padding.len() + number.len()) as u8]);
        der.extend([padding, number].concat());
    }
    der[1] = (der.len() - 2) as u8;
    der
}

fn parse(digits: &str, bytes: &mut [u8]) {
    for (byte, digits) in bytes.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
        let nibble = |digit: u8| (digit as char).to_digit(16).expect("hex digits") as u8;
        *byte = nibble(digits[0]) << 4 | nibble(digits[1]);
    }
}
