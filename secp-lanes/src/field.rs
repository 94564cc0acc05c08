//! Numbers modulo p = 2^256 - 2^32 - 977, eight side by side.
//!
//! A number is five limbs of 52 bits, least significant first, with a vector for each limb. It is
//! any representative of its residue class below 2^260; a product is below 1.01 * 2^256, or below
//! 2.01 * 2^256 if something is subtracted. The *size* of a number, in the comments below, is a
//! bound in units of 2^256: factors may have sizes up to 15.

use crate::inverse::{Prime, of_lanes};
use crate::vector::{
    COUNTS, LANES, Limbs, Mask, Numbers, Vector, Words, half_start, load, start, starts, store,
};

/// 2^256 mod p.
pub const R256: u64 = 0x1_0000_03d1;
/// 2^260 mod p.
const R260: u64 = R256 << 4;
const LOW48: u64 = (1 << 48) - 1;
const LOW52: u64 = (1 << 52) - 1;

/// p, least significant word first.
pub const P: Words = [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX];

/// Eight field elements.
#[derive(Clone, Copy)]
pub struct Fe<V>(pub [V; 5]);

/// Sums of products, ten columns of weight 2^52 each, signed.
///
/// A column of a product is the sum of at most five low and five high halves, between -2.5 * 2^52
/// and 10 * 2^52.
#[derive(Clone, Copy)]
pub struct Wide<V>(pub [V; 10]);

/// A number before its last carries: five signed columns, and a last one of weight 2^260 that is
/// not negative and below 2^47.
#[derive(Clone, Copy)]
pub struct Loose<V>([V; 5], V);

impl<V: Numbers> Fe<V> {
    /// Returns a number below 2^52 in every lane.
    #[inline(always)]
    pub fn small(number: u64) -> Self {
        let zero = V::splat(0);
        Self([V::splat(number), zero, zero, zero, zero])
    }

    /// Returns the number in every lane.
    #[inline(always)]
    pub fn constant(words: Words) -> Self {
        let [w0, w1, w2, w3] = words;
        Self::from_words([V::splat(w0), V::splat(w1), V::splat(w2), V::splat(w3)])
    }

    /// Converts from 64-bit words, least significant first: any number below 2^256.
    #[inline(always)]
    pub fn from_words([w0, w1, w2, w3]: [V; 4]) -> Self {
        let low = V::splat(LOW52);
        Self([
            w0.and(low),
            w0.shr::<52>().or(w1.shl::<12>()).and(low),
            w1.shr::<40>().or(w2.shl::<24>()).and(low),
            w2.shr::<28>().or(w3.shl::<36>()).and(low),
            w3.shr::<16>(),
        ])
    }

    /// Returns the words of a number below 2^256, such as [`Fe::below_2_256`] returns.
    #[inline(always)]
    pub fn to_words(self) -> [V; 4] {
        let [l0, l1, l2, l3, l4] = self.0;
        [
            l0.or(l1.shl::<52>()),
            l1.shr::<12>().or(l2.shl::<40>()),
            l2.shr::<24>().or(l3.shl::<28>()),
            l3.shr::<36>().or(l4.shl::<16>()),
        ]
    }

