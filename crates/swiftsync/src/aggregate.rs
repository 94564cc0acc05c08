//! The proof that each output not hinted as unspent was spent, exactly once: the outputs created
//! and the outputs spent are summed up separately, and the two sums have to be equal at the end.

use std::fmt;

use apus_hash::{Elements, Midstate, MuHash, State};

/// 64 secret random bytes, new for each run. Whoever knows them can make different outputs that
/// have the same sum, so that they are never displayed.
pub struct Salt([u8; 64]);

impl Salt {
    /// The salt of a run that is continued.
    pub fn new(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// A new salt.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The secret bytes, to be written to a file that only its owner can read.
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(secret)")
    }
}

/// Two multisets of elements, those created and those spent, of which only a sum is kept.
///
/// An element is the 36 bytes of an outpoint or, where scripts are checked, an outpoint and its
/// coin.
pub trait Aggregate: Send + Sized {
    /// The empty aggregate, with nothing created and nothing spent.
    fn new(salt: &Salt) -> Self;

    /// Adds the outpoints of outputs that were created and are not unspent at the end.
    fn create_outpoints(&mut self, outpoints: &[[u8; 36]]);

    /// Adds outpoints that were spent.
    fn spend_outpoints(&mut self, outpoints: &[[u8; 36]]);

    /// Adds the element of an output that was created and is not unspent at the end.
    fn create(&mut self, element: &[u8]);

    /// Adds the element of an output that was spent.
    fn spend(&mut self, element: &[u8]);

    /// [`Aggregate::create`] for many elements, which is faster.
    fn create_many(&mut self, elements: &Elements);

    /// [`Aggregate::spend`] for many elements, which is faster.
    fn spend_many(&mut self, elements: &Elements);

    /// Adds all elements of another aggregate with the same salt.
    fn combine(&mut self, other: &Self);

    /// Whether each element was spent as often as it was created.
    fn is_balanced(&self) -> bool;

    /// The state, to be restored by [`Aggregate::from_bytes`].
    fn to_bytes(&self) -> Vec<u8>;

    /// Restores the state that [`Aggregate::to_bytes`] returned under the same salt; `None` if the
    /// length is wrong.
    fn from_bytes(salt: &Salt, bytes: &[u8]) -> Option<Self>;
}

/// Two sums modulo 2^256 of the salted elements' SHA-256 hashes, read as big-endian numbers.
///
/// The salt fills the first block of SHA-256. The state after it is kept, so that an outpoint costs
/// one compression.
pub struct SumAggregate {
    salted: Midstate,
    created: Sum,
    spent: Sum,
}

impl Aggregate for SumAggregate {
    fn new(salt: &Salt) -> Self {
        let salted = Midstate::after(&salt.0);
        Self { salted, created: Sum::default(), spent: Sum::default() }
    }

    fn create_outpoints(&mut self, outpoints: &[[u8; 36]]) {
        self.created.add_short(&self.salted, outpoints);
    }

    fn spend_outpoints(&mut self, outpoints: &[[u8; 36]]) {
        self.spent.add_short(&self.salted, outpoints);
    }

    fn create(&mut self, element: &[u8]) {
        self.created.add_many(&self.salted, 1, |_| element);
    }

    fn spend(&mut self, element: &[u8]) {
        self.spent.add_many(&self.salted, 1, |_| element);
    }

    fn create_many(&mut self, elements: &Elements) {
        self.created.add_many(&self.salted, elements.len(), |i| elements.get(i));
    }

    fn spend_many(&mut self, elements: &Elements) {
        self.spent.add_many(&self.salted, elements.len(), |i| elements.get(i));
    }

    fn combine(&mut self, other: &Self) {
        self.created.combine(&other.created);
        self.spent.combine(&other.spent);
    }

    fn is_balanced(&self) -> bool {
        self.created == self.spent
    }

    fn to_bytes(&self) -> Vec<u8> {
        [self.created.to_bytes(), self.spent.to_bytes()].concat()
    }

    fn from_bytes(salt: &Salt, bytes: &[u8]) -> Option<Self> {
        let [created, spent] = bytes.as_chunks::<32>().0 else { return None };
        if bytes.len() != 64 {
            return None;
        }
        let (created, spent) = (Sum::from_bytes(created), Sum::from_bytes(spent));
        Some(Self { created, spent, ..Self::new(salt) })
    }
}

/// A number modulo 2^256 as eight words, the most significant first, as SHA-256 has them.
#[derive(Clone, Default, PartialEq, Eq)]
struct Sum(State);

/// The number of hashes that may be added before carries are propagated: a word of each adds less
/// than 2^32 to one of 64 bits.
const UNCARRIED_MAX: usize = 1 << 31;

