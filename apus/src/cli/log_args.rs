//! The options of the log file.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_node as node;
use apus_store::{DataDir, check_root};
use apus_tools as tools;
use clap::Args;

use super::failure::Failure;
use super::home::expand_home;
use super::log;
use super::settings::Settings;
use super::trace;

/// Core's `DEFAULT_DEBUGLOGFILE`.
const NAME: &str = "debug.log";

/// The log options of a command that writes to a data directory.
#[derive(Args)]
pub struct LogArgs {
    /// Append the log to this file, which is opened again on SIGHUP; a relative path starts in the
    /// network's directory [default: debug.log].
    #[arg(long, value_name = "FILE")]
    debuglogfile: Option<PathBuf>,
    /// Write no log file.
    #[arg(long, hide_short_help = true, conflicts_with = "debuglogfile")]
    nodebuglogfile: bool,
}

impl LogArgs {
    /// Starts the log in the file that the options or else a settings file name. Nothing is written
    /// to a directory that another program has open, not even a line in its log.
    ///
    /// # Errors
    /// Another program has the directory open, or it cannot be a data directory; the file exists
    /// and cannot be written; or the directory of a named file does not exist.
    pub fn begin(&self, chosen: &mut Settings) -> Result<(), Failure> {
        let node::Options { datadir, network, blocks_dir, .. } = &chosen.options;
        check_root(datadir, network, blocks_dir.as_deref())?;
        DataDir::check_locks(&Disk::new(), datadir, network, blocks_dir.as_deref(), false)?;
        trace::begin(&chosen.options.network_dir());
        let Some(file) = self.file(chosen).map_err(Failure::usage)? else { return Ok(()) };
        let network_dir = chosen.options.network_dir();
        let path = network_dir.join(&file);
        if path.parent().is_some_and(|dir| !dir.is_dir() && dir != network_dir) {
            return Err(refused(&path, "its directory does not exist"));
        }
        let header = format!("Apus {}\n{}", env!("APUS_VERSION"), chosen.first_line(&[]));
        log::begin(path.clone(), header).map_err(|error| {
            let error = StoreError::io(&path, "open the log file", error);
            if tools::refused::remedy(&error).is_some() {
                return Failure::from(error);
            }
            refused(&path, &error)
        })
    }

    /// Returns the log file; `None` if none is to be written.
    fn file(&self, chosen: &mut Settings) -> Result<Option<PathBuf>, String> {
        match &self.debuglogfile {
            _ if self.nodebuglogfile => Ok(None),
            Some(path) => Ok(Some(expand_home(path))),
            None if chosen.config.is_negated("debuglogfile") => Ok(None),
            None => {
                let found = chosen.config.take("debuglogfile")?;
                Ok(Some(found.map_or_else(|| NAME.into(), |found| found.text.into())))
            }
        }
    }
}

fn refused(path: &Path, why: impl Display) -> Failure {
    Failure::input(format!(
        "cannot open the log file {}: {why}; name another with --debuglogfile, or write none with \
         --nodebuglogfile",
        path.display()
    ))
}
