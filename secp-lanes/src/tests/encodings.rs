use crate::parse::{Refusal, der_numbers, ecdsa};

fn number(low: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[32 - low.len()..].copy_from_slice(low);
    bytes
}

/// A signature whose numbers have these bytes.
fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
    let numbers = [&[2, r.len() as u8], r, &[2, s.len() as u8], s].concat();
    [&[0x30, numbers.len() as u8], &numbers[..]].concat()
}

#[test]
fn strict_der_is_read() {
    let large = [0xff; 32];
    let padded = [&[0], &large[..]].concat();
    let numbers: [(&[u8], [u8; 32]); 6] = [
        (&[0], number(&[0])),
        (&[1], number(&[1])),
        (&[0x7f], number(&[0x7f])),
        (&[0, 0x80], number(&[0x80])),
        (&[0x7f, 0xff], number(&[0x7f, 0xff])),
        (&padded, large),
    ];
    for (r, r_expected) in numbers {
        for (s, s_expected) in numbers {
            assert_eq!(der_numbers(&der(r, s)), Some((r_expected, s_expected)));
        }
    }
}

#[test]
fn anything_else_is_not() {
    let one: &[u8] = &[1];
    let too_long = [1; 33];
    let too_long_padded = [&[0], &[0x80; 33][..]].concat();
    let bad: [&[u8]; 8] = [
        &[],
        &[0x80],
        &[0xff, 0xff],
        &[0, 0],
        &[0, 1],
        &[0, 0x7f, 0xff],
        &too_long,
        &too_long_padded,
    ];
    for bad in bad {
        assert_eq!(der_numbers(&der(bad, one)), None, "{bad:x?}");
        assert_eq!(der_numbers(&der(one, bad)), None, "{bad:x?}");
    }
    let good = der(one, one);
    for at in [0, 1, 2, 3, 5, 6] {
        for change in 1..=255 {
            let mut bad = good.clone();
            bad[at] ^= change;
            assert_eq!(der_numbers(&bad), None, "{bad:x?}");
        }
    }
    for len in 0..good.len() {
        assert_eq!(der_numbers(&good[..len]), None);
    }
    assert_eq!(der_numbers(&[&good[..], &[0]].concat()), None);
    let mut longer = [&good[..], &[0]].concat();
    longer[1] += 1;
    assert_eq!(der_numbers(&longer), None);
    // A length of two bytes.
    assert_eq!(der_numbers(&[&[0x30, 0x81, 6], &good[2..]].concat()), None);
}

#[test]
fn keys_of_other_kinds_are_undecided() {
    let signature = der(&[1], &[1]);
    let generator = "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798\
                     483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
    let digits = |at: usize| u8::from_str_radix(&generator[2 * at..2 * at + 2], 16).unwrap();
    let key: Vec<u8> = (0..65).map(digits).collect();
    assert!(ecdsa(&key, &signature, &[7; 32]).is_ok());
    for kind in (0..=255).filter(|kind| *kind != 4) {
        let key = [&[kind], &key[1..]].concat();
        assert_eq!(ecdsa(&key, &signature, &[7; 32]), Err(Refusal::Undecided), "{kind}");
        if kind != 2 && kind != 3 {
            assert_eq!(ecdsa(&key[..33], &signature, &[7; 32]), Err(Refusal::Undecided), "{kind}");
        }
    }
    for len in (0..65).filter(|len| *len != 33) {
        assert_eq!(ecdsa(&key[..len], &signature, &[7; 32]), Err(Refusal::Undecided), "{len}");
    }
    let compressed = [&[2], &key[1..33]].concat();
    assert!(ecdsa(&compressed, &signature, &[7; 32]).is_ok());
    // Coordinates of p or more.
    for at in [1, 33] {
        let mut key = key.clone();
        key[at..at + 32].fill(0xff);
        assert_eq!(ecdsa(&key, &signature, &[7; 32]), Err(Refusal::Invalid));
    }
}
