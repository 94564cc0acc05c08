//! Kernels: which instructions the lanes use.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[cfg(target_arch = "x86_64")]
use crate::doubles::ladder::DoublesLadder;
use crate::known;
use crate::ladder::Ladder;
use crate::vector::Op;
#[cfg(target_arch = "aarch64")]
use crate::vector::neon;
#[cfg(any(test, feature = "testing"))]
use crate::vector::portable;
#[cfg(target_arch = "x86_64")]
use crate::vector::{
    avx2, avx512,
    fma::Fma,
    ifma::{Avx512Ifma, AvxIfma},
};
use crate::work::Work;

/// A way to verify signatures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// Eight lanes with AVX-512 IFMA, the instructions for products of 52 bits.
    Avx512,
    /// Eight lanes with AVX-IFMA, the same instructions in registers of half the size. With the
    /// feature `testing`, processors with AVX-512 IFMA run it too.
    AvxIfma,
    /// Eight lanes with AVX2, and products of 52 bits by multiplications in double precision (FMA).
    Avx2,
    /// Like `Avx2`, with a ladder whose numbers stay in double precision.
    Avx2Doubles,
    /// Eight lanes with NEON of ARM, and products by multiplications in double precision (FMA).
    Neon,
    /// Eight lanes in plain Rust, with the feature `testing`. Slow: a reference for the others.
    Portable,
    /// libsecp256k1, one signature after another.
    Library,
}

impl Kernel {
    /// All kernels, the fastest first.
    pub const ALL: [Self; 7] = [
        Self::Avx512,
        Self::AvxIfma,
        Self::Avx2Doubles,
        Self::Avx2,
        Self::Neon,
        Self::Library,
        Self::Portable,
    ];

    /// The kernels of which the fastest depends on the processor.
    const MEASURED: [Self; 3] = [Self::AvxIfma, Self::Avx2Doubles, Self::Avx2];

    /// Returns a name of one word, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::AvxIfma => "avx-ifma",
            Self::Avx2 => "avx2",
            Self::Avx2Doubles => "avx2-doubles",
            Self::Neon => "neon",
            Self::Portable => "portable",
            Self::Library => "library",
        }
    }

    /// Returns a description in words, for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Avx512 => "with AVX-512 IFMA",
            Self::AvxIfma => "with AVX-IFMA",
            Self::Avx2 => "with AVX2",
            Self::Avx2Doubles => "with AVX2 in double precision",
            Self::Neon => "with NEON",
            Self::Portable => "in plain Rust",
            Self::Library => "by libsecp256k1",
        }
    }

    /// Returns the fastest kernel that the processor supports and that answers correctly.
    ///
    /// Which one with registers of 256 bits is the fastest depends on the processor: the first call
    /// measures them, if there is no AVX-512 IFMA, which takes some milliseconds.
    pub fn best() -> Self {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| {
            let is_usable = |kernel: &Self| kernel.check().is_ok();
            let first = Self::ALL.into_iter().find(is_usable).unwrap_or(Self::Library);
            if Self::MEASURED.contains(&first) {
                fastest(&Self::MEASURED.into_iter().filter(is_usable).collect::<Vec<_>>())
            } else {
                first
            }
        })
    }

    /// Checks whether this kernel can be used. The first call computes the table for multiples of
    /// G, and then verifies a few signatures with known verdicts in less than a millisecond.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn check(self) -> Result<(), Unusable> {
        static CHECKED: [OnceLock<Result<(), Unusable>>; Kernel::ALL.len()] =
            [const { OnceLock::new() }; Kernel::ALL.len()];
        if !self.is_supported() {
            return Err(Unusable::NotSupported);
        }
        let check = || if known::answers(self) { Ok(()) } else { Err(Unusable::WrongAnswers) };
        *CHECKED[self as usize].get_or_init(check)
    }

    /// Returns whether the processor has the kernel's instructions.
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::AvxIfma => {
                avx2::detect::<AvxIfma>().is_some()
                    || cfg!(any(test, feature = "testing"))
                        && avx2::detect::<Avx512Ifma>().is_some()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx2Doubles => avx2::detect::<Fma>().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::AvxIfma | Self::Avx2 | Self::Avx2Doubles => false,
            Self::Neon => cfg!(target_arch = "aarch64"),
            Self::Portable => cfg!(any(test, feature = "testing")),
            Self::Library => true,
        }
    }

    /// Runs a computation with the kernel's vectors.
    ///
    /// # Panics
    /// It has none, or the processor lacks them.
    pub(crate) fn run<O: Op>(self, op: O) -> O::Output {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Avx512 => {
                if let Some(proof) = avx512::detect() {
                    return avx512::dispatch(proof, op);
                }
            }
            Self::AvxIfma => {
                if let Some(proof) = avx2::detect::<AvxIfma>() {
                    return avx2::dispatch(proof, op);
                }
                #[cfg(any(test, feature = "testing"))]
                if let Some(proof) = avx2::detect::<Avx512Ifma>() {
                    return avx2::dispatch(proof, op);
                }
            }
            Self::Avx2 | Self::Avx2Doubles => {
                if let Some(proof) = avx2::detect::<Fma>() {
                    return avx2::dispatch(proof, op);
                }
            }
            Self::Neon | Self::Portable | Self::Library => {}
        }
        #[cfg(target_arch = "aarch64")]
        if self == Self::Neon {
            return neon::dispatch(op);
        }
        #[cfg(any(test, feature = "testing"))]
        if self == Self::Portable {
            return portable::dispatch(op);
        }
        let _ = op;
        panic!("no vectors {}", self.words())
    }

    /// Computes the multiples of the keys.
    pub(crate) fn ladder(self, work: &mut Work) {
        #[cfg(target_arch = "x86_64")]
        if let (Self::Avx2Doubles, Some(proof)) = (self, avx2::detect::<Fma>()) {
            return avx2::dispatch_doubles(proof, DoublesLadder { work });
        }
        self.run(Ladder { work });
    }
}

/// Returns the kernel that verifies the known signatures in the least time, the first one if two
/// take as long: the least time of a few is compared.
fn fastest(kernels: &[Kernel]) -> Kernel {
    let mut times = vec![Duration::MAX; kernels.len()];
    for _ in 0..3 {
        for (kernel, least) in kernels.iter().zip(&mut times) {
            let start = Instant::now();
            known::answers(*kernel);
            *least = start.elapsed().min(*least);
        }
    }
    let fastest = kernels.iter().zip(times).min_by_key(|(_, time)| *time);
    fastest.map_or(Kernel::Library, |(kernel, _)| *kernel)
}

/// Why a kernel cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The processor lacks the kernel's instructions.
    NotSupported,
    /// The kernel gave a wrong answer for a signature whose verdict is known: a fault of the
    /// processor, the compiler or this crate.
    WrongAnswers,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotSupported => "the processor lacks the kernel's instructions",
            Self::WrongAnswers => "the kernel gave a wrong answer for a known signature",
        })
    }
}

impl std::error::Error for Unusable {}
