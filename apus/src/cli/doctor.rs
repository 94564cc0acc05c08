//! `apus doctor`: what makes a sync slow or unsafe on this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apus_host::root::Root;
use apus_tools::machine::findings::{Finding, Level, findings};
use apus_tools::machine::look::Look;
use apus_tools::machine::measure::measure;
use clap::Args;
use serde::Serialize;

use super::directory::Directory;
use super::failure::Failure;
use super::output;
use super::reporting::Reporting;
use super::table::{Table, stdout_columns};

/// Report what makes a sync slow or unsafe on this machine, each with a remedy.
///
/// Measures the disk of the data directory for three seconds, with a file that is gone afterwards,
/// and looks at file system, free space now and in a year, memory, swap, clock, processor, and the
/// directory. The exit status is 0 even if it finds faults.
#[derive(Args)]
pub struct DoctorCommand {
    #[command(flatten)]
    directory: Directory,
    /// Do not measure the disk, and so write nothing.
    #[arg(long)]
    read_only: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Look at the system below this directory, for tests and containers.
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    root: PathBuf,
}

#[derive(Serialize)]
struct DoctorJson<'a> {
    worst: &'static str,
    findings: Vec<FindingJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    level: &'static str,
    about: &'a str,
    found: &'a str,
    remedy: Option<&'a str>,
}

/// Runs `apus doctor`.
pub fn run(command: &DoctorCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let chosen = command.directory.to_options()?;
    chosen.announce(&[], Reporting { quiet: true, json: command.json });
    let mut look = Look::new(&Root::new(&command.root), &chosen.options, output::now());
    if !command.read_only {
        match measure(nearest(&look.datadir)) {
            Ok(speed) => look.measured(speed),
            Err(why) => output::note(format_args!("Warning: the disk is not measured: {why}")),
        }
    }
    let found = findings(&look, &chosen.options);
    let worst = found.iter().map(|finding| finding.level).max().unwrap_or(Level::Good);
    if command.json {
        let json = DoctorJson { worst: worst.word(), findings: found.iter().map(json).collect() };
        output::line(serde_json::to_string(&json).expect("plain data"))?;
    } else {
        let mut table = Table::default();
        let shown = found.iter().filter(|finding| !quiet || finding.level != Level::Good);
        shown.for_each(|finding| add(&mut table, finding));
        output::line(table.text(0, stdout_columns()).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory, or the nearest one above it that exists.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"))
}

fn json(finding: &Finding) -> FindingJson<'_> {
    FindingJson {
        level: finding.level.word(),
        about: finding.about,
        found: &finding.found,
        remedy: Some(finding.remedy).filter(|remedy| !remedy.is_empty()),
    }
}

fn add(table: &mut Table, finding: &Finding) {
    let Finding { level, about, found, remedy } = finding;
    match level {
        Level::Good => table.row(about, found),
        Level::Unsure | Level::Slow | Level::Unsafe => {
            table.warn(about, format!("{}: {found}", level.word()));
            table.row("", format!("remedy: {remedy}"));
        }
    }
}
