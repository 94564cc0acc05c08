//! Constants in memory, at an address of their own.

use super::{power, unit};
use crate::field::R256;
use crate::vector::Doubles;

/// Constants of the formulas.
///
/// On Intel's processors a load waits for an earlier store if the lowest 12 bits of their addresses
/// are the same. If a constant and a result are such a pair, a vector cannot begin before the one
/// before it ends, and a ladder takes up to twice as long. Without this page that happened in one
/// process of ten or so, as the stack is at another address each time. So the constants are at the
/// end of a page, where [`Page`](crate::group::Page) has no results.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Constants {
    /// Starts of the chains that round to 2^51 units of a column.
    starts: [f64; 8],
    /// Starts of the chains that round to 2^52 units of columns 4 to 8.
    large_starts: [f64; 5],
    /// The start of a chain minus that of the column below, for columns 2 to 6.
    differences: [f64; 5],
    /// The numbers that round to the unit of the next limb when they are added to a limb; for limb
    /// 4 to 2^257.
    rounding: [f64; 5],
    /// (2^256 mod p) / 2^256 times 1, 2, 3 and 4.
    tops: [f64; 4],
    /// 1 to 4.
    scales: [f64; 4],
    minus_two: f64,
}

/// A page that ends with the constants.
#[repr(C, align(4096))]
struct LastOfPage([u8; 4096 - size_of::<Constants>()], Constants);

static CONSTANTS: LastOfPage = LastOfPage([0; 4096 - size_of::<Constants>()], Constants::new());

const _: () = assert!(size_of::<Constants>() <= 256);

impl Constants {
    const fn new() -> Self {
        let mut constants = Self {
            starts: [0.0; 8],
            large_starts: [0.0; 5],
            differences: [0.0; 5],
            rounding: [0.0; 5],
            tops: [0.0; 4],
            scales: [1.0, 2.0, 3.0, 4.0],
            minus_two: -2.0,
        };
        let mut i = 0;
        while i < 9 {
            let start = 1.5 * power(103 + 51 * i + 2);
            let at = i as usize;
            if i < 8 {
                constants.starts[at] = start;
            }
            if i >= 4 {
                constants.large_starts[at - 4] = 2.0 * start;
            }
            if i >= 2 && i <= 6 {
                constants.differences[at - 2] = start - constants.starts[at - 1];
            }
            if i < 5 {
                let round = if i == 4 { 257 } else { unit(at + 1) };
                constants.rounding[at] = 1.5 * power(52 + round);
            }
            if i < 4 {
                constants.tops[at] = constants.scales[at] * R256 as f64 * power(-256);
            }
            i += 1;
        }
        constants
    }

    /// Returns the constants, from memory: the compiler must not know them.
    #[inline(always)]
    pub fn get() -> &'static Self {
        std::hint::black_box(&CONSTANTS.1)
    }

    /// Returns the start of a chain that rounds to 2^51 units of the column.
    #[inline(always)]
    pub fn start<D: Doubles>(&self, column: usize) -> D {
        D::splat(self.starts[column])
    }

    /// Returns the start of a chain that rounds to 2^52 units of the column.
    #[inline(always)]
    pub fn large_start<D: Doubles>(&self, column: usize) -> D {
        D::splat(self.large_starts[column - 4])
    }

    /// Returns the number that rounds a limb to the unit of the next one.
    #[inline(always)]
    pub fn rounding<D: Doubles>(&self, limb: usize) -> D {
        D::splat(self.rounding[limb])
    }

    /// Returns `scale` times (2^256 mod p) / 2^256.
    #[inline(always)]
    pub fn top<D: Doubles>(&self, scale: u32) -> D {
        D::splat(self.tops[scale as usize - 1])
    }

    /// Returns the scale.
    #[inline(always)]
    pub fn scale<D: Doubles>(&self, scale: u32) -> D {
        D::splat(self.scales[scale as usize - 1])
    }

    /// Returns the start of a chain minus that of the column below.
    #[inline(always)]
    pub fn difference<D: Doubles>(&self, column: usize) -> D {
        D::splat(self.differences[column - 2])
    }

    /// Returns -2.
    #[inline(always)]
    pub fn minus_two<D: Doubles>(&self) -> D {
        D::splat(self.minus_two)
    }
}