    /// Returns the sum; its size is the sum of the sizes.
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        let mut sum = self;
        for i in 0..5 {
            sum.0[i] = self.0[i].add(other.0[i]);
        }
        sum.carried()
    }

    /// Returns twice the number; the size doubles.
    #[inline(always)]
    pub fn double(self) -> Self {
        self.add(self)
    }

    /// Returns half of a number below 2^256, modulo p and below 2^256.
    #[cfg(any(target_arch = "x86_64", test))]
    #[inline(always)]
    pub fn half(self) -> Self {
        // Adds p to odd numbers.
        let odd = self.0[0].and(V::splat(1));
        let mut even = self;
        even.0[0] = even.0[0].sub(V::splat(0).sub(odd).and(V::splat(R256)));
        even.0[4] = even.0[4].add(odd.shl::<48>());
        let [l0, l1, l2, l3, l4] = even.carried().0;
        let low = V::splat(LOW52);
        let part = |limb: V, next: V| limb.shr::<1>().or(next.shl::<51>()).and(low);
        Self([part(l0, l1), part(l1, l2), part(l2, l3), part(l3, l4), l4.shr::<1>()])
    }

    /// Returns the difference, for a subtrahend of size 4 or less; the size grows by 4.
    #[inline(always)]
    pub fn sub(self, other: Self) -> Self {
        self.minus(other).plus_p(4).carried()
    }

    /// Negates the number in the lanes of the mask, for a size of 4 or less; the result has size 8
    /// at most.
    #[inline(always)]
    pub fn negate_if(self, mask: Mask) -> Self {
        self.signed_if(mask).plus_p(4).carried()
    }

    /// Negates the limbs in the lanes of the mask, so that they are signed: for [`Fe::sub_signed`]
    /// and [`Loose::sub`] only.
    #[inline(always)]
    pub fn signed_if(self, mask: Mask) -> Self {
        let mut negated = self;
        for limb in &mut negated.0 {
            *limb = limb.negate_if(mask);
        }
        negated
    }

    /// Returns the difference of numbers of size 4 with signed limbs; the result has size 16 at
    /// most.
    #[inline(always)]
    pub fn sub_signed(self, other: Self) -> Self {
        self.minus(other).plus_p(8).carried()
    }

    /// Returns the differences of the limbs, which are signed.
    #[inline(always)]
    pub fn minus(self, other: Self) -> Self {
        let mut difference = self;
        for i in 0..5 {
            difference.0[i] = self.0[i].sub(other.0[i]);
        }
        difference
    }

    /// Takes the lanes of `yes` where the mask has a one, and those of `no` elsewhere.
    #[inline(always)]
    pub fn select(mask: Mask, yes: Self, no: Self) -> Self {
        let mut chosen = no;
        for i in 0..5 {
            chosen.0[i] = V::select(mask, yes.0[i], no.0[i]);
        }
        chosen
    }

    /// Adds `times` * p, without carries.
    #[inline(always)]
    fn plus_p(mut self, times: u64) -> Self {
        self.0[4] = self.0[4].add(V::splat(times << 48));
        self.0[0] = self.0[0].sub(V::splat(times * R256));
        self
    }

    /// Carries the columns of a number that is not negative, whose columns are signed, into limbs
    /// below 2^52.
    #[inline(always)]
    pub fn carried(self) -> Self {
        let low = V::splat(LOW52);
        let [l0, l1, l2, l3, l4] = V::carries(self.0);
        Self([l0.and(low), l1.and(low), l2.and(low), l3.and(low), l4])
    }

    /// Does what [`Fe::carried`] does, with limbs that are usable only in products.
    #[inline(always)]
    fn carried_factor(self) -> Self {
        let [l0, l1, l2, l3, l4] = V::carries(self.0);
        Self([l0.factor(), l1.factor(), l2.factor(), l3.factor(), l4])
    }

    /// Returns the product before any reduction.
    #[inline(always)]
    pub fn product(self, other: Self) -> Wide<V> {
        Wide(V::product(starts(), self.0, other.0))
    }

    /// Returns the product minus `2^SHIFT * less`. The sizes of the factors have a product below
    /// 16, and those of `less` one below 16 / 2^SHIFT; 2^260 * p is added, so that the number is
    /// positive.
    #[inline(always)]
    pub fn product_minus<const SHIFT: u32>(self, other: Self, less: Wide<V>) -> Wide<V> {
        // The product starts from the subtrahend, which needs fewer registers.
        let mut columns: [V; 10] = starts();
        columns[9] = columns[9].add(V::splat(1 << 48));
        columns[5] = columns[5].sub(V::splat(R256));
        for (column, less) in columns.iter_mut().zip(less.0) {
            *column = column.sub(less.shl::<SHIFT>());
        }
        Wide(V::product(columns, self.0, other.0))
    }

    /// Returns the square before any reduction.
    #[inline(always)]
    pub fn square(self) -> Wide<V> {
        let a = self.0;
        let mut c = [V::splat(0); 10];
        for (c, (lows, highs)) in c.iter_mut().zip(COUNTS) {
            *c = V::splat(half_start::<V>(lows, highs));
        }
        // These two columns are not doubled.
        c[0] = c[0].add(c[0]);
        c[9] = c[9].add(c[9]);
        macro_rules! low {
            ($($i:literal $j:literal),*) => {
                $(c[$i + $j] = V::mad_low(c[$i + $j], a[$i], a[$j]);)*
            };
        }
        macro_rules! high {
            ($($i:literal $j:literal),*) => {
                $(c[$i + $j + 1] = V::mad_high(c[$i + $j + 1], a[$i], a[$j]);)*
            };
        }
        low!(0 1, 0 2, 0 3, 0 4, 1 4, 2 4, 3 4);
        high!(0 1, 0 2, 0 3, 0 4, 1 4, 2 4, 3 4);
        low!(1 2, 1 3, 2 3);
        high!(1 2, 1 3, 2 3);
        for column in &mut c[1..9] {
            *column = column.add(*column);
        }
        low!(0 0, 1 1, 2 2, 3 3, 4 4);
        high!(0 0, 1 1, 2 2, 3 3, 4 4);
        Wide(c)
    }

    /// Returns the same residue class, below 2^256; for sizes up to 15.
    #[inline(always)]
    pub fn below_2_256(self) -> Self {
        // After the first pass a number is below 2^256 + 2^37. If it is 2^256 or more, the rest is
        // so small that the second pass leaves nothing above 2^256.
        self.cut().cut()
    }

    /// Reduces the part above 2^256.
    #[inline(always)]
    fn cut(mut self) -> Self {
        let above = self.0[4].shr::<48>();
        self.0[4] = self.0[4].and(V::splat(LOW48));
        let limb = self.0[0].add(V::splat(start::<V>(1, 0)));
        self.0[0] = V::mad_low(limb, above, V::splat(R256));
        self.carried()
    }

    /// Returns the representative of the residue class below p.
    #[inline(always)]
    pub fn canonical(self) -> Self {
        let number = self.below_2_256();
        // Adding 2^256 - p reaches 2^256 if and only if the number is p or more.
        let mut trial = number;
        trial.0[0] = trial.0[0].add(V::splat(R256));
        let trial = trial.carried();
        let reached = trial.0[4].shr::<48>().zeros();
        let mut reduced = trial;
        reduced.0[4] = reduced.0[4].and(V::splat(LOW48));
        Self::select(reached, number, reduced)
    }

    /// Returns the lanes that are zero modulo p.
    #[inline(always)]
    pub fn zeros(self) -> Mask {
        let [l0, l1, l2, l3, l4] = self.canonical().0;
        l0.or(l1).or(l2).or(l3).or(l4).zeros()
    }

    /// Returns the lanes whose canonical number is odd.
    #[inline(always)]
    pub fn odd(self) -> Mask {
        !self.canonical().0[0].and(V::splat(1)).zeros()
    }
}

