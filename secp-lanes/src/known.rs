//! Signatures with known verdicts, which each kernel must reproduce before it is used.

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

/// Valid signatures, computed by a short program with textbook formulas.
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

/// An ECDSA signature of an unusual kind.
struct Unusual {
    key: &'static str,
    r: &'static str,
    s: &'static str,
    message: &'static str,
    /// The verdict of the lanes, and that of libsecp256k1.
    verdicts: [Verdict; 2],
}

const VALID: [Verdict; 2] = [Verdict::Valid; 2];
const INVALID: [Verdict; 2] = [Verdict::Invalid; 2];
/// The verdict of an exceptional lane, whose equation may hold for each r.
const EXCEPTIONAL: Verdict = Verdict::Undecided;

/// Unusual signatures, computed by the same program as `KNOWN`.
const UNUSUAL: [Unusual; 12] = [
    // An uncompressed key with its y, and with the other y.
    Unusual {
        key: "04ecf185f85115c2bcd36d128b40b0576ef507890da40d98c87ffd75ea9e4ff403\
              d512a58164ab39e22975cd5b62290279bcdc86e2337df820aaccfb30764ee350",
        r: "1c02622565f3d17e336fe3653fb2b43d432fa15916e49a4317f26e9071cf1dd4",
        s: "9c9a09ddf5b241bc994839f25aee6ea8ce97f4307607687920c90035afa3cbf4",
        message: "88c4b5c8f20a5860a3a30264496d476abe93db626314d659a9b82a7b188d493d",
        verdicts: VALID,
    },
    Unusual {
        key: "04ecf185f85115c2bcd36d128b40b0576ef507890da40d98c87ffd75ea9e4ff403\
              2aed5a7e9b54c61dd68a32a49dd6fd864323791dcc8207df553304ce89b118df",
        r: "1c02622565f3d17e336fe3653fb2b43d432fa15916e49a4317f26e9071cf1dd4",
        s: "9c9a09ddf5b241bc994839f25aee6ea8ce97f4307607687920c90035afa3cbf4",
        message: "88c4b5c8f20a5860a3a30264496d476abe93db626314d659a9b82a7b188d493d",
        verdicts: INVALID,
    },
    // The x of the sum is r + n: with both forms of the key, and with the other root.
    Unusual {
        key: "02fcd7fbf475456c5b74290d5c7d8f812bdd3fdf08f1dada7e4ea186a6057054a7",
        r: "04",
        s: "e0948763c6a457ea33d6a7452d2c1dfeb728df3d2812073e9410a56a55f05a2d",
        message: "95c0e3396d3c41364f9bfb19892cca93bac20338827efc4ef195b62d24cf4a4f",
        verdicts: VALID,
    },
    Unusual {
        key: "04fcd7fbf475456c5b74290d5c7d8f812bdd3fdf08f1dada7e4ea186a6057054a7\
              75c218ef6944ae98ae2e0b55fe8768e6bf137b02cb6c5dba7edf878dfd57ef9e",
        r: "04",
        s: "e0948763c6a457ea33d6a7452d2c1dfeb728df3d2812073e9410a56a55f05a2d",
        message: "95c0e3396d3c41364f9bfb19892cca93bac20338827efc4ef195b62d24cf4a4f",
        verdicts: VALID,
    },
    Unusual {
        key: "03fcd7fbf475456c5b74290d5c7d8f812bdd3fdf08f1dada7e4ea186a6057054a7",
        r: "04",
        s: "e0948763c6a457ea33d6a7452d2c1dfeb728df3d2812073e9410a56a55f05a2d",
        message: "95c0e3396d3c41364f9bfb19892cca93bac20338827efc4ef195b62d24cf4a4f",
        verdicts: INVALID,
    },
    // u1 G = u2 P, and the same with another r.
    Unusual {
        key: "02a4d26294d355931c62b6144689fbf74e5ffcf5e3415821a89d4b71bffad043dc",
        r: "c9160542c4937aaf13ed095c9846641794c969ceb39ebd45d2e24f1271b07084",
        s: "93416277623aaf00e0eb7503907314bfb4a69d221c84439e8cc136c3feaddd46",
        message: "e2bc1907fe345466b23865e177a8f2d79db1a16accac9c4491acdbeaf2b7a940",
        verdicts: [EXCEPTIONAL, Verdict::Valid],
    },
    Unusual {
        key: "02a4d26294d355931c62b6144689fbf74e5ffcf5e3415821a89d4b71bffad043dc",
        r: "db77fd01af957221a4989b64b3770a83a3c56068405b9f0e9408feae57fd17e4",
        s: "12454f33ecd4e3073efdc8bf70252a385dfa3983b7881573434f76a37dbf8627",
        message: "a1e880d34abda95ed2a7b50e9f2ef78c1d87b571453d2976a72dc108f9f24b35",
        verdicts: [EXCEPTIONAL, Verdict::Invalid],
    },
    // u1 = 0, and u2 = 1.
    Unusual {
        key: "021903593a44d2421e988b3bef1079dd7af66a63940169632cfb8988f18a985e3d",
        r: "58da14df0d849866add623ce4f95e8df86a5a54d494defb2d5c83c4eb5f83c48",
        s: "d4a32d925a6cca94e9b8e06aefbc5ce784c1009f52dfab83d4506ba547968a80",
        message: "00",
        verdicts: [EXCEPTIONAL, Verdict::Valid],
    },
    Unusual {
        key: "032bf3127f79596645dc44731f1f36b5a53bc063c30846ec76abeb91da55ec9bcb",
        r: "b1b9f68d5b55b1673aa168c58c49d2290e3c318bb29232978d346bcd4919bc31",
        s: "b1b9f68d5b55b1673aa168c58c49d2290e3c318bb29232978d346bcd4919bc31",
        message: "17c5a1b690e56eca39134863799ae0c0743413b9af32c5f6ffd1f12130fc7edc",
        verdicts: [EXCEPTIONAL, Verdict::Valid],
    },
    // s = 5, and the same modulo n; s = 0.
    Unusual {
        key: "020a920b956d3f9dcb8f53bd34f9bc5f6f704a3a65ea8d10dab524a4abe5df1942",
        r: "18c82dd0b53fd3a932d16e0ba9e278fcc937c582d5781be626ff16e201f72286",
        s: "05",
        message: "b0e339b49e0e43c95f245455b200d5a09a98797c2e2030f27db238d0c8915eb0",
        verdicts: VALID,
    },
    Unusual {
        key: "020a920b956d3f9dcb8f53bd34f9bc5f6f704a3a65ea8d10dab524a4abe5df1942",
        r: "18c82dd0b53fd3a932d16e0ba9e278fcc937c582d5781be626ff16e201f72286",
        s: "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364146",
        message: "b0e339b49e0e43c95f245455b200d5a09a98797c2e2030f27db238d0c8915eb0",
        verdicts: INVALID,
    },
    Unusual {
        key: "020a920b956d3f9dcb8f53bd34f9bc5f6f704a3a65ea8d10dab524a4abe5df1942",
        r: "18c82dd0b53fd3a932d16e0ba9e278fcc937c582d5781be626ff16e201f72286",
        s: "00",
        message: "b0e339b49e0e43c95f245455b200d5a09a98797c2e2030f27db238d0c8915eb0",
        verdicts: INVALID,
    },
];

