//! The proof that each output not hinted as unspent was spent, exactly once: the outputs created
//! and the outputs spent are summed up separately, and the two sums have to be equal at the end.

use std::fmt;

use apus_hash::{Elements, Midstate, MuHash, Sha256State};

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

/// The hash that the sums of an [`Aggregate`] are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    /// Two sums modulo 2^256 of the salted elements' SHA-256 hashes, read as big-endian numbers.
    Sha256,
    /// The MuHash3072 of the elements created without those spent, as in IBD Booster. It needs no
    /// salt.
    MuHash,
}

/// Two multisets of elements, those created and those spent, of which only sums are kept.
///
/// An element is the 36 bytes of an outpoint or, where scripts are checked, an outpoint and its
/// coin.
#[derive(Clone)]
pub struct Aggregate(Sums);

#[derive(Clone)]
enum Sums {
    /// The salt fills the first block of SHA-256. The state after it is kept, so that an outpoint
    /// costs one compression.
    Sha256 {
        salted: Midstate,
        created: Sum,
        spent: Sum,
    },
    MuHash(Box<MuHash>),
}

impl Aggregate {
    /// Returns the empty aggregate, with nothing created and nothing spent.
    pub fn new(kind: AggregateKind, salt: &Salt) -> Self {
        Self(match kind {
            AggregateKind::Sha256 => Sums::Sha256 {
                salted: Midstate::after(&salt.0),
                created: Sum::default(),
                spent: Sum::default(),
            },
            AggregateKind::MuHash => Sums::MuHash(Box::new(MuHash::new())),
        })
    }

    /// Adds the outpoints of outputs that were created and are not unspent at the end.
    pub fn create_outpoints(&mut self, outpoints: &[[u8; 36]]) {
        match &mut self.0 {
            Sums::Sha256 { salted, created, .. } => created.add_short(salted, outpoints),
            Sums::MuHash(hash) => hash.insert_many(outpoints.len(), |i| &outpoints[i]),
        }
    }

    /// Adds outpoints that were spent.
    pub fn spend_outpoints(&mut self, outpoints: &[[u8; 36]]) {
        match &mut self.0 {
            Sums::Sha256 { salted, spent, .. } => spent.add_short(salted, outpoints),
            Sums::MuHash(hash) => hash.remove_many(outpoints.len(), |i| &outpoints[i]),
        }
    }

    /// Adds the element of an output that was created and is not unspent at the end.
    pub fn create(&mut self, element: &[u8]) {
        match &mut self.0 {
            Sums::Sha256 { salted, created, .. } => created.add_many(salted, 1, |_| element),
            Sums::MuHash(hash) => hash.insert(element),
        }
    }

    /// Adds the element of an output that was spent.
    pub fn spend(&mut self, element: &[u8]) {
        match &mut self.0 {
            Sums::Sha256 { salted, spent, .. } => spent.add_many(salted, 1, |_| element),
            Sums::MuHash(hash) => hash.remove(element),
        }
    }

    /// [`Aggregate::create`] for many elements, which is faster.
    pub fn create_many(&mut self, elements: &Elements) {
        let count = elements.len();
        match &mut self.0 {
            Sums::Sha256 { salted, created, .. } => {
                created.add_many(salted, count, |i| elements.get(i));
            }
            Sums::MuHash(hash) => hash.insert_many(count, |i| elements.get(i)),
        }
    }

    /// [`Aggregate::spend`] for many elements, which is faster.
    pub fn spend_many(&mut self, elements: &Elements) {
        let count = elements.len();
        match &mut self.0 {
            Sums::Sha256 { salted, spent, .. } => {
                spent.add_many(salted, count, |i| elements.get(i));
            }
            Sums::MuHash(hash) => hash.remove_many(count, |i| elements.get(i)),
        }
    }