impl<V: Vector> Fe<V> {
    /// Loads eight rows, each a number below 2^256.
    #[inline(always)]
    pub fn from_rows([r0, r1, r2, r3, r4, r5, r6, r7]: &[Words; LANES]) -> Self {
        Self::from_words(V::from_rows([r0, r1, r2, r3, r4, r5, r6, r7]))
    }

    /// Reads from memory.
    #[inline(always)]
    pub fn load(from: &Limbs) -> Self {
        Self(load(from))
    }

    /// Writes to memory.
    #[inline(always)]
    pub fn store(self, to: &mut Limbs) {
        store(&self.0, to);
    }

    /// Returns the product; in [`Steps`](crate::group::Steps) of many vectors it takes less time.
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(V::step::<Product, 2>([self.0, other.0]))
    }

    /// Returns the square.
    #[inline(always)]
    pub fn sqr(self) -> Self {
        Self(V::step::<Square, 1>([self.0]))
    }

    /// Returns the number of lane 0, below p.
    #[inline(always)]
    pub fn first(self) -> Words {
        let mut rows = [[0; 4]; LANES];
        V::to_rows(self.canonical().to_words(), &mut rows);
        rows[0]
    }

    /// Rotates the lanes down by this many; the lowest ones move to the top.
    #[inline(always)]
    pub fn rotated(self, by: usize) -> Self {
        let mut rows = [[0; 4]; LANES];
        V::to_rows(self.below_2_256().to_words(), &mut rows);
        rows.rotate_left(by);
        Self::from_rows(&rows)
    }

    /// Returns the inverse; zero for zero.
    #[inline(always)]
    pub fn inverse(self) -> Self {
        const PRIME: Prime = Prime::new(P);
        let zeros = self.zeros();
        let number = Self::select(zeros, Self::small(1), self);
        let inverse = of_lanes!(number, |all| Self::constant(PRIME.inverse(&all.first())));
        Self::select(zeros, Self::small(0), inverse)
    }
}

