//! `apus demo`: syncs real blocks in all ways, and compares the results with Bitcoin Core's
//! figures.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use apus_disk::StoreError;
use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_progress::Method;
use apus_progress::Unobserved;
use apus_progress::Watch;
use apus_swiftsync::Format;
use apus_sync as sync;
use apus_sync::Summary;
use apus_tools as tools;
use apus_tools::{UtxoHash, UtxoStats};
use apus_wire::{Chain, Network};

use super::exit;
use super::failure::Failure;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{precise, thousands};
use super::reporting::Reporting;

/// Mainnet blocks 0 to 14131, framed as in blk files.
const BLOCKS: &[u8] = include_bytes!("../../data/mainnet-0-14131.dat");

/// The figures that Bitcoin Core v31.99 computes after these blocks.
const CORE: Figures = Figures {
    height: 14_131,
    best_block: "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
    txouts: 13_416,
    total_amount: "706550.00000000",
    muhash: "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975",
    hash_serialized_3: "74c5a654587d4eaac9248b73889453e0b2fbc918bbc7bb8d8e6301d4d8c98db3",
};

/// The figures of a UTXO set.
struct Figures {
    height: u32,
    best_block: &'static str,
    txouts: u64,
    total_amount: &'static str,
    muhash: &'static str,
    hash_serialized_3: &'static str,
}

/// Syncs the blocks that are part of the program in all ways, and compares each UTXO set with
/// Bitcoin Core's figures. The directories are temporary unless `keep` names one.
pub fn run(keep: Option<PathBuf>, quiet: bool) -> Result<ExitCode, Failure> {
    let temporary = keep.is_none();
    let name = format!("apus-demo-{}", std::process::id());
    let root = keep.unwrap_or_else(|| std::env::temp_dir().join(name));
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let demo = Demo { reporting: Reporting { quiet, json: false }, stop: &stop };
    let finished = demo.show(&root);
    if temporary {
        // A temporary directory that cannot be removed does not change the result.
        let _ = std::fs::remove_dir_all(&root);
    }
    let finished = finished?;
    if finished && !temporary {
        let root = root.display();
        demo.say(format_args!(
            "\nThe data directories are in {root}: bitcoind -datadir opens them."
        ))?;
    }
    Ok(exit::status(!finished))
}

/// One of the ways to sync, and its results.
struct Way {
    name: &'static str,
    summary: Summary,
    muhash: UtxoStats,
    serialized: UtxoStats,
}

/// How the demo reports, and the flag that ends it.
struct Demo<'a> {
    reporting: Reporting,
    stop: &'a AtomicBool,
}

