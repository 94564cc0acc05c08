//! Single operations, by Apus and by other crates.

mod figures;
mod hashes;
mod hint_sizes;
mod hints;
mod sample;
mod storage;
mod tables;
mod views;

use std::path::{Path, PathBuf};

use crate::Result;
use crate::measure::Effort;
use crate::report::{Report, Table};

use figures::Figures;
pub use sample::Sample;

/// The size of these benchmarks.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of runs of short operations.
    pub effort: Effort,
    /// The number of records in the tables.
    pub records: u64,
    /// The number of blocks with hints.
    pub hinted_blocks: u64,
}

impl Size {
    /// The size for published figures.
    pub const FULL: Self = Self { effort: Effort::FULL, records: 1_000_000, hinted_blocks: 4_000 };
    /// The size for tests.
    pub const SMALL: Self = Self { effort: Effort::SMALL, records: 20_000, hinted_blocks: 50 };
}

/// Measures everything on `sample`, with files in a new directory below `dir`.
///
/// # Errors
/// The disk fails, or two ways to do the same have different results.
pub fn run(size: Size, sample: &Sample, dir: &Path) -> Result<Report> {
    std::fs::create_dir_all(dir)?;
    let scratch = tempfile::tempdir_in(dir)?;
    let mut report = Report::new("kernels");
    report.notes.push(format!("the block is {}", sample.name));
    report.notes.push(
        "read from and written to the page cache; times are medians of one thread's runs, \
         × is the time as a multiple of Apus'"
            .to_string(),
    );
    let mut figures = Figures::default();
    storage::run(size.effort, sample, scratch.path(), &mut figures)?;
    views::run(size.effort, sample, &mut figures)?;
    hashes::run(size.effort, &mut figures)?;
    report.tables.push(figures.table("blocks and hashes"));
    let mut figures = Figures::default();
    tables::run(size, scratch.path(), &mut figures)?;
    report.tables.push(figures.table("tables"));
    report.tables.extend(hints_tables(size, &[])?);
    Ok(report)
}

/// Measures hints alone: speed, and the sizes in all formats of synthetic hints and of those in
/// `files`.
///
/// # Errors
/// Two ways to do the same have different results, or a file does not contain hints.
pub fn run_hints(size: Size, files: &[PathBuf]) -> Result<Report> {
    let mut report = Report::new("hints");
    report.notes.push(
        "synthetic hints are made to be like mainnet's in density, not measured on mainnet; \
         sizes by gzip, xz and zstd are those of the command line programs"
            .to_string(),
    );
    report.tables.extend(hints_tables(size, files)?);
    Ok(report)
}

fn hints_tables(size: Size, files: &[PathBuf]) -> Result<[Table; 2]> {
    let mut figures = Figures::default();
    hints::run(size.effort, size.hinted_blocks, &mut figures)?;
    let sizes = hint_sizes::table(size.hinted_blocks * 10, files)?;
    Ok([figures.table("hints"), sizes])
}
