//! `apus txoutset …`: statistics of the UTXO set.

use std::process::ExitCode;

use apus_progress::Watch;
use apus_tools as tools;
use apus_tools::{StatisticsAt, Totals, UtxoHash, UtxoStats};
use clap::{Args, Subcommand, ValueEnum};

use super::directory::Directory;
use super::failure::Failure;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::thousands;
use super::reporting::Reporting;
use super::{exit, output};

#[derive(Subcommand)]
pub enum TxOutSetCommand {
    /// Print statistics and the hash of the UTXO set, as Bitcoin Core's gettxoutsetinfo does.
    Info(Info),
}

#[derive(Args)]
pub struct Info {
    /// Which hash of the UTXO set to compute [default: hash_serialized_3; with --height: muhash].
    #[arg(long, value_enum, value_name = "TYPE")]
    pub hash: Option<HashType>,
    /// Print the statistics of this height, which need the index coinstatsindex (`apus index`).
    #[arg(long, value_name = "N")]
    pub height: Option<u32>,
    #[command(flatten)]
    pub directory: Directory,
    /// Show no progress; the result is JSON in any case.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HashType {
    /// MuHash3072, which does not depend on the order of coins and is computed on all cores.
    Muhash,
    /// SHA-256d of all coins in the order of their keys.
    #[value(name = "hash_serialized_3")]
    HashSerialized3,
    /// No hash, only the statistics.
    None,
}

impl From<HashType> for UtxoHash {
    fn from(hash: HashType) -> Self {
        match hash {
            HashType::Muhash => Self::MuHash,
            HashType::HashSerialized3 => Self::HashSerialized3,
            HashType::None => Self::None,
        }
    }
}

/// Runs one of the commands.
pub fn run(command: &TxOutSetCommand, quiet: bool) -> Result<ExitCode, Failure> {
    match command {
        TxOutSetCommand::Info(info) => run_info(info, quiet),
    }
}

fn run_info(info: &Info, quiet: bool) -> Result<ExitCode, Failure> {
    let chosen = info.directory.to_existing()?;
    let reporting = Reporting { quiet, json: info.json };
    chosen.announce(&[], reporting);
    if let Some(height) = info.height {
        if info.hash == Some(HashType::HashSerialized3) {
            let what = "hash_serialized_3 is known of the tip alone: leave out --height, or ask \
                        for --hash muhash";
            return Err(Failure::usage(what.to_string()));
        }
        let stats = tools::txoutset_info_at(&chosen.options, height)?;
        output::line(json_at(&stats, info.hash != Some(HashType::None)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let hash = info.hash.unwrap_or(HashType::HashSerialized3);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let stats = tools::txoutset_info(&chosen.options, hash.into(), Watch::new(&reporter, &stop));
    reporter.finish();
    let Some(stats) = stats? else { return Ok(exit::status(true)) };
    output::line(json(&stats))?;
    reporter.took(format_args!("{} coins read", thousands(stats.txouts)));
    Ok(ExitCode::SUCCESS)
}

/// Returns the statistics as `bitcoin-cli gettxoutsetinfo` prints them, without a newline at the
/// end.
///
/// Written by hand: Core prints the total amount as a number with eight decimals, which no
/// floating-point number keeps.
fn json(stats: &UtxoStats) -> String {
    let hash = match stats.hash {
        Some((UtxoHash::MuHash, hash)) => format!("  \"muhash\": \"{hash}\",\n"),
        Some((_, hash)) => format!("  \"hash_serialized_3\": \"{hash}\",\n"),
        None => String::new(),
    };
    let UtxoStats { height, best_block, txouts, bogosize, transactions, disk_size, .. } = stats;
    let total_amount = stats.total_amount_btc();
    format!(
        "{{\n  \"height\": {height},\n  \"bestblock\": \"{best_block}\",\n  \
         \"txouts\": {txouts},\n  \"bogosize\": {bogosize},\n{hash}  \
         \"total_amount\": {total_amount},\n  \"transactions\": {transactions},\n  \
         \"disk_size\": {disk_size}\n}}"
    )
}

/// Returns the statistics of a height as `bitcoin-cli gettxoutsetinfo` prints them with
/// `-coinstatsindex`.
fn json_at(stats: &StatisticsAt, with_hash: bool) -> String {
    let StatisticsAt { height, best_block, muhash, totals, before } = stats;
    let hash = if with_hash { format!("  \"muhash\": \"{muhash}\",\n") } else { String::new() };
    let more = |of: fn(&Totals) -> i64| bitcoins((of(totals) - of(before)).into());
    let of_block = |of: fn(&Totals) -> u128| bitcoins(of(totals).wrapping_sub(of(before)) as i128);
    format!(
        "{{\n  \"height\": {height},\n  \"bestblock\": \"{best_block}\",\n  \
         \"txouts\": {},\n  \"bogosize\": {},\n{hash}  \"total_amount\": {},\n  \
         \"total_unspendable_amount\": {},\n  \"block_info\": {{\n    \
         \"prevout_spent\": {},\n    \"coinbase\": {},\n    \
         \"new_outputs_ex_coinbase\": {},\n    \"unspendable\": {},\n    \
         \"unspendables\": {{\n      \"genesis_block\": {},\n      \"bip30\": {},\n      \
         \"scripts\": {},\n      \"unclaimed_rewards\": {}\n    }}\n  }}\n}}",
        totals.txouts,
        totals.bogosize,
        bitcoins(totals.amount.into()),
        bitcoins(totals.unspendable().into()),
        of_block(|of| of.prevouts_spent),
        of_block(|of| of.coinbase),
        of_block(|of| of.new_outputs),
        more(Totals::unspendable),
        more(|of| of.unspendable_genesis),
        more(|of| of.unspendable_bip30),
        more(|of| of.unspendable_scripts),
        more(|of| of.unclaimed_rewards),
    )
}

/// Returns an amount in bitcoins with eight decimals, as Core prints it.
fn bitcoins(satoshi: i128) -> String {
    let sign = if satoshi < 0 { "-" } else { "" };
    let amount = satoshi.unsigned_abs();
    format!("{sign}{}.{:08}", amount / 100_000_000, amount % 100_000_000)
}

#[cfg(test)]
mod tests {
    use apus_hash::Hash;

    use super::*;

    #[test]
    fn it_is_the_object_of_bitcoin_cli() {
        let stats = UtxoStats {
            height: 1,
            best_block: Hash::ZERO,
            txouts: 2,
            bogosize: 3,
            total_amount: 706_550 * 100_000_000,
            transactions: 5,
            hash: Some((UtxoHash::MuHash, Hash::ZERO)),
            disk_size: 6,
        };
        let zero = "0".repeat(64);
        let expected = format!(
            r#"{{
  "height": 1,
  "bestblock": "{zero}",
  "txouts": 2,
  "bogosize": 3,
  "muhash": "{zero}",
  "total_amount": 706550.00000000,
  "transactions": 5,
  "disk_size": 6
}}"#
        );
        assert_eq!(json(&stats), expected);
        let plain = json(&UtxoStats { hash: None, total_amount: 1, ..stats.clone() });
        assert!(plain.contains("\"total_amount\": 0.00000001,\n") && !plain.contains("hash"));
        let hash = Some((UtxoHash::HashSerialized3, Hash::ZERO));
        assert!(json(&UtxoStats { hash, ..stats }).contains("  \"hash_serialized_3\": \"0"));
        assert!(serde_json::from_str::<serde_json::Value>(&plain).is_ok());
    }
}
