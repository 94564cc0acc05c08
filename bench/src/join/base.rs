//! The data directories from which every run starts: blocks and their index without a UTXO set, so
//! that each run builds all of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;
use crate::chain::made::{MadeChain, Shape};
use crate::chain::runs::{SYNC_DBCACHE, apus, remove, run_json, utxo_set};
use crate::process::Programs;

/// The undo data that exists at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Undo data of the newest 288 blocks only, as after a SwiftSync: a run writes the rest again.
    Newest,
    /// Undo data of all blocks.
    All,
}

/// The blocks of a chain in data directories that are kept for later runs. The chain's own file is
/// no longer needed.
pub struct Base {
    /// A hints file for the last block below those on top.
    pub hints: PathBuf,
    /// The facts that the chain's generator knows.
    pub facts: Value,
    newest: PathBuf,
    all: PathBuf,
    work: PathBuf,
}

/// Returns the directory of a chain with undo data of all blocks.
pub fn dir_with_undo(shape: &Shape, dir: &Path) -> PathBuf {
    dir.join(format!("{}-blocks-undo", shape.name()))
}

impl Base {
    /// Opens the directories in `dir`. Missing ones are created, with undo data of all blocks if
    /// `all_undo`.
    ///
    /// # Errors
    /// A run fails, or its UTXO set differs from the generator's or from that of another run.
    pub fn make(shape: &Shape, all_undo: bool, programs: &Programs, dir: &Path) -> Result<Self> {
        let name = shape.name();
        let known = dir.join(format!("{name}-blocks.json"));
        let mut base = Self {
            hints: dir.join(format!("{name}-blocks.hints")),
            facts: Value::Null,
            newest: dir.join(format!("{name}-blocks")),
            all: dir_with_undo(shape, dir),
            work: dir.join(format!("{name}-work")),
        };
        remove(&base.work)?;
        if !known.is_file() || (all_undo && !base.all.is_dir()) {
            let chain = MadeChain::make(shape, programs, dir)?;
            base.fill(&chain, shape.top, all_undo, programs)?;
            std::fs::write(&known, base.facts.to_string() + "\n")?;
        }
        base.facts = serde_json::from_reader(File::open(&known)?)?;
        Ok(base)
    }

    pub fn count(&self, key: &str) -> u64 {
        self.facts[key].as_u64().unwrap_or(0)
    }

    pub fn text(&self, key: &str) -> &str {
        self.facts[key].as_str().unwrap_or_default()
    }

    /// Creates the directory for one run. Its block files are links to those of the base, and in
    /// the page cache.
    pub fn fresh(&self, undo: Undo) -> Result<&Path> {
        remove(&self.work)?;
        let from = if undo == Undo::All { &self.all } else { &self.newest };
        link_dir(from, &self.work)?;
        Ok(&self.work)
    }

    /// Checks that the UTXO set of the last run is that of the chain.
    ///
    /// # Errors
    /// It is not, or it cannot be read.
    pub fn check(&self, programs: &Programs) -> Result<()> {
        let (height, hash) = utxo_set(info(programs, &self.work))?;
        if (height, hash.as_str()) != (self.count("height"), self.text("hash_serialized_3")) {
            let expected = self.text("hash_serialized_3");
            return Err(format!("UTXO set {hash} at {height}, expected {expected}").into());
        }
        Ok(())
    }

    /// Removes the directory of the last run.
    pub fn remove_work(&self) -> Result<()> {
        remove(&self.work)
    }

    fn fill(
        &mut self,
        chain: &MadeChain,
        top: u32,
        all_undo: bool,
        programs: &Programs,
    ) -> Result<()> {
        remove(&self.newest)?;
        remove(&self.all)?;
        let in_order = run_json("apus sync", sync(programs, chain, &self.all))?;
        let found = (in_order.json["bestblock"].as_str(), in_order.json["coins"].as_u64());
        if found != (Some(chain.tip()), Some(chain.count("unspent"))) {
            return Err(format!("expected the chain's tip and coins, found {found:?}").into());
        }
        let (_, hash) = utxo_set(info(programs, &self.all))?;
        let mut command = apus(programs, &["hints", "create", "--json", "--force"], &self.all);
        let height = chain.count("height").saturating_sub(top.into());
        command.arg("-o").arg(&self.hints).arg("--height").arg(height.to_string());
        run_json("apus hints create", command)?;
        // 9 GB of blocks leave 11 GB of coins, so only one such set exists at a time.
        if all_undo {
            remove(&self.all.join("regtest/chainstate"))?
        } else {
            remove(&self.all)?
        }
        let mut command = sync(programs, chain, &self.newest);
        command.arg("--hints").arg(&self.hints);
        run_json("apus sync, SwiftSync", command)?;
        let (height, same) = utxo_set(info(programs, &self.newest))?;
        if same != hash {
            return Err(format!("UTXO set {same} by SwiftSync, expected {hash}").into());
        }
        remove(&self.newest.join("regtest/chainstate"))?;
        self.facts = chain.facts.clone();
        self.facts["height"] = json!(height);
        self.facts["hash_serialized_3"] = json!(hash);
        Ok(())
    }
}

fn info(programs: &Programs, datadir: &Path) -> Command {
    apus(programs, &["txoutset", "info"], datadir)
}

fn sync(programs: &Programs, chain: &MadeChain, datadir: &Path) -> Command {
    let mut command = apus(programs, &["sync", "--json"], datadir);
    command.arg("--from").arg(&chain.path).arg("--assumevalid").arg(chain.below_top());
    command.arg("--dbcache").arg(SYNC_DBCACHE.to_string());
    command
}

/// Copies a directory; blk files, which no run changes, become links and are read once.
fn link_dir(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_dir(&entry.path(), &target)?;
        } else if name.to_string_lossy().starts_with("blk") {
            std::fs::hard_link(entry.path(), target)?;
            std::io::copy(&mut File::open(entry.path())?, &mut std::io::sink())?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