impl Sum {
    fn add_short(&mut self, salted: &Midstate, elements: &[[u8; 36]]) {
        for elements in elements.chunks(UNCARRIED_MAX) {
            let mut sums = self.0.map(u64::from);
            salted.hash_short(elements, |state| add_words(&mut sums, state));
            self.carry(sums);
        }
    }

    fn add_many<'a>(
        &mut self,
        salted: &Midstate,
        count: usize,
        element: impl Fn(usize) -> &'a [u8],
    ) {
        for first in (0..count).step_by(UNCARRIED_MAX) {
            let count = UNCARRIED_MAX.min(count - first);
            let mut sums = self.0.map(u64::from);
            let pieces = |i: usize| [element(first + i), &[], &[]];
            salted.hash_many(count, pieces, |_, state| add_words(&mut sums, state));
            self.carry(sums);
        }
    }

    fn combine(&mut self, other: &Self) {
        let mut sums = self.0.map(u64::from);
        add_words(&mut sums, &other.0);
        self.carry(sums);
    }

    /// Sets the number to that of `sums`, whose words have carries that are not propagated yet.
    fn carry(&mut self, sums: [u64; 8]) {
        let mut carry = 0;
        for (word, sum) in self.0.iter_mut().zip(sums).rev() {
            let sum = sum + carry;
            *word = sum as u32;
            carry = sum >> 32;
        }
    }

    fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *bytes = word.to_be_bytes();
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; 32]) -> Self {
        let words = bytes.as_chunks::<4>().0;
        Self(std::array::from_fn(|i| u32::from_be_bytes(words[i])))
    }
}

#[inline]
fn add_words(sums: &mut [u64; 8], words: &State) {
    sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += u64::from(*word));
}

/// The [`MuHash`] of the elements created without those spent, as in IBD Booster. It needs no salt.
pub struct MuHashAggregate(MuHash);

impl Aggregate for MuHashAggregate {
    fn new(_: &Salt) -> Self {
        Self(MuHash::new())
    }

    fn create_outpoints(&mut self, outpoints: &[[u8; 36]]) {
        self.0.insert_many(outpoints.len(), |i| &outpoints[i]);
    }

    fn spend_outpoints(&mut self, outpoints: &[[u8; 36]]) {
        self.0.remove_many(outpoints.len(), |i| &outpoints[i]);
    }

    fn create(&mut self, element: &[u8]) {
        self.0.insert(element);
    }

    fn spend(&mut self, element: &[u8]) {
        self.0.remove(element);
    }

    fn create_many(&mut self, elements: &Elements) {
        self.0.insert_many(elements.len(), |i| elements.get(i));
    }

    fn spend_many(&mut self, elements: &Elements) {
        self.0.remove_many(elements.len(), |i| elements.get(i));
    }

    fn combine(&mut self, other: &Self) {
        self.0.combine(&other.0);
    }

    /// Takes some milliseconds.
    fn is_balanced(&self) -> bool {
        self.0.finalize() == MuHash::new().finalize()
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes().to_vec()
    }