    /// Adds all elements of another aggregate.
    ///
    /// # Panics
    /// The other one is of another kind.
    pub fn combine(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (
                Sums::Sha256 { created, spent, .. },
                Sums::Sha256 { created: more_created, spent: more_spent, .. },
            ) => {
                created.combine(more_created);
                spent.combine(more_spent);
            }
            (Sums::MuHash(hash), Sums::MuHash(more)) => hash.combine(more),
            _ => panic!("sums of two kinds cannot be added"),
        }
    }

    /// Whether each element was spent as often as it was created. Takes some milliseconds for
    /// MuHash.
    pub fn is_balanced(&self) -> bool {
        match &self.0 {
            Sums::Sha256 { created, spent, .. } => created == spent,
            Sums::MuHash(hash) => hash.finalize() == MuHash::new().finalize(),
        }
    }

    /// Returns the state, to be restored by [`Aggregate::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            Sums::Sha256 { created, spent, .. } => [created.to_bytes(), spent.to_bytes()].concat(),
            Sums::MuHash(hash) => hash.to_bytes().to_vec(),
        }
    }

    /// Restores the state that [`Aggregate::to_bytes`] returned under the same salt; `None` if the
    /// length is wrong.
    pub fn from_bytes(kind: AggregateKind, salt: &Salt, bytes: &[u8]) -> Option<Self> {
        Some(Self(match kind {
            AggregateKind::Sha256 => {
                let (created, spent) = bytes.split_at_checked(32)?;
                Sums::Sha256 {
                    salted: Midstate::after(&salt.0),
                    created: Sum::from_bytes(created.try_into().ok()?),
                    spent: Sum::from_bytes(spent.try_into().ok()?),
                }
            }
            AggregateKind::MuHash => {
                Sums::MuHash(Box::new(MuHash::from_bytes(bytes.try_into().ok()?)))
            }
        }))
    }
}

/// A number modulo 2^256 as eight words, the most significant first, as SHA-256 has them.
#[derive(Clone, Default, PartialEq, Eq)]
struct Sum(Sha256State);

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
fn add_words(sums: &mut [u64; 8], words: &Sha256State) {
    sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += u64::from(*word));
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

    fn balances_only_equal_multisets(kind: AggregateKind) {
        let balanced = |created: &[u8], spent: &[u8]| {
            let mut outpoint_sums = Aggregate::new(kind, &salt());
            outpoint_sums.create_outpoints(&outpoints(created));
            outpoint_sums.spend_outpoints(&outpoints(spent));
            let mut sums = Aggregate::new(kind, &salt());
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
        balances_only_equal_multisets(AggregateKind::Sha256);
        balances_only_equal_multisets(AggregateKind::MuHash);
    }

    /// Checks that elements added one by one, in parts, in reverse and with a save in between have
    /// the same sums as those added at once.
    fn any_order_and_grouping(kind: AggregateKind, created: &[u8], spent: &[u8], cut: usize) {
        let mut all = Aggregate::new(kind, &salt());
        all.create_many(&elements(created));
        all.spend_many(&elements(spent));
        all.create_outpoints(&outpoints(spent));
        all.spend_outpoints(&outpoints(created));

        let cut = |numbers: &[u8]| {
            let (front, back) = numbers.split_at(cut.min(numbers.len()));
            (front.to_vec(), back.to_vec())
        };
        let (created, more_created) = cut(created);
        let (spent, more_spent) = cut(spent);
        let mut first = Aggregate::new(kind, &salt());
        spent.iter().rev().for_each(|n| first.spend(&element(*n)));
        more_created.iter().for_each(|n| first.create(&element(*n)));
        first.create_outpoints(&outpoints(&spent));
        first.spend_outpoints(&outpoints(&more_created));
        let first = Aggregate::from_bytes(kind, &salt(), &first.to_bytes()).unwrap();
        let mut parts = Aggregate::new(kind, &salt());
        created.iter().rev().for_each(|n| parts.create(&element(*n)));
        parts.spend_many(&elements(&more_spent));
        created.iter().for_each(|n| parts.spend_outpoints(&[outpoint(*n)]));
        more_spent.iter().for_each(|n| parts.create_outpoints(&[outpoint(*n)]));
        parts.combine(&first);
        assert!(parts.to_bytes() == all.to_bytes());
    }

    #[test]
    fn muhash_in_any_order_is_that_of_the_coins() {
        any_order_and_grouping(AggregateKind::MuHash, &[1, 2, 3, 4, 5], &[9, 2, 7], 2);
        let mut sums = Aggregate::new(AggregateKind::MuHash, &salt());
        sums.create_many(&elements(&[1, 2, 3]));
        sums.spend(&element(2));
        let Sums::MuHash(hash) = sums.0 else { panic!("another kind") };
        let mut expected = MuHash::new();
        [1, 3].iter().for_each(|n| expected.insert(&element(*n)));
        assert_eq!(hash.finalize(), expected.finalize());
    }

    #[test]
    fn states_of_another_length_are_refused() {
        for len in [0, 63, 65, 767, 769] {
            let bytes = vec![1; len];
            for kind in [AggregateKind::Sha256, AggregateKind::MuHash] {
                assert!(Aggregate::from_bytes(kind, &salt(), &bytes).is_none());
            }
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
            let mut sums = Aggregate::new(AggregateKind::Sha256, &salt());
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
            any_order_and_grouping(AggregateKind::Sha256, &created, &spent, cut);
        }
    }
}
