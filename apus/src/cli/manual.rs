//! `apus completions` and `apus man`: shell completions and manual pages for packagers, generated
//! from the program's options.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apus_disk::StoreError;
use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::Failure;
use super::output;

/// Print completions for a shell, as in `source <(apus completions bash)`.
#[derive(Args)]
pub struct CompletionsCommand {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Print a manual page, as in `apus man sync | man -l -`, or write all of them to a directory.
#[derive(Args)]
pub struct ManCommand {
    /// The command whose page is printed [default: apus itself].
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands to this directory, which is created if it does not exist.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Runs `apus completions`; `program` has all commands and options.
pub fn complete(command: &CompletionsCommand, mut program: Command) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(command.shell, &mut program, "apus", &mut text);
    print(&text)
}

/// Runs `apus man`; `program` has all commands and options.
pub fn man(command: &ManCommand, program: Command) -> Result<ExitCode, Failure> {
    let mut program = with_all_help(program).disable_help_subcommand(true);
    program.build();
    if let Some(dir) = &command.dir {
        let written = write_all(dir, program);
        written.map_err(|error| StoreError::io(dir, "write manual pages", error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut chosen = &program;
    for name in &command.command {
        let found = chosen.find_subcommand(name).filter(|found| !found.is_hide_set());
        chosen = found.ok_or_else(|| {
            Failure::usage(format!("there is no command '{}'", command.command.join(" ")))
        })?;
    }
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(chosen.clone()).render(&mut text);
    rendered.expect("memory can be written");
    print(&text)
}

/// Shows all options in the short help, too: a page has no text for one that is not there.
fn with_all_help(command: Command) -> Command {
    command.mut_args(|option| option.hide_short_help(false)).mut_subcommands(with_all_help)
}

fn write_all(dir: &Path, program: Command) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(program, dir)
}

fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    output::line(String::from_utf8_lossy(text).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
