//! Batches, the interface of the crate.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::affine::Rounds;
use crate::comb::{BITS_MAX, Comb};
use crate::equation::Equation;
use crate::kernel::{Kernel, Unusable};
use crate::library;
use crate::parse::{self, Entry, Refusal, Root};
use crate::scalars::Scalars;
use crate::vector::{LANES, Words};
use crate::work::{Inputs, Outcome, Work};

/// The result of verifying a signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// libsecp256k1 would accept it.
    Valid,
    /// libsecp256k1 would refuse it.
    Invalid,
    /// Not known: the encoding is one that the batch does not read, or the signature meets an
    /// exceptional case of the arithmetic, which does not happen by chance.
    Undecided,
}

/// How a batch works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The kernel; `None` for the fastest.
    pub kernel: Option<Kernel>,
    /// Bits of a window of the table for multiples of G, from 8 (0.3 MB) to 13 (5.2 MB). Larger
    /// windows need fewer additions, as long as the table fits into the processor's last-level
    /// cache.
    pub window_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { kernel: None, window_bits: BITS_MAX }
    }
}

/// About how many signatures go through the lanes at once, with one inversion for all of them in
/// each step that needs one; at most half as many more. Eight take 30 KB, so a chunk fits into a
/// second-level cache of 1 MB, which matters more than fewer inversions.
pub const CHUNK: usize = 256;

/// Signatures that are verified together.
pub struct Batch {
    kernel: Kernel,
    unusable: Option<Unusable>,
    comb: Option<&'static Comb>,
    entries: Vec<Entry>,
    /// For each entry, the index of its verdict.
    places: Vec<usize>,
    verdicts: Vec<Verdict>,
    /// Whether `verdicts` is complete, so that the next signature starts a new batch.
    done: bool,
    slots: Slots,
    work: Work,
    stages: [Duration; 4],
}