/// Defines steps by name, inputs and result.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident($($input:ident),* ; $mask:ident) => $value:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl $crate::vector::Step<{ [$(stringify!($input)),*].len() }> for $name {
            #[inline(always)]
            fn run<V: $crate::vector::Numbers>(
                [$($input),*]: [[V; 5]; { [$(stringify!($input)),*].len() }],
                $mask: $crate::vector::Mask,
            ) -> [V; 5] {
                $(let $input = $crate::field::Fe($input);)*
                $value.0
            }
        }
    )*};
}
pub(crate) use steps;

steps! {
    /// a b
    Product(a, b; _mask) => a.product(b).fold().finish();
    /// a^2
    Square(a; _mask) => a.square().fold().finish();
    /// a b, usable only in products
    ProductFactor(a, b; _mask) => a.product(b).fold().finish_factor();
    /// a^2, usable only in products
    SquareFactor(a; _mask) => a.square().fold().finish_factor();
}

impl<V: Numbers> Wide<V> {
    /// Adds 64 p if low halves may be negative, so that none of the lower columns is.
    ///
    /// A low half is at least -2^51, and a column gets at most six of them: five here and one in
    /// [`Wide::fold`] (the lowest: one here, one there, and one in [`Loose::finish`]). So
    /// 2^262 = 4 * 2^260 is added, of which every column keeps 4 * 2^52 and takes 4 from the next;
    /// and 64 (2^32 + 977) is subtracted. `Loose::replaced` takes 64 * 2^256 off again.
    #[inline(always)]
    fn raised(mut self) -> Self {
        if V::ROUNDS {
            self.0[0] = self.0[0].add(V::splat((4 << 52) - 64 * R256));
            for column in &mut self.0[1..5] {
                *column = column.add(V::splat((4 << 52) - 4));
            }
        }
        self
    }

    /// Reduces the part above 2^260, once.
    #[inline(always)]
    pub fn fold(self) -> Loose<V> {
        let [mut c0, mut c1, mut c2, mut c3, mut c4, c5, c6, c7, c8, c9] = self.raised().0;
        let [c5, c6, c7, c8, c9] = V::carries([c5, c6, c7, c8, c9]);
        let [c5, c6, c7, c8] = [c5.factor(), c6.factor(), c7.factor(), c8.factor()];
        let mut top = V::splat(start::<V>(0, 1));
        let r = V::splat(R260);
        for (c, highs) in [(&mut c0, 0), (&mut c1, 1), (&mut c2, 1), (&mut c3, 1), (&mut c4, 1)] {
            *c = c.add(V::splat(start::<V>(1, highs)));
        }
        c0 = V::mad_low(c0, c5, r);
        c1 = V::mad_high(c1, c5, r);
        c2 = V::mad_high(c2, c6, r);
        c3 = V::mad_high(c3, c7, r);
        c4 = V::mad_high(c4, c8, r);
        top = V::mad_high(top, c9, r);
        c1 = V::mad_low(c1, c6, r);
        c2 = V::mad_low(c2, c7, r);
        c3 = V::mad_low(c3, c8, r);
        c4 = V::mad_low(c4, c9, r);
        Loose([c0, c1, c2, c3, c4], top)
    }
}