/// The number of ways to make a known signature invalid.
const SPOILERS: usize = 4;

/// Returns whether a kernel gives the right answer for every known signature: valid as it is,
/// invalid with a changed bit in one of its parts, and undecided where the arithmetic is
/// exceptional.
///
/// A single exceptional lane changes the path of its whole batch. So one batch has none, and fills
/// a group and begins another; a small batch has them.
pub fn answers(kernel: Kernel) -> bool {
    let mut batch = Batch::unchecked(kernel, BITS_MAX);
    [false, true].into_iter().all(|with_exceptional| {
        let expected = fill(&mut batch, with_exceptional);
        batch.verify() == expected
    })
}

/// Adds one of the two batches, and returns the expected verdicts. Valid and invalid signatures
/// alternate, so that all vectors have both.
fn fill(batch: &mut Batch, with_exceptional: bool) -> Vec<Verdict> {
    let by_library = usize::from(batch.kernel() == Kernel::Library);
    let mut expected = Vec::new();
    for round in if with_exceptional { 0..0 } else { 0..2 } {
        for (i, known) in KNOWN.iter().enumerate() {
            push(batch, known, None);
            push(batch, known, Some((i + round) % SPOILERS));
            expected.extend([Verdict::Valid, Verdict::Invalid]);
        }
    }
    for unusual in &UNUSUAL {
        if with_exceptional || unusual.verdicts[0] != EXCEPTIONAL {
            push_unusual(batch, unusual);
            expected.push(unusual.verdicts[by_library]);
        }
    }
    expected
}

