//! What blocks hold that takes time: inputs, outputs and signatures, by their height.

use std::ops::{Add, AddAssign};

use apus_wire::{BlockView, Chain};

/// Bytes that unlock an average input with one signature: signature and key, with their lengths.
const UNLOCKING_BYTES: f64 = 107.0;
/// The most signatures that are assumed of one input; more bytes are usually data.
const SIGNATURES_MAX: f64 = 3.0;

/// What blocks hold.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Amounts {
    /// Number of blocks.
    pub blocks: f64,
    /// Bytes of the blocks.
    pub bytes: f64,
    /// Inputs, without those of coinbases.
    pub inputs: f64,
    /// Outputs.
    pub outputs: f64,
    /// Signatures that are to be verified; none in blocks whose scripts are assumed valid.
    pub signatures: f64,
    /// Bytes of the blocks whose scripts are checked.
    pub script_bytes: f64,
}

impl Amounts {
    /// Returns how many outputs are left that no input spends.
    pub fn coins(&self) -> f64 {
        (self.outputs - self.inputs).max(0.0)
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            bytes: self.bytes + other.bytes,
            inputs: self.inputs + other.inputs,
            outputs: self.outputs + other.outputs,
            signatures: self.signatures + other.signatures,
            script_bytes: self.script_bytes + other.script_bytes,
        }
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What a byte of blocks holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Density {
    inputs: f64,
    outputs: f64,
    signatures: f64,
}

impl Density {
    /// Counts what a block holds.
    pub fn of<B: AsRef<[u8]>>(view: &BlockView<B>) -> Self {
        let unlocking = |bytes: usize| (bytes as f64 / UNLOCKING_BYTES).clamp(1.0, SIGNATURES_MAX);
        let inputs = view.txs().skip(1).flat_map(|tx| tx.inputs());
        // Other checks of a script take about as long as one signature.
        let signatures = inputs.map(|input| {
            unlocking(input.script_sig().len() + input.witness().map(<[u8]>::len).sum::<usize>())
        });
        let signatures: f64 = signatures.sum();
        let bytes = view.len() as f64;
        Self {
            inputs: view.input_count().saturating_sub(1) as f64 / bytes,
            outputs: view.output_count() as f64 / bytes,
            signatures: signatures / bytes,
        }
    }

