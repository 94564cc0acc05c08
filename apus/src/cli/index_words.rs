//! Sentences about indexes.

use apus_tools::{IndexReach, TxIndexForm};

use super::numbers::thousands;

/// Says how far the entries of an index reach.
pub fn reach_words(height: Option<u32>) -> String {
    match height {
        Some(height) => format!("up to height {}", thousands(height.into())),
        None => "up to a block that is not in the block index".to_string(),
    }
}

/// Says how far the entries of `txindex` reach, in which form they are, and what bitcoind will do
/// with them.
pub fn txindex_words(reached: &[IndexReach]) -> String {
    let form = |reach: &IndexReach| {
        let version = reach.form.core_version();
        format!("{} in the form of Core {version}", reach_words(reach.height))
    };
    let forms: Vec<String> = reached.iter().map(form).collect();
    let next = match reached {
        [IndexReach { form: TxIndexForm::Core31, .. }] => {
            "every bitcoind reads it; from v32 on bitcoind appends entries in its own form"
        }
        [IndexReach { form: TxIndexForm::Core32, .. }] => {
            "bitcoind before v32 does not read it, and builds its own in the same database, from \
             the first block on"
        }
        _ => "bitcoind before v32 reads and continues the first alone",
    };
    format!("{}: {next}", forms.join(", "))
}