/// Which lane holds which entry.
#[derive(Default)]
struct Slots {
    signatures: Vec<usize>,
    tweaks: Vec<usize>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Batch {
    /// Creates an empty batch. If the requested kernel cannot be used, the batch uses libsecp256k1,
    /// and [`Batch::unusable`] says why.
    pub fn new(options: Options) -> Self {
        let asked = options.kernel.unwrap_or_else(Kernel::best);
        let unusable = asked.check().err();
        let kernel = if unusable.is_none() { asked } else { Kernel::Library };
        Self { unusable, ..Self::unchecked(kernel, options.window_bits) }
    }

    /// Creates a batch with a kernel that the processor supports, without checking its answers.
    pub(crate) fn unchecked(kernel: Kernel, window_bits: u32) -> Self {
        Self {
            kernel,
            unusable: None,
            comb: (kernel != Kernel::Library).then(|| Comb::shared(window_bits, kernel)),
            entries: Vec::new(),
            places: Vec::new(),
            verdicts: Vec::new(),
            done: false,
            slots: Slots::default(),
            work: Work::default(),
            stages: [Duration::ZERO; 4],
        }
    }

    /// Returns what the lanes verify.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the kernel that is used.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Returns why the requested kernel is not used; `None` if it is.
    pub fn unusable(&self) -> Option<Unusable> {
        self.unusable
    }

    /// Returns the time spent since the batch was created in each stage of the lanes: scalars,
    /// tables and comb, ladder, equation. For benchmarks.
    pub fn stages(&self) -> [Duration; 4] {
        self.stages
    }

    /// Returns the number of signatures and commitments added since the last verdicts.
    pub fn len(&self) -> usize {
        if self.done { 0 } else { self.verdicts.len() }
    }

    /// Returns whether nothing was added since the last verdicts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an ECDSA signature under Bitcoin's consensus rules, and returns the index of its
    /// verdict.
    ///
    /// The key has 33 or 65 bytes (hybrid ones are not supported), and the signature is strict DER
    /// (BIP66) without the byte for the sighash type; both high and low S are allowed. The message
    /// is the sighash.
    pub fn push_ecdsa(&mut self, key: &[u8], der: &[u8], message: &[u8; 32]) -> usize {
        let entry = parse::ecdsa(key, der, message);
        let library = self.kernel == Kernel::Library && entry.is_ok();
        self.push(if library { Err(library::ecdsa(key, der, message)) } else { decide(entry) })
    }

    /// Adds a BIP340 signature, and returns the index of its verdict.
    pub fn push_schnorr(&mut self, key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> usize {
        self.push(if self.kernel == Kernel::Library {
            Err(library::schnorr(key, signature, message))
        } else {
            decide(parse::schnorr(key, signature, message))
        })
    }

    /// Adds a Taproot commitment (BIP341): `output` is the x coordinate of the key `internal` plus
    /// `tweak` times G, and its y is odd if and only if `odd` is true. Returns the index of its
    /// verdict.
    pub fn push_tweak(
        &mut self,
        internal: &[u8; 32],
        tweak: &[u8; 32],
        output: &[u8; 32],
        odd: bool,
    ) -> usize {
        self.push(if self.kernel == Kernel::Library {
            Err(library::tweak(internal, tweak, output, odd))
        } else {
            decide(parse::tweak(internal, tweak, output, odd))
        })
    }

    /// Verifies all that was added since the last call, and returns the verdicts by index. The next
    /// addition starts a new batch in the same memory.
    pub fn verify(&mut self) -> &[Verdict] {
        if self.done {
            self.clear();
        }
        let count = self.entries.len();
        let size = chunk_size(count);
        for first in (0..count).step_by(size) {
            self.verify_chunk(first, (first + size).min(count));
        }
        self.done = true;
        &self.verdicts
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.verdicts.clear();
        self.done = false;
    }

    fn push(&mut self, entry: Result<Entry, Verdict>) -> usize {
        if self.done {
            self.clear();
        }
        let place = self.verdicts.len();
        match entry {
            Ok(entry) => {
                self.entries.push(entry);
                self.places.push(place);
                self.verdicts.push(Verdict::Undecided);
            }
            Err(verdict) => self.verdicts.push(verdict),
        }
        place
    }

    fn verify_chunk(&mut self, first: usize, last: usize) {
        let Some(comb) = self.comb else { return };
        let Self { slots, work, kernel, .. } = self;
        slots.signatures.clear();
        slots.tweaks.clear();
        for (i, entry) in self.entries[first..last].iter().enumerate() {
            let slots = if entry.b.is_some() { &mut slots.signatures } else { &mut slots.tweaks };
            slots.push(first + i);
        }
        work.resize(slots.signatures.len(), slots.tweaks.len());
        let tweaks_at = work.tweaks.start;
        load(work, &self.entries, &slots.signatures, work.signatures.clone());
        load(work, &self.entries, &slots.tweaks, work.tweaks.clone());
        let mut times = [Duration::ZERO; 4];
        let mut at = Instant::now();
        let mut timed =
            |stage: usize| times[stage] = std::mem::replace(&mut at, Instant::now()).elapsed();
        kernel.run(Scalars { work, comb });
        timed(0);
        kernel.run(Rounds { work, comb });
        timed(1);
        kernel.ladder(work);
        timed(2);
        kernel.run(Equation { work });
        timed(3);
        self.stages.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
        for (list, at) in [(&slots.signatures, 0), (&slots.tweaks, tweaks_at)] {
            for (slot, index) in list.iter().enumerate() {
                let outcome = &work.outcomes[at + slot / LANES];
                let verdict = judge(&self.entries[*index], outcome, slot % LANES);
                self.verdicts[self.places[*index]] = verdict;
            }
        }
    }
}

/// Returns the size of the chunks that `count` signatures are cut into: all of about [`CHUNK`], and
/// none much smaller, since an inversion takes as long for a few signatures as for many.
fn chunk_size(count: usize) -> usize {
    let chunks = ((count + CHUNK / 2) / CHUNK).max(1);
    count.div_ceil(chunks).next_multiple_of(LANES).max(LANES)
}

fn decide(entry: Result<Entry, Refusal>) -> Result<Entry, Verdict> {
    entry.map_err(|refusal| match refusal {
        Refusal::Invalid => Verdict::Invalid,
        Refusal::Undecided => Verdict::Undecided,
    })
}

/// The equation of lanes without a signature: any that is not exceptional.
const FILLER: Entry = Entry {
    x: crate::comb::GENERATOR[0],
    key: Root::Odd(false),
    r: [1, 0, 0, 0],
    plus_n: false,
    sum_odd: None,
    a: crate::affine::BETA,
    b: Some(crate::comb::GENERATOR[1]),
    s: [1, 0, 0, 0],
};

/// Writes the entries at `slots` into the vectors.
fn load(work: &mut Work, entries: &[Entry], slots: &[usize], vectors: Range<usize>) {
    let from = vectors.start;
    for vector in vectors {
        let Inputs { x, r, a, b, s } = &mut work.inputs[vector];
        for lane in 0..LANES {
            let slot = slots.get((vector - from) * LANES + lane);
            let entry = slot.map_or(&FILLER, |index| &entries[*index]);
            x[lane] = entry.x;
            r[lane] = entry.r;
            a[lane] = entry.a;
            b[lane] = entry.b.unwrap_or_default();
            s[lane] = entry.s;
            work.plus_n[vector] |= u8::from(entry.plus_n) << lane;
        }
    }
}

fn judge(entry: &Entry, outcome: &Outcome, lane: usize) -> Verdict {
    let bit = |mask: u8| mask >> lane & 1 == 1;
    if bit(outcome.exceptional) {
        return Verdict::Undecided;
    }
    let is_key = |odd: u8, y: &Words| match &entry.key {
        Root::Odd(expected) => bit(odd) == *expected,
        Root::Y(expected) => y == expected,
    };
    let sum_fits = entry.sum_odd.is_none_or(|odd| odd == bit(outcome.sum_odd));
    let holds = bit(outcome.holds) && is_key(outcome.key_odd, &outcome.y[lane]) && sum_fits;
    let holds_plus_n = entry.plus_n
        && bit(outcome.holds_plus_n)
        && is_key(outcome.key_odd_plus_n, &outcome.y_plus_n[lane]);
    if holds || holds_plus_n { Verdict::Valid } else { Verdict::Invalid }
}