    /// Returns the density between `self` and `other`, at this share of the way.
    fn between(self, other: Self, share: f64) -> Self {
        let mix = |from: f64, to: f64| from + (to - from) * share;
        Self {
            inputs: mix(self.inputs, other.inputs),
            outputs: mix(self.outputs, other.outputs),
            signatures: mix(self.signatures, other.signatures),
        }
    }
}

/// An era of mainnet: what its blocks hold on average from this height to the next.
struct Era {
    height: u32,
    /// Bytes of all blocks below.
    gigabytes: f64,
    /// Inputs, outputs and signatures of a megabyte of blocks.
    megabyte: [f64; 3],
}

/// Mainnet's eras.
///
/// The sizes are rounded from public charts of the chain's size, and end at the 770 GB of
/// docs/budget.md. A megabyte of blocks holds what was counted in real ones: in blocks 0 to 14131
/// (270 inputs, 4,460 outputs), in block 413567 (4,887 and 1,557; 1.27 signatures an input by the
/// measure of [`Density::of`]) and in block 866342 (5,040 and 4,864; 1.07). Between these, inputs
/// and outputs follow mainnet's totals in docs/budget.md: 3.2 and 3.4 billion, 4,160 and 4,420 a
/// megabyte.
const MAINNET: [Era; 12] = [
    era(0, 0.0, [270.0, 4_460.0, 270.0]),
    era(100_000, 0.07, [2_500.0, 4_500.0, 2_500.0]),
    era(200_000, 3.0, [4_200.0, 4_900.0, 4_400.0]),
    era(300_000, 18.0, [4_300.0, 4_900.0, 4_700.0]),
    era(400_000, 60.0, [4_700.0, 4_300.0, 5_900.0]),
    era(500_000, 150.0, [4_500.0, 4_500.0, 5_600.0]),
    era(600_000, 245.0, [4_300.0, 4_500.0, 5_200.0]),
    era(700_000, 367.0, [4_200.0, 4_300.0, 4_900.0]),
    era(800_000, 512.0, [3_500.0, 4_200.0, 3_900.0]),
    era(850_000, 601.0, [3_900.0, 4_500.0, 4_200.0]),
    era(900_000, 686.0, [3_900.0, 4_400.0, 4_100.0]),
    era(950_000, 770.0, [3_900.0, 4_400.0, 4_100.0]),
];

const fn era(height: u32, gigabytes: f64, megabyte: [f64; 3]) -> Era {
    Era { height, gigabytes, megabyte }
}

/// What blocks hold, by height: known at some heights, and interpolated between them.
#[derive(Clone, Debug)]
pub struct Profile {
    /// In ascending order of height; not empty.
    known: Vec<(u32, Density)>,
}

impl Profile {
    /// Returns mainnet's profile by its eras. Other networks are taken to be like mainnet today.
    pub fn of_eras(chain: Chain) -> Self {
        let density = |era: &Era| {
            let [inputs, outputs, signatures] = era.megabyte.map(|count| count / 1e6);
            (era.height, Density { inputs, outputs, signatures })
        };
        let eras = MAINNET.iter().map(density);
        let known = match chain {
            Chain::Main => eras.collect(),
            _ => eras.rev().take(1).collect(),
        };
        Self { known }
    }

    /// Returns the profile of a chain of which these blocks were read; `None` without any.
    pub fn of_samples(mut known: Vec<(u32, Density)>) -> Option<Self> {
        known.sort_by_key(|(height, _)| *height);
        known.dedup_by_key(|(height, _)| *height);
        (!known.is_empty()).then_some(Self { known })
    }

    /// Returns what a block of this size at `height` holds. Its signatures count if `has_scripts`.
    pub fn amounts(&self, height: u32, bytes: u64, has_scripts: bool) -> Amounts {
        let Density { inputs, outputs, signatures } = self.density(height);
        let bytes = bytes as f64;
        let script_bytes = if has_scripts { bytes } else { 0.0 };
        Amounts {
            blocks: 1.0,
            bytes,
            inputs: inputs * bytes,
            outputs: outputs * bytes,
            signatures: signatures * script_bytes,
            script_bytes,
        }
    }

    fn density(&self, height: u32) -> Density {
        let after = self.known.partition_point(|(known, _)| *known < height);
        match (after.checked_sub(1).map(|before| self.known[before]), self.known.get(after)) {
            (Some((low, before)), Some(&(high, after))) => {
                before.between(after, f64::from(height - low) / f64::from(high - low))
            }
            (Some((_, only)), None) | (None, Some(&(_, only))) => only,
            (None, None) => unreachable!("a profile is not empty"),
        }
    }
}

/// Returns the height that mainnet has about at this time, in seconds since 1970.
pub fn mainnet_height(time: i64) -> u32 {
    /// The time of block 900,000.
    const LATE: (i64, i64) = (900_000, 1_749_190_000);
    u32::try_from(LATE.0 + (time - LATE.1) / 600).unwrap_or(0)
}

/// Returns what the blocks of mainnet hold from height `first` to `last`, by its eras. Scripts are
/// checked from height `scripts_from` on. After the last era, blocks are like its own.
pub fn of_mainnet(first: u32, last: u32, scripts_from: u32) -> Amounts {
    /// Blocks that are summed up together.
    const AT_ONCE: u32 = 1_000;
    let profile = Profile::of_eras(Chain::Main);
    let mut sum = Amounts::default();
    let mut from = first;
    while from <= last {
        let to = last.min(from.saturating_add(AT_ONCE - 1));
        let bytes = (gigabytes_below(to + 1) - gigabytes_below(from)) * 1e9;
        let amounts = profile.amounts(from, bytes as u64, from >= scripts_from);
        sum += Amounts { blocks: f64::from(to - from + 1), ..amounts };
        from = to + 1;
    }
    sum
}

/// Returns the bytes of an average block of mainnet at a height.
pub fn block_bytes(height: u32) -> u64 {
    let next = height.saturating_add(1);
    ((gigabytes_below(next) - gigabytes_below(height)).max(0.0) * 1e9) as u64
}

/// Returns the gigabytes of mainnet's blocks below `height`.
fn gigabytes_below(height: u32) -> f64 {
    let after = MAINNET.partition_point(|era| era.height <= height).clamp(1, MAINNET.len() - 1);
    let (low, high) = (&MAINNET[after - 1], &MAINNET[after]);
    let share = (f64::from(height) - f64::from(low.height)) / f64::from(high.height - low.height);
    low.gigabytes + (high.gigabytes - low.gigabytes) * share
}

#[cfg(test)]
mod tests {
    use apus_testdata::{blocks_of, data};

