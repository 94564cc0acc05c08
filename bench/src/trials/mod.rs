//! Random trials of the real program: killed, on a full disk, with flipped bits and truncated
//! files.
//!
//! In each trial, either the UTXO set is right, or the program ends with an error that names the
//! file, and then the documented repair or a good copy leads to the right set. The right sets are
//! computed from the generated chain, block by block, and not by the program. Each trial is
//! determined by its own seed, which is printed when the trial fails; `--seed N --tries 1` repeats
//! it.

mod damage;
mod full;
mod kill;
mod truth;
mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use apus_testchain::Rng;
use clap::ValueEnum;

use crate::Result;
pub use world::World;

/// The kind of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// kill -9 at random moments during every command that writes
    Kill,
    /// A disk that becomes full at random moments, with random room left
    Full,
    /// A flipped bit in any file of a data directory, in hints or in a source
    Flip,
    /// Any of these files truncated
    Cut,
}

/// The number of trials, and their seeds.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The time after which no new trial begins.
    pub time: Duration,
    /// The largest number of trials.
    pub tries: u64,
    /// The seed of the first trial. Each later trial uses the next seed.
    pub seed: u64,
}

/// The verdict on a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The UTXO set is right, and no command failed.
    Right,
    /// An error named the file, and the repair worked.
    Told,
    /// An error did not name the file; the repair worked.
    Unnamed(String),
    /// The documented repairs did not work after an error; a good copy in a new directory did.
    Stuck(String),
    /// Committed coins were lost without a message.
    Lost(String),
    /// A UTXO set, index or hints file was wrong without a message.
    Wrong(String),
    /// The program panicked, was ended by an unexpected signal, or hung.
    Crashed(String),
}

impl Verdict {
    fn column(&self) -> usize {
        match self {
            Self::Right => 0,
            Self::Told => 1,
            Self::Unnamed(_) => 2,
            Self::Stuck(_) => 3,
            Self::Lost(_) => 4,
            Self::Wrong(_) => 5,
            Self::Crashed(_) => 6,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Right | Self::Told => None,
            Self::Unnamed(text)
            | Self::Stuck(text)
            | Self::Lost(text)
            | Self::Wrong(text)
            | Self::Crashed(text) => Some(text),
        }
    }
}

/// The name of a trial in the table, and its verdict.
pub type Trial = (String, Verdict);

const COLUMNS: [&str; 7] = ["right", "told", "unnamed", "stuck", "lost", "wrong", "crashed"];

/// The numbers of verdicts for each kind of trial.
#[derive(Default)]
pub struct Tally {
    rows: BTreeMap<String, [u64; COLUMNS.len()]>,
    /// Whether no file was damaged, so that the last command of each trial must succeed.
    undamaged: bool,
}

impl Tally {
    /// Returns whether a trial failed: committed coins were lost, anything was wrong without a
    /// message, the program crashed, or it could not continue although no file was damaged.
    pub fn failed(&self) -> bool {
        let first = if self.undamaged { 3 } else { 4 };
        self.total()[first..].iter().any(|count| *count > 0)
    }

    /// Returns the number of trials.
    pub fn tries(&self) -> u64 {
        self.total().iter().sum()
    }

    fn total(&self) -> [u64; COLUMNS.len()] {
        let mut total = [0; COLUMNS.len()];
        for row in self.rows.values() {
            total.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        total
    }

    /// Returns the verdicts as a table.
    pub fn text(&self) -> String {
        let line = |name: &str, row: &[u64]| {
            let cells: String = row.iter().map(|count| format!("{count:>9}")).collect();
            format!("{name:<44}{:>9}{cells}\n", row.iter().sum::<u64>())
        };
        let heads: String = COLUMNS.iter().map(|head| format!("{head:>9}")).collect();
        let rows: String = self.rows.iter().map(|(name, row)| line(name, row)).collect();
        format!("{:<44}{:>9}{heads}\n{rows}{}", "", "tries", line("all", &self.total()))
    }
}

/// Runs trials of one kind.
///
/// # Errors
/// A trial cannot be run.
pub fn run(kind: Kind, size: &Size, world: &World) -> Result<Tally> {
    eprintln!("seed {}, {}", size.seed, world.describe());
    let undamaged = matches!(kind, Kind::Kill | Kind::Full);
    let mut tally = Tally { undamaged, ..Tally::default() };
    let begun = Instant::now();
    for seed in (size.seed..).take(usize::try_from(size.tries).unwrap_or(usize::MAX)) {
        if begun.elapsed() >= size.time {
            break;
        }
        let mut rng = Rng::new(seed, kind as u64);
        let (name, verdict) = match kind {
            Kind::Kill => kill::trial(world, &mut rng)?,
            Kind::Full => full::trial(world, &mut rng)?,
            Kind::Flip => damage::trial(world, &mut rng, damage::Damage::Flip)?,
            Kind::Cut => damage::trial(world, &mut rng, damage::Damage::Cut)?,
        };
        if let Some(text) = verdict.text() {
            let column = COLUMNS[verdict.column()];
            eprintln!("seed {seed}, {name}: {column}: {text}");
        }
        tally.rows.entry(name).or_default()[verdict.column()] += 1;
    }
    Ok(tally)
}