fn push(batch: &mut Batch, known: &Known, spoiled: Option<usize>) {
    let mut key = parse(known.key);
    let mut parts = [known.first, known.second, known.third].map(number);
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
        Kind::Ecdsa => batch.push_ecdsa(&key, &der(first, second), third),
        Kind::Schnorr => batch.push_schnorr(array(&key), array(&both), third),
        Kind::Tweak => batch.push_tweak(array(&key), first, second, third[31] == 1),
    };
}

fn push_unusual(batch: &mut Batch, unusual: &Unusual) {
    let [r, s, message] = [unusual.r, unusual.s, unusual.message].map(number);
    batch.push_ecdsa(&parse(unusual.key), &der(&r, &s), &message);
}

fn array<const LEN: usize>(bytes: &[u8]) -> &[u8; LEN] {
    bytes.try_into().expect("the lengths of known signatures fit")
}

/// Returns the signature in strict DER.
fn der(r: &[u8; 32], s: &[u8; 32]) -> Vec<u8> {
    let mut der = vec![0x30, 0];
    for number in [r, s] {
        let skipped = number[..31].iter().take_while(|byte| **byte == 0).count();
        let number = &number[skipped..];
        let padding: &[u8] = if number[0] >= 0x80 { &[0] } else { &[] };
        der.extend([2, (padding.len() + number.len()) as u8]);
        der.extend([padding, number].concat());
    }
    der[1] = (der.len() - 2) as u8;
    der
}

fn parse(digits: &str) -> Vec<u8> {
    let nibble = |digit: u8| (digit as char).to_digit(16).expect("hex digits") as u8;
    let pairs = digits.as_bytes().as_chunks::<2>().0;
    pairs.iter().map(|[high, low]| nibble(*high) << 4 | nibble(*low)).collect()
}

/// Parses a hexadecimal number of at most 32 bytes.
fn number(digits: &str) -> [u8; 32] {
    let digits = parse(digits);
    let mut number = [0; 32];
    number[32 - digits.len()..].copy_from_slice(&digits);
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::GROUP;
    use crate::parse::{Entry, Root};
    use crate::vector::LANES;

    #[test]
    fn known_signatures_fill_a_group_and_begin_another() {
        for (with_exceptional, vectors) in [(false, GROUP + 1), (true, 2)] {
            let mut batch = Batch::unchecked(Kernel::Portable, BITS_MAX);
            let expected = fill(&mut batch, with_exceptional);
            assert_eq!(batch.verify(), expected);
            let signatures = batch.entries().iter().filter(|entry| entry.b.is_some()).count();
            assert_eq!(signatures.div_ceil(LANES), vectors, "{signatures} signatures");
        }
    }

    #[test]
    fn known_signatures_are_of_each_kind_of_lane() {
        for (with_exceptional, exceptional, commitments) in [(false, 0, 16), (true, 4, 0)] {
            let mut batch = Batch::unchecked(Kernel::Portable, BITS_MAX);
            let expected = fill(&mut batch, with_exceptional);
            let entries = batch.entries();
            let count = |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
            assert_eq!(count(|entry| matches!(entry.key, Root::Y(_))), 3, "y of uncompressed keys");
            assert_eq!(count(|entry| entry.plus_n), 3, "r + n");
            assert_eq!(count(|entry| entry.b.is_none()), commitments, "commitments");
            assert_eq!(expected.len() - entries.len(), 2, "s = 0 and s >= n, which get no lane");
            let undecided = expected.iter().filter(|verdict| **verdict == Verdict::Undecided);
            assert_eq!(undecided.count(), exceptional, "exceptional lanes");
        }
    }
}
