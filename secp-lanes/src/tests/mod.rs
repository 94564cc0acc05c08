//! Compares the arithmetic in lanes with a big-integer crate.

mod arithmetic;
mod doubles;
mod encodings;
mod tables;

/// The tests of verdicts, with the kernels that only tests have.
#[path = "../../tests/it"]
mod verdicts {
    mod common;
    mod differential;
    mod exceptional;
    mod vectors;

    use crate::Kernel;

    fn kernels() -> Vec<Kernel> {
        let all = [Kernel::AvxIfma, Kernel::Portable];
        all.into_iter().filter(|kernel| kernel.is_supported()).collect()
    }
}

use num_bigint::BigUint;

use crate::kernel::Kernel;
use crate::vector::{LANES, Op, Vector, Words, portable};

/// The kernels with lanes that this processor has.
fn kernels() -> Vec<Kernel> {
    let all = Kernel::ALL.into_iter().filter(|kernel| *kernel != Kernel::Library);
    all.filter(|kernel| kernel.is_supported()).collect()
}

/// Vectors that are compared with a big-integer crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vectors {
    Of(Kernel),
    /// Portable vectors with the products of AVX2 and NEON.
    Rounding,
}

impl Vectors {
    fn all() -> Vec<Self> {
        kernels().into_iter().map(Self::Of).chain([Self::Rounding]).collect()
    }

    fn run<O: Op>(self, op: O) -> O::Output {
        match self {
            Self::Of(kernel) => kernel.run(op),
            Self::Rounding => portable::dispatch_rounding(op),
        }
    }

    /// Returns how many random numbers a test takes.
    fn rounds(self, default: usize) -> usize {
        rounds(if let Self::Of(kernel) = self { kernel } else { Kernel::Portable }, default)
    }
}

/// Returns how many random numbers a test takes; the portable kernel takes fewer.
fn rounds(kernel: Kernel, default: usize) -> usize {
    let asked = std::env::var("APUS_TEST_ROUNDS");
    let factor = asked.map_or(1, |text| text.parse().expect("APUS_TEST_ROUNDS is a number"));
    let count = default.saturating_mul(factor.max(1));
    if kernel == Kernel::Portable { count.div_ceil(20) } else { count }
}

fn big(words: &Words) -> BigUint {
    BigUint::from_slice(
        &words.iter().flat_map(|w| [*w as u32, (w >> 32) as u32]).collect::<Vec<_>>(),
    )
}

fn words(number: &BigUint) -> Words {
    let digits = number.to_u64_digits();
    std::array::from_fn(|i| digits.get(i).copied().unwrap_or(0))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any number below 2^256; half of them consist of long runs of zeros and ones.
    fn words(&mut self) -> Words {
        let mut words: Words = std::array::from_fn(|_| self.next());
        if self.next() & 1 == 0 {
            for bit in 0..256 {
                if bit > 0 && !self.next().is_multiple_of(40) {
                    let before = words[(bit - 1) / 64] >> ((bit - 1) % 64) & 1;
                    words[bit / 64] = words[bit / 64] & !(1 << (bit % 64)) | before << (bit % 64);
                }
            }
        }
        words
    }

    fn rows(&mut self) -> [Words; LANES] {
        std::array::from_fn(|_| self.words())
    }
}

/// Numbers at the borders of limbs, words and moduli.
fn edges() -> Vec<Words> {
    let one = BigUint::from(1u32);
    let top = &one << 256usize;
    let mut numbers = vec![BigUint::from(0u32)];
    for modulus in [big(&crate::field::P), big(&crate::words::N)] {
        for distance in 0..3u32 {
            numbers.extend([
                &modulus - distance,
                &modulus + distance,
                (&modulus + distance) / 2u32,
            ]);
        }
    }
    for bit in [0usize, 1, 32, 33, 48, 51, 52, 53, 64, 104, 128, 156, 192, 208, 209, 240, 255] {
        let power = &one << bit;
        numbers.extend([power.clone(), &power - 1u32, &power + 1u32, &top - &power]);
    }
    for limb in 0..5usize {
        numbers.push((((&one << 52usize) - 1u32) << (52 * limb)) % &top);
    }
    numbers.iter().map(words).collect()
}

/// The name of the vectors' type.
struct TypeName;

impl Op for TypeName {
    type Output = &'static str;

    #[inline(always)]
    fn run<V: Vector>(self) -> &'static str {
        std::any::type_name::<V>()
    }
}

#[test]
fn kernels_use_their_own_vectors() {
    for kernel in kernels() {
        let expected = match kernel {
            Kernel::Avx512 => "avx512::Avx512",
            Kernel::AvxIfma => "ifma::Ifma",
            Kernel::Avx2 | Kernel::Avx2Doubles => "fma::Fma",
            Kernel::Neon => "neon::Neon",
            Kernel::Portable | Kernel::Library => "portable::Portable",
        };
        let name = kernel.run(TypeName);
        assert!(name.contains(expected), "{kernel:?}: {name}");
    }
    // Where there is AVX-512 IFMA, the tests run the kernel of AVX-IFMA too.
    assert!(Kernel::AvxIfma.is_supported() || !Kernel::Avx512.is_supported());
}
