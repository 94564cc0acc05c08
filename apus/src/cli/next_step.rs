//! The command to run after a sync, for the last line of its report.

use std::path::Path;

use apus_node::words::shell_word;
use apus_node::{Options, Prune};
use apus_sync::Summary;
use apus_wire::Chain;

use super::home::default_datadir;

/// The smallest target of pruning in MiB that bitcoind accepts.
const PRUNE_MIB_MIN: u64 = 550;

/// Returns what to do after this run.
pub fn next_step(options: &Options, summary: &Summary) -> String {
    if summary.interrupted {
        return "run the same command to continue".to_string();
    }
    let default = default_datadir(std::env::var_os("HOME")).ok();
    let datadir = match default.as_ref() == Some(&options.datadir) {
        true => None,
        false => Some(&options.datadir),
    };
    let is_behind = summary.above_tip.is_some_and(|above| above.waiting > 0 || above.missing > 0);
    let mut words = vec![if is_behind { "apus sync" } else { "bitcoind" }.to_string()];
    words.extend(chain(options.network.chain));
    words.extend(datadir.map(|path| option("datadir", path)));
    words.extend(options.blocks_dir.as_ref().map(|path| option("blocksdir", path)));
    if summary.pruned.is_some() && !is_behind {
        let mib = match options.prune {
            Some(Prune::Target(bytes)) => (bytes >> 20).max(PRUNE_MIB_MIN),
            _ => 1,
        };
        words.push(format!("-prune={mib}"));
    }
    words.join(" ")
}

/// Returns the option for a network, in Core's spelling.
fn chain(chain: Chain) -> Option<String> {
    match chain {
        Chain::Main => None,
        other => Some(format!("-chain={}", other.name())),
    }
}

/// Returns an option with a path, for a shell.
fn option(name: &str, path: &Path) -> String {
    format!("-{name}={}", shell_word(&path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_for_a_shell() {
        for (path, expected) in [
            ("/data/bitcoin", "-datadir=/data/bitcoin"),
            ("new", "-datadir=new"),
            ("my node", "-datadir='my node'"),
            ("it's", r"-datadir='it'\''s'"),
        ] {
            assert_eq!(option("datadir", Path::new(path)), expected);
        }
        assert_eq!(chain(Chain::Main), None);
        assert_eq!(chain(Chain::Regtest).as_deref(), Some("-chain=regtest"));
    }
}
