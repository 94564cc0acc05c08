use crate::hash::Hash;
use crate::wire::{Network, ScriptFlags, flags};

/// The flags that a block's scripts are checked with (Core's `GetBlockScriptFlags`): P2SH, segwit
/// and taproot always, but for the blocks that broke them; the others from their heights on.
pub fn script_flags(network: &Network, height: u32, hash: &Hash) -> ScriptFlags {
    let exception = network.script_flag_exceptions.iter().find(|(block, _)| block == hash);
    let mut script_flags =
        exception.map_or(flags::P2SH | flags::WITNESS | flags::TAPROOT, |(_, flags)| *flags);
    for (flag, from) in [
        (flags::DERSIG, network.bip66_height),
        (flags::CHECKLOCKTIMEVERIFY, network.bip65_height),
        (flags::CHECKSEQUENCEVERIFY, network.csv_height),
        (flags::NULLDUMMY, network.segwit_height),
    ] {
        if height >= from {
            script_flags |= flag;
        }
    }
    script_flags
}