    fn from_bytes(_: &Salt, bytes: &[u8]) -> Option<Self> {
        Some(Self(MuHash::from_bytes(bytes.try_into().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn salt() -> Salt {
        Salt::new(std::array::from_fn(|i| (i * 7 + 3) as u8))
    }

    fn outpoint(n: u8) -> [u8; 36] {
        std::array::from_fn(|i| if i % 5 == 0 { n } else { i as u8 })
    }

    fn element(n: u8) -> Vec<u8> {
        (0..usize::from(n) * 3 % 150).map(|i| i as u8 ^ n).collect()
    }

    fn elements(numbers: &[u8]) -> Elements {
        let mut elements = Elements::default();
        numbers.iter().for_each(|n| elements.push(&element(*n)));
        elements
    }

    fn outpoints(numbers: &[u8]) -> Vec<[u8; 36]> {
        numbers.iter().map(|n| outpoint(*n)).collect()
    }

    /// The sum of the elements' hashes, added byte by byte.
    fn dumb_sum<'a>(elements: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
        let mut sum = [0; 32];
        for element in elements {
            let hash = Sha256::digest([&salt().0[..], element].concat());
            let mut carry = 0;
            for i in (0..32).rev() {
                let byte = u16::from(sum[i]) + u16::from(hash[i]) + carry;
                sum[i] = byte as u8;
                carry = byte >> 8;
            }
        }
        sum
    }

    fn balances_only_equal_multisets<A: Aggregate>() {
        let balanced = |created: &[u8], spent: &[u8]| {
            let mut outpoint_sums = A::new(&salt());
            outpoint_sums.create_outpoints(&outpoints(created));
            outpoint_sums.spend_outpoints(&outpoints(spent));
            let mut sums = A::new(&salt());
            sums.create_many(&elements(created));
            sums.spend_many(&elements(spent));
            assert_eq!(sums.is_balanced(), outpoint_sums.is_balanced());
            sums.is_balanced()
        };
        assert!(balanced(&[], &[]));
        assert!(balanced(&[1, 2, 3], &[3, 1, 2]));
        assert!(balanced(&[1, 1, 2], &[1, 2, 1]));
        assert!(!balanced(&[1], &[]));
        assert!(!balanced(&[], &[1]));
        assert!(!balanced(&[1], &[2]));
        assert!(!balanced(&[1, 1], &[1]));
        assert!(!balanced(&[1], &[1, 1]));
        assert!(!balanced(&[1, 1, 2], &[1, 2, 2]));
    }

    #[test]
    fn balanced_if_the_same_was_created_and_spent() {
        balances_only_equal_multisets::<SumAggregate>();
        balances_only_equal_multisets::<MuHashAggregate>();
    }

    /// Checks that elements added one by one, in parts, in reverse and with a save in between have
    /// the same sums as those added at once.
    fn any_order_and_grouping<A: Aggregate>(created: &[u8], spent: &[u8], cut: usize) {
        let mut all = A::new(&salt());
        all.create_many(&elements(created));
        all.spend_many(&elements(spent));
        all.create_outpoints(&outpoints(spent));
        all.spend_outpoints(&outpoints(created));

        let cut = |numbers: &[u8]| {
            let (front, back) = numbers.split_at(cut.min(numbers.len()));
            (front.to_vec(), back.to_vec())
        };
        let ((created, more_created), (spent, more_spent)) = (cut(created), cut(spent));
        let mut first = A::new(&salt());
        spent.iter().rev().for_each(|n| first.spend(&element(*n)));
        more_created.iter().for_each(|n| first.create(&element(*n)));
        first.create_outpoints(&outpoints(&spent));
        first.spend_outpoints(&outpoints(&more_created));
        let first = A::from_bytes(&salt(), &first.to_bytes()).unwrap();
        let mut parts = A::new(&salt());
        created.iter().rev().for_each(|n| parts.create(&element(*n)));
        parts.spend_many(&elements(&more_spent));
        created.iter().for_each(|n| parts.spend_outpoints(&[outpoint(*n)]));
        more_spent.iter().for_each(|n| parts.create_outpoints(&[outpoint(*n)]));
        parts.combine(&first);
        assert!(parts.to_bytes() == all.to_bytes());
    }

    #[test]
    fn muhash_in_any_order_is_that_of_the_coins() {
        any_order_and_grouping::<MuHashAggregate>(&[1, 2, 3, 4, 5], &[9, 2, 7], 2);
        let mut sums = MuHashAggregate::new(&salt());
        sums.create_many(&elements(&[1, 2, 3]));
        sums.spend(&element(2));
        let mut expected = MuHash::new();
        [1, 3].iter().for_each(|n| expected.insert(&element(*n)));
        assert_eq!(sums.0.finalize(), expected.finalize());
    }

    #[test]
    fn states_of_another_length_are_refused() {
        for len in [0, 63, 65, 767, 769] {
            let bytes = vec![1; len];
            assert!(SumAggregate::from_bytes(&salt(), &bytes).is_none());
            assert!(MuHashAggregate::from_bytes(&salt(), &bytes).is_none());
        }
        assert_eq!(format!("{:?}", salt()), "Salt(secret)");
    }

    #[test]
    fn sums_wrap_and_carry() {
        let mut sum = Sum::from_bytes(&[0xff; 32]);
        sum.combine(&Sum::from_bytes(&[0xff; 32]));
        let mut expected = [0xff; 32];
        expected[31] = 0xfe;
        assert_eq!(sum.to_bytes(), expected);
    }

    proptest! {
        #[test]
        fn sums_equal_a_dumb_implementation(
            created in prop::collection::vec(any::<u8>(), 0..70),
            spent in prop::collection::vec(any::<u8>(), 0..70),
        ) {
            let mut sums = SumAggregate::new(&salt());
            sums.create_many(&elements(&created));
            sums.spend_outpoints(&outpoints(&spent));
            let expected = [
                dumb_sum(elements(&created).iter()),
                dumb_sum(outpoints(&spent).iter().map(|outpoint| &outpoint[..])),
            ];
            prop_assert_eq!(sums.to_bytes(), expected.concat());
        }

        #[test]
        fn sums_in_any_order_and_grouping(
            created in prop::collection::vec(any::<u8>(), 0..70),
            spent in prop::collection::vec(any::<u8>(), 0..70),
            cut in 0..70usize,
        ) {
            any_order_and_grouping::<SumAggregate>(&created, &spent, cut);
        }
    }
}
