//! Single operations: in the ways of Bitcoin Core before and after PR 31551, in Apus' way, and by
//! other crates.

mod fields;
mod figures;
mod hashes;
mod hint_sizes;
mod hints;
mod obfuscation;
mod sample;
mod scripts;
mod storage;
mod tables;
mod views;

use std::path::{Path, PathBuf};

use crate::Result;
use crate::measure::Effort;
use crate::report::{Cell, Report, Table};

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
    report.notes.push(
        "what Core did before and after PR 31551 is done here in Rust, fields by the crate \
         bitcoin; Apus never makes fields of a block, it keeps its bytes"
            .to_string(),
    );
    let mut figures = Figures::default();
    storage::run(size.effort, sample, scratch.path(), &mut figures)?;
    obfuscation::run(size.effort, sample, &mut figures)?;
    views::run(size.effort, sample, &mut figures)?;
    hashes::run(size.effort, &mut figures)?;
    scripts::run(size.effort, &mut figures)?;
    if sample.is_413567 {
        figures.core("read block", "Core v31.99, ReadBlock (docs/design.md, 7)", 1.27e-3);
        figures.core("read block's bytes", "Core v31.99, ReadRawBlock (docs/design.md, 7)", 55e-6);
        figures.core("write block", "Core v31.99, WriteBlock (docs/design.md, 7)", 0.94e-3);
    }
    report.tables.push(figures.table("blocks and hashes"));
    report.plots.push((
        "kernels".to_string(),
        figures.plot(
            "Single operations: time of one",
            "time, each step to the right ten times as long",
        ),
    ));
    let mut figures = Figures::default();
    tables::run(size, scratch.path(), &mut figures)?;
    report.tables.push(figures.table("tables"));
    report.plots.push((
        "tables".to_string(),
        figures.plot(
            &format!("Tables in LevelDB's format, {} records: time of one", size.records),
            "time of one record, each step to the right ten times as long",
        ),
    ));
    report.tables.extend(hints_tables(size, &[])?);
    report.tables.push(core_pr_31551());
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

/// Returns the gain of PR 31551 on this block, as measured by Bitcoin Core's authors.
fn core_pr_31551() -> Table {
    let columns = [
        ("what", "what"),
        ("where", "where"),
        ("before_s", "before"),
        ("after_s", "after"),
        ("gain", "gain"),
    ];
    let mut table = Table::new("for comparison: Bitcoin Core PR 31551, block 413567", &columns);
    let mac = "macOS, Clang 19";
    let linux = "Ubuntu, GCC 13";
    for (what, place, before, after) in [
        ("read block", mac, 2_271_442e-9, 1_738_683e-9),
        ("write block", mac, 5_149_564e-9, 3_052_659e-9),
        ("read block", linux, 6_895_987e-9, 5_771_883e-9),
        ("write block", linux, 5_152_974e-9, 4_145_681e-9),
    ] {
        table.push(vec![
            Cell::text_of(what),
            Cell::text_of(place),
            Cell::Seconds(before),
            Cell::Seconds(after),
            Cell::Ratio(before / after),
        ]);
    }
    table
}
