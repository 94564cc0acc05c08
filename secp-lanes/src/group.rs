//! Groups of vectors in memory, and steps that are done for all vectors of a group.
//!
//! A product is a chain of dependent instructions: it takes some 90 cycles, while the processor
//! needs 31 to 61 to start them all. So a step takes one vector after another, and since none
//! depends on another, the processor begins with the next while the last ends. The loop over them
//! is a function of its own, short enough to stay in the cache of decoded instructions; inlined
//! into the code around them, the steps of one addition would not fit there.

use std::marker::PhantomData;

use crate::field::Fe;
use crate::vector::{Limbs, Mask, Step, Vector};

/// Number of vectors in a group.
pub const GROUP: usize = 4;

/// A group of numbers in memory.
pub type Group = [Limbs; GROUP];

/// Up to three groups in a page of memory, whose last 256 bytes are not used: `doubles` has its
/// constants there in another page.
#[repr(C, align(4096))]
pub struct Page<const N: usize>(pub [Group; N]);

impl<const N: usize> Default for Page<N> {
    fn default() -> Self {
        Self([Group::default(); N])
    }
}

/// Returns a group with the same number in every vector.
#[inline(always)]
pub fn splat<V: Vector>(number: Fe<V>) -> Group {
    let mut group = Group::default();
    for vector in &mut group {
        number.store(vector);
    }
    group
}

/// A way to compute steps for the first vectors of a group.
pub struct Steps<V> {
    vectors: usize,
    kind: PhantomData<V>,
}

impl<V> Clone for Steps<V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Steps<V> {}

impl<V: Vector> Steps<V> {
    /// Computes steps for this many vectors, at most [`GROUP`].
    #[inline(always)]
    pub fn new(vectors: usize) -> Self {
        Self { vectors, kind: PhantomData }
    }

    /// Returns the number of vectors.
    #[inline(always)]
    pub fn vectors(self) -> usize {
        self.vectors
    }

    /// Computes a step.
    #[inline(always)]
    pub fn run<S: Step<N>, const N: usize>(self, step: S, inputs: [&Group; N], to: &mut Group) {
        self.run_masked(step, inputs, &[0; GROUP], to);
    }

    /// Computes a step with a mask for each vector.
    #[inline(always)]
    pub fn run_masked<S: Step<N>, const N: usize>(
        self,
        _: S,
        inputs: [&Group; N],
        masks: &[Mask; GROUP],
        to: &mut Group,
    ) {
        let mut slices: [&[Limbs]; N] = [&[]; N];
        for (slice, input) in slices.iter_mut().zip(inputs) {
            *slice = input;
        }
        V::each::<S, N>(slices, masks, &mut to[..self.vectors]);
    }
}
