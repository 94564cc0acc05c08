//! Splits the factor of a multiple u * P for the ladder.
//!
//! With the third root of unity w, the map (x, y) -> (beta x, y) is multiplication by lambda, and u
//! = a + b lambda with a and b of half as many bits ([`split`]). The number a + b w of the
//! Eisenstein integers `Z[w]` is then written in base 8 ([`digits`]): each of 43 digits is zero, or
//! one of [`POINTS`] times one of the six units 1, w, w^2, -1, -w, -w^2. So one addition per digit
//! serves both halves, and the table has 11 points.

use std::sync::LazyLock;

use crate::vector::{LANES, Mask, Words};

/// Number of digits.
pub const DIGITS: usize = 43;

/// The digits up to units: (a, b) stands for a + b w. Every element of `Z[w]` is, modulo 8, zero or
/// a unit times one of these, and every element of norm 16 or less is a unit times one of these.
pub const POINTS: [(i8, i8); 11] =
    [(1, 0), (1, -1), (2, 0), (2, -1), (3, 1), (3, 0), (2, -2), (3, -1), (4, 1), (4, 0), (3, -2)];

/// A digit: `6 * point + 2 * power + sign` for (-1)^sign w^power times a point of [`POINTS`].
pub type Digit = u8;

/// The digit zero.
pub const ZERO: Digit = 0x80;

/// The number a + b lambda in two's complement of 192 bits.
#[derive(Clone, Copy)]
struct Halves {
    a: [u64; 3],
    b: [u64; 3],
}

/// Splits a number below n into halves, each below 2.6 * 2^126 in absolute value.
///
/// The lattice of (a, b) with a + b lambda = 0 (mod n) has the basis (A, -B), (A + B, A). The
/// vector nearest to (u, 0), up to rounding, is subtracted from it.
fn split(u: &Words) -> Halves {
    const A: [u64; 2] = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
    const B: [u64; 2] = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828];
    // 2^384 * A / n and 2^384 * B / n, rounded.
    const A_OVER_N: Words = [
        0xe893_209a_45db_b031,
        0x3daa_8a14_71e8_ca7f,
        0xe86c_90e4_9284_eb15,
        0x3086_d221_a7d4_6bcd,
    ];
    const B_OVER_N: Words = [
        0x1571_b4ae_8ac4_7f71,
        0x2212_08ac_9df5_06c6,
        0x6f54_7fa9_0abf_e4c4,
        0xe443_7ed6_010e_8828,
    ];
    let [c, d] = [above_384(u, &A_OVER_N), above_384(u, &B_OVER_N)];
    let low = [u[0], u[1], u[2]];
    let [ca, cb] = [low_product(&c, &A), low_product(&c, &B)];
    let [da, db] = [low_product(&d, &A), low_product(&d, &B)];
    Halves { a: sub(&sub(&sub(&low, &ca), &da), &db), b: sub(&cb, &da) }
}

/// Returns the product divided by 2^384, rounded.
fn above_384(a: &Words, b: &Words) -> [u64; 2] {
    let mut product = [0; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            (product[i + j], carry) = mad(a[i], b[j], product[i + j], carry);
        }
        product[i + 4] = carry;
    }
    let half = u128::from(product[5] >> 63);
    let rounded = (u128::from(product[7]) << 64 | u128::from(product[6])) + half;
    halves(rounded)
}

/// Returns the low 192 bits of the product.
fn low_product(a: &[u64; 2], b: &[u64; 2]) -> [u64; 3] {
    let mut product = [0; 3];
    let carry;
    (product[0], product[1]) = mad(a[0], b[0], 0, 0);
    (product[1], carry) = mad(a[0], b[1], product[1], 0);
    product[2] = carry;
    let (middle, carry) = mad(a[1], b[0], product[1], 0);
    product[1] = middle;
    product[2] = product[2].wrapping_add(carry).wrapping_add(a[1].wrapping_mul(b[1]));
    product
}

/// Returns the words of `a * b + c + d`, low and high.
fn mad(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let [low, high] = halves(u128::from(a) * u128::from(b) + u128::from(c) + u128::from(d));
    (low, high)
}

/// Returns the words of a number, low and high.
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

/// Returns the difference modulo 2^192.
fn sub(a: &[u64; 3], b: &[u64; 3]) -> [u64; 3] {
    let (d0, under) = a[0].overflowing_sub(b[0]);
    let (d1, under_one) = a[1].overflowing_sub(b[1]);
    let (d1, under_two) = d1.overflowing_sub(u64::from(under));
    let d2 = a[2].wrapping_sub(b[2]).wrapping_sub(u64::from(under_one | under_two));
    [d0, d1, d2]
}

