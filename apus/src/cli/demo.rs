use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use super::progress::{Reporter, thousands};
use super::report::precise;
use crate::sync::{self, AssumeValid, Options, UtxoHash};
use crate::wire::{Chain, Network};

/// Mainnet blocks 0 to 14131, framed as in blk files.
const BLOCKS: &[u8] = include_bytes!("../../../data/mainnet-0-14131.dat");

/// What Bitcoin Core v31.99 says of them.
const CORE: Figures = Figures {
    height: 14_131,
    best_block: "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
    txouts: 13_416,
    total_amount: "706550.00000000",
    muhash: "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975",
    hash_serialized_3: "74c5a654587d4eaac9248b73889453e0b2fbc918bbc7bb8d8e6301d4d8c98db3",
};

struct Figures {
    height: u32,
    best_block: &'static str,
    txouts: u64,
    total_amount: &'static str,
    muhash: &'static str,
    hash_serialized_3: &'static str,
}

/// Syncs the blocks that came with the program, every script checked, and compares the UTXO set
/// with Bitcoin Core's figures. The directory is temporary unless `keep` names one.
pub fn run(keep: Option<PathBuf>, stop: &AtomicBool) -> Result<ExitCode, String> {
    let temporary = keep.is_none();
    let name = format!("apus-demo-{}", std::process::id());
    let root = keep.unwrap_or_else(|| std::env::temp_dir().join(name));
    let result = show(&root, stop);
    if temporary {
        // The result counts; what cannot be removed is the temporary directory's own affair.
        let _ = std::fs::remove_dir_all(&root);
    } else {
        println!("\nThe data directory is {}: bitcoind -datadir opens it.", root.display());
    }
    result
}

fn show(root: &std::path::Path, stop: &AtomicBool) -> Result<ExitCode, String> {
    let text = |error: std::io::Error| format!("{}: {error}", root.display());
    let datadir = root.join("datadir");
    if datadir.exists() {
        return Err(format!("{} exists already: name another directory", datadir.display()));
    }
    std::fs::create_dir_all(&datadir).map_err(text)?;
    let blocks = root.join("mainnet-0-14131.dat");
    std::fs::write(&blocks, BLOCKS).map_err(text)?;

    let mut options = Options::new(datadir, Network::new(Chain::Main));
    options.assumevalid = AssumeValid::Nothing;
    println!("Syncing mainnet blocks 0 to {}, every script checked …", thousands(14_131));
    let reporter = Reporter::new(false);
    let summary = sync::sync(&options, &[blocks], &reporter, stop);
    reporter.finish();
    let summary = summary.map_err(|error| error.to_string())?;
    if summary.interrupted {
        return Ok(ExitCode::from(super::EXIT_INTERRUPTED));
    }
    println!(
        "{} blocks, {} transactions, {} scripts in {}\n",
        thousands(summary.counts.blocks),
        thousands(summary.counts.transactions),
        thousands(summary.counts.scripts),
        precise(summary.elapsed)
    );

    let quiet = Reporter::new(true);
    let stats = |hash| sync::txoutset_info(&options, hash, &quiet, stop);
    let muhash = stats(UtxoHash::MuHash).map_err(|error| error.to_string())?;
    let serialized = stats(UtxoHash::HashSerialized3).map_err(|error| error.to_string())?;
    let rows = [
        ("height", summary.height.to_string(), CORE.height.to_string()),
        ("best block", summary.best_block.to_string(), CORE.best_block.to_string()),
        ("coins", thousands(muhash.txouts), thousands(CORE.txouts)),
        ("total amount (BTC)", muhash.total_amount_btc(), CORE.total_amount.to_string()),
        ("muhash", hash_of(&muhash), CORE.muhash.to_string()),
        ("hash_serialized_3", hash_of(&serialized), CORE.hash_serialized_3.to_string()),
    ];
    let mut same = true;
    for (name, ours, cores) in rows {
        same &= ours == cores;
        let verdict = if ours == cores { "as Bitcoin Core" } else { "NOT as Bitcoin Core" };
        println!("{name:<19} {ours}  {verdict}");
        if ours != cores {
            println!("{:<19} {cores}  (Bitcoin Core)", "");
        }
    }
    if !same {
        return Err("the UTXO set is not the one that Bitcoin Core computes".to_string());
    }
    println!("\nThe UTXO set is the one that Bitcoin Core computes.");
    Ok(ExitCode::SUCCESS)
}

fn hash_of(stats: &sync::UtxoStats) -> String {
    stats.hash.map_or_else(String::new, |(_, hash)| hash.to_string())
}