impl<V: Numbers> Loose<V> {
    /// Multiplies by `2^SHIFT`, for shifts of at most 3.
    #[inline(always)]
    pub fn shifted<const SHIFT: u32>(mut self) -> Self {
        for column in &mut self.0 {
            *column = column.shl::<SHIFT>();
        }
        Self(self.0, self.1.shl::<SHIFT>())
    }

    /// Multiplies by three.
    #[inline(always)]
    pub fn tripled(mut self) -> Self {
        for column in &mut self.0 {
            *column = column.add(*column).add(*column);
        }
        Self(self.0, self.1.add(self.1).add(self.1))
    }

    /// Subtracts `2^SHIFT * number`. Must be followed by [`Loose::finish_signed`].
    #[inline(always)]
    pub fn sub<const SHIFT: u32>(mut self, number: Fe<V>) -> Self {
        for i in 0..5 {
            self.0[i] = self.0[i].sub(number.0[i].shl::<SHIFT>());
        }
        self
    }

    /// Negates the number in the lanes of the mask. Must be followed by
    /// [`Loose::finish_negated_factor`].
    #[inline(always)]
    pub fn negate_if(mut self, mask: Mask) -> Self {
        for column in &mut self.0 {
            *column = column.negate_if(mask);
        }
        Self(self.0, self.1.negate_if(mask))
    }

    /// Returns the number, of size 1.01, if no column is negative.
    #[inline(always)]
    pub fn finish(self) -> Fe<V> {
        self.replaced(0).carried()
    }

    /// Returns the number, of size 2.01, if columns are above -2^60 and the last is not negative.
    #[inline(always)]
    pub fn finish_signed(self) -> Fe<V> {
        self.replaced_signed().carried()
    }

    /// Does what [`Loose::finish_signed`] does, with limbs that are usable only in products.
    #[inline(always)]
    pub fn finish_signed_factor(self) -> Fe<V> {
        self.replaced_signed().carried_factor()
    }

    #[inline(always)]
    fn replaced_signed(mut self) -> Fe<V> {
        // Adds (2^15 + 1) * p, of which 2^15 * 2^256 is replaced by its remainder.
        self.0[4] = self.0[4].add(V::splat(1 << 63));
        self.0[0] = self.0[0].sub(V::splat(((1 << 15) + 1) * R256));
        self.replaced(1 << 48)
    }

    /// Does what [`Loose::finish`] does, with limbs that are usable only in products
    /// ([`Numbers::factor`]).
    #[inline(always)]
    pub fn finish_factor(self) -> Fe<V> {
        self.replaced(0).carried_factor()
    }

    /// Returns the number, of size 2.01, if columns are above -2^60 and the last above -2^40, with
    /// limbs that are usable only in products.
    #[inline(always)]
    pub fn finish_negated_factor(mut self) -> Fe<V> {
        // Adds 2^40 * 2^260 = 2^44 * 2^256, minus its remainder 2^44 * (2^32 + 977).
        self.1 = self.1.add(V::splat(1 << 40));
        self.0[0] = self.0[0].sub(V::splat(977 << 44));
        self.0[1] = self.0[1].sub(V::splat(1 << (44 + 32 - 52)));
        self.finish_signed_factor()
    }

    /// Reduces the part above 2^256, and adds `extra` at 2^208, without carries.
    #[inline(always)]
    fn replaced(self, extra: u64) -> Fe<V> {
        let [mut c0, c1, c2, c3, c4] = self.0;
        let above = c4.shr::<48>().add(self.1.shl::<4>());
        let c4 = c4.and(V::splat(LOW48));
        let c4 = if extra == 0 { c4 } else { c4.or(V::splat(extra)) };
        c0 = V::mad_low(c0.add(V::splat(start::<V>(1, 0))), above, V::splat(R256));
        let c1 = c1.add(V::splat(start::<V>(0, 1)));
        let c1 = V::mad_high(c1, above, V::splat(R256));
        Fe([c0, c1, c2, c3, c4])
    }
}
