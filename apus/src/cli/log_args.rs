//! The options of the log file.

use std::io;
use std::path::PathBuf;

use apus_disk::{Disk, StoreError};
use apus_node as node;
use apus_store::{DataDir, check_root};
use apus_tools as tools;
use clap::Args;

use super::conf::Named;
use super::failure::Failure;
use super::home::expand_home;
use super::log;
use super::settings::Settings;
use super::trace;

/// Core's `DEFAULT_DEBUGLOGFILE`.
const NAME: &str = "debug.log";

/// What to do without a log file.
const OTHERWISE: &str = "Name another with --debuglogfile, or write none with --nodebuglogfile";

/// The log options of a command that writes to a data directory.
#[derive(Args)]
pub struct LogArgs {
    /// Append the log to this file, which is opened again on SIGHUP; a relative path starts in the
    /// network's directory [default: debug.log].
    #[arg(long, value_name = "FILE")]
    debuglogfile: Option<PathBuf>,
    /// Write no log file.
    #[arg(long, hide_short_help = true, overrides_with = "debuglogfile")]
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
            let path = path.display();
            let what = format!("{path}: cannot open the log file: its directory does not exist");
            return Err(Failure::input(what).and(OTHERWISE));
        }
        let header = format!("Apus {}\n{}", env!("APUS_VERSION"), chosen.first_line(&[]));
        log::begin(path.clone(), header).map_err(|error| {
            let needs_more = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
            let error = StoreError::io(&path, "open the log file", error);
            let has_remedy = tools::refused::remedy(&error).is_some();
            let failure = Failure::from(error);
            if needs_more || has_remedy { failure } else { failure.and(OTHERWISE) }
        })
    }

    /// Returns the log file; `None` if none is to be written.
    fn file(&self, chosen: &mut Settings) -> Result<Option<PathBuf>, String> {
        match &self.debuglogfile {
            _ if self.nodebuglogfile => Ok(None),
            Some(path) => Ok(Some(expand_home(path))),
            None => Ok(match chosen.config.take_path("debuglogfile")? {
                Named::Default => Some(NAME.into()),
                Named::This(path) => Some(path),
                Named::Nothing => None,
            }),
        }
    }
}