impl Demo<'_> {
    /// Runs the whole demo. Returns `false` if it was interrupted.
    fn show(&self, root: &Path) -> Result<bool, Failure> {
        let text = |error| StoreError::io(root, "prepare the demo", error);
        let in_order = root.join("in-order");
        let joined = root.join("join");
        let assumed = root.join("swiftsync-assumevalid");
        let full = root.join("swiftsync-full");
        for directory in [&in_order, &joined, &assumed, &full] {
            if directory.exists() {
                let what =
                    format!("{} exists already: name another directory", directory.display());
                return Err(Failure::input(what));
            }
            std::fs::create_dir_all(directory).map_err(text)?;
        }
        let blocks = root.join("mainnet-0-14131.dat");
        let hints = root.join("mainnet-14131.hints");
        std::fs::write(&blocks, BLOCKS).map_err(text)?;

        let last = thousands(14_131);
        self.say(format_args!("Syncing mainnet blocks 0 to {last} in four ways …\n"))?;
        let options = |directory: &Path, assumevalid| {
            let mut network = Network::new(Chain::Main);
            // These blocks are too early to be assumed valid with mainnet's minimum work.
            network.minimum_chain_work = Hash::ZERO;
            Options { assumevalid, ..Options::new(directory.to_path_buf(), network) }
        };
        let every_script =
            Options { method: Some(Method::InOrder), ..options(&in_order, AssumeValid::Nothing) };
        let Some(first) =
            self.sync_one_way("in order, every script checked", &every_script, &blocks)?
        else {
            return Ok(false);
        };
        self.make_hints(&every_script, &hints)?;
        // Joins all blocks, so that none is left to connect in order.
        let join = Options { method: Some(Method::Join), ..options(&joined, AssumeValid::Nothing) };
        let join = join.with_join_depth(0);
        let best = AssumeValid::Block(first.summary.best_block);
        let ways = [
            Ok(Some(first)),
            self.sync_one_way("join, every script checked", &join, &blocks),
            self.sync_one_way(
                "SwiftSync, assumed valid",
                &options(&assumed, best).with_hints(&hints),
                &blocks,
            ),
            // The directory that was synced in order has rev files, which hold the spent coins.
            self.sync_one_way(
                "SwiftSync, every script checked",
                &options(&full, AssumeValid::Nothing).with_hints(&hints),
                &in_order,
            ),
        ];
        self.say("")?;
        let mut same = true;
        for way in ways {
            let Some(way) = way? else { return Ok(false) };
            same &= self.compare(&way)?;
        }
        if !same {
            return Err(Failure::input(
                "a UTXO set differs from the one that Bitcoin Core computes: this is a bug in \
                 Apus; please report it",
            ));
        }
        self.say("In all four ways the UTXO set is the one that Bitcoin Core computes.")?;
        Ok(true)
    }

    /// Syncs, reports how long it took, and computes both hashes; `None` if it was interrupted.
    fn sync_one_way(
        &self,
        name: &'static str,
        options: &Options,
        source: &Path,
    ) -> Result<Option<Way>, Failure> {
        let reporter = self.reporting.reporter();
        let summary =
            sync::sync(options, &[source.to_path_buf()], Watch::new(&reporter, self.stop));
        reporter.finish();
        let summary = summary?;
        if summary.interrupted {
            return Ok(None);
        }
        self.say(format_args!(
            "{name:<34} {:>7}: {} blocks, {} transactions, {} scripts",
            precise(summary.elapsed),
            thousands(summary.counts.blocks),
            thousands(summary.counts.transactions),
            thousands(summary.counts.scripts),
        ))?;
        let stats = |hash| tools::txoutset_info(options, hash, Watch::new(&Unobserved, self.stop));
        let both = stats(UtxoHash::MuHash)?.zip(stats(UtxoHash::HashSerialized3)?);
        Ok(both.map(|(muhash, serialized)| Way { name, summary, muhash, serialized }))
    }

    fn make_hints(&self, options: &Options, hints: &Path) -> Result<(), Failure> {
        let made = apus_claims::create_hints(
            options,
            None,
            Format::Bip456,
            hints,
            Watch::new(&Unobserved, self.stop),
        )?;
        self.say(format_args!(
            "{:<34} {:>7}: {} of {} outputs unspent, {} bytes",
            "hints made of the result",
            precise(made.elapsed),
            thousands(made.unspent),
            thousands(made.outputs.unwrap_or_default()),
            thousands(made.bytes)
        ))
    }

    /// Prints a UTXO set's figures next to Core's, and returns whether they are the same.
    fn compare(&self, way: &Way) -> Result<bool, Failure> {
        self.say(way.name)?;
        let summary = &way.summary;
        let muhash = &way.muhash;
        let serialized = &way.serialized;
        let rows = [
            ("height", summary.height.to_string(), CORE.height.to_string()),
            ("best block", summary.best_block.to_string(), CORE.best_block.to_string()),
            ("coins", thousands(muhash.txouts), thousands(CORE.txouts)),
            ("total amount (BTC)", muhash.total_amount_btc(), CORE.total_amount.to_string()),
            ("muhash", hash_of(muhash), CORE.muhash.to_string()),
            ("hash_serialized_3", hash_of(serialized), CORE.hash_serialized_3.to_string()),
        ];
        let mut same = true;
        for (name, ours, cores) in rows {
            same &= ours == cores;
            let verdict = if ours == cores { "as Bitcoin Core" } else { "NOT as Bitcoin Core" };
            self.say(format_args!("  {name:<19} {ours}  {verdict}"))?;
            if ours != cores {
                self.say(format_args!("  {:<19} {cores}  (Bitcoin Core)", ""))?;
            }
        }
        self.say("")?;
        Ok(same)
    }

    fn say(&self, text: impl Display) -> Result<(), Failure> {
        Ok(self.reporting.say(text)?)
    }
}

/// Returns the hash of the statistics in hex.
fn hash_of(stats: &UtxoStats) -> String {
    stats.hash.map_or_else(String::new, |(_, hash)| hash.to_string())
}
