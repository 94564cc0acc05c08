//! Groups of vectors in memory, and steps that are done for all vectors of a group.
//!
//! A product is a chain of instructions of which each waits for the one before: some 90 cycles,
//! while the processor needs 31 to 61 to start them all. So a step takes one vector after another,
//! none of which waits for any other: the processor begins with the next while the last ends. The
//! loop over them is a function of its own, short enough to stay where instructions are kept
//! decoded; compiled into the code around them, the steps of one addition would not fit there.

use std::marker::PhantomData;

use crate::field::Fe;
use crate::vector::{Limbs, Mask, Step, Vector};

/// Vectors of a group.
pub const GROUP: usize = 4;

/// Numbers of a group.
pub type Group = [Limbs; GROUP];

/// A group of which every vector is the same.
#[inline(always)]
pub fn splat<V: Vector>(number: Fe<V>) -> Group {
    let mut group = Group::default();
    for vector in &mut group {
        number.store(vector);
    }
    group
}

/// Does steps for the first so many vectors of a group.
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
    /// For so many vectors, [`GROUP`] at most.
    #[inline(always)]
    pub fn new(vectors: usize) -> Self {
        Self { vectors, kind: PhantomData }
    }

    /// Number of vectors.
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