    use super::*;

    #[test]
    fn mainnets_eras_add_up_to_its_totals() {
        let all = of_mainnet(1, 949_999, 900_000);
        assert!((all.blocks - 949_999.0).abs() < 0.5, "{all:?}");
        assert!((760e9..780e9).contains(&all.bytes), "{all:?}");
        // docs/budget.md: 3.2 billion inputs, 3.4 billion outputs, 175 million coins left.
        assert!((3.0e9..3.4e9).contains(&all.inputs), "{all:?}");
        assert!((3.2e9..3.6e9).contains(&all.outputs), "{all:?}");
        assert!((1e8..4e8).contains(&all.coins()), "{all:?}");
        // 84 of 770 GB are above that height.
        assert!((0.3e9..0.4e9).contains(&all.signatures), "{all:?}");
        let more = of_mainnet(950_000, 959_999, 0);
        assert!((16e9..18e9).contains(&more.bytes), "blocks go on as in the last era: {more:?}");
        assert_eq!(of_mainnet(7, 6, 0), Amounts::default());
        // Of the last block in docs/budget.md's year, about.
        assert!((920_000..990_000).contains(&mainnet_height(1_780_000_000)));
        assert_eq!(mainnet_height(0), 0);
    }

    #[test]
    fn samples_say_what_the_blocks_between_them_hold() {
        let blocks = blocks_of(&data("regtest-1-206.dat"));
        let views = blocks.iter().map(|bytes| BlockView::parse(bytes).unwrap());
        let known: Vec<_> = (1..).zip(views).map(|(at, view)| (at, Density::of(&view))).collect();
        let profile = Profile::of_samples(known).unwrap();
        let (mut sum, mut inputs) = (Amounts::default(), 0);
        for (height, bytes) in (1..).zip(&blocks) {
            sum += profile.amounts(height, bytes.len() as u64, height > 100);
            inputs += BlockView::parse(bytes).unwrap().input_count() - 1;
        }
        assert!((sum.inputs - inputs as f64).abs() < 1e-6 * inputs as f64, "{sum:?}, {inputs}");
        assert!(sum.signatures > 0.0 && sum.outputs > sum.inputs, "{sum:?}");
        assert!(Profile::of_samples(Vec::new()).is_none());
        let density = |inputs| Density { inputs, outputs: 0.0, signatures: 0.0 };
        let two = Profile::of_samples(vec![(20, density(0.3)), (10, density(0.1))]).unwrap();
        for (height, expected) in [(0, 10.0), (10, 10.0), (15, 20.0), (20, 30.0), (99, 30.0)] {
            let found = two.amounts(height, 100, true).inputs;
            assert!((found - expected).abs() < 1e-9, "{height}: {found}");
        }
    }
}
