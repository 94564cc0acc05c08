//! Makes a benchmark chain and writes it to disk.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use apus_testchain::write::{BLK_FILE_BYTES_MAX, write_blk_files, write_framed};
use apus_testchain::{
    Generator, HEIGHT_MAX, KEYS_MAX, MadeBlock, Mix, Spec, Spends, Wide, WideSpec,
};
use clap::Parser;

/// Makes a valid Bitcoin regtest chain from a seed.
#[derive(Parser)]
#[command(name = "apus-testchain", version)]
struct Options {
    /// Blocks full of transactions
    #[arg(long, default_value_t = 1_800)]
    blocks: u32,
    /// Bytes of all these blocks together: a number, or one with k, M or G
    #[arg(long, default_value = "2100M", value_parser = parse_size)]
    bytes: u64,
    /// Blocks at the start with only a coinbase (at least 101)
    #[arg(long, default_value_t = 150)]
    quiet: u32,
    /// Blocks at the end with only a coinbase: 2100 make assumevalid apply
    #[arg(long, default_value_t = 2_100)]
    empty: u32,
    /// Blocks full of transactions after the empty ones, which need no signatures
    #[arg(long, default_value_t = 0)]
    top: u32,
    /// Leave many coins: blocks of 1 MB with 24,000 outputs, which need no signatures, and 5,000
    /// inputs, as many blocks as --bytes says; without --blocks, --keys, --varied and --odd
    #[arg(long, conflicts_with_all = ["blocks", "keys", "varied", "odd"])]
    wide: bool,
    /// Which coins the inputs of a wide chain spend
    #[arg(long, value_enum, default_value_t, requires = "wide")]
    spends: Spends,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of keys (3 to 67108864): with the most, hardly any is used again
    #[arg(long, default_value_t = KEYS_MAX)]
    keys: u32,
    /// All kinds of scripts equally often, rather than as on mainnet
    #[arg(long)]
    varied: bool,
    /// Mostly scripts, and ways to spend them, that are rare on mainnet
    #[arg(long, conflicts_with = "varied")]
    odd: bool,
    /// Threads that sign; the chain does not depend on it [default: one for each processor]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Write blk00000.dat, blk00001.dat, ... into the directory OUTPUT
    #[arg(long)]
    split: bool,
    /// File (or, with --split, directory) to write
    #[arg(short, long)]
    output: PathBuf,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        unit => return Err(format!("unknown unit {unit}: use k, M or G")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{digits} is not a number"))?;
    let size = number * unit as f64;
    if !(0.0..1e15).contains(&size) {
        return Err(format!("{text} is out of range"));
    }
    Ok(size as u64)
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("apus-testchain: {}: {error}", options.output.display());
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let start = Instant::now();
    let (size, totals, tip) = if options.wide {
        let mut wide = Wide::new(options.wide_spec()?);
        let height = wide.spec().height();
        let size = write(wide.by_ref(), height, options)?;
        (size, wide.totals(), wide.tip())
    } else {
        let mut generator = Generator::new(options.spec()?);
        let height = generator.spec().height();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
        let pool = pool.map_err(io::Error::other)?;
        let size = pool.install(|| write(generator.by_ref(), height, options))?;
        (size, generator.totals(), generator.tip())
    };
    let seconds = start.elapsed().as_secs_f64();
    let mut out = io::stdout().lock();
    writeln!(out, "blocks          {}", totals.blocks)?;
    writeln!(out, "transactions    {}", totals.txs)?;
    writeln!(out, "inputs          {}", totals.inputs)?;
    writeln!(out, "inputs in block {}", totals.inputs_in_block)?;
    writeln!(out, "outputs         {}", totals.outputs)?;
    writeln!(out, "unspent         {}", totals.unspent)?;
    writeln!(out, "unspent amount  {}", totals.unspent_amount)?;
    writeln!(out, "bytes           {}", totals.bytes)?;
    writeln!(out, "tip             {tip}")?;
    writeln!(out, "file bytes      {size}")?;
    writeln!(out, "seconds         {seconds:.1} ({:.1} MB/s)", size as f64 / 1e6 / seconds)
}

impl Options {
    fn spec(&self) -> io::Result<Spec> {
        let mut spec = Spec::mainnet_like(self.seed, self.blocks, self.bytes);
        spec.quiet_blocks = self.quiet.max(101);
        spec.empty_blocks_after = self.empty;
        spec.top_blocks = self.top;
        spec.keys = self.keys;
        if self.varied {
            spec.mix = Mix::varied();
        }
        if self.odd {
            spec.mix = Mix::odd();
        }
        check_height(spec.height())?;
        Ok(spec)
    }

    fn wide_spec(&self) -> io::Result<WideSpec> {
        let mut spec = WideSpec::of_size(self.seed, self.bytes, self.top);
        spec.spends = self.spends;
        spec.quiet_blocks = self.quiet.max(101);
        spec.empty_blocks_after = self.empty;
        check_height(spec.height())?;
        Ok(spec)
    }
}

/// Refuses heights at which blocks would lie in the future.
fn check_height(height: u32) -> io::Result<()> {
    if height <= HEIGHT_MAX {
        Ok(())
    } else {
        Err(io::Error::other(format!("{height} blocks: at most {HEIGHT_MAX} are possible")))
    }
}

fn write(
    blocks: impl Iterator<Item = MadeBlock>,
    height: u32,
    options: &Options,
) -> io::Result<u64> {
    let mut progress = Progress { start: Instant::now(), last_s: 0, height };
    let blocks = blocks.inspect(|block| progress.report(block.height));
    if options.split {
        write_blk_files(&options.output, blocks, BLK_FILE_BYTES_MAX)
    } else {
        write_framed(&options.output, blocks)
    }
}

/// Writes a line to standard error, once a second.
struct Progress {
    start: Instant,
    last_s: u64,
    height: u32,
}

impl Progress {
    fn report(&mut self, height: u32) {
        let now_s = self.start.elapsed().as_secs();
        if now_s > self.last_s && io::stderr().is_terminal() {
            self.last_s = now_s;
            eprint!("\rblock {height} of {}", self.height);
        }
        if height == self.height && self.last_s > 0 {
            eprintln!();
        }
    }
}
