//! The checksum of output descriptors (BIP380).

/// The characters of descriptors, in the order of their values.
const INPUT: &[u8; 95] = b"0123456789()[],'/*abcdefgh@:$%{}\
    IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
/// The characters of checksums.
const CHECKSUM: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATOR: [u64; 5] =
    [0xf5_dee5_1989, 0xa9_fdca_3312, 0x1b_ab10_e32d, 0x37_06b1_677a, 0x64_4d62_6ffd];
/// Number of characters of a checksum.
pub(super) const CHECKSUM_CHARS: usize = 8;

/// The value of a byte that no descriptor has.
const NONE: u8 = u8::MAX;

/// The values of characters, by their bytes.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut index = 0;
    while index < INPUT.len() {
        values[INPUT[index] as usize] = index as u8;
        index += 1;
    }
    values
};

/// Returns a descriptor with its checksum.
///
/// # Panics
/// It has characters that descriptors do not have.
pub fn with_checksum(descriptor: String) -> String {
    let checksum = checksum(&descriptor).expect("the characters of descriptors");
    descriptor + "#" + &checksum
}

/// Returns the checksum of a descriptor; `None` if it has characters that descriptors do not have.
pub fn checksum(descriptor: &str) -> Option<String> {
    let mut sum = 1;
    let mut class = 0;
    let mut count = 0;
    for byte in descriptor.bytes() {
        let value = match VALUES[usize::from(byte)] {
            NONE => return None,
            value => u64::from(value),
        };
        sum = step(sum, value & 31);
        class = class * 3 + (value >> 5);
        count += 1;
        if count == 3 {
            sum = step(sum, class);
            (class, count) = (0, 0);
        }
    }
    if count > 0 {
        sum = step(sum, class);
    }
    sum = (0..CHECKSUM_CHARS).fold(sum, |sum, _| step(sum, 0)) ^ 1;
    let character = |index: usize| char::from(CHECKSUM[(sum >> (5 * index)) as usize & 31]);
    Some((0..CHECKSUM_CHARS).rev().map(character).collect())
}

/// The values that the top five bits of a checksum add to the next.
const TAPS: [u64; 32] = {
    let mut taps = [0; 32];
    let mut top = 0;
    while top < 32 {
        let mut bit = 0;
        while bit < 5 {
            if top >> bit & 1 == 1 {
                taps[top] ^= GENERATOR[bit];
            }
            bit += 1;
        }
        top += 1;
    }
    taps
};

/// Takes five more bits into a checksum.
fn step(sum: u64, value: u64) -> u64 {
    ((sum & 0x7_ffff_ffff) << 5 ^ value) ^ TAPS[(sum >> 35) as usize & 31]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_bip_380() {
        assert_eq!(with_checksum("raw(deadbeef)".to_string()), "raw(deadbeef)#89f8spxm");
        assert_eq!(checksum("raw(ä)"), None);
    }
}
