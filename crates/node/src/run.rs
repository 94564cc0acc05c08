//! The options and handles of a run.

use std::sync::Arc;

use apus_disk::Disk;

use super::options::Options;
use super::view::View;

/// The options of a run, and the handles that it shares with its caller.
#[derive(Clone)]
pub struct Run<'a> {
    pub options: &'a Options,
    /// The disk, which may lose power in tests.
    pub disk: Disk,
    /// Where the directory's content is shown to readers, from its opening on; `None` shows it
    /// nowhere, at no cost.
    pub view: Option<Arc<View>>,
}

impl<'a> Run<'a> {
    /// Returns a run on the system's disk that shows nothing to readers.
    pub fn new(options: &'a Options) -> Self {
        Self::on(&Disk::new(), options)
    }

    /// Returns a run on the caller's disk that shows nothing to readers.
    pub fn on(disk: &Disk, options: &'a Options) -> Self {
        Self { options, disk: disk.clone(), view: None }
    }

    /// Returns this run with readers that look at `view`.
    pub fn shown_in(self, view: Option<Arc<View>>) -> Self {
        Self { view, ..self }
    }
}
