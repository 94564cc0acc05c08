use super::element::{KEYS, key_of_state, number};
use super::num3072::Num3072;
use super::x86::Ifma;
use crate::Midstate;

/// Number of elements from which vector lanes are faster. Their eight products are multiplied by
/// each other at the end, which takes as long as multiplying two elements one by one.
const LANES_MIN: usize = 4;

/// The processor instructions that products of many numbers can use.
#[derive(Clone, Copy)]
pub struct Engine(Option<Ifma>);

impl Engine {
    /// Returns the fastest engine that this processor runs.
    pub fn best() -> Self {
        Self(Ifma::detect())
    }

    /// Returns every engine that this processor runs, including the one without special
    /// instructions.
    #[cfg(test)]
    pub fn all() -> [Self; 2] {
        [Self::best(), Self(None)]
    }

    /// Multiplies `product` by the numbers of `count` elements; `element` returns an element by its
    /// index.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused, reason = "only x86-64 has lanes for these products")
    )]
    pub fn multiply<'a>(
        self,
        product: &mut Num3072,
        count: usize,
        element: impl Fn(usize) -> &'a [u8],
    ) {
        let message = |i| [element(i), &[], &[]];
        let Some(lanes) = self.0.filter(|_| count >= LANES_MIN) else {
            return Midstate::INITIAL.hash_many(count, message, |_, state| {
                product.multiply(&number(&key_of_state(state)));
            });
        };
        let mut products = lanes.products(product);
        let mut keys = [[0; KEYS]; 8];
        let mut waiting = 0;
        Midstate::INITIAL.hash_many(count, message, |_, state| {
            for (row, word) in keys.iter_mut().zip(key_of_state(state)) {
                row[waiting] = word;
            }
            waiting += 1;
            if waiting == KEYS {
                products.multiply(&keys, waiting);
                waiting = 0;
            }
        });
        products.multiply(&keys, waiting);
        *product = products.together();
    }
}
