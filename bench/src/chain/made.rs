//! Generated chains, which are kept in files for later runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use apus_testchain::write::write_framed;
use apus_testchain::{Generator, KEYS_MAX, MadeBlock, Mix, Spec, Spends, Wide, WideSpec};
use serde_json::{Value, json};

use crate::Result;
use crate::process::{self, Programs};

/// Bytes of the chain for the figures of docs/design.md.
pub const SIZE_DEFAULT: u64 = 2_100_000_000;
/// Bytes of the chain with many coins for published figures; it leaves 44 million below its top.
pub const SIZE_MANY: u64 = 2_200_000_000;
/// The number of busy blocks of the chain with few coins. Chains of other sizes have blocks of the
/// same size.
const BUSY_DEFAULT: u64 = 1_800;

/// The number of busy blocks on top of a chain for the join: as many as a join validates in order.
pub const TOP_DEFAULT: u32 = 144;

/// The kind of a chain, by the coins that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Coins {
    /// Signed payments of every kind, which leave 2.6 million coins a GB.
    Few,
    /// Payments without signatures, which leave 20 million coins a GB. Half of the coins that they
    /// spend are new.
    Many,
    /// As many coins, of which blocks spend any: almost never a new one.
    Old,
    /// As many coins, of which every fourth block spends 20,000 of one earlier block.
    Bursts,
}

impl Coins {
    /// Returns which coins the blocks of a chain with many coins spend.
    fn spends(self) -> Option<Spends> {
        match self {
            Self::Few => None,
            Self::Many => Some(Spends::Mixed),
            Self::Old => Some(Spends::Old),
            Self::Bursts => Some(Spends::Bursts),
        }
    }

    /// Returns the name of the kind, as in options.
    pub fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self).map_or_else(String::new, |v| v.get_name().into())
    }
}

/// The shape of a chain. The same shape gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The kind of the chain.
    pub coins: Coins,
    /// The size of all busy blocks below the empty ones together, in bytes.
    pub bytes: u64,
    /// The number of these blocks, which come after 150 quiet ones and before 2,100 empty ones. In
    /// chains with many coins the size alone determines it.
    pub busy: u32,
    /// The number of busy blocks on top of the empty ones.
    pub top: u32,
    /// The number of keys that outputs are locked with; chains with many coins have none.
    pub keys: u32,
    /// The seed of everything random.
    pub seed: u64,
}

impl Shape {
    /// Returns the shape of a chain like mainnet: blocks of about 1.17 MB each, `bytes` together.
    pub fn of_size(bytes: u64) -> Self {
        let busy = (bytes * BUSY_DEFAULT).div_ceil(SIZE_DEFAULT).max(20);
        let busy = u32::try_from(busy).unwrap_or(u32::MAX);
        Self { coins: Coins::Few, bytes, busy, top: 0, keys: KEYS_MAX, seed: 1 }
    }

    /// Returns the shape of a chain of `bytes` with busy blocks on top.
    pub fn with_top(coins: Coins, bytes: u64) -> Self {
        Self { coins, top: TOP_DEFAULT, ..Self::of_size(bytes) }
    }

    /// Returns the shape of a chain for tests, with 25 busy blocks and few keys.
    pub fn small(bytes: u64) -> Self {
        Self { coins: Coins::Few, bytes, busy: 25, top: 0, keys: 16, seed: 1 }
    }

    fn spec(&self) -> Spec {
        let spec = Spec::mainnet_like(self.seed, self.busy, self.bytes);
        Spec { top_blocks: self.top, keys: self.keys, mix: Mix::mainnet(), ..spec }
    }

    /// Returns the name of the chain's files.
    pub fn name(&self) -> String {
        let Self { coins, bytes, busy, top, keys, seed } = self;
        let top = if *top > 0 { format!("-top{top}") } else { String::new() };
        match coins {
            Coins::Few => format!("chain-{bytes}-{busy}-{keys}-{seed}{top}"),
            _ => format!("chain-{}-{bytes}-{seed}{top}", coins.name()),
        }
    }
}

/// A chain in a file of framed blocks, with the facts that its generator knows.
#[derive(Clone, Debug)]
pub struct MadeChain {
    /// The path of the chain's file.
    pub path: PathBuf,
    /// Tip, last block below those on top, height, bytes, inputs, outputs, number of unspent coins
    /// and their amount.
    pub facts: Value,
}

impl MadeChain {
    /// Opens the chain in `dir`. If it is missing, a child process generates it.
    pub fn make(shape: &Shape, programs: &Programs, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let name = shape.name();
        let path = dir.join(format!("{name}.dat"));
        let facts = dir.join(format!("{name}.json"));
        if !(path.is_file() && facts.is_file()) {
            eprintln!("generating {}", path.display());
            let mut command = programs.own();
            command.arg("make-chain").arg("--file").arg(&path).arg("--facts").arg(&facts);
            command.arg("--coins").arg(shape.coins.name());
            for (option, value) in [
                ("--bytes", shape.bytes),
                ("--top", shape.top.into()),
                ("--busy", shape.busy.into()),
                ("--keys", shape.keys.into()),
                ("--seed", shape.seed),
            ] {
                command.arg(option).arg(value.to_string());
            }
            process::run(command)?;
        }
        let facts = serde_json::from_reader(File::open(facts)?)?;
        Ok(Self { path, facts })
    }

    /// Returns the hash of the last block.
    pub fn tip(&self) -> &str {
        self.facts["tip"].as_str().unwrap_or_default()
    }

    /// Returns the hash of the last block below those on top; without any on top, that of the tip.
    pub fn below_top(&self) -> &str {
        self.facts["below_top"].as_str().unwrap_or(self.tip())
    }

    pub fn count(&self, key: &str) -> u64 {
        self.facts[key].as_u64().unwrap_or(0)
    }
}

/// Generates a chain in this process, and writes its blocks to `file` and its facts to `facts`.
pub fn make(shape: &Shape, file: &Path, facts: &Path) -> Result<()> {
    let unfinished = file.with_extension("unfinished");
    let mut below_top = String::new();
    let (totals, tip) = match shape.coins.spends() {
        None => {
            let mut made = Generator::new(shape.spec());
            let top_start = made.spec().top_start();
            write(made.by_ref(), top_start, &unfinished, &mut below_top)?;
            (made.totals(), made.tip())
        }
        Some(spends) => {
            let spec = WideSpec::of_size(shape.seed, shape.bytes, shape.top);
            let mut made = Wide::new(WideSpec { spends, ..spec });
            let top_start = made.spec().top_start();
            write(made.by_ref(), top_start, &unfinished, &mut below_top)?;
            (made.totals(), made.tip())
        }
    };
    let known = json!({
        "tip": tip.to_string(),
        "below_top": below_top,
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

fn write(
    blocks: impl Iterator<Item = MadeBlock>,
    top_start: u32,
    file: &Path,
    below_top: &mut String,
) -> Result<()> {
    write_framed(
        file,
        blocks.inspect(|block| {
            if block.height == top_start {
                *below_top = block.hash.to_string();
            }
        }),
    )?;
    Ok(())
}
