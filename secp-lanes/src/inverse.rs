//! Inverses modulo p and modulo n: a single inversion of the product of eight lanes, from which the
//! inverse of each lane is derived (Montgomery).
//!
//! The inversion is computed outside the lanes, by division steps (Bernstein and Yang, "Fast
//! constant-time gcd computation and modular inversion", 2019), but not in constant time. By
//! Fermat's little theorem, in lanes, it would take three times as long, since every square waits
//! for the one before.

use crate::vector::Words;

/// Number of division steps that need only the lowest bits of f and g.
const STEPS: u32 = 62;
/// The lowest 62 bits.
const LOW62: u64 = (1 << STEPS) - 1;
/// After this many times 62 division steps g is zero, for numbers below 2^256: 741 steps are
/// enough.
const ROUNDS_MAX: usize = 12;

/// A signed number in limbs of 62 bits, of which the highest is signed.
type Limbs = [i64; 5];

/// An odd prime of 256 bits.
pub struct Prime {
    limbs: Limbs,
    /// -1 / prime modulo 2^62.
    minus_inverse: u64,
}

/// The effect of 62 division steps: they replace (f, g) by (u f + v g, q f + r g) / 2^62.
struct Matrix {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

impl Prime {
    /// Prepares inversions modulo this prime.
    pub const fn new(words: Words) -> Self {
        // Each step doubles the number of correct bits; an odd number starts with three.
        let mut inverse = words[0];
        let mut step = 0;
        while step < 5 {
            let error = inverse.wrapping_mul(words[0]);
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(error));
            step += 1;
        }
        Self { limbs: limbs(&words), minus_inverse: inverse.wrapping_neg() & LOW62 }
    }

    /// Returns the inverse of a number below the prime; zero for zero.
    pub fn inverse(&self, number: &Words) -> Words {
        let mut f = self.limbs;
        let mut g = limbs(number);
        let mut d: Limbs = [0; 5];
        let mut e: Limbs = [1, 0, 0, 0, 0];
        let mut delta = 1;
        // d * number = f and e * number = g, modulo the prime, each time.
        for _ in 0..ROUNDS_MAX {
            if g == [0; 5] {
                break;
            }
            let Matrix { u, v, q, r } = steps(&mut delta, f[0] as u64, g[0] as u64);
            (f, g) = (quotient((u, &f), (v, &g), (0, &f)), quotient((q, &f), (r, &g), (0, &f)));
            (d, e) = (self.reduced((u, &d), (v, &e)), self.reduced((q, &d), (r, &e)));
        }
        debug_assert!(g == [0; 5]);
        // f is 1 or -1, or the prime if the number is zero.
        self.below(d, f[4] < 0)
    }

    /// Returns (a x + b y) / 2^62 modulo the prime, larger than x and y by less than the prime.
    fn reduced(&self, (a, x): (i64, &Limbs), (b, y): (i64, &Limbs)) -> Limbs {
        let low = (a as u64).wrapping_mul(x[0] as u64);
        let low = low.wrapping_add((b as u64).wrapping_mul(y[0] as u64));
        let times = low.wrapping_mul(self.minus_inverse) & LOW62;
        quotient((a, x), (b, y), (times.cast_signed(), &self.limbs))
    }

    /// Returns the number, negated if `negate`, reduced below the prime; it is less than 16 primes.
    fn below(&self, mut number: Limbs, negate: bool) -> Words {
        if negate {
            number = quotient((-(1 << STEPS), &number), (0, &number), (0, &number));
        }
        while number[4] < 0 {
            number = sum(&number, &self.limbs, 1);
        }
        loop {
            let less = sum(&number, &self.limbs, -1);
            if less[4] < 0 {
                return words(&number);
            }
            number = less;
        }
    }
}

/// Makes 62 division steps. `delta` continues from one call to the next.
#[inline(always)]
fn steps(delta: &mut i64, mut f: u64, mut g: u64) -> Matrix {
    let mut u = 1i64;
    let mut v = 0i64;
    let mut q = 0i64;
    let mut r = 1i64;
    let mut left = STEPS;
    loop {
        // While g is even it is halved, which doubles the weight of the other factors.
        let zeros = (g | 1 << left).trailing_zeros();
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        *delta += i64::from(zeros);
        left -= zeros;
        if left == 0 {
            return Matrix { u, v, q, r };
        }
        if *delta > 0 {
            *delta = -*delta;
            (f, g) = (g, f.wrapping_neg());
            (u, v, q, r) = (q, r, -u, -v);
        }
        // Both are odd, and so their sum is even.
        g = g.wrapping_add(f);
        q += u;
        r += v;
    }
}

/// Returns (a x + b y + c z) / 2^62, a division without remainder, with factors of at most 2^62.
#[inline(always)]
fn quotient((a, x): (i64, &Limbs), (b, y): (i64, &Limbs), (c, z): (i64, &Limbs)) -> Limbs {
    let column = |i: usize| {
        let product = |factor: i64, limb: i64| i128::from(factor) * i128::from(limb);
        product(a, x[i]) + product(b, y[i]) + product(c, z[i])
    };
    let mut carry = column(0) >> STEPS;
    let mut result = [0; 5];
    for i in 1..5 {
        carry += column(i);
        result[i - 1] = (carry as u64 & LOW62).cast_signed();
        carry >>= STEPS;
    }
    result[4] = carry as i64;
    result
}

/// Returns x plus `times` y.
fn sum(x: &Limbs, y: &Limbs, times: i64) -> Limbs {
    let mut carry = 0;
    let mut result = [0; 5];
    for i in 0..5 {
        carry += x[i] + times * y[i];
        result[i] = if i < 4 { carry & LOW62.cast_signed() } else { carry };
        carry >>= STEPS;
    }
    result
}

/// Returns the limbs of a number below 2^256.
const fn limbs([w0, w1, w2, w3]: &Words) -> Limbs {
    [
        (*w0 & LOW62).cast_signed(),
        ((*w0 >> 62 | *w1 << 2) & LOW62).cast_signed(),
        ((*w1 >> 60 | *w2 << 4) & LOW62).cast_signed(),
        ((*w2 >> 58 | *w3 << 6) & LOW62).cast_signed(),
        (*w3 >> 56).cast_signed(),
    ]
}

/// Converts limbs back to words, the inverse of [`limbs`].
fn words(limbs: &Limbs) -> Words {
    let [l0, l1, l2, l3, l4] = limbs.map(i64::cast_unsigned);
    [l0 | l1 << 62, l1 >> 2 | l2 << 60, l2 >> 4 | l3 << 58, l3 >> 6 | l4 << 56]
}

/// Computes the inverse in each lane of a number without zeros, given the inverse of the product of
/// all lanes in every lane.
///
/// This is a macro because a closure would be compiled without the vector features.
macro_rules! of_lanes {
    ($number:expr, |$all:ident| $inverse:expr) => {{
        let number = $number;
        let other = number.rotated(4);
        let twos = number.mul(other);
        let other_twos = twos.rotated(2);
        let fours = twos.mul(other_twos);
        let other_fours = fours.rotated(1);
        let $all = fours.mul(other_fours);
        $inverse.mul(other_fours).mul(other_twos).mul(other)
    }};
}
pub(crate) use of_lanes;
