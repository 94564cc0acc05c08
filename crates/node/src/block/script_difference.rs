//! Inputs about which the fast engine and Bitcoin Core's engine disagree, each saved in a file.
//! While a data directory holds such a file, Core's engine alone checks scripts there.

use std::fmt;
use std::path::{Path, PathBuf};

use apus_disk::{Disk, StoreError};
use apus_hash::{hex, sha256d};
use apus_wire::{Prevout, ScriptFlags, TxView};

/// The start and the end of a file's name; in between are the wtxid and the index of the input.
const PREFIX: &str = "script-difference-";
const SUFFIX: &str = ".json";

/// An input whose script the fast engine found valid, but Bitcoin Core's engine invalid: a bug in
/// Apus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptDifference {
    /// The file with everything needed to reproduce the difference.
    pub path: PathBuf,
    /// Why the file could not be written, and its content; `None` if it was written.
    pub unsaved: Option<String>,
}

impl ScriptDifference {
    /// Returns whether a file with this name holds a difference.
    pub fn is_name(name: &str) -> bool {
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    }

    /// Finds a difference that an earlier run saved in `directory`.
    pub fn find(disk: &Disk, directory: &Path) -> Result<Option<Self>, StoreError> {
        let found = disk.list(directory)?.into_iter().find(|name| Self::is_name(name));
        Ok(found.map(|name| Self { path: directory.join(name), unsaved: None }))
    }

    /// Saves an input to a file in `directory`.
    pub fn save(
        disk: &Disk,
        directory: &Path,
        tx: &TxView,
        prevouts: &[Prevout],
        input: usize,
        flags: ScriptFlags,
    ) -> Self {
        let spent = prevouts.iter().map(|prevout| {
            let amount = prevout.amount;
            let script = hex(prevout.script);
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
