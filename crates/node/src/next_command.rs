//! The command to run on a directory after a run, for the report and the page.

use std::fmt::Write;

use apus_store::PRUNE_TARGET_MIN;

use apus_progress::words::shell_word;

/// A command with Core's options, which bitcoind and Apus share.
pub struct NextCommand<'a> {
    /// The program, with its own command if it has any: `bitcoind`, `apus sync`.
    pub program: &'a str,
    /// [`super::options::Options::network_options`].
    pub network_options: &'a str,
    /// The data directory, as bitcoind takes it; `None` for the default one.
    pub datadir: Option<&'a str>,
    /// The directory of the blocks, if it is not in the data directory.
    pub blocks_dir: Option<&'a str>,
    /// If blocks were pruned, what [`prune_mib`] returns.
    pub prune: Option<u64>,
}

impl NextCommand<'_> {
    /// Returns the command line, for a shell.
    pub fn line(&self) -> String {
        let mut line = self.program.to_string();
        if !self.network_options.is_empty() {
            line += &format!(" {}", self.network_options);
        }
        let mut option = |name: &str, value: &str| {
            let _ = write!(line, " -{name}={value}");
        };
        if let Some(datadir) = self.datadir {
            option("datadir", &shell_word(datadir));
        }
        if let Some(blocks_dir) = self.blocks_dir {
            option("blocksdir", &shell_word(blocks_dir));
        }
        if let Some(mib) = self.prune {
            option("prune", &mib.to_string());
        }
        line
    }
}

/// Returns the value in MiB of the `-prune` that a pruned directory needs: its target in bytes, or
/// 1 if none is set, with which bitcoind deletes nothing by itself.
pub fn prune_mib(target: Option<u64>) -> u64 {
    target.map_or(1, |bytes| bytes.max(PRUNE_TARGET_MIN) >> 20)
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
            let program = "bitcoind";
            let datadir = Some(path);
            let blocks_dir = None;
            let prune = None;
            let of = |network_options| {
                NextCommand { program, network_options, datadir, blocks_dir, prune }.line()
            };
            assert_eq!(of(""), format!("bitcoind {expected}"));
            assert_eq!(of("-chain=regtest"), format!("bitcoind -chain=regtest {expected}"));
        }
    }

    #[test]
    fn a_target_is_not_below_the_smallest_one() {
        assert_eq!(
            (prune_mib(None), prune_mib(Some(1)), prune_mib(Some(600 << 20))),
            (1, 550, 600)
        );
    }
}
