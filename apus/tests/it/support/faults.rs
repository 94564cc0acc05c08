use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use apus_disk::{Call, Disk, Hook};
use rustix::io::Errno;

/// Calls of one kind to the file system that fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub call: Call,
    /// The number of the first call that fails, among those of this kind, from 1.
    pub number: u64,
    /// Whether all later calls fail, too.
    pub lasts: bool,
    pub error: Errno,
}

/// Counts the calls to a disk, and makes some of them fail.
#[derive(Default)]
pub struct Faults {
    fault: Option<Fault>,
    counts: Mutex<BTreeMap<Call, u64>>,
    failed: Mutex<Vec<PathBuf>>,
}

impl Faults {
    pub fn of(fault: Fault) -> Arc<Self> {
        Arc::new(Self { fault: Some(fault), ..Self::default() })
    }

    pub fn on(self: &Arc<Self>, disk: Disk) -> Disk {
        let faults = Arc::clone(self);
        let hook: Arc<Hook> = Arc::new(move |call, path| faults.ask(call, path));
        disk.with_hook(hook)
    }

    /// Returns the number of calls of each kind so far.
    pub fn counts(&self) -> BTreeMap<Call, u64> {
        self.counts.lock().unwrap().clone()
    }

    pub fn failed(&self) -> Vec<PathBuf> {
        self.failed.lock().unwrap().clone()
    }

    fn ask(&self, call: Call, path: &Path) -> std::io::Result<()> {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(call).or_default();
        *count += 1;
        let fails = |fault: &Fault| {
            let is_time = *count == fault.number || fault.lasts && *count > fault.number;
            fault.call == call && is_time
        };
        match self.fault.as_ref().filter(|fault| fails(fault)) {
            None => Ok(()),
            Some(fault) => {
                self.failed.lock().unwrap().push(path.to_path_buf());
                Err(fault.error.into())
            }
        }
    }
}