/// Computes the digits of numbers below n in base 8, least significant first. Returns the lanes in
/// which 43 digits do not suffice, which cannot happen.
///
/// Each digit determines the carry into the next one, so the processor would have to wait for it if
/// numbers were converted one by one: all are converted side by side.
pub fn digits(numbers: &[Words; LANES], digits: &mut [[Digit; LANES]; DIGITS]) -> Mask {
    let table = &*RECODING;
    let halves = numbers.each_ref().map(split);
    let mut states = [0; LANES];
    let (lower, highest) = digits.split_at_mut(DIGITS - 1);
    for (part, digits) in lower.chunks_exact_mut(PART).enumerate() {
        let bits = |half: &[u64; 3]| {
            let low = u128::from(half[1]) << 64 | u128::from(half[0]);
            (low >> (3 * PART * part)) as u64
        };
        let mut a = halves.each_ref().map(|half| bits(&half.a));
        let mut b = halves.each_ref().map(|half| bits(&half.b) << 3);
        for row in digits {
            for lane in 0..LANES {
                let index = (a[lane] & 7 | b[lane] & 0x38) as usize | states[lane];
                let step = table.steps[index];
                row[lane] = step.digit;
                states[lane] = usize::from(step.state);
                a[lane] >>= 3;
                b[lane] >>= 3;
            }
        }
    }
    let mut failed = 0;
    for (lane, (Halves { a, b }, state)) in halves.iter().zip(states).enumerate() {
        match table.highest(a, b, state) {
            Some(digit) => highest[0][lane] = digit,
            None => failed |= 1 << lane,
        }
    }
    failed
}

/// The number of digits that are taken from one word.
const PART: usize = 14;
const _: () = assert!((DIGITS - 1).is_multiple_of(PART) && 3 * PART + 3 <= 64);

/// The digit for the lowest three bits of both halves and the carries into them, and the next
/// carries.
#[derive(Clone, Copy, Default)]
struct Step {
    digit: Digit,
    /// The carries: 64 for a carry of a, 128 for a carry of b.
    state: u8,
}

/// The largest absolute value of a or b in the table for the highest digit.
const TOP_MAX: i64 = 5;
const TOP: usize = 11;

struct Recoding {
    /// The steps, by the bits of a, those of b, and the carries.
    steps: [Step; 256],
    /// The highest digit, by a and b plus [`TOP_MAX`].
    top: [[Option<Digit>; TOP]; TOP],
}

impl Recoding {
    /// Returns the highest digit, for the rest: a and b divided by 2^126, rounded down, and the
    /// carries.
    fn highest(&self, a: &[u64; 3], b: &[u64; 3], state: usize) -> Option<Digit> {
        let rest = |half: &[u64; 3], carry: usize| {
            let top = (half[2] << 2 | half[1] >> 62).cast_signed();
            usize::try_from(top.wrapping_add(carry.cast_signed() as i64 + TOP_MAX)).ok()
        };
        let x = rest(a, state >> 6 & 1)?;
        let y = rest(b, state >> 7)?;
        *self.top.get(x)?.get(y)?
    }
}

static RECODING: LazyLock<Recoding> = LazyLock::new(|| {
    let mut all = vec![((0, 0), ZERO)];
    for (point, (a, b)) in (0..).zip(POINTS) {
        let mut a = i64::from(a);
        let mut b = i64::from(b);
        for power in 0..3 {
            all.push(((a, b), 6 * point + 2 * power));
            all.push(((-a, -b), 6 * point + 2 * power + 1));
            // w (a + b w) = -b + (a - b) w
            (a, b) = (-b, a - b);
        }
    }
    let mut recoding = Recoding { steps: [Step::default(); 256], top: [[None; TOP]; TOP] };
    for (index, step) in recoding.steps.iter_mut().enumerate() {
        #[expect(clippy::cast_possible_wrap)]
        let bits =
            |shift: usize, carry: usize| ((index >> shift & 7) + (index >> carry & 1)) as i64;
        let a = bits(0, 6);
        let b = bits(3, 7);
        let fits = |((x, y), _): &&((i64, i64), Digit)| (a - x) % 8 == 0 && (b - y) % 8 == 0;
        let ((x, y), digit) = *all.iter().find(fits).expect("every remainder modulo 8");
        let carry = |difference: i64, bit: u8| match difference {
            0 => 0,
            8 => bit,
            _ => unreachable!("digits lie between -5 and 5"),
        };
        *step = Step { digit, state: carry(a - x, 64) | carry(b - y, 128) };
    }
    for ((a, b), digit) in all {
        let place = |half: i64| usize::try_from(half + TOP_MAX).expect("digits are small");
        recoding.top[place(a)][place(b)] = Some(digit);
    }
    recoding
});
