//! The command to run after a sync, for the last line of its report.

use apus_node::next_command::{NextCommand, prune_mib};
use apus_node::{Options, Prune};
use apus_sync::Summary;

use super::home::default_datadir;

/// Returns what to do after this run.
pub fn next_step(options: &Options, summary: &Summary) -> String {
    if summary.interrupted {
        return "run the same command to continue".to_string();
    }
    if summary.connects_nothing() {
        return "see what was refused, and why; then run the same command again".to_string();
    }
    let default = default_datadir(std::env::var_os("HOME")).ok();
    let is_default = default.as_ref() == Some(&options.datadir);
    let datadir = options.datadir.display().to_string();
    let blocks_dir = options.blocks_dir.as_ref().map(|path| path.display().to_string());
    let is_behind = summary.above_tip.is_some_and(|above| above.waiting > 0 || above.missing > 0);
    let target = match options.prune {
        Some(Prune::Target(bytes)) => Some(bytes),
        _ => None,
    };
    let is_pruned = summary.pruned.is_some() || options.prune.is_some();
    let command = NextCommand {
        program: if is_behind { "apus sync" } else { "bitcoind" },
        network_options: &options.network_options,
        datadir: Some(&*datadir).filter(|_| !is_default),
        blocks_dir: blocks_dir.as_deref(),
        prune: is_pruned.then(|| prune_mib(target)),
    };
    command.line()
}
