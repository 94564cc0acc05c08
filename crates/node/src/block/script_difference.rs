//! Inputs about which the fast way and Bitcoin Core's engine disagree, each saved in a file of its
//! own. As long as there is one in a data directory, Core's engine alone checks scripts there.

use std::fmt;
use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_hash::{hex, sha256d};
use apus_wire::{Prevout, ScriptFlags, TxView};

/// The beginning and the end of a file's name; between them are the wtxid and the input's index.
const PREFIX: &str = "script-difference-";
const SUFFIX: &str = ".json";

/// An input whose script the fast way found valid, and Bitcoin Core's engine invalid: a fault of
/// Apus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptDifference {
    /// The file with all that it takes to reproduce it.
    pub path: PathBuf,
    /// Why that file could not be written, and what it was to hold.
    pub unsaved: Option<String>,
}

impl ScriptDifference {
    /// A difference that an earlier run has saved in `directory`.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn find(disk: &Disk, directory: &Path) -> Result<Option<Self>, StoreError> {
        let is_one = |name: &String| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        let found = disk.list(directory)?.into_iter().find(is_one);
        Ok(found.map(|name| Self { path: directory.join(name), unsaved: None }))
    }

    /// Saves an input in `directory`.
    pub fn save(
        disk: &Disk,
        directory: &Path,
        tx: &TxView,
        prevouts: &[Prevout],
        input: usize,
        flags: ScriptFlags,
    ) -> Self {
        let spent = prevouts.iter().map(|prevout| {
            let (amount, script) = (prevout.amount, hex(prevout.script));
            format!(r#"{{"amount": {amount}, "scriptPubKey": "{script}"}}"#)
        });
        let text = format!(
            "{{\n\"input\": {input},\n\"flags\": {flags},\n\"tx\": \"{}\",\n\"spent\": [{}]\n}}\n",
            hex(tx.bytes()),
            spent.collect::<Vec<_>>().join(",\n")
        );
        let wtxid = sha256d(tx.bytes());
        let path = directory.join(format!("{PREFIX}{wtxid}-{input}{SUFFIX}"));
        let saved = disk.write_atomically(&path, text.as_bytes());
        let unsaved = saved.err().map(|error| format!("{error}: {text}"));
        Self { path, unsaved }
    }
}

impl fmt::Display for ScriptDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(
            f,
            "Apus accepted a script that Bitcoin Core's engine rejects. This is a bug in Apus; \
             {path} holds the input. As long as that file exists, Core's engine alone checks \
             scripts in this directory. Please report it in private, as SECURITY.md says. To clear \
             this, run `apus reindex`, which checks the connected blocks again with Core's engine \
             (give the --assumevalid that they were synced with), and then move the file \
             to another directory"
        )?;
        match &self.unsaved {
            Some(unsaved) => write!(
                f,
                ". The file could not be written, so give --script-engine=core from now on: \
                 {unsaved}"
            ),
            None => Ok(()),
        }
    }
}
