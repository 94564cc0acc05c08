//! Generated chains, which are kept in files for the next time.

use std::fs::File;
use std::path::{Path, PathBuf};

use apus_testchain::write::write_framed;
use apus_testchain::{Generator, Mix, Spec};
use serde_json::{Value, json};

use crate::Result;
use crate::process::{self, Programs};

/// Bytes of the chain that docs/design.md's figures are of.
pub const SIZE_DEFAULT: u64 = 2_100_000_000;
/// The number of busy blocks of that chain. Chains of other sizes have blocks of the same size.
const BUSY_DEFAULT: u64 = 1_800;

/// The shape of a chain. The same shape gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The size of all busy blocks together, in bytes.
    pub bytes: u64,
    /// The number of busy blocks, which come after 150 quiet ones and before 2,100 empty ones.
    pub busy: u32,
    /// The number of keys that outputs are locked with.
    pub keys: u32,
    /// The seed of everything random.
    pub seed: u64,
}

impl Shape {
    /// A chain of blocks like mainnet's, about 1.17 MB each and `bytes` together.
    pub fn of_size(bytes: u64) -> Self {
        let busy = (bytes * BUSY_DEFAULT).div_ceil(SIZE_DEFAULT).max(20);
        Self { bytes, busy: u32::try_from(busy).unwrap_or(u32::MAX), keys: 4_096, seed: 1 }
    }

    /// A chain for tests, with 25 busy blocks and few keys.
    pub fn small(bytes: u64) -> Self {
        Self { bytes, busy: 25, keys: 16, seed: 1 }
    }

    fn spec(&self) -> Spec {
        let spec = Spec::mainnet_like(self.seed, self.busy, self.bytes);
        Spec { keys: self.keys, mix: Mix::mainnet(), ..spec }
    }

    /// The height at which `share` of the busy blocks have come.
    pub fn height_at(&self, share: f64) -> u32 {
        self.spec().quiet_blocks + (f64::from(self.busy) * share).round() as u32
    }

    fn name(&self) -> String {
        format!("chain-{}-{}-{}-{}", self.bytes, self.busy, self.keys, self.seed)
    }
}

/// A chain in a file of framed blocks, with what its generator knows of it.
#[derive(Clone, Debug)]
pub struct MadeChain {
    /// The name of the chain's file.
    pub name: String,
    /// The path of the chain's file.
    pub path: PathBuf,
    /// Tip, height, bytes, inputs, outputs, unspent coins and their amount.
    pub facts: Value,
}

impl MadeChain {
    /// The chain in `dir`. Where it is missing, a child process makes it.
    pub fn make(shape: &Shape, programs: &Programs, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let name = shape.name();
        let (path, facts) = (dir.join(format!("{name}.dat")), dir.join(format!("{name}.json")));
        if !(path.is_file() && facts.is_file()) {
            eprintln!("making {}", path.display());
            let mut command = programs.own();
            command.arg("make-chain").arg("--file").arg(&path).arg("--facts").arg(&facts);
            for (option, value) in [
                ("--bytes", shape.bytes),
                ("--busy", shape.busy.into()),
                ("--keys", shape.keys.into()),
                ("--seed", shape.seed),
            ] {
                command.arg(option).arg(value.to_string());
            }
            process::run(command)?;
        }
        let facts = serde_json::from_reader(File::open(facts)?)?;
        Ok(Self { name, path, facts })
    }

    /// The hash of the last block.
    pub fn tip(&self) -> &str {
        self.facts["tip"].as_str().unwrap_or_default()
    }

    /// The size of all blocks in bytes.
    pub fn bytes(&self) -> u64 {
        self.count("bytes")
    }

    /// One of the facts, which is a number.
    pub fn count(&self, key: &str) -> u64 {
        self.facts[key].as_u64().unwrap_or(0)
    }
}

/// Makes a chain in this process, and writes its blocks to `file` and what is known of it to
/// `facts`.
pub fn make(shape: &Shape, file: &Path, facts: &Path) -> Result<()> {
    let mut generator = Generator::new(shape.spec());
    let unfinished = file.with_extension("unfinished");
    write_framed(&unfinished, generator.by_ref())?;
    let totals = generator.totals();
    let known = json!({
        "tip": generator.tip().to_string(),
        "height": totals.blocks,
        "bytes": totals.bytes,
        "transactions": totals.txs,
        "inputs": totals.inputs,
        "outputs": totals.outputs,
        "unspent": totals.unspent,
        "unspent_amount": totals.unspent_amount,
    });
    std::fs::write(facts, known.to_string() + "\n")?;
    Ok(std::fs::rename(unfinished, file)?)
}
