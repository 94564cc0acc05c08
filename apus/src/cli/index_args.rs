//! The options of a sync for Core's optional indexes.

use apus_node::{Options, Prune};
use apus_tools::IndexKind;
use clap::Args;

use super::conf::Found;
use super::settings::Settings;

/// Core's options for its optional indexes.
#[derive(Args)]
pub struct IndexArgs {
    /// Build or continue bitcoind's index of transactions, and with --follow keep it at the tip;
    /// `apus index --help` says more about indexes [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    txindex: Option<u8>,
    /// The same for the index of the transactions that spend outputs [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    txospenderindex: Option<u8>,
    /// The same for the index of basic filters; `basic` is another word for 1 [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    blockfilterindex: Option<String>,
    /// The same for the index of statistics of the UTXO set [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    coinstatsindex: Option<u8>,
}

impl IndexArgs {
    /// Sets which indexes are built, from the command line or else from a settings file.
    ///
    /// # Errors
    /// A value is wrong, or an index cannot be built in this way of syncing. What a settings file
    /// asks for and a SwiftSync cannot build is a warning. [`Options::assumevalid`] and the hints
    /// must be set before.
    pub fn choose(chosen: &mut Settings) -> Result<(), String> {
        for kind in IndexKind::ALL {
            let Some(found) = chosen.config.take(kind.name())? else { continue };
            // Core takes a word for the type of filters.
            let is_on = if kind == IndexKind::BlockFilterIndex {
                is_basic(&found)?
            } else {
                chosen.config.is_on(kind.name(), false)
            };
            if !is_on {
                continue;
            }
            match (lack_of(kind, &chosen.options), found.is_given()) {
                (None, _) => chosen.options.indexes.push(kind),
                (Some(Lack::Prune), _) => {
                    return Err(format!(
                        "{} deletes blocks, and {} names places in them: leave one of them out",
                        chosen.config.origin_of("prune"),
                        found.origin(kind.name())
                    ));
                }
                (Some(Lack::Undo), true) => {
                    return Err(format!(
                        "--{} needs undo data, and a SwiftSync of blocks that are assumed valid \
                         leaves that of most blocks out: leave one of them out, check everything \
                         with --assumevalid=0, or run `apus reindex` and `apus index {0}` later",
                        kind.name()
                    ));
                }
                (Some(Lack::Undo), false) => chosen.config.loaded.warnings.push(format!(
                    "{}=1 is ignored: it needs undo data, which a SwiftSync of blocks that are \
                     assumed valid leaves out; `apus reindex` writes it, and then `apus index {0}` \
                     builds the index",
                    kind.name()
                )),
            }
        }
        Ok(())
    }
}

/// Why an index cannot be built.
enum Lack {
    /// Block files are deleted.
    Prune,
    /// Undo data of most blocks is not written.
    Undo,
}

fn lack_of(kind: IndexKind, options: &Options) -> Option<Lack> {
    if matches!(options.prune, Some(Prune::Target(_))) && !kind.survives_pruning() {
        Some(Lack::Prune)
    } else if options.leaves_out_undo() && kind.needs_undo() {
        Some(Lack::Undo)
    } else {
        None
    }
}

/// Returns whether a value of `blockfilterindex` asks for basic filters, as Core reads it.
fn is_basic(found: &Found) -> Result<bool, String> {
    match &*found.text {
        "0" => Ok(false),
        "" | "1" | "basic" => Ok(true),
        _ => Err(format!(
            "{}: there are only filters of the type basic: write basic, 1 or 0",
            found.with_value("blockfilterindex")
        )),
    }
}
